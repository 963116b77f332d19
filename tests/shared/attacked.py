"""A small search and small trainings to attack: the bank's columns tell labels, the telco's are noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from unpooled.arrays import Bools
from unpooled.attacks.stage import Stage, made_up, noise, staged
from unpooled.jobs.plan import Party, Plan
from unpooled.jobs.private import Private

ROWS, KNOWN = 2_000, 150
METHOD = {"name": "vfpu", "iterations": 1, "bags": 4}


def searching(**model: Any) -> Stage:
    """A search for the look-alikes of some of the people whom the bank's columns point to."""
    rng, people = np.random.default_rng(5), np.arange(ROWS)
    signal = rng.normal(size=ROWS)
    positive = signal > np.quantile(signal, 0.8)
    known = np.zeros(ROWS, bool)
    known[rng.choice(np.flatnonzero(positive), KNOWN, replace=False)] = True
    tables = {
        "bank": noise("bank", people, rng, signal),
        "telco": noise("telco", people, rng),
        "shop": made_up("shop", {}, people[known]),
    }
    plan = Plan(
        kind="lookalike",
        engine="plain",
        audit=False,
        parties={"shop": Party(role="seeker"), "telco": Party(role="passive"), "bank": Party(role="active")},
        parameters={"method": METHOD, "estimate": False, "top": 50, "model": {"trees": 15, **model}},
    )
    return staged(plan, tables, {}, people=ROWS, secret=known, holder="shop", sought="the people of shop")


def training(columns: int, **model: Any) -> Stage:
    """A linear model of labels that follow from the bank's columns; the telco has so many columns of noise."""
    rng, people = np.random.default_rng(6), np.arange(ROWS)
    signal = rng.normal(size=ROWS)
    label: Bools = signal + rng.normal(size=ROWS) > 0.5
    bank: dict[str, Any] = {"column": signal, "target": ["yes" if one else "no" for one in label.tolist()]}
    telco: dict[str, Any] = {f"column {number}": rng.normal(size=ROWS) for number in range(columns)}
    plan = Plan(
        kind="train",
        engine="plain",
        audit=False,
        parties={"telco": Party(role="passive"), "bank": Party(role="active")},
        parameters={"model": {"learner": "linear", "epochs": 10, **model}, "test_fraction": 0.2},
    )
    tables = {"bank": made_up("bank", bank, people), "telco": made_up("telco", telco, people)}
    return staged(
        plan,
        tables,
        {"bank": Private(target="target")},
        people=ROWS,
        secret=label,
        holder="bank",
        sought="those with the label yes",
    )

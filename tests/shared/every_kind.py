"""One small simulation of every kind of job from Python, without a folder, run once for all tests of a process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled import Consent, Member, Outcome, Private, simulate

ROWS = 240
_X = np.random.default_rng(3).normal(size=(ROWS, 3)).round(3)
TELCO = pl.DataFrame({"customer": range(ROWS), "calls": _X[:, 0], "tariff": np.where(_X[:, 1] > 0, "plus", "basic")})
BANK = pl.DataFrame(
    {"account": range(ROWS), "balance": _X[:, 2], "buys": np.where(_X[:, 0] + _X[:, 2] > 0, "yes", "no")}
)
SHOP = pl.DataFrame({"buyer": np.flatnonzero(_X[:, 0] + _X[:, 2] > 0.5)[::2]})
AGREED = Consent(positives=True, found=True, advice=True, values=True, rows=True)

OWNERS = {
    "telco": Member("passive", TELCO, id="customer", private=Private(consent=AGREED)),
    "bank": Member("active", BANK, id="account", private=Private(consent=AGREED, target="buys")),
}
HELPED = OWNERS | {"coordinator": Member("coordinator")}
SEEKING = HELPED | {"shop": Member("seeker", SHOP, id="buyer", private=Private(consent=AGREED))}
SMALL = {"trees": 2, "depth": 2}


def given(members: Mapping[str, Member], outcome: Outcome, key: str) -> dict[str, Member]:
    """Members with what they had at the end of an earlier job: their `model`, or all of it as `earlier`."""
    found: Mapping[str, Any] = outcome.models if key == "model" else outcome.parties
    return {name: replace(one, **{key: found[name]}) if name in found else one for name, one in members.items()}


def run_kind(kind: str, of: Callable[[str], Outcome], folder: Path | None = None) -> Outcome:
    """Every kind of job needs a line here: a new one has to say how Python runs it."""
    whole = {"engine": "plain", "seed": 7, "folder": folder}
    without_target = {**OWNERS, "bank": replace(OWNERS["bank"], private=Private(consent=AGREED))}
    match kind:
        case "check":
            return simulate("check", HELPED, round_trips=1, megabytes=1, **whole)
        case "align":
            return simulate("align", SEEKING, **whole)
        case "information":
            return simulate("information", OWNERS, bins=4, **whole)
        case "train":
            return simulate("train", OWNERS, model=SMALL, **whole)
        case "predict":
            return simulate("predict", given(OWNERS, of("train"), "model"), **whole)
        case "lookalike":
            method = {"name": "bagging", "bags": 2}
            return simulate("lookalike", SEEKING, top=20, advice=True, method=method, model=SMALL, **whole)
        case "deliver":
            again = given({name: SEEKING[name] for name in ("shop", "telco", "bank")}, of("lookalike"), "earlier")
            members = {name: one if name == "bank" else replace(one, earlier=None) for name, one in again.items()}
            return simulate("deliver", members, top=30, advice=True, **whole)
        case "complete":
            generate = {"draws": 1}
            private = Private.model_validate({"consent": AGREED, "generate": generate})
            bank = replace(without_target["bank"], frame=BANK.head(150), private=private)
            few = {"predict": {"folds": 2}, "model": SMALL, "threshold": 0.1, "measure": "max"}
            return simulate("complete", {**without_target, "bank": bank}, **few, **whole)
    pytest.fail(f"say here how Python runs a job of the kind {kind}")


@cache
def outcome_of(kind: str) -> Outcome:
    """A simulation without a folder, run once."""
    return run_kind(kind, outcome_of)

"""A made-up population of people who may be customers of a shop, a telephone company and a bank.

Three hidden traits of every person (wealth, online, curious) determine the columns of telco and bank, and who would buy
from the shop. The shop knows some of its buyers, telco and bank each know most people, and `truth` has all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unpooled.data.made_up import dates, gaps, generator, levels, write_tables

ROWS = 2_000
SEED = 7
SMALLEST, LARGEST = 1_000, 1_000_000

OUTCOME = "would_buy"

BUYERS = 0.15  # of all people
KNOWN_TO_SHOP = 0.3  # of the buyers
MEMBERS = {"telco": 0.9, "bank": 0.85}  # of all people
REPEATED = 0.01  # of a table's rows

# Column types that cannot be inferred from the cells: codes that are categories, and the order of levels.
TYPES: dict[str, dict[str, str | list[str]]] = {
    "shop": {"last_purchase": "date"},
    "telco": {"region": "category", "since": "date", "satisfaction": ["low", "middle", "high"]},
    "bank": {"branch": "category", "opened": "date", "risk": ["low", "middle", "high"]},
}

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Example:
    """The tables shop, telco and bank, and the truth: for every person, whether they would buy."""

    tables: dict[str, pl.DataFrame]
    truth: pl.DataFrame


@dataclass(frozen=True)
class _People:
    ids: pl.Series
    wealth: Floats
    online: Floats
    curious: Floats
    buys: NDArray[np.bool_]


def population(rows: int = ROWS, seed: int = SEED) -> Example:
    """Make up `rows` people and what each company knows about them; the same random seed gives the same people."""
    rng = generator(rows, seed, SMALLEST, LARGEST)
    people = _people(rng, rows)
    everything = {"telco": _telco(rng, people), "bank": _bank(rng, people)}
    tables = {"shop": _shop(rng, people)}
    tables |= {name: _members(rng, table, MEMBERS[name]) for name, table in everything.items()}
    return Example(tables, pl.DataFrame({"id": people.ids, OUTCOME: people.buys}))


def write(folder: Path, rows: int = ROWS, seed: int = SEED) -> list[Path]:
    """Write shop.csv, telco.csv, bank.csv and truth.csv into `folder`, which is created if needed."""
    example = population(rows, seed)
    return write_tables(folder, {**example.tables, "truth": example.truth})


def _people(rng: np.random.Generator, rows: int) -> _People:
    numbers = pl.Series("id", rng.choice(10_000_000, rows, replace=False))
    wealth, online, curious = (rng.standard_normal(rows) for _ in range(3))
    # Neither party alone can see the product.
    score = wealth + online + 0.7 * wealth * online + 0.6 * curious + 0.5 * rng.standard_normal(rows)
    buys = np.zeros(rows, dtype=np.bool_)
    buys[np.argsort(-score, kind="stable")[: round(BUYERS * rows)]] = True
    return _People(numbers.cast(pl.String).str.zfill(7), wealth, online, curious, buys)


def _shop(rng: np.random.Generator, people: _People) -> pl.DataFrame:
    buyers = np.flatnonzero(people.buys)
    known = rng.choice(buyers, round(KNOWN_TO_SHOP * len(buyers)), replace=False)
    basket = np.exp(3.5 + 0.4 * people.wealth[known] + 0.3 * rng.standard_normal(len(known)))
    return pl.DataFrame(
        {
            "id": people.ids[known],
            "last_purchase": dates(rng.integers(0, 365, len(known))),
            "basket": np.round(basket, 2),
        }
    )


def _telco(rng: np.random.Generator, people: _People) -> pl.DataFrame:
    rows = len(people.ids)
    habit = people.online + 0.5 * rng.standard_normal(rows)
    taste = people.curious + 0.6 * rng.standard_normal(rows)
    data_gb = np.exp(2.0 + 0.7 * habit)
    device_months = np.clip(24 - 10 * taste + 4 * rng.standard_normal(rows), 0, 96)
    contentment = 0.5 * taste + rng.standard_normal(rows)
    plans = ["basic", "plus", "family", "business", "ship", "prototype"]
    return pl.DataFrame(
        {
            "id": people.ids,
            "region": rng.integers(1, 17, rows),
            "since": dates(rng.integers(0, 7_000, rows)),
            "plan": levels(habit + 0.8 * rng.standard_normal(rows), plans, [0.4, 0.3, 0.2, 0.095, 0.004, 0.001]),
            "data_gb": gaps(rng, np.round(data_gb, 2), 0.04),
            "call_minutes": np.round(rng.gamma(2.0, 90.0, rows), 1),
            "device_months": gaps(rng, np.round(device_months).astype(np.int64), 0.06),
            "satisfaction": gaps(rng, levels(contentment, ["low", "middle", "high"], [0.2, 0.5, 0.3]), 0.15),
            "roaming": people.wealth + 1.5 * rng.standard_normal(rows) > 0.8,
            "paper_bill": rng.random(rows) < 0.3,
        }
    )


def _bank(rng: np.random.Generator, people: _People) -> pl.DataFrame:
    rows = len(people.ids)
    income = np.exp(7.8 + 0.45 * (people.wealth + 0.6 * rng.standard_normal(rows)))
    balance = 900 * (people.wealth + 0.9 * rng.standard_normal(rows)) + 1_500
    age = np.clip(46 - 5 * people.curious + 12 * rng.standard_normal(rows), 18, 99)
    danger = -people.wealth + rng.standard_normal(rows)
    card_payments = rng.poisson(np.exp(2.3 + 0.25 * (people.online + 1.2 * rng.standard_normal(rows))))
    trades = ["services", "industry", "office", "teaching", "health", "farming", "lighthouse keeper", "falconer"]
    return pl.DataFrame(
        {
            "id": people.ids,
            "age": np.round(age).astype(np.int64),
            "income": gaps(rng, np.round(income, 2), 0.08),
            "balance": np.round(balance, 2),
            "card_payments": card_payments,
            "mortgage": gaps(rng, people.wealth + 2 * rng.standard_normal(rows) > 1.0, 0.02),
            "risk": gaps(rng, levels(danger, ["low", "middle", "high"], [0.5, 0.35, 0.15]), 0.03),
            "occupation": gaps(
                rng, levels(rng.standard_normal(rows), trades, [0.3, 0.2, 0.2, 0.12, 0.12, 0.055, 0.004, 0.001]), 0.05
            ),
            "opened": dates(rng.integers(0, 9_000, rows)),
            "branch": rng.integers(100, 140, rows),
            "statement_day": rng.integers(1, 29, rows),
        }
    )


def _members(rng: np.random.Generator, table: pl.DataFrame, fraction: float) -> pl.DataFrame:
    """Keep a random fraction of the people, repeat a few rows, and shuffle."""
    kept: Rows = rng.permutation(table.height)[: round(fraction * table.height)]
    repeated = kept[: round(REPEATED * len(kept))]
    return table[rng.permutation(np.concatenate([kept, repeated]))]

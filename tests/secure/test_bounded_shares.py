"""Counts in secret shares, with every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unpooled.errors import InputError
from unpooled.run.simulate import simulate_roles
from unpooled.secure.calls import Call, Dense, Inputs, OneHot
from unpooled.secure.engine import Rules, open_engine
from unpooled.secure.product import bounded_shares, finish, serve
from unpooled.session import Session

PARTIES = ("telco", "bank")
ROWS, SIZES = 60, (3, 4)
CALL = Call((PARTIES,), "bank", ROWS, OneHot(SIZES, hidden=True), 1, 1, digest="rows")


def test_shares_of_counts_add_up_and_nothing_is_asked(rules: Rules) -> None:
    rng = np.random.default_rng(1)
    bins, labels = np.stack([rng.integers(size, size=ROWS) for size in SIZES], axis=1), rng.integers(2, size=ROWS)
    held = {
        "telco": Inputs(x=bins.astype(np.uint8)),
        "bank": Inputs(y=labels[:, np.newaxis], nodes=np.zeros(ROWS, np.int32)),
    }
    asked = {}

    def party(session: Session) -> Any:
        engine = open_engine(session, rules, PARTIES, "bank", "coordinator")
        (shares,) = bounded_shares(engine, [(CALL, held[session.party])])
        finish(engine)
        asked[session.party] = dict(engine.answered) | dict(engine.bits)
        return shares[0, :, 0]

    def coordinator(session: Session) -> None:
        serve(open_engine(session, rules, PARTIES, "bank", "coordinator"))

    shares = simulate_roles(dict.fromkeys(PARTIES, party) | {"coordinator": coordinator}, timeout=60).results
    counts = np.concatenate(
        [np.bincount(column[labels == 1], minlength=s) for column, s in zip(bins.T, SIZES, strict=True)]
    )
    lowest = np.uint64(2**8 - 1)  # with `shares` a count below 2^7 takes a byte
    assert np.array_equal((shares["telco"] + shares["bank"]) & lowest, counts.astype(np.uint64))
    assert rules.engine == "plain" or not np.array_equal(shares["bank"] & lowest, counts.astype(np.uint64))
    assert asked == {"telco": {}, "bank": {}}


def test_only_a_single_column_is_taken() -> None:
    call = Call((PARTIES,), "bank", ROWS, Dense(1, 1), 2, 1)
    with pytest.raises(InputError, match="a single column"):
        bounded_shares(None, [(call, Inputs())])  # type: ignore[arg-type]

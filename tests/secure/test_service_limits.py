"""A coordinator serves so much at once, and refuses more before it takes the memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from unpooled.errors import RefusedError
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import MOST_PRODUCTS, Rules, Serving, Stop
from unpooled.secure.paillier import key_holder
from unpooled.secure.paillier.key_holder import Decrypt, SharedKey
from unpooled.secure.randomness import SEED_BYTES, new_seed
from unpooled.secure.shares import dealer
from unpooled.secure.shares.dealer import Deal, DealItem, Dealt, bytes_of
from unpooled.session import Session

Role = Callable[[Session], Any]

PARTIES = ("telco", "bank")
TRIPLE = DealItem("telco", "bank", "triple", rows=100, width=3, words=2, word_bytes=8, x="x", y="y", copies=1)
AHEAD = DealItem("telco", "bank", "permute", rows=100, width=3, words=2, word_bytes=8, x="", y="", copies=4)


def checked(request: Deal, serving: Serving | None = None) -> int:
    return dealer.checked(request, "coordinator", "bank", PARTIES, serving or Serving())


def deal(*items: DealItem) -> Deal:
    return Deal(items, new_seed())


TOO_MUCH = {
    "rows that no table has": (deal(replace(TRIPLE, rows=2**40)), "coordinator.* MB.*bank.*41943040"),
    "all bytes that one request could once ask for": (
        deal(replace(TRIPLE, rows=2**14, width=2**14, words=2**14)),
        "MB",
    ),
    "a row, and a square of columns": (deal(replace(TRIPLE, rows=1, width=2**16, words=2**16)), "bank.*65"),
    "numbers beyond 64 bits": (deal(replace(TRIPLE, rows=2**200)), "MB.*bank"),
    "copies": (deal(replace(AHEAD, copies=2**40)), "bank.*1099511627776"),
    "large copies": (deal(replace(AHEAD, rows=2**20, copies=2**10)), "MB.*bank.*49"),
    "items": (deal(*[replace(TRIPLE, rows=0)] * (MOST_PRODUCTS + 1)), "bank.*65537"),
}


@pytest.mark.parametrize("case", TOO_MUCH)
def test_a_request_that_would_take_too_much_is_refused_before_memory_is_taken(case: str) -> None:
    request, words = TOO_MUCH[case]
    with pytest.raises(RefusedError, match=words):
        checked(request)


def test_the_limit_is_the_coordinators_own_and_is_reached_exactly() -> None:
    _, size = bytes_of([TRIPLE])
    assert size == 8 * (100 * 3 + 100 * 2 + 3 * 2) + 8 * 3 * 2 + 4 * SEED_BYTES
    assert checked(deal(TRIPLE), Serving(size / 2**20)) == 8 * 3 * 2 + 4 * SEED_BYTES
    with pytest.raises(RefusedError, match=r"policy\.maximum_served_megabytes.*bank"):
        checked(deal(TRIPLE), Serving((size - 1) / 2**20))


def test_more_rows_than_were_aligned_are_refused() -> None:
    checked(deal(TRIPLE), Serving(rows=100))
    with pytest.raises(RefusedError, match=r"coordinator.*99.*bank.*100"):
        checked(deal(TRIPLE), Serving(rows=99))


def test_ten_trees_in_step_on_a_large_table_are_within_the_default() -> None:
    checked(deal(replace(AHEAD, rows=200_000, width=200, words=1, copies=10)))


def with_the_coordinator(serve: Role, bank: Role, telco: Role = lambda _: None) -> dict[str, Any]:
    return simulate_roles({"telco": telco, "bank": bank, "coordinator": serve}, timeout=60).results


def test_what_is_counted_is_what_is_sent() -> None:
    def bank(session: Session) -> None:
        session.send("coordinator", deal(AHEAD))
        session.send("coordinator", Stop())

    def telco(session: Session) -> int:
        parts = session.recv("coordinator", Dealt).parts
        return sum(part.values.nbytes + len(part.mask) + len(part.once) for part in parts)

    sent = with_the_coordinator(lambda session: dealer.serve(session, "bank", PARTIES, Serving()), bank, telco)
    assert sent["telco"] > 4 * 8 * 100 * 3 * 2
    assert sent["telco"] <= sent["coordinator"] <= sent["telco"] + 4 * 4 * SEED_BYTES


def test_a_request_that_is_refused_ends_the_job() -> None:
    request, words = TOO_MUCH["rows that no table has"]
    with pytest.raises(RefusedError, match=words):
        with_the_coordinator(
            lambda session: dealer.serve(session, "bank", PARTIES, Serving()),
            lambda session: session.send("coordinator", request),
        )


def test_results_to_decrypt_are_limited_too() -> None:
    rules = Rules("paillier", key_bits=512, insecure=True)
    request = Decrypt((key_holder.DecryptItem(b"tag", "telco", "bank", 2**32 - 1),))

    def party(session: Session) -> None:
        session.recv("coordinator", SharedKey)
        if session.party == "bank":
            session.send("coordinator", request)

    with pytest.raises(RefusedError, match=r"coordinator.*4096 MB.*bank.*1048575"):
        with_the_coordinator(lambda session: key_holder.serve(session, rules, "bank", PARTIES, Serving()), party, party)

"""Lookups at secret positions: entries are right, what is dealt says nothing of positions, wrong shapes are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unpooled.errors import ProtocolError, RefusedError
from unpooled.run.simulate import simulate_roles
from unpooled.secure import lookup_dealer
from unpooled.secure.engine import Serving
from unpooled.secure.lookup import Masked, Pair, dot_products, look_up, shorter, steps_to_shorten
from unpooled.secure.lookup_dealer import DealtAhead, DotProducts, Lookups, Wanted, deal, serve_lookups, take_dealt
from unpooled.session import Session

FIRST, SECOND, DEALER = "telco", "bank", "coordinator"
Held = dict[str, Any]
"""What a party's function left, by party."""


def words(rng: np.random.Generator, *shape: int) -> Any:
    return rng.integers(0, 2**64, shape, dtype=np.uint64)


def together(
    lookups: list[Lookups],
    products: list[DotProducts],
    use: Callable[[Pair], Any],
    tamper: Callable[[str, Any], Any] | None = None,
    serving: Serving | None = None,
) -> Held:
    """Both parties use what the dealer deals; `tamper` changes what somebody sends."""

    def party(session: Session) -> Any:
        _watch(session, tamper)
        first = session.party == FIRST
        if not first:
            session.send(DEALER, Wanted((FIRST,), (tuple(lookups),), (tuple(products),)))
        dealt = take_dealt(session, DEALER, lookups, products, first=first)
        return use(Pair(session, SECOND if first else FIRST, first, dealt, lookups, products))

    def dealer(session: Session) -> None:
        _watch(session, tamper)
        serve_lookups(session, SECOND, (FIRST, SECOND), serving or Serving())

    return dict(simulate_roles({FIRST: party, SECOND: party, DEALER: dealer}, timeout=60).results)


def _watch(session: Session, tamper: Callable[[str, Any], Any] | None) -> None:
    send = session.send
    if tamper:
        session.send = lambda peer, message, **how: send(peer, tamper(session.party, message), **how)  # type: ignore[method-assign]


@pytest.mark.parametrize("at_once", [2**20, 8])
@pytest.mark.parametrize("bits", [1, 2, 5])
def test_shares_of_every_position_add_up_to_its_entries(bits: int, at_once: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(lookup_dealer, "_WORDS_AT_ONCE", at_once)
    rng, positions = np.random.default_rng(bits), np.arange(2**bits, dtype=np.uint64)
    tables, share = list(words(rng, 2, 2**bits)), words(rng, 2**bits)
    own = {FIRST: share, SECOND: positions - share}
    held = together([Lookups(2**bits, bits, 2)], [], lambda pair: look_up(pair, own[pair.session.party], tables))
    assert np.array_equal(held[FIRST] + held[SECOND], np.stack(tables, axis=1))
    assert not np.isin(held[FIRST], np.stack(tables)).any(), "a share is no entry"


def test_dot_products_and_numbers_without_their_last_bits_are_exact() -> None:
    rng = np.random.default_rng(1)
    numbers = np.array([0, 1, 2**43 - 1, 2**43, 2**63, 2**64 - 2**43, 2**64 - 1, 123456789 << 35], np.uint64)
    shares = np.concatenate([words(rng, 7), [np.uint64(2**64 - 1)]])
    own = {FIRST: (shares, words(rng, 3, 5)), SECOND: (numbers - shares, words(rng, 3, 5))}

    def use(pair: Pair) -> Any:
        to_cut, factors = own[pair.session.party]
        return shorter(pair, to_cut, 43), dot_products(pair, factors)

    held = together(steps_to_shorten(8, 43), [DotProducts(3, 5)], use)
    short, dots = (held[FIRST][place] + held[SECOND][place] for place in (0, 1))
    assert np.array_equal(short & np.uint64(2**21 - 1), numbers >> np.uint64(43))
    assert np.array_equal(dots, (own[FIRST][1] * own[SECOND][1]).sum(axis=1))


def test_what_one_party_is_dealt_is_random_wherever_the_position_is() -> None:
    """Bit by bit, both for lookups of one position and of another; only together do the numbers say which."""
    item, rounds = Lookups(1, 2, 1), 400
    seen: dict[int, list[Any]] = {0: [], 3: []}
    while min(map(len, seen.values())) < rounds:
        first, second = deal([item], [])
        theirs = lookup_dealer.second_numbers(second.seed, 0, item, slice(0, 1))
        (drawn,) = first.lookups[0][:, 0] + lookup_dealer.second_positions(second.seed, 0, item)
        u, v = first.lookups[0][0, 1:3] + theirs.u[0], first.lookups[0][0, 3:5] + theirs.v[0]
        assert sorted(u.tolist()) == sorted(v.tolist()) == [0, 1]
        assert (int(u.argmax()), int(v.argmax())) == divmod(int(drawn), 2)
        if int(drawn) in seen:
            seen[int(drawn)].append(first.lookups[0][0])
    for dealt in seen.values():
        bits = np.unpackbits(np.stack(dealt[:rounds]).view(np.uint8), axis=1).mean(axis=0)
        assert (np.abs(bits - 0.5) < 7 * 0.5 / rounds**0.5).all(), "seven standard deviations"


@pytest.mark.parametrize(
    ("kind", "change", "names"),
    [
        (Masked, lambda m: replace(m, values=m.values[:-1]), "invalid Masked from telco"),
        (DealtAhead, lambda m: replace(m, seed=b"short"), "invalid DealtAhead from coordinator"),
        (DealtAhead, lambda m: replace(m, lookups=m.lookups * 2), "invalid DealtAhead from coordinator"),
        (Wanted, lambda m: replace(m, parties=("bank",)), "invalid Wanted from bank: unknown parties"),
        (Wanted, lambda m: replace(m, products=()), "invalid Wanted from bank: not one of each"),
        (Wanted, lambda m: replace(m, lookups=((Lookups(4, 60, 1),),)), "invalid Wanted from bank: a count"),
    ],
)
def test_other_shapes_are_refused(kind: type, change: Callable[[Any], Any], names: str) -> None:
    def tamper(party: str, message: Any) -> Any:
        """The first party's messages, what it is dealt, and what is wanted."""
        if not isinstance(message, kind) or (kind is Masked and party != FIRST):
            return message
        return message if kind is DealtAhead and not message.lookups else change(message)

    rng = np.random.default_rng(0)
    table, own = words(rng, 16), words(rng, 4)
    with pytest.raises(ProtocolError, match=names):
        together([Lookups(4, 4, 1)], [], lambda pair: look_up(pair, own, [table]), tamper)


def test_a_coordinator_deals_no_more_than_its_limit() -> None:
    lookups = [Lookups(50, 10, 2)]
    with pytest.raises(RefusedError, match=r"maximum_served_megabytes"):
        together(lookups, [], lambda _: None, serving=Serving(0.01))

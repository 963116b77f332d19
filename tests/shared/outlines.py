"""An outline against the ledgers of the run that it foretold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unpooled.ledger import Record, reconcile_all
from unpooled.secure.outline import Exchange

Sent = set[tuple[str, str, str]]
"""Sender, receiver and kind of message."""


def said(ledgers: Mapping[str, Record]) -> Sent:
    """What was sent."""
    return {(party, e.peer, e.kind) for party, record in ledgers.items() for e in record.entries if e.way == "sent"}


def check_outline(
    exchanges: Sequence[Exchange], ledgers: Mapping[str, Record], unforetold: frozenset[str] = frozenset()
) -> None:
    """Whatever is certain is sent, as often as was told, and nothing else but what is possible.

    `unforetold` are kinds of message that the outline leaves out.
    """
    certain, possible = (
        {(e.sender, e.receiver, e.kind) for e in exchanges if with_conditions or not e.only_if}
        for with_conditions in (False, True)
    )
    sent = {one for one in said(ledgers) if one[2] not in unforetold}
    assert certain - sent == set(), "foretold, but not sent"
    assert sent - possible == set(), "sent, but not foretold"
    frames: dict[tuple[str, str, str], int | None] = {}
    for exchange in exchanges:
        key = (exchange.sender, exchange.receiver, exchange.kind)
        before = frames.get(key, 0)
        frames[key] = None if exchange.frames is None or before is None else before + exchange.frames
    for (sender, receiver, kind), count in frames.items():
        found = [e for e in ledgers[sender].entries if (e.way, e.peer, e.kind) == ("sent", receiver, kind)]
        assert count is None or len(found) == count, (sender, receiver, kind)
    assert all(pair.differences == () for pair in reconcile_all(ledgers.values()))

"""What a coordinator receives in a job, to be compared with another job's of the same shape; and such other data."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled import control
from unpooled.align.aided import KeyedTags
from unpooled.align.ring import Tags
from unpooled.run.simulate import Outcome
from unpooled.secure.paillier.key_holder import Decrypted
from unpooled.secure.shares.dealer import Deal
from unpooled.session import Session

CHI_SQUARE = 480.0
"""With 255 degrees of freedom, as bytes have, chance comes to it less than once in 10^15 times."""
ENOUGH_BYTES = 256 * 10

Line = tuple[str, str, int, Any]
"""A message: its type, scope and size, and what it says; random names and bytes as numbers in order of appearance."""


@dataclass(eq=False)
class View:
    """What came to the coordinator, by sender in order, and the random bytes in it and in what it decrypted."""

    lines: dict[str, list[Line]] = field(default_factory=dict)
    random: dict[str, bytes] = field(default_factory=dict)
    seeds: list[bytes] = field(default_factory=list)


def view_of(run: Callable[[], Outcome[Any]], coordinator: str = "coordinator") -> View:
    """Run a job, and look on."""
    came: dict[str, list[Any]] = defaultdict(list)
    decrypted: list[Any] = []
    take, give = Session.recv, Session.send

    def recv(self: Session, peer: str, *kinds: Any, **limits: Any) -> Any:
        message = take(self, peer, *kinds, **limits)
        if self.party == coordinator and not isinstance(message, control.PlanOffer):
            came[peer].append(message)
        return message

    def send(self: Session, peer: str, message: Any, **how: Any) -> None:
        if self.party == coordinator and isinstance(message, Decrypted):
            decrypted.append(message)
        give(self, peer, message, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "recv", recv)
        patch.setattr(Session, "send", send)
        entries = run().ledgers[coordinator].entries
    view, names = View(), dict[bytes, int]()
    for peer in sorted(came):
        heads = [e for e in entries if (e.way, e.peer) == ("received", peer) and e.kind not in control.KINDS]
        found = zip(heads, came[peer], strict=True)
        view.lines[peer] = [(e.kind, e.scope, e.bytes, _said(message, names)) for e, message in found]
    messages = [message for each in came.values() for message in each]
    points = {row[1:31].tobytes() for message in messages if isinstance(message, Tags) for row in message.values}
    points |= {row[2:].tobytes() for message in messages if isinstance(message, KeyedTags) for row in message.values}
    numbers = [row[:-8].tobytes() for message in decrypted for sums in message.sums for row in sums]
    view.random = {"tags": b"".join(points), "what it decrypts": b"".join(numbers)}  # bytes that may have any value
    view.seeds = [message.seed for message in messages if isinstance(message, Deal)]
    return view


def _said(value: Any, names: dict[bytes, int]) -> Any:
    """What a message says, apart from random names, of which only counts whether they came before."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape
    if isinstance(value, bytes):
        return f"{len(value)} bytes #{names.setdefault(value, len(names))}"
    if isinstance(value, str):
        return re.sub("[0-9a-f]{32}", lambda found: f"#{names.setdefault(found[0].encode(), len(names))}", value)
    if isinstance(value, tuple):
        return tuple(_said(part, names) for part in value)
    if is_dataclass(value):
        return type(value).__name__, {each.name: _said(getattr(value, each.name), names) for each in fields(value)}
    return value


def differences(one: View, other: View) -> list[str]:
    """What tells two jobs apart: messages, their order, sizes and words; numbers that are not random."""
    found = ["who sends"] * (one.lines.keys() != other.lines.keys())
    for peer in one.lines.keys() & other.lines.keys():
        first, second = one.lines[peer], other.lines[peer]
        found += [f"{peer}: {len(first)} and {len(second)} messages"] * (len(first) != len(second))
        pairs = enumerate(zip(first, second, strict=False))
        found += [f"{peer}, message {place}: {a} and {b}" for place, (a, b) in pairs if a != b]
    return found + [odd for view in (one, other) for odd in oddities(view)] + _reused(one, other)


def oddities(view: View) -> Iterator[str]:
    """Which of the random bytes are not as frequent as others."""
    for name, values in view.random.items():
        if len(values) >= ENOUGH_BYTES:
            due = len(values) / 256
            counts = np.bincount(np.frombuffer(values, np.uint8), minlength=256)
            if ((counts - due) ** 2 / due).sum() > CHI_SQUARE:
                yield f"{name}: bytes are not uniform"


def _reused(one: View, other: View) -> list[str]:
    seeds = one.seeds + other.seeds
    return ["a seed comes twice"] * (len(set(seeds)) < len(seeds))


# what tells nothing but how large trees are, or how long a descent is


_FREE = {"words", "plaintexts", "copies", "sums", "tag", "tags", "seed", "done"}
"""What depends on how many nodes trees have, or steps a descent; and random bytes."""


def apart_from_counts(view: View) -> dict[str, set[str]]:
    """By sender, once each, all that messages say apart from how many products there are, and of how many nodes."""
    return {
        peer: {f"{kind} {part}" for kind, _, _, said in lines for part in _parts_of(said)}
        for peer, lines in view.lines.items()
    }


def _parts_of(said: tuple[str, dict[str, Any]]) -> Iterator[str]:
    name, values = said
    for each in values.get("items", ()):
        yield from _parts_of(each)
    kept = {key: value for key, value in values.items() if key not in _FREE | {"items"}}
    yield f"{name} {re.sub('#[0-9]+|step [0-9]+', '#', str(kept))}"


# other data


def with_other_values(frames: Mapping[str, pl.DataFrame], seed: int) -> dict[str, pl.DataFrame]:
    """Tables of the same shape: ids are others, of another length, and every column's values change places."""
    rng, found = np.random.default_rng(seed), {}
    for party, frame in frames.items():
        moved = [frame[name].gather(rng.permutation(frame.height)) for name in frame.columns if name != "id"]
        found[party] = frame.with_columns(*moved, id=pl.lit("another ") + pl.col("id"))
    return found

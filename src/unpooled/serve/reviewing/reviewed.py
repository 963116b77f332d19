"""A dry run's findings, arranged for whoever decides: what each peer learns from this party, and it from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from unpooled import control
from unpooled.budget.limits import SAID
from unpooled.budget.standing import Standing, Used
from unpooled.data.inference import Note
from unpooled.jobs.learning.query_bounds import Answers
from unpooled.run.forecast import Cost

_STANDING, _NOTE, _COST = TypeAdapter(Standing), TypeAdapter(Note), TypeAdapter(Cost)


@dataclass(frozen=True)
class Learns:
    """A sentence on what a receiver learns; `only_if` says when, if not in every run."""

    what: str
    only_if: str


@dataclass(frozen=True)
class WithPeer:
    """What a peer learns from this party, and this party from it."""

    peer: str
    role: str
    learns: tuple[Learns, ...]
    tells: tuple[Learns, ...]


@dataclass(frozen=True)
class Sent:
    """A type of message that this party sends; how many and how large is None where it depends on the rows."""

    kind: str
    receivers: tuple[str, ...]
    discloses: str
    to: str
    frames: int | None
    bytes: int | None
    only_if: str


@dataclass(frozen=True)
class Spent:
    """What all runs so far have disclosed of something, and the limit, if there is one."""

    what: str
    used: Used

    @property
    def left(self) -> str:
        most = self.used.most
        return "no limit" if most is None else str(Used(max(0.0, most - self.used.used), None))

    @property
    def fraction(self) -> float | None:
        """How much of the limit is used up."""
        most = self.used.most
        return None if most is None else min(1.0, self.used.used / most) if most else 1.0


@dataclass(frozen=True)
class Reviewed:
    """What taking part would mean for this party."""

    origin: str
    rows: int | None
    columns: Mapping[str, str]
    warnings: tuple[str, ...]
    peers: tuple[WithPeer, ...]
    sent: tuple[Sent, ...]
    answers: str
    choices: tuple[str, ...]
    runs_before: int
    spent: tuple[Spent, ...]
    cost: Cost | None
    no_cost: str
    common: int | None
    guesses: tuple[str, ...]
    refused: tuple[str, ...]


def reviewed(found: Mapping[str, Any], party: str, roles: Mapping[str, str]) -> Reviewed:
    """The findings of `join --dry-run --json`, for the party that made it."""
    own = found["parties"][0]
    quality, forecast = own["quality"], found["forecast"]
    notes = [_NOTE.validate_python(note, strict=False) for note in quality["notes"]] if quality else []
    answered = found["answers"].get(party)
    standing = _STANDING.validate_python(found["budget"][party]) if party in found["budget"] else None
    cost = forecast.get("parties", {}).get(party)
    return Reviewed(
        origin=own["origin"],
        rows=quality["rows"] if quality else None,
        columns=own["columns"],
        warnings=tuple(str(note) for note in notes if note.level == "warning"),
        peers=tuple(_with_peer(found["exchanges"], party, peer, roles[peer]) for peer in roles if peer != party),
        sent=tuple(_sent(found["exchanges"], party)),
        answers=f"{Answers(**answered)}." if answered else "",
        choices=tuple(found["choices"]),
        runs_before=standing.runs if standing else 0,
        spent=tuple(_spent(standing)) if standing else (),
        cost=_COST.validate_python(cost) if cost else None,
        no_cost=forecast.get("none", ""),
        common=forecast.get("common"),
        guesses=tuple(forecast.get("guesses", ())),
        refused=tuple(found["beyond_memory"]),
    )


def _with_peer(exchanges: Sequence[Mapping[str, Any]], party: str, peer: str, role: str) -> WithPeer:
    return WithPeer(peer, role, _learns(exchanges, party, peer), _learns(exchanges, peer, party))


def _learns(exchanges: Sequence[Mapping[str, Any]], sender: str, receiver: str) -> tuple[Learns, ...]:
    """What one party learns from another, each sentence once; what is not sent in every run comes last."""
    found = {
        Learns(one["discloses"], one["only_if"])
        for one in exchanges
        if (one["sender"], one["receiver"]) == (sender, receiver) and tells(one)
    }
    order = [one["discloses"] for one in exchanges]
    return tuple(sorted(found, key=lambda each: (bool(each.only_if), order.index(each.what))))


def tells(exchange: Mapping[str, Any]) -> bool:
    """Whether a message tells its receiver something about data."""
    silent = not exchange["to"] or exchange["discloses"].startswith("nothing")
    return not silent and exchange["kind"] not in control.KINDS


def _sent(exchanges: Sequence[Mapping[str, Any]], party: str) -> list[Sent]:
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for one in exchanges:
        if one["sender"] == party and one["kind"] not in control.KINDS:
            grouped.setdefault(one["kind"], []).append(one)
    found = []
    for kind, ones in grouped.items():
        first = ones[0]
        receivers = tuple(dict.fromkeys(one["receiver"] for one in ones))
        frames, sizes = [one["frames"] for one in ones], [one["bytes"] for one in ones]
        found.append(
            Sent(
                kind,
                receivers,
                first["discloses"],
                first["to"],
                None if None in frames else sum(frames),
                None if None in sizes else sum(sizes),
                first["only_if"],
            )
        )
    return sorted(found, key=lambda sent: not sent.to)


def _spent(standing: Standing) -> list[Spent]:
    rows = [Spent(f"Alignments with {peer}", used) for peer, used in standing.alignments.items()]
    rows += [Spent(f"Linear fits whose gradients {peer} was shown", used) for peer, used in standing.fits.items()]
    said = [Spent(SAID[what].capitalize(), used) for what, used in standing.said.items()]
    return [*(row for row in rows if row.used.used or row.what.startswith("Align")), *said]

"""What the entries of a book add up to: for each peer, and for all runs together.

Entries of a run are: `begins` (the kind of job), `resumes`, `opens` (ids are about to be compared), `common` (what was
found), `fit` (gradients are about to be shown), `reserves` (the most that will be answered before the next such line)
and `ends`. What a run has answered is what it said at its end; of one that never ended, what it reserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from unpooled.budget.book import Entry


@dataclass
class WithPeer:
    """What has passed between a table and one peer; `ids` is how many the peer has brought in all."""

    alignments: int = 0
    ids: int = 0
    fits: int = 0


@dataclass
class OneRun:
    """What one run has answered: `spent` once it has ended, and until then up to what it `reserved`."""

    reserved: dict[str, float] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    ended: bool = False

    def amount(self, what: str) -> float:
        spent = self.spent.get(what, 0.0)
        return spent if self.ended else max(spent, self.reserved.get(what, 0.0))


@dataclass
class Account:
    """The sums of a book, and the reasons its owner gave for going on with one that was not what it was."""

    runs: dict[str, OneRun] = field(default_factory=dict)
    peers: dict[str, WithPeer] = field(default_factory=dict)
    accepted: list[str] = field(default_factory=list)

    def amount(self, what: str, *, without: str = "") -> float:
        """What all runs together have answered, or all but one."""
        return sum(run.amount(what) for name, run in self.runs.items() if name != without)

    def with_peer(self, peer: str) -> WithPeer:
        return self.peers.setdefault(peer, WithPeer())


def account_of(entries: Iterable[Entry]) -> Account:
    """Add up a book."""
    account = Account()
    for entry in entries:
        if "accepted" in entry:
            account.accepted.append(entry["accepted"])
        if "run" not in entry:
            continue
        run = account.runs.setdefault(entry["run"], OneRun())
        for peer in entry.get("with", ()):
            account.with_peer(peer).alignments += "opens" in entry
            account.with_peer(peer).ids += entry["ids"][peer] if "opens" in entry else 0
            account.with_peer(peer).fits += "fit" in entry
        run.reserved |= entry.get("reserves", {})
        if "ends" in entry:
            run.spent, run.ended = entry["spent"], True
        if "resumes" in entry:
            run.ended = False
    return account


def fits_in(entries: Iterable[Entry], run: str) -> set[tuple[str, str]]:
    """The fits that a run has shown gradients of: rows, and how they are cut into batches."""
    return {(entry["rows"], entry["fit"]) for entry in entries if entry.get("run") == run and "fit" in entry}


def compared_before(entries: Iterable[Entry], purpose: str, peers: Iterable[str]) -> list[tuple[int, dict[str, int]]]:
    """How many ids this table and each peer have brought to earlier comparisons with these peers for this purpose."""
    same = set(peers)
    return [(e["own"], e["ids"]) for e in entries if e.get("opens") == purpose and e["ids"].keys() == same]


def found_before(entries: Sequence[Entry], peers: Iterable[str]) -> dict[str, bool]:
    """The sets of common rows that earlier alignments with the same peers have found, and whether each was refused.

    Those from before a new key, and those whose loss the owner has accepted, cannot be compared any more.
    """
    same = sorted(peers)
    newest = max((place for place, entry in enumerate(entries) if "key" in entry), default=0)
    lost = {name for entry in entries for name in entry.get("lost", ())}
    found = dict[str, bool]()
    for entry in entries[newest:]:
        if "common" in entry and entry["with"] == same and entry["rows"] not in lost:
            found[entry["rows"]] = found.get(entry["rows"], True) and entry.get("refused", False)
    return found

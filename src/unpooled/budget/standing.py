"""How a book stands: what there has been so far, beside the limits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from unpooled.budget.accounts import Account, WithPeer
from unpooled.budget.limits import AMOUNTS, RESULTS, Amount, OverRuns, Result


@dataclass(frozen=True)
class Used:
    """How much there has been, and the limit if there is one."""

    used: float
    most: float | None

    def __str__(self) -> str:
        used = f"{self.used:,.1f}".removesuffix(".0")
        return used if self.most is None else f"{used} of {self.most:,g}"


@dataclass(frozen=True)
class Standing:
    """The runs in a book; by peer alignments, ids that it has brought to them, and fits; what was answered, and what
    results say."""

    book: str
    runs: int
    alignments: dict[str, Used]
    ids: dict[str, int]
    fits: dict[str, Used]
    amounts: dict[Amount, Used]
    results: dict[Result, Used]

    @property
    def said(self) -> dict[Amount, Used]:
        """The amounts that are worth saying: there have been some, or the owner has a limit other than the default."""
        usual = OverRuns()
        return {what: used for what, used in self.amounts.items() if used.used or used.most != usual.total(what)}


def standing_of(book: str, account: Account, limits: OverRuns, peers: Collection[str]) -> Standing:
    """How a book stands with these peers."""
    with_peers = {peer: account.peers.get(peer, WithPeer()) for peer in sorted(peers)}
    return Standing(
        book=book,
        runs=len(account.runs),
        alignments={peer: Used(one.alignments, limits.maximum_alignments) for peer, one in with_peers.items()},
        ids={peer: one.ids for peer, one in with_peers.items()},
        fits={peer: Used(one.fits, limits.maximum_linear_fits) for peer, one in with_peers.items()},
        amounts={what: Used(account.amount(what), limits.total(what)) for what in AMOUNTS},
        results={what: Used(account.amount(what), None) for what in RESULTS},
    )

"""Whether what is about to happen is within a party's limits over all runs; if not, a RefusedError names the limit.

The errors are told to peers: they say nothing of what has passed with others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from unpooled.budget.accounts import account_of, compared_before
from unpooled.budget.book import Entry
from unpooled.budget.limits import OverRuns
from unpooled.errors import RefusedError


def check_alignments(entries: Sequence[Entry], limits: OverRuns, party: str, peers: Iterable[str]) -> None:
    """Refuse another comparison of ids with a peer that has had as many as it may."""
    account, most = account_of(entries), limits.maximum_alignments
    for peer in peers:
        if most is not None and account.with_peer(peer).alignments >= most:
            raise RefusedError(
                f"{party} compares ids with {peer} at most {most} times over all its runs (policy.maximum_alignments)"
            )


def check_change(
    entries: Sequence[Entry], limits: OverRuns, party: str, purpose: str, own: int, ids: Mapping[str, int]
) -> None:
    """Refuse lists that are a few ids longer or shorter than in an earlier comparison with the same peers.

    `own` is how many ids this party brings, by whatever name a plan calls it, and `ids` how many its peers do.
    """
    before = compared_before(entries, purpose, ids)
    if (own, ids) not in before:
        check_count(limits, party, party, own, [earlier for earlier, _ in before])
        for peer, count in ids.items():
            check_count(limits, party, peer, count, [theirs[peer] for _, theirs in before])


def check_count(limits: OverRuns, party: str, owner: str, count: int, before: Sequence[int]) -> None:
    """Refuse a number of ids that is close to an earlier one, and none that there was before."""
    for earlier in () if count in before else before:
        if 0 < abs(count - earlier) < limits.minimum_change:
            raise RefusedError(
                f"{party}: {owner} brings {count:,} ids, and brought {earlier:,} to an earlier run with the same "
                f"parties; a change by fewer than {limits.minimum_change} would tell about these few people "
                "(policy.minimum_change)"
            )


def check_fits(entries: Sequence[Entry], limits: OverRuns, party: str, peers: Iterable[str], fits: int = 1) -> None:
    """Refuse to show a peer gradients of more fits than it may see."""
    account, most = account_of(entries), limits.maximum_linear_fits
    for peer in peers:
        if most is not None and account.with_peer(peer).fits + fits > most:
            raise RefusedError(
                f"{party} shows {peer} gradients of at most {most} fits of linear models over all its runs "
                "(policy.maximum_linear_fits); with reveal = 'final' in the plan none are shown"
            )

"""Counts and names as a sentence has them."""

from __future__ import annotations

from collections.abc import Sequence


def listed(names: Sequence[str]) -> str:
    """Names one after the other.

    >>> listed(["bank", "telco", "power"])
    'bank, telco and power'
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def times(count: int) -> str:
    """How often.

    >>> times(1), times(2), times(3)
    ('once', 'twice', '3 times')
    """
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def many(count: int, noun: str) -> str:
    """So many of something that takes an s in the plural.

    >>> many(1, "row"), many(1_200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"

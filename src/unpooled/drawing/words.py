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


def people(count: int) -> str:
    """So many people.

    >>> people(1), people(1_200)
    ('1 person', '1,200 people')
    """
    return f"{count:,} {'person' if count == 1 else 'people'}"


def percent(fraction: float) -> str:
    """A fraction as a percentage; only 0 is shown as 0.

    >>> percent(0.123), percent(0.00001), percent(0.0)
    ('12.3 %', '< 0.1 %', '0 %')
    """
    if not fraction:
        return "0 %"
    return f"{fraction:.1%}".replace("%", " %") if fraction >= 0.0005 else "< 0.1 %"


def many(count: int, noun: str) -> str:
    """So many of something that takes an s in the plural.

    >>> many(1, "row"), many(1_200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"

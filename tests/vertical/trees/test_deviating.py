"""What an active party reads that sends powers of two instead of gradients, and what a limit in bits leaves it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from deviating import attack
from unpooled.vertical.trees.parameters import GbdtParameters


def read_by(engine: str, rows: int, *, trees: int = 4, limit: float | None = None, **others: Any) -> Any:
    """A bank that deviates, in so many trees of depth 3: four nodes of each are looked at."""
    rules = {name: others.pop(name) for name in ("count_rows",) if name in others}
    if engine == "paillier":
        rules |= {"key_bits": 512, "insecure": True}
    parameters = GbdtParameters(trees=trees, depth=3, lockstep=1, bundle=False, **others)
    found = attack(engine, parameters, rows, columns=3, most_bits_per_row=limit, **rules)
    assert found.wrong == 0, "whatever is read is true"
    assert found.answered <= found.needed
    return found


@pytest.mark.parametrize(
    ("others", "bits"),
    [({"min_rows": 1}, 56), ({"min_rows": 1, "count_rows": False}, 56), ({"hide_nodes": True}, 24)],
)
def test_as_many_rows_are_read_of_each_node_as_a_word_has_bits(others: dict[str, Any], bits: int) -> None:
    """In each of four nodes of each of four trees; no limit that the plan implies stops it."""
    found = read_by("shares", 1_100, **others)
    assert not found.refused
    assert found.cells == pytest.approx(4 * 4 * bits / 1_100, abs=0.03)


def test_larger_groups_leave_the_root_alone() -> None:
    """With 1,100 rows in 32 bins all but the root's are merged."""
    found = read_by("shares", 1_100, min_rows=30)
    assert found.cells == pytest.approx(4 * 56 / 1_100, abs=0.03)


def test_encrypted_sums_are_as_wide_as_their_slots() -> None:
    """Of the root of each tree: a sum of 300 rows of 16 bits takes 25 and a sign, and there are two."""
    found = read_by("paillier", 300, min_rows=1)
    assert not found.refused
    assert found.cells == pytest.approx(4 * 2 * 26 / 300, abs=0.01)


@pytest.mark.parametrize("hidden", [False, True])
def test_a_limit_in_bits_is_held_to(hidden: bool) -> None:
    found = read_by("shares", 1_100, hide_nodes=hidden, limit=20.0)
    assert re.search(r"telco.* 22000 bits.* 1100 rows", found.refused)
    assert found.answered <= 22_000
    assert found.cells < 0.25

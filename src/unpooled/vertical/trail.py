"""What parties keep of trees for an audit: what each product was about, and the leaf of each row.

A row's leaf takes as many bits as the tree's leaves need to be told apart, so that little is kept: of a tree of depth 3
three bits a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unpooled.codec import Ints, Ints32
from unpooled.errors import InputError
from unpooled.secure.evidence import Arrays, Evidence, digest_of
from unpooled.vertical.ground import LEAF, Grown
from unpooled.vertical.standing import OUTSIDE, Families, Look
from unpooled.vertical.team import Team

TARGETS, COLUMNS = "targets", "columns"
"""What the active party commits to, and what a passive one does."""


@dataclass(frozen=True, eq=False)
class Leaves:
    """A tree as far as the next ones depend on it: each node's first child or LEAF, each row's leaf or outside."""

    first: Ints
    where: Ints


def evidence_of(team: Team) -> Evidence | None:
    """A party alone keeps none, and neither do parties whose plan says so."""
    return team.engine.evidence if team.engine else None


def about_nodes(team: Team, tree: int, families: Families, look: Look, *, part: bool) -> dict[str, Any] | None:
    """What a product is about, for whoever knows its nodes: at the passive party these bind the active one's rows."""
    if not (evidence := evidence_of(team)):
        return None
    nodes = (families.firsts + families.asked).tolist()
    said = {"fit": evidence.fit, "group": evidence.group, "tree": tree, "nodes": nodes, "part": part}
    return said | {"rows": digest_of(look.rows)}


def about_hidden_nodes(team: Team, tree: int) -> dict[str, Any] | None:
    """What it is about for a passive party that does not know the nodes."""
    if not (evidence := evidence_of(team)):
        return None
    return {"fit": evidence.fit, "group": evidence.group, "tree": tree, "part": False}


def keep_leaves(evidence: Evidence, grown: Sequence[Grown]) -> None:
    """At the active party: keep the leaves of a group of trees."""
    evidence.keep_page(name_of(evidence.fit, evidence.group), **page_of([Leaves(t.first, t.where) for t in grown]))


def name_of(fit: int, group: int) -> str:
    return f"leaves-{fit}-{group}"


def page_of(trees: Sequence[Leaves]) -> Arrays:
    """Leaves as bits.

    >>> tree = Leaves(np.array([1, LEAF, LEAF]), np.array([1, 2, 2, OUTSIDE, 1]))
    >>> [leaves_in(page_of([tree]))[0].where.tolist(), page_of([tree])["bits"].nbytes]
    [[1, 2, 2, -1, 1], 2]
    """
    bits = []
    for tree in trees:
        codes = (np.cumsum(_takes_rows(tree.first)) - 1)[tree.where].astype(np.uint32)
        planes = _planes(tree.first)
        bits.append(np.packbits((codes >> np.arange(planes, dtype=np.uint32)[:, np.newaxis]) & 1, axis=1).reshape(-1))
    return {
        "first": np.concatenate([tree.first for tree in trees]),
        "nodes": np.array([len(tree.first) for tree in trees]),
        "rows": np.array([len(tree.where) for tree in trees]),
        "bits": np.concatenate(bits),
    }


def leaves_in(page: Arrays) -> list[Leaves]:
    """The leaves on a page, which may come from somebody else."""
    try:
        trees, begin = [], 0
        nodes, rows = page["nodes"].tolist(), page["rows"].tolist()
        for first, count in zip(np.split(page["first"], np.cumsum(nodes)[:-1]), rows, strict=True):
            _check_nodes(first)
            planes, width = _planes(first), (count + 7) // 8
            part = page["bits"][begin : begin + planes * width].reshape(planes, width)
            unpacked = np.unpackbits(part, axis=1, count=count).astype(np.int64)
            codes = (unpacked << np.arange(planes)[:, np.newaxis]).sum(axis=0)
            takes = np.flatnonzero(_takes_rows(first))
            where = np.where(takes[codes] == len(first), OUTSIDE, takes[codes])
            trees.append(Leaves(first, where))
            begin += planes * width
    except (KeyError, ValueError, IndexError, TypeError, AttributeError) as error:
        raise InputError(f"leaves of an audit are none: {error}") from None
    return trees


def looked_at(leaves: Leaves, nodes: Sequence[int]) -> Look:
    """The rows that some nodes had, none of them below another, in the order in which products have them."""
    marks = np.full(len(leaves.first) + 1, OUTSIDE, np.int32)
    marks[list(nodes)] = np.arange(len(nodes))
    for node, first in enumerate(leaves.first.tolist()):
        if first != LEAF and marks[node] != OUTSIDE:
            marks[first : first + 2] = marks[node]
    families: Ints32 = marks[leaves.where]
    rows = np.flatnonzero(families != OUTSIDE)
    rows = rows[families[rows].argsort(kind="stable")]
    return Look(rows, families[rows], np.empty((0, 0), np.int32))


def _takes_rows(first: Ints) -> Ints:
    """Where rows can be: in a leaf, or outside, which stands last."""
    return np.append(first == LEAF, 1).astype(np.int64)


def _planes(first: Ints) -> int:
    return max(int(_takes_rows(first).sum() - 1).bit_length(), 1)


def _check_nodes(first: Ints) -> None:
    """Refuse what is no tree: children come in pairs, one pair after the other, behind their parents."""
    inner = np.flatnonzero(first != LEAF)
    fits = first.ndim == 1 and len(first) == 2 * len(inner) + 1 and bool((first[inner] > inner).all())
    if not fits or sorted(first[inner].tolist()) != list(range(1, len(first), 2)):
        raise ValueError("a tree has nodes that cannot be")

"""What parties keep of trees for an audit: what each product was about, and the leaf of each row.

A row's leaf takes as many bits as the tree's leaves need to be told apart, so that little is kept: of a tree of depth 3
three bits a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unpooled.arrays import Bools, Ints, Ints32
from unpooled.errors import InputError
from unpooled.secure.evidence import Arrays, Evidence, digest_of
from unpooled.vertical.team import Team
from unpooled.vertical.trees.binning import Binned
from unpooled.vertical.trees.bundles import Feature, Layout, narrow
from unpooled.vertical.trees.grower.asked_rows import AskedRows, rows_together
from unpooled.vertical.trees.grower.context import LEAF, GrownTree, TreeSpec
from unpooled.vertical.trees.grower.node_rows import OUTSIDE, Families


@dataclass(frozen=True, eq=False)
class Leaves:
    """A tree as far as the next ones depend on it: each node's first child or LEAF, each row's leaf or outside.

    `part` says which rows there are, where the others were cut out.
    """

    first: Ints
    where: Ints
    part: Bools | None = None


def about_nodes(team: Team, families: Families, asked: AskedRows, *, part: bool) -> dict[str, Any] | None:
    """What a product is about, at a party that knows its nodes; a passive one's binds the active party's rows."""
    if not (evidence := team.evidence):
        return None
    by_tree = families.by_tree
    trees, nodes = [tree for tree, _ in by_tree], [families[some].asked_nodes.tolist() for _, some in by_tree]
    said = {"fit": evidence.fit, "group": evidence.group, "trees": trees, "nodes": nodes, "part": part}
    return said | {"rows": digest_of(asked.rows)}


def about_hidden_nodes(team: Team, tree: int) -> dict[str, Any] | None:
    """The same at a passive party that does not know the nodes."""
    if not (evidence := team.evidence):
        return None
    return {"fit": evidence.fit, "group": evidence.group, "trees": [tree], "part": False}


def keep_leaves(evidence: Evidence, group: int, specs: Sequence[TreeSpec], grown: Sequence[GrownTree]) -> None:
    """At the active party: keep the leaves of a group of trees, given by its number."""
    each = zip(specs, grown, strict=True)
    leaves = [Leaves(tree.first, tree.where, seed.taking_part if seed.cut else None) for seed, tree in each]
    evidence.keep_page(name_of(evidence.fit, group), **page_of(leaves))


def columns_kept(own: Binned) -> Arrays:
    """All that products are made of at a passive party."""
    features, bundles = own.layout.features, own.layout.bundles
    return {
        "columns": own.columns,
        "features": np.array([(one.values, one.missing, one.usual) for one in features], np.int64).reshape(-1, 3),
        "bundles": np.array([number for bundle in bundles for number in bundle], np.int64),
        "sizes": np.array([len(bundle) for bundle in bundles], np.int64),
    }


def columns_from(kept: Arrays) -> Binned:
    """The columns that were kept, which may come from somebody else; their bins by feature are not there."""
    try:
        features = tuple(Feature(values, bool(missing), usual) for values, missing, usual in kept["features"].tolist())
        each = np.split(kept["bundles"], np.cumsum(kept["sizes"])[:-1]) if len(kept["sizes"]) else []
        layout, columns = Layout(features, tuple(tuple(bundle.tolist()) for bundle in each)), kept["columns"]
        layout.check()
        fits = columns.dtype == narrow(layout.sizes) and columns.shape == (len(columns), len(layout.sizes))
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise InputError(f"invalid columns in an audit: {error}") from None
    if not fits or (columns >= np.array(layout.sizes, np.int64)).any():
        raise InputError("invalid columns in an audit: other bins than their layout has")
    return Binned(columns, columns, layout)


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
        planes = _planes(tree.first)
        narrow = np.min_scalar_type((1 << planes) - 1)
        codes = (np.cumsum(_takes_rows(tree.first)) - 1).astype(narrow)[tree.where]
        places = np.arange(planes, dtype=narrow)[:, np.newaxis]
        bits.append(np.packbits((codes >> places) & narrow.type(1), axis=1).reshape(-1))
    return {
        "first": np.concatenate([tree.first for tree in trees]),
        "nodes": np.array([len(tree.first) for tree in trees]),
        "rows": np.array([len(tree.where) for tree in trees]),
        "bits": np.concatenate(bits),
        "of": np.array([0 if tree.part is None else len(tree.part) for tree in trees]),
        "parts": np.concatenate([np.empty(0, np.uint8), *(np.packbits(t.part) for t in trees if t.part is not None)]),
    }


def leaves_in(page: Arrays) -> list[Leaves]:
    """The leaves on a page, which may come from somebody else."""
    try:
        trees, begin, part_begin = [], 0, 0
        nodes, rows, of = (page[name].tolist() for name in ("nodes", "rows", "of"))
        for first, count, everybody in zip(np.split(page["first"], np.cumsum(nodes)[:-1]), rows, of, strict=True):
            _check_nodes(first)
            planes, width = _planes(first), (count + 7) // 8
            bits = page["bits"][begin : begin + planes * width].reshape(planes, width)
            unpacked = np.unpackbits(bits, axis=1, count=count).astype(np.int64)
            codes = (unpacked << np.arange(planes)[:, np.newaxis]).sum(axis=0)
            takes = np.flatnonzero(_takes_rows(first))
            where = np.where(takes[codes] == len(first), OUTSIDE, takes[codes])
            part_end = part_begin + (everybody + 7) // 8
            if not (0 <= count <= everybody or not everybody) or part_end > len(page["parts"]):
                raise ValueError("rows are missing")
            part = np.unpackbits(page["parts"][part_begin:part_end], count=everybody).view(bool) if everybody else None
            trees.append(Leaves(first, where, part))
            begin, part_begin = begin + planes * width, part_end
    except (KeyError, ValueError, IndexError, TypeError, AttributeError) as error:
        raise InputError(f"invalid leaves in an audit: {error}") from None
    return trees


def rows_of_nodes(leaves: Leaves, nodes: Sequence[int]) -> AskedRows:
    """The rows that some nodes had, none of them below another, in the order in which products have them."""
    marks = np.full(len(leaves.first) + 1, OUTSIDE, np.int32)
    marks[list(nodes)] = np.arange(len(nodes))
    for node, first in enumerate(leaves.first.tolist()):
        if first != LEAF and marks[node] != OUTSIDE:
            marks[first : first + 2] = marks[node]
    families: Ints32 = marks[leaves.where]
    rows = np.flatnonzero(families != OUTSIDE)
    rows = rows[families[rows].argsort(kind="stable")]
    return AskedRows(rows, families[rows])


def rows_of_trees(leaves: Sequence[Leaves], nodes: Sequence[Sequence[int]]) -> AskedRows:
    """The same of several trees, which share a product."""
    each = list(zip(leaves, nodes, strict=True))
    return rows_together([rows_of_nodes(*one) for one in each], [(len(tree.where), len(of)) for tree, of in each])


def _takes_rows(first: Ints) -> Ints:
    """Where rows can be: in a leaf, or outside, which comes last."""
    return np.append(first == LEAF, 1).astype(np.int64)


def _planes(first: Ints) -> int:
    return max(int(_takes_rows(first).sum() - 1).bit_length(), 1)


def _check_nodes(first: Ints) -> None:
    """Refuse what is no tree: children come in pairs, one pair after the other, behind their parents."""
    inner = np.flatnonzero(first != LEAF)
    fits = first.ndim == 1 and len(first) == 2 * len(inner) + 1 and bool((first[inner] > inner).all())
    if not fits or sorted(first[inner].tolist()) != list(range(1, len(first), 2)):
        raise ValueError("the nodes of a tree are not in order")

"""What parties keep of each group of trees, so that a fit that was interrupted can go on after the last of them.

All parties have kept the same groups when a fit goes on. Those are not grown again: the active party takes the trees
from its notebook, a passive one the splits that it had made by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

import numpy as np

from unpooled.checkpoint import Page
from unpooled.errors import InputError
from unpooled.vertical.trees.grower.context import GrownTree
from unpooled.vertical.trees.split_table import SplitTable

_OF_NODES = tuple(field.name for field in fields(GrownTree) if field.name != "where")


def page_of(grown: Sequence[GrownTree], table: SplitTable, numbered: Mapping[int, int]) -> Page:
    """The active party's page: its trees one after the other, its own splits, and how many others have numbered.

    Trees do not tell these: a split that leaves a side with too few rows is dropped, and keeps its number.
    """
    page: Page = {name: np.concatenate([getattr(tree, name) for tree in grown]) for name in _OF_NODES}
    page["nodes"] = np.array([len(tree.first) for tree in grown])
    page["rows"] = np.array([len(tree.where) for tree in grown])
    page["where"] = np.concatenate([tree.where for tree in grown])
    page["numbered"] = np.array(list(numbered.items()), np.int64).reshape(-1, 2)
    return page | page_of_splits(table)


def numbered_from(page: Page) -> dict[int, int]:
    """By owner, how many splits it had numbered."""
    try:
        return {int(owner): int(splits) for owner, splits in page["numbered"].tolist()}
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(f"a page of a checkpoint is not one of trees: {error}") from None


def grown_from(page: Page) -> list[GrownTree]:
    try:
        nodes, rows = (np.cumsum(page[name])[:-1].tolist() for name in ("nodes", "rows"))
        parts = [np.split(page[name], nodes) for name in _OF_NODES] + [np.split(page["where"], rows)]
        return [GrownTree(*each) for each in zip(*parts, strict=True)]
    except (KeyError, ValueError, IndexError) as error:
        raise InputError(f"a page of a checkpoint is not one of trees: {error}") from None


def page_of_splits(table: SplitTable) -> Page:
    """A party's own splits, and how often each was used."""
    return {
        "splits": np.array(table.splits, np.int64).reshape(-1, 3),
        "uses": np.array(table.uses, np.int64),
        "split_rows": np.array(table.rows, np.int64),
    }


def splits_from(page: Page) -> SplitTable:
    try:
        splits = [(int(feature), int(place), bool(left)) for feature, place, left in page["splits"].tolist()]
        return SplitTable(splits, page["uses"].tolist(), page["split_rows"].tolist())
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(f"a page of a checkpoint is not one of splits: {error}") from None

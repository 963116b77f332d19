"""What parties keep of each group of trees, so that a fit that was interrupted can go on after the last of them.

All parties have kept the same groups when a fit goes on. Those are not grown again: the active party takes the trees
from its notebook, a passive one the splits that it had made by then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields

import numpy as np

from unpooled.checkpoint import Notebook, Page
from unpooled.errors import InputError
from unpooled.vertical.trees.grower.context import GrownTree
from unpooled.vertical.trees.split_table import SplitTable

_OF_NODES = tuple(field.name for field in fields(GrownTree) if field.name != "where")


def page_of(number: int, grown: Sequence[GrownTree], table: SplitTable, numbered: Mapping[int, int]) -> Page:
    """The active party's page: a group's trees one after the other, its own splits, and how many others have numbered.

    Trees do not tell these: a split that leaves a side with too few rows is dropped, and keeps its number.
    """
    page: Page = {name: np.concatenate([getattr(tree, name) for tree in grown]) for name in _OF_NODES}
    page["nodes"] = np.array([len(tree.first) for tree in grown])
    page["rows"] = np.array([len(tree.where) for tree in grown])
    page["where"] = np.concatenate([tree.where for tree in grown])
    page["numbered"] = np.array(list(numbered.items()), np.int64).reshape(-1, 2)
    return page | page_of_splits(number, len(grown), table)


def known_in(notebook: Notebook | None) -> dict[int, int]:
    """By the number of a group on which page it is."""
    return {number_on(page): place for place, page in enumerate(notebook.pages() if notebook else ())}


def numbered_from(page: Page) -> Counter[int]:
    """By owner, how many splits it had numbered at the most."""
    try:
        return Counter({int(owner): int(splits) for owner, splits in page["numbered"].tolist()})
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(f"a page of a checkpoint is not one of trees: {error}") from None


def grown_from(page: Page) -> list[GrownTree]:
    try:
        nodes, rows = (np.cumsum(page[name])[:-1].tolist() for name in ("nodes", "rows"))
        parts = [np.split(page[name], nodes) for name in _OF_NODES] + [np.split(page["where"], rows)]
        return [GrownTree(*each) for each in zip(*parts, strict=True)]
    except (KeyError, ValueError, IndexError) as error:
        raise InputError(f"a page of a checkpoint is not one of trees: {error}") from None


def page_of_splits(number: int, trees: int, table: SplitTable) -> Page:
    """The number of a group and how many trees it has; a party's own splits, and how often each was used."""
    return {
        "group": np.array(number),
        "trees": np.array(trees),
        "splits": np.array(table.splits, np.int64).reshape(-1, 3),
        "uses": np.array(table.uses, np.int64),
        "split_rows": np.array(table.rows, np.int64),
    }


def number_on(page: Page) -> int:
    """The number of the group that is on a page."""
    try:
        return int(page["group"])
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(f"a page of a checkpoint is not one of trees: {error}") from None


def splits_from(page: Page) -> SplitTable:
    try:
        splits = [(int(feature), int(place), bool(left)) for feature, place, left in page["splits"].tolist()]
        return SplitTable(splits, page["uses"].tolist(), page["split_rows"].tolist())
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(f"a page of a checkpoint is not one of splits: {error}") from None

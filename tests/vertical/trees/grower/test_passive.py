"""What parties refuse: an active party that asks for what cannot be, a passive one that answers so.

One honest run is replayed for each of them at the party that must refuse, up to the message that is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from unpooled.errors import InputError, ProtocolError
from unpooled.vertical.trees import messages

Make = Callable[..., Any]
Change = Callable[[Any], Any]

ROWS = 160
HUGE = 2**31 - 2


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def changing(kind: type, change: Change, *, which: int = 0) -> Callable[[str, Any], Any]:
    """Send another message instead of one of a kind, the first or a later one."""
    count = 0

    def tamper(peer: str, message: Any) -> Any:
        nonlocal count
        if isinstance(message, kind):
            count += 1
            return change(message) if count == which + 1 else message
        return message

    return tamper


def each(kind: type, cases: dict[str, Change], *, which: int = 0) -> dict[str, Callable[[str, Any], Any]]:
    return {case: changing(kind, change, which=which) for case, change in cases.items()}


def with_fields(**change: Change) -> Change:
    return lambda message: replace(message, **{name: f(getattr(message, name)) for name, f in change.items()})


def in_lists(message: Any, change: Change) -> Any:
    """Change all lists of a message."""
    lists = {name: change(value) for name, value in vars(message).items() if isinstance(value, np.ndarray)}
    return replace(message, **lists)


def in_tree(**change: Change) -> Change:
    """Change the lists of the first tree of a level, whose nodes come first."""

    def changed(level: messages.Level) -> messages.Level:
        count = int((level.trees == level.trees[0]).sum())
        lists = {name: getattr(level, name) for name in change}
        return replace(
            level, **{name: np.concatenate([change[name](each[:count]), each[count:]]) for name, each in lists.items()}
        )

    return changed


def in_all(*names: str, change: Change) -> Change:
    return with_fields(**dict.fromkeys(names, change))


def set_to(*values: int) -> Change:
    return lambda _: ints(*values)


def first_is(value: int) -> Change:
    return lambda old: np.concatenate([ints(value), old[1:]])


def last_is(value: int) -> Change:
    return lambda old: np.append(old[:-1], np.int32(value))


def stacked(values: np.ndarray) -> np.ndarray:
    return values[np.newaxis]


def single(values: np.ndarray) -> np.ndarray:
    """No dimension at all."""
    return np.array(values.reshape(-1)[0] if values.size else 0, values.dtype)


def twice(values: np.ndarray) -> np.ndarray:
    return np.concatenate([values, values])


def short(values: Any) -> Any:
    return values[:-1]


def longer(values: np.ndarray) -> np.ndarray:
    return np.append(values, values.dtype.type(0))


@pytest.fixture(scope="module")
def honest(parameters_for: Make, together: Make) -> Make:
    """A finished run with nothing hidden, whose messages can be changed; each is run once."""
    return cache(
        lambda learner, classes=2, team="two", **others: together(
            parameters_for(learner, classes, **others), team, "plain", predicts=False
        )
    )


# an active party that asks for what cannot be

BEGINNINGS = {
    "more rows": with_fields(rows=lambda rows: rows + 1),
    "negative rows": with_fields(rows=lambda rows: -rows),
    "a short name": with_fields(name=lambda name: name[1:]),
}


def test_beginnings_that_do_not_fit_are_refused(honest: Make, refuses: Make) -> None:
    refuses(honest("xgb"), "telco", each(messages.Begin, BEGINNINGS), ProtocolError, "bank")


def test_another_number_of_sums_than_the_learner_needs_is_refused(honest: Make, refuses: Make) -> None:
    """Each is a question about every row."""
    for sums in (0, -1, 1, 3, 10**6):
        change = {"sums": with_fields(sums=lambda _, sums=sums: sums)}
        refuses(honest("xgb"), "telco", each(messages.Trees, change), ProtocolError, f"Trees from bank.*{sums}.* 2")


BAGS = {
    "too few trees": with_fields(taking_part=short),
    "too many trees": with_fields(taking_part=lambda parts: parts * 2),
    "too few rows": with_fields(taking_part=lambda parts: tuple(map(short, parts))),
    "too many rows": with_fields(taking_part=lambda parts: tuple(map(longer, parts))),
    "a matrix": with_fields(taking_part=lambda parts: tuple(map(stacked, parts))),
}


@pytest.mark.parametrize("learner", ["xgb", "rf"])
def test_bags_that_do_not_fit_are_refused(learner: str, honest: Make, refuses: Make) -> None:
    refuses(honest(learner, hide_bags=False), "telco", each(messages.Bags, BAGS), ProtocolError, "bank")


LISTS = "trees", "parents", "firsts", "asked"
ROOTS = {
    "no root": in_tree(parents=set_to(0), firsts=set_to(1)),
    "the root twice": in_tree(trees=twice, parents=twice, firsts=twice, asked=twice),
    "the root is another": in_tree(firsts=set_to(1)),
    "the root's second": in_tree(asked=set_to(1)),
    "nothing": in_all(*LISTS, change=set_to()),
    "no trees": with_fields(trees=set_to()),
    "all trees twice": in_all(*LISTS, change=twice),
    "a tree twice": with_fields(trees=lambda trees: trees * 0),
    "trees from the last to the first": with_fields(trees=lambda trees: trees[::-1]),
    "another tree": with_fields(trees=last_is(99)),
    "a negative tree": with_fields(trees=first_is(-1)),
    "sides": with_fields(sides=longer),
}
CHILDREN = {
    "a huge tree": with_fields(trees=last_is(HUGE)),
    "too few trees": with_fields(trees=short),
    "an unknown parent": in_tree(parents=first_is(5)),
    "a huge parent": in_tree(parents=first_is(HUGE)),
    "negative children": in_tree(firsts=first_is(-3)),
    "huge children": in_tree(firsts=first_is(HUGE)),
    "children beyond all numbers": in_tree(firsts=first_is(HUGE + 1)),
    "a third child": in_tree(asked=first_is(2)),
    "a negative child": in_tree(asked=first_is(-1)),
    "too few children": in_tree(firsts=short),
    "too few that are asked": in_tree(asked=short),
    "trees in a matrix": with_fields(trees=stacked),
    "parents in a matrix": with_fields(parents=stacked),
    "children in a matrix": with_fields(firsts=stacked),
    "all in matrices": in_all(*LISTS, change=stacked),
    "numbers without a list": in_all(*LISTS, change=single),
    "too few sides": with_fields(sides=short),
    "too many sides": with_fields(sides=longer),
    "no sides": with_fields(sides=lambda sides: sides[:0]),
    "sides in a matrix": with_fields(sides=stacked),
    "a root beside others": in_tree(parents=set_to(-1), firsts=set_to(0), asked=set_to(0)),
}
GRANDCHILDREN = {
    "a negative parent": in_tree(parents=last_is(-2)),
    "rows outside as a parent": in_tree(parents=last_is(-1)),
    "a parent twice": in_tree(
        trees=lambda t: ints(t[0], t[0]),
        parents=lambda p: ints(p[0], p[0]),
        firsts=lambda f: ints(f[0], f[0] + 2),
        asked=lambda a: ints(a[0], a[0]),
    ),
    "children that are there": in_tree(firsts=lambda firsts: firsts * 0 + 1),
    "children that overlap": in_tree(
        trees=set_to(0, 0), parents=set_to(1, 2), firsts=lambda f: ints(f[0], f[0] + 1), asked=set_to(0, 0)
    ),
    "children of two parents, the last first": in_tree(
        trees=set_to(0, 0), parents=set_to(2, 1), firsts=set_to(3, 5), asked=set_to(0, 0)
    ),
}


@pytest.mark.parametrize("min_rows", [1, 6])
def test_levels_that_cannot_be_are_refused(min_rows: int, honest: Make, refuses: Make) -> None:
    run = honest("xgb", 3, min_rows=min_rows)
    for level, cases in enumerate([ROOTS, CHILDREN, GRANDCHILDREN]):
        refuses(run, "telco", each(messages.Level, cases, which=level), ProtocolError, "bank")


HIDDEN_LEVELS = {
    "another tree": with_fields(trees=first_is(99)),
    "a negative tree": with_fields(trees=first_is(-1)),
    "fewer nodes than trees": with_fields(nodes=short),
    "no nodes": with_fields(nodes=first_is(0)),
    "negative nodes": with_fields(nodes=first_is(-1)),
    "more nodes than rows": with_fields(nodes=first_is(ROWS + 1)),
    "a tree twice": with_fields(trees=lambda trees: trees * 0),
    "nothing": with_fields(trees=set_to(), nodes=set_to()),
    "matrices": with_fields(trees=stacked, nodes=stacked),
    "numbers without a list": with_fields(trees=single, nodes=single),
}


def test_hidden_levels_that_cannot_be_are_refused(honest: Make, refuses: Make) -> None:
    run = honest("xgb", 3, hide_nodes=True)
    refuses(run, "telco", each(messages.HiddenLevel, HIDDEN_LEVELS), ProtocolError, "bank")


SPLITS = {
    "another column": with_fields(features=first_is(6)),
    "a negative column": with_fields(features=first_is(-1)),
    "another bin": with_fields(places=first_is(32)),
    "a negative bin": with_fields(places=first_is(-1)),
    "too few columns": with_fields(features=short),
    "too many bins": with_fields(places=longer),
    "nothing": lambda message: in_lists(message, lambda _: ints()),
    "matrices": lambda message: in_lists(message, stacked),
    "numbers without a list": lambda message: in_lists(message, single),
}


@pytest.mark.parametrize("hidden", [False, True])
def test_splits_that_are_not_there_are_refused(hidden: bool, honest: Make, refuses: Make) -> None:
    kind = messages.SplitRequestForAll if hidden else messages.SplitRequest
    run = honest("gbdt", hide_nodes=hidden)
    refuses(run, "telco", each(kind, SPLITS), ProtocolError, f"{kind.__name__} from bank")


TREES = {
    "another tree": with_fields(trees=first_is(99)),
    "a negative tree": with_fields(trees=first_is(-1)),
}
NODES = {
    "a node to come": with_fields(nodes=first_is(77)),
    "a huge node": with_fields(nodes=first_is(HUGE)),
    "rows outside": with_fields(nodes=first_is(-1)),
    "a negative node": with_fields(nodes=first_is(-2)),
    "a node that was split before": with_fields(nodes=first_is(0)),
}


@pytest.mark.parametrize("others", [{}, {"min_rows": 1}, {"min_rows": 1, "hide_bags": False}, {"hide_bags": False}])
def test_nodes_that_are_not_there_are_not_opened(others: dict[str, Any], honest: Make, refuses: Make) -> None:
    team = "the active without columns"
    run = honest("rf", 2, team, column_fraction=1.0, trees=1, depth=4, **others)
    refuses(run, "telco", each(messages.SplitRequest, TREES, which=1), ProtocolError, "bank")
    refuses(run, "telco", each(messages.SplitRequest, NODES, which=1), ProtocolError, "SplitRequest from bank")


def test_messages_of_the_other_way_of_growing_have_no_place(honest: Make, refuses: Make) -> None:
    hidden = messages.HiddenLevel(1, ints(0), ints(1))
    change = each(messages.Level, {"hidden": lambda _: hidden})
    refuses(honest("xgb"), "telco", change, ProtocolError, r"telco.* Level .*bank.* \S*HiddenLevel")
    level = messages.Level(ints(0), ints(-1), ints(0), ints(0), np.empty(0, np.uint8))
    change = each(messages.HiddenLevel, {"open": lambda _: level})
    refuses(honest("xgb", hide_nodes=True), "telco", change, ProtocolError, r"telco.* HiddenLevel .*bank.*Level")


# a passive party that answers what cannot be

LAYOUTS = {
    "rows": with_fields(rows=lambda rows: rows - 1),
    "too few sizes": with_fields(values=short),
    "too many usual bins": with_fields(usual=longer),
    "no bins": with_fields(values=first_is(0)),
    "negative bins": with_fields(values=first_is(-4)),
    "too many bins": with_fields(values=first_is(2**16)),
    "another usual bin": with_fields(usual=first_is(99)),
    "a column less": with_fields(bundles=short),
    "a column twice": with_fields(bundles=lambda bundles: bundles * 2),
    "another feature": with_fields(bundles=lambda bundles: (ints(50), *bundles[1:])),
    "a negative feature": with_fields(bundles=lambda bundles: (ints(-1), *bundles[1:])),
    "an empty column": with_fields(bundles=lambda bundles: (*bundles, ints())),
    "a matrix of features": with_fields(bundles=lambda bundles: tuple(map(stacked, bundles))),
    "matrices": with_fields(values=stacked, missing=stacked, usual=stacked),
    "numbers without a list": with_fields(values=single, missing=single, usual=single),
    "nothing but rows": with_fields(values=set_to(), missing=set_to(), usual=set_to()),
}


def test_columns_that_cannot_be_are_not_borrowed(honest: Make, refuses: Make) -> None:
    refuses(honest("xgb"), "bank", each(messages.LentColumns, LAYOUTS), ProtocolError, "telco")


MERGED = {
    "too few ends": with_fields(ends=short),
    "too many ends": with_fields(ends=longer),
    "ends in a matrix": with_fields(ends=stacked),
    "too few joined": with_fields(missing_joined=short),
    "too many joined": with_fields(missing_joined=longer),
}
SIDES = {
    "too few sides": with_fields(sides=short),
    "too many sides": with_fields(sides=longer),
    "sides in a matrix": with_fields(sides=stacked),
    "all to the left": with_fields(sides=np.zeros_like),
    "the other way round": with_fields(sides=np.invert),
}
NUMBERS = {
    "too few splits": with_fields(numbers=short),
    "too many splits": with_fields(numbers=longer),
    "a negative split": with_fields(numbers=first_is(-1)),
    "a huge split": with_fields(numbers=first_is(HUGE)),
    "a split that was not asked for": with_fields(numbers=lambda n: n + len(n)),
    "splits in a matrix": with_fields(numbers=stacked),
    "splits in pairs": with_fields(numbers=lambda numbers: np.stack([numbers, numbers], axis=1)),
    "a split without a list": with_fields(numbers=single),
}


def test_groups_that_do_not_fit_are_refused(honest: Make, refuses: Make) -> None:
    refuses(honest("xgb"), "bank", each(messages.Merged, MERGED), ProtocolError, "telco")


@pytest.mark.parametrize("hidden", [False, True])
def test_answers_that_do_not_fit_are_refused(hidden: bool, honest: Make, refuses: Make) -> None:
    kind = messages.SplitSidesForAll if hidden else messages.SplitSides
    run = honest("xgb", hide_nodes=hidden)
    refuses(run, "bank", each(kind, SIDES), ProtocolError, "telco")
    refuses(run, "bank", each(kind, NUMBERS), ProtocolError, f"{kind.__name__} from telco")


def test_with_other_engines_answers_are_checked_too(parameters_for: Make, together: Make) -> None:
    """And all end with an error, so that nobody is left waiting."""
    for engine, change in (("shares", SIDES["the other way round"]), ("paillier", NUMBERS["a huge split"])):
        with pytest.raises(ProtocolError, match="telco"):
            together(parameters_for("xgb"), engine=engine, tamper={"telco": changing(messages.SplitSides, change)})


def test_an_answer_of_another_kind_is_refused(honest: Make, refuses: Make) -> None:
    change = {"for all": lambda opened: messages.SplitSidesForAll(opened.numbers, opened.sides)}
    cases = each(messages.SplitSides, change)
    refuses(honest("xgb"), "bank", cases, ProtocolError, r"bank.* SplitSides .*telco.*SplitSidesForAll")


# failing for other reasons


@pytest.mark.parametrize(
    ("engine", "party", "kind"),
    [
        ("plain", "bank", messages.Trees),
        ("shares", "bank", messages.Level),
        ("paillier", "bank", messages.SplitRequest),
        ("shares", "telco", messages.Merged),
        ("paillier", "telco", messages.Merged),
        ("plain", "telco", messages.SplitSides),
    ],
)
def test_whoever_fails_takes_the_others_along(
    engine: str, party: str, kind: type, parameters_for: Make, together: Make
) -> None:
    def fails(message: Any) -> Any:
        raise InputError("a reason of its own")

    with pytest.raises(InputError, match="a reason of its own") as caught:
        together(parameters_for("xgb"), engine=engine, tamper={party: changing(kind, fails)})
    notes = "\n".join(caught.value.__notes__)
    assert all(f"{other}: " in notes for other in {"bank", "telco", "coordinator"} - {party})
    assert "a reason of its own" not in notes

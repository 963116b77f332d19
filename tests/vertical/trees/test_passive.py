"""What parties refuse: an active party that asks for what cannot be, a passive one that answers so.

All end with an error that names who sent it; nobody is left waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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


def with_fields(**change: Change) -> Change:
    return lambda message: replace(message, **{name: f(getattr(message, name)) for name, f in change.items()})


def in_tree(**change: Change) -> Change:
    """Change the first tree of a level."""
    return lambda level: replace(level, trees=(with_fields(**change)(level.trees[0]), *level.trees[1:]))


def set_to(*values: int) -> Change:
    return lambda _: ints(*values)


def first_is(value: int) -> Change:
    return lambda old: np.concatenate([ints(value), old[1:]])


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


# an active party that asks for what cannot be

BEGINNINGS = {
    "rows": (with_fields(rows=lambda rows: rows + 1), "bank has 161 rows and telco 160: align first"),
    "fewer rows": (with_fields(rows=lambda rows: -rows), "bank has -160 rows and telco 160: align first"),
    "a short name": (
        with_fields(name=lambda name: name[1:]),
        "invalid Begin from bank: the model's name is not 16 bytes long",
    ),
}


@pytest.mark.parametrize("case", BEGINNINGS)
def test_beginnings_that_do_not_fit_are_refused(case: str, parameters_for: Make, together: Make) -> None:
    change, text = BEGINNINGS[case]
    with pytest.raises(ProtocolError, match=text):
        together(parameters_for("xgb"), engine="plain", tamper={"bank": changing(messages.Begin, change)})


@pytest.mark.parametrize("sums", [0, -1, 1, 3, 10**6])
def test_another_number_of_sums_than_the_learner_needs_is_refused(
    sums: int, parameters_for: Make, together: Make
) -> None:
    """Each is a question about every row."""
    change = changing(messages.Trees, with_fields(sums=lambda _: sums))
    with pytest.raises(ProtocolError, match=f"invalid Trees from bank: {sums} sums, where the learner needs 2"):
        together(parameters_for("xgb"), engine="plain", tamper={"bank": change})


BAGS = {
    "too few trees": with_fields(taking_part=short),
    "too many trees": with_fields(taking_part=lambda parts: parts * 2),
    "too few rows": with_fields(taking_part=lambda parts: tuple(map(short, parts))),
    "too many rows": with_fields(taking_part=lambda parts: tuple(map(longer, parts))),
    "a matrix": with_fields(taking_part=lambda parts: tuple(map(stacked, parts))),
}


@pytest.mark.parametrize("case", BAGS)
@pytest.mark.parametrize("learner", ["xgb", "rf"])
def test_bags_that_do_not_fit_are_refused(case: str, learner: str, parameters_for: Make, together: Make) -> None:
    change = changing(messages.Bags, BAGS[case])
    with pytest.raises(ProtocolError, match=r"(invalid Bags from bank: for|bank sent sides for another number of)"):
        together(parameters_for(learner, hide_bags=False), engine="plain", tamper={"bank": change})


IMPOSSIBLE = "invalid Level from bank: unknown or repeated nodes"
ANOTHER = "invalid number of a tree from bank"
TOGETHER = "invalid Level from bank: repeated trees, or roots beside other nodes"
LEVELS: dict[str, tuple[int, Change, str]] = {
    "no root": (
        0,
        in_tree(parents=set_to(0), firsts=set_to(1)),
        "invalid Level from bank: ",
    ),
    "the root twice": (0, in_tree(parents=twice, firsts=twice, asked=twice), IMPOSSIBLE),
    "the root is another": (0, in_tree(firsts=set_to(1)), IMPOSSIBLE),
    "the root's second": (0, in_tree(asked=set_to(1)), IMPOSSIBLE),
    "nothing": (0, in_tree(parents=set_to(), firsts=set_to(), asked=set_to()), IMPOSSIBLE),
    "no trees": (0, with_fields(trees=lambda trees: ()), TOGETHER),
    "a tree twice": (0, with_fields(trees=lambda trees: trees * 2), TOGETHER),
    "another tree": (0, in_tree(tree=lambda tree: tree + 99), ANOTHER),
    "a negative tree": (0, in_tree(tree=lambda _: -1), ANOTHER),
    "a huge tree": (1, in_tree(tree=lambda _: 2**80), ANOTHER),
    "an unknown parent": (1, in_tree(parents=first_is(5)), IMPOSSIBLE),
    "a huge parent": (1, in_tree(parents=first_is(HUGE)), IMPOSSIBLE),
    "a negative parent": (2, in_tree(parents=lambda p: np.append(p[:-1], np.int32(-2))), IMPOSSIBLE),
    "rows outside as a parent": (2, in_tree(parents=lambda p: np.append(p[:-1], np.int32(-1))), IMPOSSIBLE),
    "a parent twice": (
        2,
        in_tree(
            parents=lambda p: ints(p[0], p[0]), firsts=lambda f: ints(f[0], f[0] + 2), asked=lambda a: ints(a[0], a[0])
        ),
        IMPOSSIBLE,
    ),
    "children that are there": (2, in_tree(firsts=lambda firsts: firsts * 0 + 1), IMPOSSIBLE),
    "children that overlap": (
        2,
        in_tree(parents=lambda p: ints(1, 2), firsts=lambda f: ints(f[0], f[0] + 1), asked=lambda a: ints(0, 0)),
        IMPOSSIBLE,
    ),
    "negative children": (1, in_tree(firsts=first_is(-3)), IMPOSSIBLE),
    "huge children": (1, in_tree(firsts=first_is(HUGE)), IMPOSSIBLE),
    "children beyond all numbers": (1, in_tree(firsts=first_is(HUGE + 1)), IMPOSSIBLE),
    "a third child": (1, in_tree(asked=first_is(2)), IMPOSSIBLE),
    "a negative child": (1, in_tree(asked=first_is(-1)), IMPOSSIBLE),
    "too few children": (1, in_tree(firsts=short), IMPOSSIBLE),
    "too few that are asked": (1, in_tree(asked=short), IMPOSSIBLE),
    "parents in a matrix": (1, in_tree(parents=stacked), IMPOSSIBLE),
    "children in a matrix": (1, in_tree(firsts=stacked), IMPOSSIBLE),
    "all in matrices": (1, in_tree(parents=stacked, firsts=stacked, asked=stacked), IMPOSSIBLE),
    "numbers without a list": (1, in_tree(parents=single, firsts=single, asked=single), IMPOSSIBLE),
    "too few sides": (1, in_tree(sides=short), "bank sent sides for another number of rows"),
    "too many sides": (1, in_tree(sides=longer), "bank sent sides for another number of rows"),
    "no sides": (1, in_tree(sides=lambda sides: sides[:0]), "bank sent sides for another number of rows"),
    "sides in a matrix": (1, in_tree(sides=stacked), "bank sent sides for another number of rows"),
    "a root beside others": (
        1,
        lambda level: replace(
            level, trees=(replace(level.trees[0], parents=ints(-1), firsts=ints(0), asked=ints(0)), *level.trees[1:])
        ),
        TOGETHER,
    ),
}


@pytest.mark.parametrize("min_rows", [1, 6])
@pytest.mark.parametrize("case", LEVELS)
def test_levels_that_cannot_be_are_refused(case: str, min_rows: int, parameters_for: Make, together: Make) -> None:
    which, change, text = LEVELS[case]
    parameters = parameters_for("xgb", 3, min_rows=min_rows)
    with pytest.raises(ProtocolError, match=text):
        together(parameters, engine="plain", tamper={"bank": changing(messages.Level, change, which=which)})


HIDDEN = "invalid HiddenLevel from bank: "
HIDDEN_LEVELS: dict[str, tuple[Change, str]] = {
    "another tree": (with_fields(trees=first_is(99)), ANOTHER),
    "a negative tree": (with_fields(trees=first_is(-1)), ANOTHER),
    "fewer nodes than trees": (with_fields(nodes=short), HIDDEN),
    "no nodes": (with_fields(nodes=first_is(0)), HIDDEN),
    "negative nodes": (with_fields(nodes=first_is(-1)), HIDDEN),
    "more nodes than rows": (with_fields(nodes=first_is(ROWS + 1)), HIDDEN),
    "a tree twice": (with_fields(trees=lambda trees: trees * 0), HIDDEN),
    "nothing": (with_fields(trees=set_to(), nodes=set_to()), HIDDEN),
    "matrices": (with_fields(trees=stacked, nodes=stacked), HIDDEN),
    "numbers without a list": (with_fields(trees=single, nodes=single), HIDDEN),
}


@pytest.mark.parametrize("case", HIDDEN_LEVELS)
def test_hidden_levels_that_cannot_be_are_refused(case: str, parameters_for: Make, together: Make) -> None:
    change, text = HIDDEN_LEVELS[case]
    parameters = parameters_for("xgb", 3, hide_nodes=True)
    with pytest.raises(ProtocolError, match=text):
        together(parameters, engine="plain", tamper={"bank": changing(messages.HiddenLevel, change)})


NOT_THERE = r"invalid Open(ForAll)? from bank: a split of a column or bin that is not there"
NOT_TOGETHER = r"invalid Open(ForAll)? from bank: no splits, or lists of different length"
SPLITS: dict[str, tuple[Change, str]] = {
    "another column": (with_fields(features=first_is(6)), NOT_THERE),
    "a negative column": (with_fields(features=first_is(-1)), NOT_THERE),
    "another bin": (with_fields(places=first_is(32)), NOT_THERE),
    "a negative bin": (with_fields(places=first_is(-1)), NOT_THERE),
    "too few columns": (with_fields(features=short), NOT_TOGETHER),
    "too many bins": (with_fields(places=longer), NOT_TOGETHER),
    "nothing": (
        lambda message: type(message)(**{name: ints() for name in type(message).__dataclass_fields__}),
        NOT_TOGETHER,
    ),
    "matrices": (
        lambda message: type(message)(**{name: stacked(value) for name, value in vars(message).items()}),
        NOT_TOGETHER,
    ),
    "numbers without a list": (
        lambda message: type(message)(**{name: single(value) for name, value in vars(message).items()}),
        NOT_TOGETHER,
    ),
}


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("case", SPLITS)
def test_splits_that_are_not_there_are_refused(case: str, hidden: bool, parameters_for: Make, together: Make) -> None:
    change, text = SPLITS[case]
    kind = messages.OpenForAll if hidden else messages.Open
    parameters = parameters_for("gbdt", hide_nodes=hidden)
    with pytest.raises(ProtocolError, match=text):
        together(parameters, engine="plain", tamper={"bank": changing(kind, change)})


NO_NODE = "invalid Open from bank: a node that "
NODES: dict[str, tuple[Change, str]] = {
    "another tree": (with_fields(trees=first_is(99)), ANOTHER),
    "a negative tree": (with_fields(trees=first_is(-1)), ANOTHER),
    "a node to come": (with_fields(nodes=first_is(77)), NO_NODE),
    "a huge node": (with_fields(nodes=first_is(HUGE)), NO_NODE),
    "rows outside": (with_fields(nodes=first_is(-1)), NO_NODE),
    "a negative node": (with_fields(nodes=first_is(-2)), NO_NODE),
    "a node that was split before": (with_fields(nodes=first_is(0)), NO_NODE),
}


@pytest.mark.parametrize("others", [{}, {"min_rows": 1}, {"min_rows": 1, "hide_bags": False}, {"hide_bags": False}])
@pytest.mark.parametrize("case", NODES)
def test_nodes_that_are_not_there_are_not_opened(
    case: str, others: dict[str, Any], parameters_for: Make, together: Make
) -> None:
    change, text = NODES[case]
    parameters = parameters_for("rf", 2, column_share=1.0, trees=1, depth=4, **others)
    with pytest.raises(ProtocolError, match=text):
        together(parameters, "the active without columns", "plain", tamper={"bank": to_telco(change)})


def to_telco(change: Change) -> Callable[[str, Any], Any]:
    """Change the first Open to it that comes after another one."""
    later = changing(messages.Open, change, which=1)
    return lambda peer, message: later(peer, message) if peer == "telco" else message


def test_messages_of_the_other_way_of_growing_have_no_place(parameters_for: Make, together: Make) -> None:
    hidden = messages.HiddenLevel(ints(0), ints(1))
    change = changing(messages.Level, lambda _: hidden)
    with pytest.raises(ProtocolError, match="telco expected Level or Open or Grown from bank, got"):
        together(parameters_for("xgb"), engine="plain", tamper={"bank": change})
    level = messages.Level((messages.TreeLevel(0, ints(-1), ints(0), ints(0), np.empty(0, np.uint8)),))
    change = changing(messages.HiddenLevel, lambda _: level)
    with pytest.raises(ProtocolError, match="telco expected HiddenLevel or OpenForAll or Grown from bank"):
        together(parameters_for("xgb", hide_nodes=True), engine="plain", tamper={"bank": change})


# a passive party that answers what cannot be

LENT = "invalid LentColumns from telco: "
LAYOUTS: dict[str, tuple[Change, str]] = {
    "rows": (with_fields(rows=lambda rows: rows - 1), "telco has 159 rows and bank 160: align first"),
    "too few sizes": (with_fields(values=short), LENT),
    "too many usual bins": (with_fields(usual=longer), LENT),
    "no bins": (with_fields(values=first_is(0)), LENT),
    "negative bins": (with_fields(values=first_is(-4)), LENT),
    "too many bins": (with_fields(values=first_is(2**16)), LENT),
    "another usual bin": (with_fields(usual=first_is(99)), LENT),
    "a column less": (with_fields(bundles=short), LENT),
    "a column twice": (with_fields(bundles=lambda bundles: bundles * 2), LENT),
    "another feature": (with_fields(bundles=lambda bundles: (ints(50), *bundles[1:])), LENT),
    "a negative feature": (with_fields(bundles=lambda bundles: (ints(-1), *bundles[1:])), LENT),
    "an empty column": (with_fields(bundles=lambda bundles: (*bundles, ints())), LENT),
    "a matrix of features": (with_fields(bundles=lambda bundles: tuple(map(stacked, bundles))), LENT),
    "matrices": (with_fields(values=stacked, missing=stacked, usual=stacked), LENT),
    "numbers without a list": (with_fields(values=single, missing=single, usual=single), LENT),
    "nothing but rows": (with_fields(values=set_to(), missing=set_to(), usual=set_to()), LENT),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_columns_that_cannot_be_are_not_borrowed(case: str, parameters_for: Make, together: Make) -> None:
    change, text = LAYOUTS[case]
    with pytest.raises(ProtocolError, match=text):
        together(parameters_for("xgb"), engine="plain", tamper={"telco": changing(messages.LentColumns, change)})


SIDES = "telco sent sides for another number of rows than there are"
WRONG = "telco Opened sides that do not fit the sums that it showed"
SPLITS_OF = r"invalid Opened(ForAll)? from telco: (another number of splits|a split's number is out of range)"
ANSWERS: dict[str, tuple[type, bool, Change, str]] = {
    "too few ends": (messages.Merged, False, with_fields(ends=short), "telco sent "),
    "too many ends": (messages.Merged, False, with_fields(ends=longer), "telco sent "),
    "ends in a matrix": (messages.Merged, False, with_fields(ends=stacked), "telco sent "),
    "too few joined": (messages.Merged, False, with_fields(missing_joined=short), "telco sent "),
    "too many joined": (messages.Merged, False, with_fields(missing_joined=longer), "telco sent "),
    "too few sides": (messages.Opened, False, with_fields(sides=short), SIDES),
    "too many sides": (messages.Opened, False, with_fields(sides=longer), SIDES),
    "sides in a matrix": (messages.Opened, False, with_fields(sides=stacked), SIDES),
    "too few splits": (messages.Opened, False, with_fields(numbers=short), SPLITS_OF),
    "too many splits": (messages.Opened, False, with_fields(numbers=longer), SPLITS_OF),
    "a negative split": (messages.Opened, False, with_fields(numbers=first_is(-1)), SPLITS_OF),
    "a huge split": (messages.Opened, False, with_fields(numbers=first_is(HUGE)), SPLITS_OF),
    "a split that was not asked for": (messages.Opened, False, with_fields(numbers=lambda n: n + len(n)), SPLITS_OF),
    "a huge split of all": (messages.OpenedForAll, True, with_fields(numbers=first_is(HUGE)), SPLITS_OF),
    "splits in a matrix": (messages.Opened, False, with_fields(numbers=stacked), SPLITS_OF),
    "splits in pairs": (
        messages.Opened,
        False,
        with_fields(numbers=lambda numbers: np.stack([numbers, numbers], axis=1)),
        SPLITS_OF,
    ),
    "a split without a list": (messages.Opened, False, with_fields(numbers=single), SPLITS_OF),
    "all to the left": (messages.Opened, False, with_fields(sides=np.zeros_like), WRONG),
    "the other way round": (messages.Opened, False, with_fields(sides=np.invert), WRONG),
    "all the other way round": (messages.OpenedForAll, True, with_fields(sides=np.invert), WRONG),
    "too few sides of all": (messages.OpenedForAll, True, with_fields(sides=short), SIDES),
    "too many sides of all": (messages.OpenedForAll, True, with_fields(sides=longer), SIDES),
    "too few splits of all": (
        messages.OpenedForAll,
        True,
        with_fields(numbers=short),
        SPLITS_OF,
    ),
    "splits of all in a matrix": (
        messages.OpenedForAll,
        True,
        with_fields(numbers=stacked),
        SPLITS_OF,
    ),
}


@pytest.mark.parametrize("engine", ["plain", "shares"])
@pytest.mark.parametrize("case", ANSWERS)
def test_answers_that_do_not_fit_are_refused(case: str, engine: str, parameters_for: Make, together: Make) -> None:
    kind, hidden, change, text = ANSWERS[case]
    parameters = parameters_for("xgb", hide_nodes=hidden)
    with pytest.raises(ProtocolError, match=text):
        together(parameters, engine=engine, tamper={"telco": changing(kind, change)})


@pytest.mark.parametrize("engine", ["plain", "shares", "paillier"])
def test_an_answer_of_another_kind_is_refused(engine: str, parameters_for: Make, together: Make) -> None:
    change = changing(messages.Opened, lambda opened: messages.OpenedForAll(opened.numbers, opened.sides))
    with pytest.raises(ProtocolError, match="bank expected Opened from telco, got"):
        together(parameters_for("xgb"), engine=engine, tamper={"telco": change})


# failing for other reasons


@pytest.mark.parametrize("engine", ["plain", "shares", "paillier"])
@pytest.mark.parametrize(
    ("party", "kind"),
    [
        ("bank", messages.Trees),
        ("bank", messages.Level),
        ("bank", messages.Open),
        ("telco", messages.Merged),
        ("telco", messages.Opened),
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
    assert all(f"then {other}: " in notes for other in {"bank", "telco", "coordinator"} - {party})
    assert "a reason of its own" not in notes

"""What a passive party refuses of an active one that asks for more than trees of the plan need."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unpooled.errors import ProtocolError, RefusedError
from unpooled.secure.calls import Inputs
from unpooled.secure.product import finish, product
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.binning import Binned
from unpooled.vertical.trees.budget import groups_of, leaves_of, nodes_asked, splits_of
from unpooled.vertical.trees.bundles import Feature, Layout
from unpooled.vertical.trees.grower.limits import Growth, HiddenGrowth, check_growth, check_open, check_trees
from unpooled.vertical.trees.grower.node_bins import NodeBins
from unpooled.vertical.trees.grower.node_rows import Families, root_families, rows_in_bags
from unpooled.vertical.trees.grower.products import layout_of, tree_call
from unpooled.vertical.trees.parameters import (
    AnyTrees,
    ForestParameters,
    GbdtParameters,
    LgbParameters,
    XgbParameters,
    questions_of,
    sums_of,
)

Make = Callable[..., Any]

TEAM: Any = SimpleNamespace(active="bank", session=SimpleNamespace(party="telco"))
NAME = bytes(16)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


# how large trees can become


@pytest.mark.parametrize(
    ("parameters", "rows", "leaves", "asked"),
    [
        (GbdtParameters(depth=3), 10_000, 8, [1, 1, 2]),
        (GbdtParameters(depth=6), 10_000, 64, [1, 1, 2, 4, 8, 16]),
        (GbdtParameters(depth=6, min_rows=10), 90, 9, [1, 1, 2, 3, 3, 3]),
        (GbdtParameters(depth=6, min_rows=10, hide_nodes=True), 90, 9, [1, 1, 2, 3, 3, 3]),
        (GbdtParameters(depth=3, min_rows=10), 5, 1, [1, 1, 1]),
        (LgbParameters(depth=6, leaves=5), 10_000, 5, [1] * 4),
        (LgbParameters(depth=2, leaves=31), 10_000, 4, [1] * 2),
        (LgbParameters(depth=6, leaves=31, min_rows=10), 40, 4, [1] * 3),
    ],
)
def test_trees_grow_as_large_as_plan_and_rows_allow(
    parameters: AnyTrees, rows: int, leaves: int, asked: list[int]
) -> None:
    assert leaves_of(parameters, rows) == leaves
    assert nodes_asked(parameters, rows) == asked
    assert sum(asked) * sums_of(parameters) * parameters.trees <= questions_of(parameters)
    most = leaves - 1 if parameters.hide_nodes else min(parameters.depth, leaves - 1)
    assert splits_of(parameters, rows) == most


@pytest.mark.parametrize(
    ("learner", "hidden", "engine"),
    [
        ("gbdt", False, "shares"),
        ("gbdt", True, "paillier"),
        ("gbdt", False, "plain"),
        ("lgb", True, "shares"),
        ("lgb", False, "paillier"),
        ("lgb", True, "plain"),
        ("rf", False, "shares"),
        ("rf", True, "shares"),
        ("rf", False, "paillier"),
    ],
)
def test_an_honest_run_needs_no_more_bits_than_were_reckoned(
    learner: str, hidden: bool, engine: str, parameters_for: Make, together: Make
) -> None:
    """And the reckoning is no wild guess."""
    run = together(parameters_for(learner, hide_nodes=hidden), engine=engine, predicts=False)
    answered, needed = run.bits["telco"]
    assert needed / 4 < answered <= needed


# groups of trees


def lent(ask: Callable[[Any, Any, int], None], groups: int | None = None) -> Callable[[Any, Any], None]:
    """A bank that begins as it should and then goes its own way."""

    def bank(team: Any, data: Any) -> None:
        lent_columns = team.session.recv("telco", messages.LentColumns)
        team.session.send("telco", messages.Begin(NAME, len(data.matrix), 2 if groups is None else groups))
        ask(team, layout_of(lent_columns, "telco", 32), len(data.matrix))
        team.session.send("telco", messages.Finished())
        finish(team.products)

    return bank


def send_trees(team: Any, *names: str, prefix: bytes = NAME, group: int = 1) -> messages.Trees:
    trees = messages.Trees(group, tuple(f"{prefix.hex()} {name}" for name in names), 2)
    team.session.send("telco", trees)
    return trees


def run_with(together: Make, parameters: AnyTrees, bank: Callable[[Any, Any], None]) -> Any:
    return together(parameters, engine="plain", own={"bank": bank}, predicts=False)


@pytest.mark.parametrize(
    ("parameters", "models", "groups"),
    [
        (GbdtParameters(trees=7, lockstep=4), 1, 7),
        (GbdtParameters(trees=7, lockstep=4), 5, 14),
        (XgbParameters(trees=7, classes=9, lockstep=4), 1, 21),
        (ForestParameters(trees=7, lockstep=4), 1, 2),
        (ForestParameters(trees=7, lockstep=4), 3, 6),
        (GbdtParameters(trees=7, lockstep=6, hide_nodes=True), 5, 35),
        (GbdtParameters(trees=7, lockstep=6, hide_nodes=True), 11, 42),
        (GbdtParameters(trees=7, lockstep=6, hide_nodes=True, patience=2), 5, 21),
        (ForestParameters(trees=7, lockstep=6, hide_nodes=True), 1, 4),
        (GbdtParameters(trees=7, lockstep=4, hide_nodes=True, hide_bags=False), 5, 14),
    ],
)
def test_the_plan_says_how_many_groups_there_are(parameters: AnyTrees, models: int, groups: int) -> None:
    assert groups_of(parameters, models) == groups


@pytest.mark.parametrize("groups", [-1, 0, 1, 3, 2**40])
def test_another_number_of_groups_is_refused(groups: int, parameters_for: Make, together: Make) -> None:
    bank = lent(lambda team, layout, rows: None, groups)
    with pytest.raises(ProtocolError, match=rf"Begin from bank.* {groups} .* 2"):
        run_with(together, parameters_for("xgb"), bank)


def test_groups_come_to_an_end(parameters_for: Make, together: Make) -> None:
    def grow_three(team: Any, layout: Any, rows: int) -> None:
        for number in range(3):
            trees = send_trees(team, f"tree {number}", group=number + 1)
            team.session.send("telco", messages.Grown(number + 1, trees.names))

    with pytest.raises(RefusedError, match=r"telco.*bank"):
        run_with(together, parameters_for("rf", trees=11), lent(grow_three))  # trees are left, groups are not


GROUPS: dict[str, tuple[tuple[str, ...], str]] = {
    "empty": ((), " 0 .*1 to 10"),
    "too large": (tuple(f"{NAME.hex()} {number}" for number in range(11)), " 11 .*1 to 10"),
    "the same twice": ((f"{NAME.hex()} a",) * 2, "names"),
    "of another model": ((f"{bytes(15).hex()}01 a",), "names"),
    "without a name": (("",), "names"),
    "with a long name": ((f"{NAME.hex()} {'a' * 100}",), "names"),
    "with an unprintable name": ((f"{NAME.hex()} a\n",), "names"),
}


@pytest.mark.parametrize("case", GROUPS)
def test_groups_that_no_honest_party_grows_are_refused(case: str) -> None:
    names, text = GROUPS[case]
    with pytest.raises(ProtocolError, match=rf"Trees from bank.*{text}"):
        check_trees(TEAM, XgbParameters(lockstep=10), messages.Trees(1, names, 2), NAME)


def test_an_empty_group_is_refused_before_it_costs_a_page(parameters_for: Make, together: Make) -> None:
    with pytest.raises(ProtocolError, match=r"Trees from bank.* 0"):
        run_with(together, parameters_for("xgb"), lent(lambda team, layout, rows: send_trees(team)))


def test_trees_of_one_forest_share_gradients_where_the_plan_has_it_so() -> None:
    same = messages.Trees(1, (f"{NAME.hex()} forest 0",) * 3, 2)
    check_trees(TEAM, ForestParameters(bootstrap=False, hide_bags=False), same, NAME)
    with pytest.raises(ProtocolError, match="Trees from bank"):
        check_trees(TEAM, ForestParameters(bootstrap=False), same, NAME)


@pytest.mark.parametrize("forget", [(), ("other",), (f"{NAME.hex()} tree", "other")])
def test_gradients_are_forgotten_with_their_trees(
    forget: tuple[str, ...], parameters_for: Make, together: Make
) -> None:
    """Whoever lets them pile up would use up the memory of the others."""

    def keep(team: Any, layout: Any, rows: int) -> None:
        send_trees(team, "tree")
        team.session.send("telco", messages.Grown(1, forget))

    with pytest.raises(ProtocolError, match="Grown from bank"):
        run_with(together, parameters_for("xgb"), lent(keep))


def some_groups(*numbers: int) -> Callable[[Any, Any, int], None]:
    def begin(team: Any, layout: Any, rows: int) -> None:
        for number in numbers:
            send_trees(team, f"tree {number}", group=number)

    return begin


def a_step(team: Any, layout: Any, rows: int) -> None:
    send_trees(team, "tree")
    team.session.send("telco", messages.HiddenLevel(2, ints(0), ints(1)))


def an_end(team: Any, layout: Any, rows: int) -> None:
    send_trees(team, "tree")
    team.session.send("telco", messages.Grown(2, ()))


OF_GROUPS: dict[str, tuple[Callable[[Any, Any, int], None], str]] = {
    "before the first": (some_groups(0), "Trees .*number of a group"),
    "after the last": (some_groups(7), "Trees .*number of a group"),
    "twice": (some_groups(1, 1), "Trees .*number of a group"),
    "too many": (some_groups(1, 2, 3, 4, 5, 6), "Trees .*too many groups"),
    "a step of another": (a_step, "HiddenLevel .*no such group"),
    "the end of another": (an_end, "Grown .*no such group"),
    "an end of all before that of one": (some_groups(1), "Finished .*still growing"),
}


@pytest.mark.parametrize("case", OF_GROUPS)
def test_groups_that_take_turns_are_told_apart(case: str, parameters_for: Make, together: Make) -> None:
    bank, text = OF_GROUPS[case]
    wrong = text.replace(" ", " from bank", 1)
    with pytest.raises(ProtocolError, match=f"invalid {wrong}"):
        run_with(together, parameters_for("gbdt", trees=6, lockstep=2, hide_nodes=True), lent(bank, 6))


# nodes in the open


def asks(parameters: AnyTrees, *asked: Families, rows: int = 100) -> None:
    """A tree of so many rows is asked about, step by step."""
    growth = Growth.of(1, 99)
    for families in asked:
        check_growth(TEAM, parameters, growth, np.array([rows]), families)


def family(parent: int, first: int) -> Families:
    return Families(ints(0), ints(parent), ints(first), ints(0))


ROOT_OF_TREE = root_families(ints(0))


def test_the_root_is_looked_at_once() -> None:
    asks(GbdtParameters(), ROOT_OF_TREE)
    for asked in ((ROOT_OF_TREE, ROOT_OF_TREE), (family(0, 1),)):
        with pytest.raises(ProtocolError, match=r"Level from bank.*root"):
            asks(GbdtParameters(), *asked)


def test_the_root_is_not_asked_about_again_in_a_run(parameters_for: Make, together: Make) -> None:
    """Each time would have been as good as a tree, with all rows to choose from."""
    parameters = parameters_for("xgb", min_rows=1)

    def twice(team: Any, layout: Any, rows: int) -> None:
        trees = send_trees(team, "tree")
        for _ in range(2):
            root = messages.Level(ints(0), ints(-1), ints(0), ints(0), np.empty(0, np.uint8))
            team.session.send("telco", root)
            call = tree_call(team, "telco", layout, parameters, trees, 0, (rows, 1), bins=NAME.hex())
            product(team.products, [(call, Inputs(y=np.zeros((rows, 2), np.int64), nodes=np.zeros(rows, np.int32)))])

    with pytest.raises(ProtocolError, match=r"Level from bank.*root"):
        run_with(together, parameters, lent(twice))


def test_no_node_is_looked_at_that_is_too_deep() -> None:
    asked = ROOT_OF_TREE, family(0, 1), family(1, 3)
    asks(GbdtParameters(depth=2), *asked[:2])
    with pytest.raises(RefusedError, match=r"telco.*nodes.*bank"):
        asks(GbdtParameters(depth=2), *asked)


def test_no_more_leaves_than_the_plan_names() -> None:
    parameters = LgbParameters(leaves=4, depth=10)
    asked = ROOT_OF_TREE, family(0, 1), family(1, 3), family(2, 5)
    asks(parameters, *asked[:3], rows=1000)
    with pytest.raises(RefusedError, match=r"telco.*nodes.*bank"):
        asks(parameters, *asked, rows=1000)


def test_a_level_that_has_passed_is_not_opened_any_more() -> None:
    """How the bins of its nodes were shown is no longer known; leaf by leaf, any leaf may be split."""
    layout = Layout((Feature(3, missing=False, usual=0),), ((0,),))
    rows = rows_in_bags(Binned(*[np.zeros((60, 1), np.uint8)] * 2, layout), [None], 8, cut=False)
    request = messages.SplitRequest(*(ints(value) for value in (0, 1, 0, 0, 0)))
    for last_only in (True, False):
        growth, bins = Growth.of(1, 8), NodeBins.of(2, rows, last_only=last_only)
        for asked in (ROOT_OF_TREE, family(0, 1), family(2, 3)):
            check_growth(TEAM, GbdtParameters(min_rows=2), growth, rows.sizes, asked)
            bins.group(asked, np.full((1, 3), 20 if asked.siblings == 1 else 5))
        if last_only:
            with pytest.raises(ProtocolError, match=r"SplitRequest from bank.*passed"):
                check_open(growth, bins, request, np.zeros(1, bool), "bank")
        else:
            check_open(growth, bins, request, np.zeros(1, bool), "bank")
            with pytest.raises(ProtocolError, match=r"SplitRequest from bank.*before"):
                check_open(growth, bins, request, np.zeros(1, bool), "bank")


def test_no_split_of_anybodys_leaves_few_rows_on_a_side(parameters_for: Make, together: Make) -> None:
    """The bank says that by a column of its own a single row fell to the right."""
    parameters = parameters_for("xgb", min_rows=6)

    def one_row(team: Any, layout: Any, rows: int) -> None:
        trees, sides = send_trees(team, "tree"), np.zeros(rows, bool)
        sides[7] = True
        root = messages.Level(ints(0), ints(-1), ints(0), ints(0), np.empty(0, np.uint8))
        team.session.send("telco", root)
        call = tree_call(team, "telco", layout, parameters, trees, 0, (rows, 1), bins=NAME.hex())
        product(team.products, [(call, Inputs(y=np.zeros((rows, 2), np.int64), nodes=np.zeros(rows, np.int32)))])
        team.session.recv("telco", messages.Merged)
        split = messages.Level(ints(0), ints(0), ints(1), ints(1), np.packbits(sides))
        team.session.send("telco", split)
        team.session.recv("telco", messages.Merged)

    with pytest.raises(RefusedError, match=r"telco.* 6"):
        run_with(together, parameters, lent(one_row))


# hidden nodes


def test_a_hidden_tree_has_no_more_nodes_than_the_plan_says() -> None:
    parameters, growth = GbdtParameters(depth=3, hide_nodes=True), HiddenGrowth()
    growth.show(TEAM, parameters, [(0, 1, 1000)])
    growth.show(TEAM, parameters, [(0, 1, 1000)])
    growth.show(TEAM, parameters, [(0, 2, 1000)])
    with pytest.raises(ProtocolError, match="HiddenLevel from bank"):
        growth.show(TEAM, parameters, [(0, 1, 1000)])


@pytest.mark.parametrize("asked", [[2], [1, 2], [1, 1, 3], [1, 1, 2, 5], [0], [-1], [1, 0]])
def test_each_step_of_a_hidden_tree_follows_from_the_one_before(asked: list[int]) -> None:
    parameters, growth = GbdtParameters(depth=6, hide_nodes=True), HiddenGrowth()
    for nodes in asked[:-1]:
        growth.show(TEAM, parameters, [(0, nodes, 1000)])
    with pytest.raises(ProtocolError, match="HiddenLevel from bank"):
        growth.show(TEAM, parameters, [(0, asked[-1], 1000)])


def test_hidden_splits_are_opened_between_levels_and_for_nodes_that_were_shown() -> None:
    parameters, growth = GbdtParameters(depth=3, hide_nodes=True), HiddenGrowth()

    def refused(splits: int, most: int) -> None:
        with pytest.raises(RefusedError, match=rf"telco.* {most} splits.* bank.* {splits}"):
            growth.open(TEAM, parameters, splits, 1000)

    refused(1, 0)  # nothing was shown
    growth.show(TEAM, parameters, [(0, 1, 1000), (1, 1, 1000)])
    refused(3, 2)
    growth.open(TEAM, parameters, 1, 1000)
    refused(1, 0)  # once between two levels
    growth.show(TEAM, parameters, [(0, 1, 1000)])
    refused(3, 2)
    growth.open(TEAM, parameters, 2, 1000)
    growth.show(TEAM, parameters, [(0, 2, 1000)])
    growth.open(TEAM, parameters, 4, 1000)


def test_leaf_by_leaf_each_step_opens_one_split_of_a_tree() -> None:
    parameters, growth = LgbParameters(depth=9, leaves=4, hide_nodes=True), HiddenGrowth()
    growth.show(TEAM, parameters, [(0, 1, 1000), (1, 1, 1000)])
    growth.open(TEAM, parameters, 2, 1000)
    growth.show(TEAM, parameters, [(0, 1, 1000), (1, 1, 1000)])
    with pytest.raises(RefusedError, match=r"telco.* 2 splits"):
        growth.open(TEAM, parameters, 3, 1000)
    growth.open(TEAM, parameters, 2, 1000)
    growth.open(TEAM, parameters, 2, 1000)
    with pytest.raises(RefusedError, match=r"telco.* 0 splits"):
        growth.open(TEAM, parameters, 1, 1000)


def all_thresholds(layout: Any) -> messages.SplitRequestForAll:
    splits = [(number, place, 0) for number, feature in enumerate(layout.features) for place in range(feature.values)]
    return messages.SplitRequestForAll(1, *np.array(splits, np.int32).T.copy())


@pytest.mark.parametrize("asked", [0, 1])
def test_one_message_does_not_open_the_whole_table(asked: int, parameters_for: Make, together: Make) -> None:
    """All thresholds of all columns would be every row's bins."""
    parameters = parameters_for("gbdt", hide_nodes=True)

    def everything(team: Any, layout: Any, rows: int) -> None:
        trees = send_trees(team, "tree")
        for _ in range(asked):
            team.session.send("telco", messages.HiddenLevel(1, ints(0), ints(1)))
            call = tree_call(team, "telco", layout, parameters, trees, 0, (rows, 1), bins=NAME.hex())
            product(team.products, [(call, Inputs(y=np.zeros((rows, 2), np.int64), nodes=np.zeros(rows, np.int32)))])
        team.session.send("telco", all_thresholds(layout))
        team.session.recv("telco", messages.SplitSidesForAll)

    with pytest.raises(RefusedError, match=rf"telco.* {asked} splits"):
        run_with(together, parameters, lent(everything))


@pytest.mark.parametrize(
    "request_",
    [
        messages.SplitRequestForAll(1, ints(0, 0), ints(1, 1), ints(0, 0)),
        messages.SplitRequestForAll(1, ints(0), ints(1), ints(2)),
        messages.SplitRequestForAll(1, ints(0), ints(1), ints(-1)),
    ],
)
def test_a_hidden_split_is_asked_for_once_and_has_two_sides(
    request_: messages.SplitRequestForAll, parameters_for: Make, together: Make
) -> None:
    def ask(team: Any, layout: Any, rows: int) -> None:
        send_trees(team, "tree")
        team.session.send("telco", request_)
        team.session.recv("telco", messages.SplitSidesForAll)

    with pytest.raises(ProtocolError, match="SplitRequestForAll from bank"):
        run_with(together, parameters_for("gbdt", hide_nodes=True), lent(ask))


# what is lent


def columns(*values: int) -> messages.LentColumns:
    zeros = ints(*([0] * len(values)))
    return messages.LentColumns(10, ints(*values), zeros, zeros, tuple(ints(place) for place in range(len(values))))


def test_no_column_has_more_bins_than_the_plan_says() -> None:
    assert layout_of(columns(32, 5), "telco", 32).bins == 37
    with pytest.raises(ProtocolError, match=r"LentColumns from telco.* 32"):
        layout_of(columns(5, 33), "telco", 32)


def test_nobody_lends_columns_without_end() -> None:
    many = columns(2)
    many = messages.LentColumns(10, *(np.tile(each, 2**16 + 1) for each in (many.values, many.missing, many.usual)), ())
    with pytest.raises(ProtocolError, match=r"LentColumns from telco.* 65536"):
        layout_of(many, "telco", 32)

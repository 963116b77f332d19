"""What everybody knows of a product: its shape and bound, what is refused before anything runs, and in which words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unpooled.errors import InputError
from unpooled.secure.calls import LARGEST, Call, Dense, Inputs, OneHot, check_call, check_inputs

PARTIES = ("a", "b", "c", "telco", "bank", "shop")
DENSE = Call((("telco", "bank"),), "bank", 6, Dense(3, 100), 2, 1000)
HOT = Call((("telco", "bank"),), "bank", 6, OneHot((4, 2), 3), 2, 1000)
X = np.full((6, 3), -100)
Y = np.full((6, 2), 1000)
BINS = np.array([[3, 1]] * 6)
NODES = np.array([-1, 0, 1, 2, 2, -1], np.int32)


def test_a_call_knows_its_shape() -> None:
    assert (DENSE.shape, DENSE.cells) == ((3, 2), 3)
    assert (HOT.shape, HOT.cells) == ((3, 6, 2), 18)


def test_participants_stand_in_the_order_in_which_they_appear() -> None:
    call = replace(DENSE, terms=(("telco", "bank"), ("shop", "bank")), added=(("bank", 1), ("isp", 1)))
    assert call.participants == ("telco", "bank", "shop", "isp")


def test_the_bound_of_a_result_counts_rows_terms_and_what_is_added() -> None:
    assert DENSE.result_bound == 6 * 100 * 1000
    assert HOT.result_bound == 6 * 1000
    assert replace(HOT, blocks=((2, 1), (4, 2))).result_bound == 4 * 1000
    several = replace(DENSE, terms=(("telco", "bank"), ("shop", "bank")), added=(("bank", 7), ("telco", 5)))
    assert several.result_bound == 2 * 6 * 100 * 1000 + 12


def test_every_difference_makes_another_tag() -> None:
    others = [
        replace(DENSE, terms=(("telco", "shop"),)),
        replace(DENSE, receiver="telco"),
        replace(DENSE, rows=7),
        replace(DENSE, left=Dense(3, 101)),
        replace(DENSE, left=Dense(2, 100)),
        replace(DENSE, columns=3),
        replace(DENSE, bound=1001),
        replace(DENSE, added=(("bank", 0),)),
        replace(DENSE, x="a"),
        replace(DENSE, y="a"),
        replace(DENSE, digest="a"),
        HOT,
        replace(HOT, left=OneHot((4, 2), 3, True)),
        replace(HOT, left=OneHot((2, 4), 3)),
        replace(HOT, blocks=((2, 1), (4, 2))),
    ]
    tags = [call.tag(1) for call in [DENSE, *others]] + [DENSE.tag(2)]
    assert len(set(tags)) == len(tags)
    assert replace(DENSE).tag(1) == DENSE.tag(1)


@pytest.mark.parametrize(
    ("fits", "passes"),
    [
        (Call((("a", "b"),), "b", 1, Dense(1, LARGEST), 1, 1), {"left": Dense(1, LARGEST + 1)}),
        (Call((("a", "b"),), "b", 1, OneHot((1,)), 1, LARGEST), {"bound": LARGEST + 1}),
        (Call((("a", "b"),), "b", 7, Dense(1, LARGEST // 7), 1, 1), {"rows": 8}),
        (Call((("a", "b"),), "b", 7, Dense(1, LARGEST // 7), 1, 1), {"terms": (("a", "b"), ("c", "b"))}),
        (Call((("a", "b"),), "b", 0, Dense(1, 1), 1, 1, (("a", LARGEST),)), {"rows": 1}),
        (Call((("a", "b"),), "b", 1, Dense(1, 1), 1, 1, (("a", LARGEST - 1),)), {"added": (("a", LARGEST),)}),
    ],
)
def test_overflow_is_refused_exactly_where_it_begins(fits: Call, passes: dict[str, object]) -> None:
    check_call(fits, PARTIES)
    assert replace(fits, **passes).result_bound > LARGEST
    with pytest.raises(InputError, match=r"6[4-9] bits"):
        check_call(replace(fits, **passes), PARTIES)


def test_zero_rows_and_columns_are_no_mistake() -> None:
    check_call(replace(DENSE, rows=0, columns=0, left=Dense(0, 0), bound=0), PARTIES)
    check_call(replace(HOT, rows=0, left=OneHot((), 1)), PARTIES)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"terms": ()}, "pair"),
        ({"receiver": "shop"}, "receiver"),
        ({"terms": (("telco", "telco"),), "receiver": "telco"}, "different"),
        ({"rows": -1}, "negative"),
        ({"columns": -1}, "negative"),
        ({"bound": -1}, "negative"),
        ({"left": Dense(-1, 1)}, "negative"),
        ({"left": Dense(1, -1)}, "negative"),
        ({"left": OneHot((2, -1))}, "negative"),
        ({"left": OneHot((2,), -1)}, "negative"),
        ({"added": (("bank", -1),)}, "negative"),
        ({"y": "g\nh"}, "printable"),
        ({"rows": np.int64(4)}, "Python"),
        ({"left": OneHot((2,), 0)}, "node"),
        ({"added": (("clinic", 1),)}, "clinic"),
    ],
)
def test_calls_that_make_no_sense_are_refused(change: dict[str, object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        check_call(replace(DENSE, **change), PARTIES)


def test_inputs_at_the_bound_are_taken() -> None:
    check_inputs(DENSE, "telco", Inputs(x=X))
    check_inputs(DENSE, "bank", Inputs(y=-Y))
    check_inputs(HOT, "telco", Inputs(x=BINS, nodes=NODES))
    check_inputs(HOT, "telco", Inputs(x=BINS.astype(np.uint8), nodes=NODES))
    check_inputs(HOT, "bank", Inputs(y=Y, nodes=NODES))
    hidden = replace(HOT, left=OneHot((4, 2), 3, True))
    check_inputs(hidden, "telco", Inputs(x=BINS))
    check_inputs(hidden, "bank", Inputs(y=Y, nodes=NODES))


def test_a_party_that_holds_nothing_of_a_call_needs_no_inputs() -> None:
    check_inputs(DENSE, "shop", Inputs())


ADDING = replace(DENSE, added=(("telco", 5),))


@pytest.mark.parametrize(
    ("call", "party", "inputs", "text"),
    [
        (DENSE, "telco", Inputs(), r"telco: X\b.*\(6, 3\)"),
        (DENSE, "telco", Inputs(x=X.astype(float)), r"telco: X\b.*int64"),
        (DENSE, "telco", Inputs(x=X.astype(np.int32)), r"telco: X\b.*int64"),
        (DENSE, "telco", Inputs(x=X.astype(np.uint64)), r"telco: X\b.*int64"),
        (DENSE, "telco", Inputs(x=X.astype(">i8")), r"telco: X\b.*int64"),
        (DENSE, "telco", Inputs(x=X[:5]), r"telco: X\b.*int64"),
        (DENSE, "telco", Inputs(x=X.T), r"telco: X\b.*int64"),
        (DENSE, "telco", Inputs(x=X - 1), r"telco: X\b.*bound"),
        (DENSE, "bank", Inputs(), r"bank: Y\b.*\(6, 2\)"),
        (DENSE, "bank", Inputs(y=Y[:, 0]), r"bank: Y\b.*int64"),
        (DENSE, "bank", Inputs(y=Y + 1), r"bank: Y\b.*bound"),
        (DENSE, "bank", Inputs(y=np.full_like(Y, -(2**63))), r"bank: Y\b.*bound"),
        (HOT, "telco", Inputs(nodes=NODES), r"telco: X\b.*bins.*\(6, 2\)"),
        (HOT, "telco", Inputs(x=BINS.astype(float), nodes=NODES), r"telco: X\b.*bins"),
        (HOT, "telco", Inputs(x=BINS.astype(bool), nodes=NODES), r"telco: X\b.*bins"),
        (HOT, "telco", Inputs(x=BINS[:, :1], nodes=NODES), r"telco: X\b.*bins"),
        (
            HOT,
            "telco",
            Inputs(x=BINS + np.array([1, 0]), nodes=NODES),
            r"telco: X\b.*bin\b",
        ),
        (
            HOT,
            "telco",
            Inputs(x=BINS - np.array([0, 2]), nodes=NODES),
            r"telco: X\b.*bin\b",
        ),
        (HOT, "telco", Inputs(x=BINS), r"telco: .*nodes.*int32.*\b6\b"),
        (HOT, "telco", Inputs(x=BINS, nodes=NODES.astype(np.int64)), "telco: .*nodes.*int32"),
        (HOT, "telco", Inputs(x=BINS, nodes=NODES[:5]), "telco: .*nodes.*int32"),
        (HOT, "telco", Inputs(x=BINS, nodes=NODES + 1), "telco: .*node.*-1.* 3"),
        (HOT, "bank", Inputs(y=Y, nodes=NODES - 1), "bank: .*node.*-1.* 3"),
        (HOT, "bank", Inputs(y=Y), "bank: .*nodes.*int32"),
        (replace(HOT, blocks=((3, 1), (3, 2))), "bank", Inputs(y=Y, nodes=NODES), "bank: .*node of another block"),
        (replace(HOT, blocks=((3, 1), (3, 2))), "telco", Inputs(x=BINS, nodes=NODES), "telco: .*node of another block"),
        (ADDING, "telco", Inputs(x=X), r"telco: .*add.*int64.*\(3, 2\)"),
        (ADDING, "telco", Inputs(x=X, added=np.full((3, 2), 6)), "telco: .*add.*bound"),
    ],
)
def test_inputs_that_are_not_what_the_call_says_are_named(call: Call, party: str, inputs: Inputs, text: str) -> None:
    with pytest.raises(InputError, match=text):
        check_inputs(call, party, inputs)


def test_refusals_do_not_repeat_values() -> None:
    with pytest.raises(InputError) as caught:
        check_inputs(DENSE, "bank", Inputs(y=np.full((6, 2), 918273)))
    assert "918273" not in str(caught.value)


@pytest.mark.parametrize("rows", [1, 300, 512, 700, 5000])
def test_a_bin_out_of_range_is_found_in_any_row_and_column(rows: int) -> None:
    """Also where many rows are looked at side by side, and those that are left over."""
    call = replace(HOT, rows=rows, left=OneHot((4, 2, 9), 3))
    nodes = np.zeros(rows, np.int32)
    bins = np.random.default_rng(rows).integers(0, [4, 2, 9], (rows, 3)).astype(np.uint8)
    for given in (bins, np.asfortranarray(bins)):
        check_inputs(call, "telco", Inputs(x=given, nodes=nodes))
        for row in {0, rows // 2, rows - 1}:
            for column, size in enumerate((4, 2, 9)):
                wrong = given.copy(order="K")
                wrong[row, column] = size
                with pytest.raises(InputError, match="a bin out of range"):
                    check_inputs(call, "telco", Inputs(x=wrong, nodes=nodes))

"""Large matrices in blocks: the same integers, messages of limited size, and nothing whole in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unpooled.errors import InputError
from unpooled.secure.calls import Call, Dense, OneHot
from unpooled.secure.randomness import expand, new_seed
from unpooled.secure.shares import blocks, dealer, opening, state
from unpooled.secure.shares.blocks import Opened, mask_blocks, portions, row_blocks
from unpooled.secure.shares.state import Mask, Matrix, SharesState
from unpooled.session import Session

Make = Callable[..., Any]

PAIR, OTHER = ("telco", "bank"), ("shop", "bank")
HIDDEN = Call((PAIR,), "bank", 120, OneHot((5, 3, 4), 4, True), 2, 1000, x="bins")
CALLS = {
    "hidden nodes": [[HIDDEN, HIDDEN, replace(HIDDEN, left=OneHot((5, 3, 4), 2, True))], [HIDDEN]],
    "hidden nodes of two parties": [[HIDDEN, replace(HIDDEN, terms=(OTHER,))], [HIDDEN]],
    "counts not shown": [[Call((PAIR,), "bank", 90, OneHot((4, 6), 3), 2, 1000)]],
    "dense": [[Call((PAIR, OTHER), "bank", 70, Dense(9, 50), 3, 1000, added=(("bank", 5),))]],
    "dense, stacked": [[Call((PAIR,), "telco", 70, Dense(3, 50), 2, 1000, x="x", y="y", fixed=20)]],
    "both ways": [[HIDDEN, Call((("bank", "telco"),), "telco", 33, Dense(4, 9), 2, 1000)]],
    "no rows": [[replace(HIDDEN, rows=0)]],
}


@pytest.fixture(params=[64, 1000], ids="blocks of {} bytes".format)
def small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(blocks, "block_bytes", request.param)
    return int(request.param)


@pytest.mark.parametrize("memory", [blocks.MEMORY_BYTES, 0], ids=["in memory", "in files"])
@pytest.mark.parametrize("name", CALLS)
def test_blocks_change_nothing_but_the_messages(
    name: str,
    memory: int,
    small_blocks: int,
    monkeypatch: pytest.MonkeyPatch,
    rules_for: Make,
    multiply: Make,
    made: Make,
    expected: Make,
) -> None:
    monkeypatch.setattr(state, "MEMORY_BYTES", memory)
    monkeypatch.setattr(state, "_MOST_KEPT", memory)
    batches = [[made(call, 0 if call.x else place) for place, call in enumerate(batch)] for batch in CALLS[name]]
    rules = replace(rules_for("shares"), count_rows=False)
    run = multiply(rules, batches, ("shop", "telco", "bank"))
    for place, problem in enumerate(problem for batch in batches for problem in batch):
        assert (run.results(problem[0].receiver)[place] == expected(problem)).all()
    sizes = [message for got in run.received.values() for _, message in got if isinstance(message, opening.Hidden)]
    widest = max((8 * values.shape[2] for message in sizes for values in message.values), default=0)
    assert all(sum(values.nbytes for values in one.values) <= max(small_blocks, widest) for one in sizes)


def test_a_matrix_is_cut_by_its_shape_alone_and_nothing_is_left_out() -> None:
    for rows, width in ((0, 3), (1, 1), (10**6, 700), (5, 10**7)):
        cuts = row_blocks(rows, width)
        assert cuts[0].start == 0
        assert cuts[-1].stop == rows
        assert all(one.stop == other.start for one, other in pairwise(cuts))
        assert all(
            8 * width * (cut.stop - cut.start) <= blocks.block_bytes or cut.stop - cut.start == 1 for cut in cuts
        )


def test_small_matrices_travel_together_and_large_ones_in_parts() -> None:
    small, large = (100, 10), (blocks.block_bytes // 80 * 2, 10)
    assert [[place for place, _ in portion] for portion in portions([small] * 3)] == [[0, 1, 2]]
    assert [[place for place, _ in portion] for portion in portions([small, large, small])] == [[0], [1], [1], [2]]
    assert portions([]) == []


def test_a_mask_in_blocks_is_the_mask() -> None:
    seed, cuts = new_seed(), [slice(0, 7), slice(7, 8), slice(8, 20)]
    whole = expand(seed, b"mask", (20, 3))
    assert np.array_equal(np.concatenate(list(mask_blocks(seed, 3, cuts))), whole)
    assert np.array_equal(np.concatenate(list(Mask(seed, (20, 3)).blocks(cuts))), whole)


@pytest.mark.parametrize("in_file", [False, True])
def test_what_arrives_in_parts_is_there_as_a_whole(in_file: bool, tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(2**63, size=(50, 4), dtype=np.uint64)
    kept = Opened((50, 4), tmp_path, in_file=in_file)
    for cut in (slice(30, 50), slice(0, 30)):
        kept.put(cut, values[cut])
    assert np.array_equal(kept.whole(), values)
    assert np.array_equal(kept.block(slice(3, 33)), values[3:33])
    assert kept.memory == (0 if in_file else values.nbytes)
    assert not list(tmp_path.iterdir()), "the file has no name"


def test_beyond_the_limit_matrices_are_kept_in_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(state, "MEMORY_BYTES", 1000)
    kept = SharesState(folder=tmp_path)
    sizes = [kept.place_for("telco", Matrix("x", name), (rows, 1)).memory for name, rows in (("a", 100), ("b", 26))]
    assert sizes == [800, 0]
    kept.forget({"a"})
    assert kept.place_for("telco", Matrix("x", "c"), (125, 1)).memory == 1000


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone: cannot be written to"):
        Opened((1, 1), tmp_path / "gone", in_file=True)


def test_what_the_coordinator_makes_is_limited_by_blocks(small_blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It deals for ten products with the same X: the mask of X is made once, and never all of it."""
    shapes: list[tuple[int, ...]] = []
    real = blocks.expansions

    def watched(seed: bytes, purpose: bytes, wanted: Any, **where: int) -> Iterator[np.ndarray]:
        for values in real(seed, purpose, wanted, **where):
            shapes.append(values.shape)
            yield values

    monkeypatch.setattr(blocks, "expansions", watched)
    request = [dealer.DealItem("telco", "bank", "triple", 120, 12, 4, 8, "bins", f"y{n}", 1) for n in range(10)]
    for _, right in dealer._triples(dealer.Dealer(), request, lambda: None):
        assert callable(right)
        right()
    assert sum(rows for rows, width in shapes if width == 12) == 120
    assert all(8 * rows * (12 + 40) <= max(small_blocks, 8 * 52) for rows, _ in shapes)


def test_seeds_are_sent_before_masks_are_multiplied(
    rules_for: Make, multiply: Make, made: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder of X can begin meanwhile."""
    steps: list[str] = []
    real, send = dealer._products, Session.send

    def products(*args: Any) -> Any:
        steps.append("products")
        return real(*args)

    def sent(self: Session, peer: str, message: Any, **options: Any) -> None:
        steps.append(f"to {peer}" if isinstance(message, dealer.Dealt) else "")
        send(self, peer, message, **options)

    monkeypatch.setattr(dealer, "_products", products)
    monkeypatch.setattr(Session, "send", sent)
    call = Call((("telco", "bank"),), "bank", 50, OneHot((5, 3), 2, hidden=True), 2, 1000, x="bins")
    problem = made(call)
    run = multiply(rules_for("shares"), [[problem]])
    assert run.results("bank")
    assert [step for step in steps if step] == ["to telco", "products", "to bank"]

"""Associations computed together are those of the pooled columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from scipy import stats

from unpooled.arrays import Floats
from unpooled.complete.association import (
    AssociationRequest,
    BinCounts,
    RankNorms,
    _joined,
    _limbs,
    centred_ranks,
    check_rows,
    contingency,
    help_contingency,
    help_spearman,
    spearman,
    squared_sums,
)
from unpooled.errors import ProtocolError, RefusedError
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Rules, open_engine
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical.team import Team

ROWS = 150
OWNERS = {"registry": 3, "insurer": 2}


def matrices() -> dict[str, Floats]:
    rng = np.random.default_rng(5)
    base = rng.normal(size=(ROWS, 8))
    base[:, 5:] += base[:, :3]
    return {"clinic": np.round(base[:, 5:], 1), "registry": base[:, :3], "insurer": np.round(base[:, 3:5])}


def together(
    active: Callable[[Team], Any],
    passive: Callable[[Team, str], Any],
    owners: Mapping[str, int] = OWNERS,
    engine: str = "shares",
) -> Any:
    parties = ("clinic", *owners)

    def opened(session: Session) -> Engine:
        rules = Rules(engine, key_bits=512, insecure=True)  # type: ignore[arg-type]
        return open_engine(session, rules, parties, "clinic", "coordinator")

    def owner(session: Session) -> Any:
        team = Team("clinic", parties, opened(session), "rows")
        found = active(team) if session.party == "clinic" else passive(team, session.party)
        finish(team.products)
        return found

    roles: dict[str, Any] = dict.fromkeys(parties, owner)
    return simulate_roles(roles | {"coordinator": lambda session: serve(opened(session))}, timeout=120)


def same_up_to_order(found: Floats, expected: Floats, tolerance: float) -> bool:
    """Passive columns come in an order of their owner."""
    left, right = (matrix[np.lexsort(matrix.T)] for matrix in (found, expected))
    return bool(np.abs(left - right).max() <= tolerance)


@pytest.mark.parametrize("engine", ["plain", "shares", "paillier"])
def test_rank_correlations_are_those_of_scipy(engine: str) -> None:
    tables = matrices()
    outcome = together(
        lambda team: spearman(team, tables["clinic"]),
        lambda team, party: help_spearman(team, tables[party]),
        engine=engine,
    )
    found = outcome.results["clinic"]
    passive = np.concatenate([tables["registry"], tables["insurer"]], axis=1)
    expected = stats.spearmanr(np.concatenate([passive, tables["clinic"]], axis=1)).statistic[:5, 5:]
    assert found.shape == expected.shape
    for rows in (slice(0, 3), slice(3, 5)):
        assert same_up_to_order(found[rows], expected[rows], 1e-12)
    sent = {entry.kind for entry in outcome.ledgers["registry"].entries if entry.way == "sent"}
    assert "RankNorms" in sent


def test_missing_cells_count_as_the_middle_and_single_values_as_nothing() -> None:
    column = np.array([[2.0, 7.0], [np.nan, 7.0], [1.0, 7.0], [5.0, 7.0]])
    assert centred_ranks(column).tolist() == [[0, 0], [0, 0], [-2, 0], [2, 0]]


def test_ranks_of_millions_of_rows_are_multiplied_exactly() -> None:
    rng = np.random.default_rng(1)
    rows = 3_000_000
    left, right = (2 * rng.permutation(rows)[:, np.newaxis] - rows + 1 for _ in range(2))
    left = left.astype(np.int64)
    parts = _limbs(left), _limbs(right.astype(np.int64))
    found = int(_joined(parts[0].T @ parts[1], rows)[0, 0])
    upper, lower = left[:, 0] >> 12, left[:, 0] & 4095  # each sum of products has 58 bits at the most
    assert found == (int(upper @ right[:, 0]) << 12) + int(lower @ right[:, 0])
    assert rows**3 > 2**63
    square = squared_sums(left)[0]
    assert square == pytest.approx(rows * (rows**2 - 1) / 3, rel=1e-15)


def test_counts_are_those_of_the_pooled_columns() -> None:
    rng = np.random.default_rng(2)
    own, theirs = rng.integers(3, size=(ROWS, 2)), rng.integers(4, size=(ROWS, 3))
    counts = together(
        lambda team: contingency(team, own, (3, 3)),
        lambda team, _: help_contingency(team, theirs, (4, 4, 4)),
        {"registry": 3},
    ).results["clinic"]
    expected = {
        tuple(np.histogram2d(theirs[:, a], own[:, 1], [range(5), range(4)])[0].astype(int).ravel()) for a in range(3)
    }
    assert {tuple(table.ravel()) for table in counts.of(1)} == expected


def test_a_passive_party_without_columns_takes_part_in_nothing() -> None:
    tables = matrices()
    found = together(
        lambda team: spearman(team, tables["clinic"]),
        lambda team, _: help_spearman(team, np.empty((ROWS, 0))),
        {"registry": 0},
    ).results["clinic"]
    assert found.shape == (0, 3)


@pytest.mark.parametrize(
    ("rows", "columns", "enough"), [(99, 1, False), (100, 10, True), (100, 11, False), (500, 50, True)]
)
def test_too_few_rows_for_so_many_columns_are_refused(rows: int, columns: int, enough: bool) -> None:
    if enough:
        check_rows("registry", rows, columns)
        return
    with pytest.raises(RefusedError, match="registry"):
        check_rows("registry", rows, columns)


@pytest.mark.parametrize(
    ("ask", "wrong"),
    [
        (spearman, RankNorms(np.array([-1.0]))),
        (spearman, RankNorms(np.array([np.nan]))),
        (spearman, RankNorms(np.ones((2, 2)))),
        (contingency, BinCounts(np.array([0], np.int32))),
    ],
    ids=["negative norm", "no number", "not a list", "no bins"],
)
def test_what_cannot_be_is_refused(ask: Any, wrong: Any) -> None:
    own: tuple[Any, ...] = (np.zeros((ROWS, 1), np.int64), (1,)) if ask is contingency else (np.zeros((ROWS, 1)),)

    def passive(team: Team, party: str) -> None:
        team.session.recv("clinic", AssociationRequest)
        team.session.send("clinic", wrong)

    with pytest.raises(ProtocolError, match=f"{type(wrong).__name__} from registry"):
        together(lambda team: ask(team, *own), passive, {"registry": 1})


@pytest.mark.parametrize("asked", [AssociationRequest(ROWS + 1, 1), AssociationRequest(ROWS, -1)])
def test_requests_about_other_rows_are_refused(asked: AssociationRequest) -> None:
    with pytest.raises(ProtocolError, match="AssociationRequest from clinic"):
        together(
            lambda team: team.session.send("registry", asked),
            lambda team, _: help_spearman(team, np.zeros((ROWS, 1))),
            {"registry": 1},
        )

"""A fit that was interrupted goes on after the groups of trees that all parties have kept, to the same model."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unpooled.checkpoint import Notebook
from unpooled.errors import InputError, RefusedError, UnpooledError
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Rules, open_engine
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical.inputs import Columns
from unpooled.vertical.team import Team, alone
from unpooled.vertical.trees.checkpoint import grown_from, numbered_from, page_of, splits_from
from unpooled.vertical.trees.ensemble import Fitted, Target, fit, help_fit
from unpooled.vertical.trees.grower.context import GrownTree
from unpooled.vertical.trees.model import Ensemble, Model
from unpooled.vertical.trees.parameters import (
    AnyTrees,
    ForestParameters,
    GbdtParameters,
    LgbParameters,
    XgbParameters,
    groups_at_once,
    questions_of,
)
from unpooled.vertical.trees.split_table import SplitTable

ROWS, OWNERS, SEEDS = 160, ("telco", "bank"), {"telco": 3, "bank": 4, "coordinator": 5}
LEARNERS: dict[str, AnyTrees] = {
    "gbdt": GbdtParameters(trees=4, depth=3, lockstep=2),
    "gbdt that stops early": GbdtParameters(trees=6, depth=3, patience=2, lockstep=2),
    "xgb, several classes": XgbParameters(
        trees=3, depth=2, classes=3, lockstep=4, row_fraction=0.8, column_fraction=0.6
    ),
    "lgb": LgbParameters(trees=4, depth=3, leaves=4, learning_rate=0.6, lockstep=2, hide_bags=False),
    "lgb with hidden nodes": LgbParameters(trees=3, depth=3, leaves=4, learning_rate=0.6, lockstep=2, hide_nodes=True),
    "splits dropped": GbdtParameters(trees=6, depth=5, hide_nodes=True, min_rows=9),
    "gbdt with hidden nodes": GbdtParameters(trees=4, depth=3, lockstep=4, hide_nodes=True),
    "rf": ForestParameters(trees=5, depth=3, lockstep=2),
    "rf with hidden nodes": ForestParameters(trees=4, depth=3, lockstep=4, hide_nodes=True),
    "rf encrypted once": ForestParameters(trees=4, depth=2, lockstep=3, bootstrap=False, hide_bags=False),
}


def matrix() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(ROWS, 5))


def targets(classes: int) -> list[Target]:
    value = matrix()[:, 0] * matrix()[:, 2] + matrix()[:, 4]
    truth = np.digitize(value, np.quantile(value, [0.4, 0.7])[: classes - 1]).astype(float)
    weights = np.where(np.arange(ROWS) % 5 == 0, 0.0, 1.0)
    return [
        Target(truth, seed=1),
        Target(truth, weights, seed=2),
        Target(1.0 - truth if classes == 2 else truth, seed=3),
    ]


def together(parameters: AnyTrees, folder: Path, engine: str = "shares", stop_after: int | None = None) -> Fitted:
    """Fit with a notebook at each party; the bank gives up after so many groups, if any."""
    found: list[Fitted] = []

    def opened(session: Session) -> Engine:
        rules = Rules(engine, key_bits=512, insecure=True, questions=questions_of(parameters, 3))  # type: ignore[arg-type]
        return open_engine(session, rules, OWNERS, "bank", "coordinator")

    def bank(session: Session) -> None:
        team = Team("bank", OWNERS, opened(session), "rows")
        notebook = Notebook(folder / "bank")
        if stop_after is not None:
            write = notebook.write

            def stopping(**arrays: Any) -> None:
                write(**arrays)
                if len(notebook) == stop_after:
                    raise InputError("enough")

            notebook.write = stopping  # type: ignore[method-assign]
        columns = Columns(matrix()[:, :2], ("a", "b"))
        found.append(fit(team, parameters, columns, targets(parameters.classes), notebook=notebook))
        finish(team.products)

    def telco(session: Session) -> None:
        team, columns = Team("bank", OWNERS, opened(session), "rows"), Columns(matrix()[:, 2:], ("c", "d", "e"))
        help_fit(team, parameters, columns, models=3, notebook=Notebook(folder / "telco"))
        finish(team.products)

    roles: dict[str, Any] = {"telco": telco, "bank": bank, "coordinator": lambda session: serve(opened(session))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOKY_MAX_CPU_COUNT", "1")  # so little is not worth worker processes
        simulate_roles(roles, seeds=SEEDS, timeout=240)
    return found[0]


def agree_on_the_shorter(folder: Path) -> int:
    """What a job does before a fit goes on: all parties go back to what all of them have."""
    books = [Notebook(folder / party) for party in OWNERS]
    least = min(map(len, books))
    for book in books:
        book.keep_first(least)
    return least


def assert_same(one: Fitted, other: Fitted) -> None:
    if groups_at_once(one.model.parameters) == 1:
        assert one.model.ensembles == other.model.ensembles
        assert one.model.part.splits == other.model.part.splits
        assert (one.model.part.uses, one.model.part.rows) == (other.model.part.uses, other.model.part.rows)
    else:  # splits are numbered in the order in which groups take turns, which is another one
        assert renumbered(one.model) == renumbered(other.model)
        assert own_splits(one.model) == own_splits(other.model)
    for mine, theirs in zip(one.scores, other.scores, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def renumbered(model: Model) -> list[Ensemble]:
    """Its ensembles, with each owner's splits numbered in the order of trees and nodes."""
    numbers: defaultdict[int, dict[int, int]] = defaultdict(dict)
    found = []
    for ensemble in model.ensembles:
        trees = []
        for tree in ensemble.trees:
            each = zip(tree.owner, tree.split, strict=True)
            split = tuple(numbers[owner].setdefault(number, len(numbers[owner])) for owner, number in each)
            trees.append(tree.model_copy(update={"split": split}))
        found.append(ensemble.model_copy(update={"trees": tuple(trees)}))
    return found


def own_splits(model: Model) -> dict[Any, tuple[int, int]]:
    """By split of the active party how often it was used, and for how many rows."""
    uses = zip(model.part.uses, model.part.rows, strict=True)
    return dict(zip(model.part.splits, uses, strict=True))


@pytest.mark.parametrize(
    ("learner", "stops"),
    [(learner, (1, 2, 3) if learner == "gbdt" else (1 + n % 3,)) for n, learner in enumerate(LEARNERS)],
)
def test_an_interrupted_fit_goes_on_to_the_same_model(learner: str, stops: tuple[int, ...], tmp_path: Path) -> None:
    parameters = LEARNERS[learner]
    undisturbed = together(parameters, tmp_path / "undisturbed")
    for after in stops:
        run = tmp_path / f"stopped after {after}"
        with pytest.raises(UnpooledError):
            together(parameters, run, stop_after=after)
        kept = agree_on_the_shorter(run)
        assert after - groups_at_once(parameters) <= kept <= after
        assert_same(together(parameters, run), undisturbed)
        assert len(Notebook(run / "bank")) == len(Notebook(tmp_path / "undisturbed/bank")) > after


@pytest.mark.parametrize("engine", ["plain", "paillier"])
def test_other_engines_too(engine: str, tmp_path: Path) -> None:
    parameters = ForestParameters(trees=4, depth=2, lockstep=3, bootstrap=False, hide_bags=False)
    undisturbed = together(parameters, tmp_path / "undisturbed", engine)
    with pytest.raises(UnpooledError):
        together(parameters, tmp_path / "run", engine, stop_after=2)
    agree_on_the_shorter(tmp_path / "run")
    assert_same(together(parameters, tmp_path / "run", engine), undisturbed)


def test_a_whole_fit_is_not_grown_again(tmp_path: Path) -> None:
    parameters = LEARNERS["gbdt"]
    first = together(parameters, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unpooled.vertical.trees.grower.active._grow", None)
        assert_same(together(parameters, tmp_path), first)


def test_alone_too(tmp_path: Path) -> None:
    parameters, columns = LEARNERS["gbdt"], Columns(matrix(), tuple("abcde"))
    whole = fit(alone(), parameters, columns, targets(2), notebook=Notebook(tmp_path / "book"))
    Notebook(tmp_path / "book").keep_first(3)
    assert_same(fit(alone(), parameters, columns, targets(2), notebook=Notebook(tmp_path / "book")), whole)


def test_trees_behind_it_count_for_a_passive_party(tmp_path: Path) -> None:
    """After an interruption the active party gets no more trees than without one."""
    parameters = LEARNERS["gbdt"]
    together(parameters, tmp_path)
    shutil.rmtree(tmp_path / "bank")
    with pytest.raises(RefusedError, match=r"telco.*bank"):
        together(parameters, tmp_path)


def test_a_page_that_is_no_page_is_refused() -> None:
    with pytest.raises(InputError, match="trees"):
        grown_from({"nodes": np.array([1])})
    with pytest.raises(InputError, match="splits"):
        splits_from({"splits": np.array([1])})


def test_nothing_secret_is_kept(tmp_path: Path) -> None:
    """What is in a notebook: trees, where rows ended and splits; no gradient, mask, key or seed."""
    together(LEARNERS["gbdt"], tmp_path)
    assert set(Notebook(tmp_path / "telco").read(0)) == {"group", "splits", "uses", "split_rows", "trees"}
    trees = {"first", "owner", "split", "best", "gains", "totals", "where", "nodes", "rows"}
    assert set(Notebook(tmp_path / "bank").read(0)) == trees | {
        "group",
        "trees",
        "splits",
        "uses",
        "split_rows",
        "numbered",
    }


def test_numbers_of_splits_that_were_dropped_are_not_given_again(tmp_path: Path) -> None:
    """The last split of a party may leave a side with too few rows: no tree has its number, and it stays taken."""
    page = page_of(1, _grown(tmp_path), SplitTable(), {0: 5, 1: 8})
    assert all(tree.split.max() < 4 for tree in grown_from(page))
    assert numbered_from(page) == {0: 5, 1: 8}


def test_splits_that_were_asked_for_when_a_group_was_done_may_have_numbers(tmp_path: Path) -> None:
    """Other groups have asked for splits that are not answered yet; the passive party's page has these too."""
    parameters = GbdtParameters(trees=6, depth=3, lockstep=2, hide_nodes=True)
    together(parameters, tmp_path)
    bank, telco = (list(Notebook(tmp_path / party).pages()) for party in ("bank", "telco"))
    assert len(bank) == len(telco) == 3 * parameters.trees
    known = [numbered_from(page).get(OWNERS.index("telco"), 0) for page in bank]
    numbered = [len(splits_from(page).splits) for page in telco]
    assert numbered[-1] > 3
    assert all(most >= count for most, count in zip(known, numbered, strict=True))


def _grown(folder: Path) -> list[GrownTree]:
    """Trees with few splits."""
    together(GbdtParameters(trees=1, depth=1), folder)
    return grown_from(Notebook(folder / "bank").read(0))

"""Bank, Credit and Census, cut between two parties: as good as scikit-learn with everything in one place."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from unpooled.arrays import Floats, Ints
from unpooled.data import datasets, prepare
from unpooled.data.table import table_from_frame
from unpooled.evaluate.metrics import auc, r2
from unpooled.secure.product import finish
from unpooled.vertical.inputs import Columns
from unpooled.vertical.linear.fitting import LinearParameters, Target, fit, help_fit
from unpooled.vertical.linear.predictor import help_predict, predict, score
from unpooled.vertical.team import Team

Make = Callable[..., Any]

OWNERS = {"telco": "b", "bank": "c"}
"""Who has which party's columns of a data set."""

ROWS = 10_000


def split(name: str, target: str | None = None) -> tuple[dict[str, Columns], Floats, Ints, Ints]:
    """Both parties' prepared columns without the target, the target, and the rows to train on and to test."""
    data = datasets.load(name)
    some = np.random.default_rng(0).permutation(len(data.label))[:ROWS]
    frame, train, test = data.frame[some], np.arange(ROWS * 3 // 4), np.arange(ROWS * 3 // 4, ROWS)
    truth = (data.label[some] if target is None else frame[target].to_numpy()).astype(float)
    held = {}
    for owner, share in OWNERS.items():
        columns = [column for column in datasets.SPLIT[name][share] if column != target]
        types = {column: kind for column, kind in datasets.TYPES[name].items() if column in columns}
        table, _ = prepare.clean(
            table_from_frame(frame.select(["id", *columns]), "id", owner, types), prepare.PrepareSettings()
        )
        preparation = prepare.fit(table, prepare.PrepareSettings(), train)
        prepared = prepare.transform(preparation, table)
        held[owner] = Columns(prepared.matrix, prepared.names)
    return held, truth, train, test


def predicted(
    together: Make, parameters: LinearParameters, held: Mapping[str, Columns], truth: Floats, train: Ints, test: Ints
) -> Floats:
    """What two parties with default settings make of the test rows: scores, or numbers."""
    found = []

    def rows_of(owner: str, rows: Ints) -> Columns:
        return Columns(held[owner].matrix[rows], held[owner].names)

    def active(team: Team, _: Any) -> None:
        model = fit(team, parameters, rows_of("bank", train), Target(truth[train])).model
        use = score if parameters.classes else predict
        finish(team.products)
        found.append(use(team, model, held["bank"].matrix[test]))

    def passive(team: Team, _: Any) -> None:
        part = help_fit(team, parameters, rows_of("telco", train))
        help_predict(team, part, held["telco"].matrix[test])

    together(parameters, "two", "shares", own={"bank": active, "telco": passive})
    return np.asarray(found[0]).reshape(len(test))


def require(name: str) -> None:
    """Skip where nobody promised the data set."""
    if (
        not os.environ.get(datasets.FOLDER_VARIABLE)
        and not (datasets.cache_folder() / datasets.published(name, "train").file).is_file()
    ):
        pytest.skip(f"{name}: neither in the cache nor in {datasets.FOLDER_VARIABLE}")


@pytest.mark.parametrize("name", ["bank", "credit", "census"])
def test_classes_as_well_as_scikit_learn(together: Make, name: str) -> None:
    require(name)
    held, truth, train, test = split(name)
    everything = np.concatenate([columns.matrix for columns in held.values()], axis=1)
    reference = LogisticRegression(max_iter=2000).fit(everything[train], truth[train])
    expected = auc(truth[test], reference.decision_function(everything[test]))
    found = auc(truth[test], predicted(together, LinearParameters(), held, truth, train, test))
    print(f"\n{name}: AUC {found:.4f}, scikit-learn {expected:.4f}")
    assert found == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("bank", "age"),
        ("credit", "PAY_2"),
    ],
)
def test_numbers_as_well_as_scikit_learn(together: Make, name: str, target: str) -> None:
    require(name)
    held, truth, train, test = split(name, target)
    parameters = LinearParameters(classes=0)
    everything = np.concatenate([columns.matrix for columns in held.values()], axis=1)
    everything = everything.clip(-parameters.limit, parameters.limit)  # as ours are
    reference = LinearRegression().fit(everything[train], truth[train])
    expected = r2(truth[test], reference.predict(everything[test]))
    found = r2(truth[test], predicted(together, parameters, held, truth, train, test))
    print(f"\n{name}, {target}: R² {found:.4f}, scikit-learn {expected:.4f}")
    assert found == pytest.approx(expected, abs=0.005)

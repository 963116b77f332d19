"""Ensembles as completers: what they fill, what they learn from, files, settings."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers.completers import completer_of, settings_from
from unpooled.complete.completers.files import load, save
from unpooled.complete.completers.filling import complete, fit
from unpooled.complete.ensembles.ensembles import ENSEMBLES
from unpooled.complete.ensembles.settings import (
    NAMES,
    DynamicSettings,
    EnsembleSettings,
    StackingSettings,
    VoteSettings,
    WeightedSettings,
    members_of,
)
from unpooled.complete.settings import GenerateSettings
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError
from unpooled.settings import faults

GOOD, BAD, WORSE = {"completer": "iterative"}, {"completer": "median"}, {"completer": "marginal"}


def linear_table(rows: int = 400, seed: int = 1) -> Table:
    """Columns that a regression fills almost exactly, and all others badly."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, rows))
    frame = pl.DataFrame(
        {
            "id": range(rows),
            "x": x,
            "y": y,
            "sum": x + y + 0.1 * rng.normal(size=rows),
            "since": pl.Series((19000 + 300 * (x - y)).astype(np.int32)).cast(pl.Date),
            "more": x + 0.1 * rng.normal(size=rows) > y,
        }
    )
    return table_from_frame(frame, "id", "telco")


def some_cells(table: Table, seed: int = 2) -> Bools:
    return np.random.default_rng(seed).random((table.frame.height, len(table.kinds))) < 0.15


def errors(settings: Any, table: Table, mask: Bools) -> Floats:
    """Of each column RMSE, or the fraction that is wrong."""
    fitted = fit(settings, table, np.random.default_rng(3), mask)
    done = complete(fitted, table, np.random.default_rng(4), mask, draws=1).table.frame
    found = []
    for name, cells in zip(table.kinds, mask.T, strict=True):
        one, two = (frame[name].filter(pl.Series(cells)).to_physical().cast(float) for frame in (done, table.frame))
        found.append(float(((one - two) ** 2).mean() or 0.0) ** 0.5)  # type: ignore[arg-type]
    return np.array(found)


def ensemble(name: str, *members: dict[str, Any], **more: Any) -> EnsembleSettings:
    found = settings_from({"completer": name, "members": list(members), "held_out": 0.0, **more})
    assert isinstance(found, EnsembleSettings)
    return found


@pytest.mark.parametrize("name", ["stacking", "dynamic"])
def test_they_are_as_good_as_one_member_that_is_much_better(name: str) -> None:
    table = linear_table()
    mask = some_cells(table)
    alone = errors(settings_from({**GOOD, "held_out": 0.0}), table, mask)
    together = errors(ensemble(name, BAD, WORSE, GOOD), table, mask)
    assert (together <= 1.02 * alone).all()
    assert (1.5 * together < errors(ensemble("vote", BAD, WORSE, WORSE), table, mask)).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_truth_of_cells_that_are_judged_changes_nothing(name: str) -> None:
    table = linear_table(80)
    mask = some_cells(table)
    other = table.frame.with_columns(table.frame[column].shuffle(1).alias(column) for column in table.kinds)
    changed = table.frame.with_columns(
        table.frame[column].zip_with(~pl.Series(cells), other[column]).alias(column)
        for column, cells in zip(table.kinds, mask.T, strict=True)
    )
    settings = ensemble(name, {"completer": "copula"}, BAD, WORSE)
    both = []
    for frame in (table.frame, changed):
        known = table_from_frame(frame, "id", "telco")
        fitted = fit(settings, known, np.random.default_rng(1), mask)
        done = complete(fitted, known, np.random.default_rng(2), mask).table.frame
        both.append([done[column].filter(pl.Series(cells)) for column, cells in zip(table.kinds, mask.T, strict=True)])
    assert not changed.equals(table.frame)
    assert all(one.equals(two) for one, two in zip(*both, strict=True))


def test_a_member_alone_gives_its_own_answer() -> None:
    """Two equal members that are not random: every way is that member."""
    table = linear_table(60)
    mask = some_cells(table)
    alone = complete(
        fit(settings_from(BAD), table, np.random.default_rng(1), mask), table, np.random.default_rng(1), mask
    )
    for name in ("vote", "weighted", "dynamic"):
        settings = ensemble(name, BAD, BAD)
        assert not settings.random
        done = complete(fit(settings, table, np.random.default_rng(1), mask), table, np.random.default_rng(2), mask)
        assert done.table.frame.equals(alone.table.frame)


@pytest.mark.parametrize("name", NAMES)
def test_unusual_columns_and_few_rows(name: str) -> None:
    rows = 30
    frame = pl.DataFrame(
        {
            "id": range(rows),
            "same": [4] * rows,
            "class": ["only"] * rows,
            "none": pl.Series([None] * rows, dtype=pl.Float64),
            "once": [1.5] + [None] * (rows - 1),
            "flag": [row % 3 == 0 for row in range(rows)],
            "never_missing": np.linspace(0, 1, rows),
        }
    )
    table = table_from_frame(frame, "id", "telco")
    mask = np.zeros((rows, 6), np.bool_)
    mask[::2, [0, 1, 4]] = True
    mask[1:, 3] = True
    fitted = fit(settings_from({"completer": name}), table, np.random.default_rng(1), mask)
    done = complete(fitted, table, np.random.default_rng(2), mask, draws=2)
    assert done.table.frame["same"].unique().to_list() == [4]
    assert done.table.frame["class"].unique().to_list() == ["only"]
    assert done.table.frame["once"].unique().to_list() == [1.5]
    assert (done.filled == mask).all()
    new = table.frame.with_columns(pl.lit(None, pl.Float64).alias("never_missing"))
    again = complete(fitted, table_from_frame(new, "id", "telco", table.kinds), np.random.default_rng(2))
    assert again.table.frame["never_missing"].is_between(0, 1).all(), "a column of which no cell was hidden"


@pytest.mark.parametrize("name", NAMES)
def test_one_draw_of_each_member_keeps_draws_apart(name: str) -> None:
    table = linear_table(60)
    mask = some_cells(table)
    spread = []
    for count in (1, 9):
        fitted = fit(ensemble(name, WORSE, WORSE, member_draws=count), table, np.random.default_rng(1), mask)
        draws = complete(fitted, table, np.random.default_rng(2), mask, draws=8).draws
        spread.append(
            np.std([draw.frame["x"].filter(pl.Series(mask[:, 0])).to_numpy() for draw in draws], axis=0).mean()
        )
    assert 0 < spread[1] < spread[0]


@pytest.mark.parametrize("how", ["member", "more", "weights", "dtype"])
def test_files_that_do_not_fit_are_refused(how: str, tmp_path: Path) -> None:
    path = tmp_path / "fitted.npz"
    save(fit(ensemble("stacking", BAD, WORSE), linear_table(40), np.random.default_rng(1)), path)
    assert load(path).settings == ensemble("stacking", BAD, WORSE)
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    if how == "member":
        del arrays["1.values"]
    elif how == "more":
        arrays["2.values"] = arrays["1.values"]
    elif how == "weights":
        arrays["combination.weights"] = arrays["combination.weights"][1:]
    else:
        arrays["combination.best"] = arrays["combination.best"].astype(np.int64)
    np.savez(path, **arrays)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"fitted\.npz: is no fitted completer: its arrays do not fit"):
        load(path)


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([BAD], "members: an ensemble needs at least two"),
        ([BAD, {"completer": "vote"}], "members.1: an ensemble cannot be a member"),
        ([BAD, {"completer": "missing"}], "members.1: must be a table, its completer 'copula'"),
        ([BAD, {}], "members.1: must say which completer it is"),
        ([BAD, {"completer": "knn", "neighbours": 0}], "members.1.neighbours: must be greater"),
        ("median", "members: must be a list"),
    ],
)
def test_members_that_are_refused(members: Any, reason: str) -> None:
    with pytest.raises(ValidationError) as caught:
        GenerateSettings.model_validate({"completer": {"completer": "dynamic", "members": members}})
    assert any(f"completer.{reason}" in fault or reason in fault for fault in faults(caught.value)), faults(
        caught.value
    )


def test_an_ensemble_of_settings_in_python() -> None:
    with pytest.raises(ValidationError, match="an ensemble cannot be a member"):
        VoteSettings(members=(VoteSettings(), WeightedSettings()))
    assert [kind().completer for kind in (VoteSettings, WeightedSettings, StackingSettings, DynamicSettings)] == list(
        NAMES
    )
    assert [one.name for one in ENSEMBLES] == list(NAMES)


def test_a_member_that_needs_a_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_sklearn(name: str, *rest: Any) -> Any:
        if name.startswith("sklearn"):
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_sklearn)
    for name in NAMES:
        default, settings = settings_from({"completer": name}), ensemble(name, BAD, {"completer": "knn"})
        completer_of(default).check(default)
        with pytest.raises(InputError, match=r"knn.*unpooled\[sklearn\]"):
            completer_of(settings).check(settings)


def test_members_that_are_networks_count_as_such() -> None:
    settings = GenerateSettings(completer=ensemble("weighted", BAD, {"completer": "tvae"}, {"completer": "tvae"}))
    assert settings.networks == ("tvae",)
    plain = settings.untrained()
    assert [one.completer for one in members_of(plain.completer)] == ["median", "marginal", "marginal"]
    assert plain.completer.completer == "weighted"
    assert plain.networks == ()

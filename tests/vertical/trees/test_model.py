"""Models as files: they come back exactly, each party's has its own part alone, and damaged ones are refused."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unpooled.errors import InputError
from unpooled.vertical.model_file import load, save
from unpooled.vertical.targets import Target
from unpooled.vertical.team import alone
from unpooled.vertical.trees.model import Model, Part
from unpooled.vertical.trees.predictor import scores

Make = Callable[..., Any]

LEARNERS = ("gbdt", "xgb", "lgb", "rf")


@pytest.fixture(scope="module")
def run(scene: Make, parameters_for: Make, together: Make) -> Any:
    data = scene()
    targets = [Target(data.truth[3], seed=1), Target(data.truth[3], seed=2)]
    return together(parameters_for("xgb", 3), engine="plain", data=data, targets=targets)


@pytest.mark.parametrize(
    ("learner", "classes"),
    [("gbdt", 0), ("gbdt", 3), ("xgb", 2), ("xgb", 3), ("lgb", 0), ("lgb", 2), ("rf", 3), ("rf", 0)],
)
def test_files_come_back_exactly(
    learner: str, classes: int, scene: Make, parameters_for: Make, together: Make, as_pooled: Make, tmp_path: Path
) -> None:
    run = together(
        parameters_for(learner, classes, learning_rate=1 / 3) if learner != "rf" else parameters_for(learner, classes)
    )
    for name, part in {"bank": run.model, **run.parts}.items():
        save(part, tmp_path / name)
        loaded = load(tmp_path / name, type(part))
        assert loaded == part
        save(loaded, tmp_path / f"{name} again")
        assert (tmp_path / name).read_bytes() == (tmp_path / f"{name} again").read_bytes()
    pooled = as_pooled(run).model
    save(pooled, tmp_path / "pooled")
    again = load(tmp_path / "pooled", Model)
    rows = np.random.default_rng(1).normal(size=(50, 9))
    np.testing.assert_array_equal(scores(alone(), again, rows), scores(alone(), pooled, rows))


def test_files_are_for_their_owner_alone_and_replace_older_ones(run: Any, tmp_path: Path) -> None:
    for part in (run.model, run.parts["telco"]):
        path = tmp_path / "model.json"
        path.write_text("older")
        path.chmod(0o644)
        save(part, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert load(path, type(part)) == part
        assert [each.name for each in tmp_path.iterdir()] == ["model.json"]


def test_each_party_keeps_its_own_part_alone(run: Any) -> None:
    active, passive = run.model.model_dump_json(), run.parts["telco"].model_dump_json()
    own, other = run.model.part.binning.features, run.parts["telco"].binning.features
    assert all(f'"{feature.name}"' in active and f'"{feature.name}"' not in passive for feature in own)
    assert all(f'"{feature.name}"' in passive and f'"{feature.name}"' not in active for feature in other)
    thresholds = [edge for feature in other for edge in feature.edges if edge != 0.5]
    assert len(thresholds) > 30
    assert all(repr(edge) in passive and repr(edge) not in active for edge in thresholds)
    known = {"format", "learner", "name", "party", "hide_nodes", "binning", "splits", "uses", "rows"}
    assert set(json.loads(passive)) == known
    assert "values" not in passive
    assert run.model.part.name == run.parts["telco"].name


def test_importance_counts_nodes_and_their_rows(run: Any) -> None:
    """By name, of all columns, also those that were never used."""
    used: dict[str, list[int]] = {name: [0, 0] for name in run.scene.names}
    for ensemble in run.model.ensembles:
        for tree in ensemble.trees:
            where = [list(range(160)) if place == 0 else [] for place in range(len(tree.first))]
            for place, first in enumerate(tree.first):
                if first == -1:
                    continue
                owner = run.model.owners[tree.owner[place]]
                part = run.model.part if owner == "bank" else run.parts[owner]
                feature, last, missing_left = part.splits[tree.split[place]]
                bins = part.binning.features[feature]
                used[bins.name][0] += 1
                used[bins.name][1] += len(where[place])
                for row in where[place]:
                    value = run.scene.matrix[row, run.team[owner][bins.column]]
                    right = not missing_left if np.isnan(value) else bool(value > (*bins.edges, np.inf)[last])
                    where[first + right].append(row)
    found = run.model.part.importance | run.parts["telco"].importance
    assert {name: [counts["splits"], counts["rows"]] for name, counts in found.items()} == used
    assert set(run.model.part.importance) == {run.scene.names[column] for column in run.team["bank"]}
    assert sum(splits for splits, _ in used.values()) > 20


def test_gains_are_kept_by_party_and_column(run: Any) -> None:
    for ensemble in run.model.ensembles:
        assert [len(gains) for gains in ensemble.gains] == [len(columns) for columns in run.team.values()]
        used = {
            (owner, (run.model.part if run.model.owners[owner] == "bank" else run.parts["telco"]).splits[split][0])
            for tree in ensemble.trees
            for first, owner, split in zip(tree.first, tree.owner, tree.split, strict=True)
            if first != -1
        }
        for owner, gains in enumerate(ensemble.gains):
            for feature, gain in enumerate(gains):
                assert (gain > 0) == ((owner, feature) in used)


# damaged files


def edit(path: Path, part: Any, *place: Any, value: Any) -> None:
    """Save a part with one thing changed or added, to which `place` leads."""
    content = json.loads(part.model_dump_json())
    at = content
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value(at[place[-1]]) if callable(value) else value
    path.write_text(json.dumps(content))


TREE = ("ensembles", 1, "trees", 2)
SHAPES = "length"
NOBODY = "split"
MODELS: dict[str, tuple[tuple[Any, ...], Any, str]] = {
    "a loop": ((*TREE, "first", 0), 0, "children"),
    "a longer loop": ((*TREE, "first", 1), 0, "children"),
    "children beyond the end": ((*TREE, "first", 0), 10**6, "children"),
    "one child": ((*TREE, "first", 0), lambda first: -2, "children"),
    "an own split that is not there": ((*TREE, "split"), lambda split: [10**6] * len(split), NOBODY),
    "a negative split": ((*TREE, "split", 0), -1, NOBODY),
    "an owner that is not there": ((*TREE, "owner", 0), 2, NOBODY),
    "a negative owner": ((*TREE, "owner", 0), -1, NOBODY),
    "a shorter list": ((*TREE, "split"), lambda split: split[:-1], SHAPES),
    "no nodes": (TREE, {"first": [], "owner": [], "split": [], "values": []}, SHAPES),
    "an infinite leaf": ((*TREE, "values", 0, 0), float("inf"), "finite"),
    "a leaf that is not a number": ((*TREE, "values", 0, 0), float("nan"), "finite"),
    "a leaf of several values": ((*TREE, "values", 0), [0.0, 1.0], "values"),
    "a leaf without values": ((*TREE, "values"), lambda values: [[] for _ in values], "values"),
    "a text": ((*TREE, "first", 0), "one", "ensembles.1.trees.2.first.0: "),
    "a class less": (("classes",), ["a", "b"], "classes"),
    "fewer outputs": (("ensembles", 0, "base"), [0.0, 0.0], "outputs"),
    "other outputs": (("parameters", "classes"), 4, "(outputs|classes)"),
    "half a round": (("ensembles", 0, "trees"), lambda trees: trees[:-1], "round"),
    "no trees": (("ensembles", 0, "trees"), [], "round"),
    "no model": (("ensembles",), [], "ensembles"),
    "an owner less": (("owners",), ["bank"], "gains"),
    "no active party": (("owners",), ["telco", "shop"], "owners"),
    "an owner twice": (("owners",), ["telco", "bank", "bank"], "owners"),
    "another learner": (("parameters", "learner"), "linear", "parameters"),
    "a parameter out of range": (("parameters", "learning_rate"), 7, "parameters.xgb.learning_rate: "),
    "an unknown parameter": (("parameters", "shrinkage"), 1, "parameters.xgb.shrinkage: "),
    "another format": (("format",), 1, "format: "),
    "no format": (("format",), None, "format: "),
    "gains of fewer parties": (("ensembles", 0, "gains"), [[0.0]], "gains"),
}
PARTS: dict[str, tuple[tuple[Any, ...], Any, str]] = {
    "a split of no column": (("splits", 0), [99, 0, True], "splits"),
    "a split of a negative column": (("splits", 0), [-1, 0, True], "splits"),
    "a split after no bin": (("splits", 0, 1), 256, "splits"),
    "a split before all bins": (("splits", 0, 1), -1, "splits"),
    "fewer counts": (("uses",), lambda uses: uses[1:], "splits"),
    "negative counts": (("rows", 0), -5, "rows"),
    "edges that fall": (
        ("binning", "features", 0, "edges"),
        lambda edges: [0.0, *edges, -1e9],
        "edges",
    ),
    "edges that are infinite": (("binning", "features", 0, "edges"), [float("inf")], "finite"),
    "another usual bin": (("binning", "features", 0, "usual"), 300, "usual"),
    "a column twice": (("binning", "features", 0, "column"), 1, "binning: "),
    "a column in no bundle": (("binning", "bundles"), lambda bundles: bundles[1:], "binning: "),
    "a name of another kind": (("name",), "my model", "name: "),
    "an unknown key": (("threshold",), 5, "threshold: "),
}


def refused(path: Path, kind: type[Any], text: str) -> None:
    with pytest.raises(InputError, match=text) as caught:
        load(path, kind)
    assert str(caught.value).startswith(f"{path}: ")
    assert ": : " not in str(caught.value)


def test_damaged_models_are_refused(run: Any, tmp_path: Path) -> None:
    for case, (place, value, text) in MODELS.items():
        print(case)  # the last one that is shown is the one that failed
        edit(tmp_path / "model.json", run.model, *place, value=value)
        refused(tmp_path / "model.json", Model, text)


def test_damaged_parts_are_refused(run: Any, tmp_path: Path) -> None:
    own = json.loads(run.model.model_dump_json())
    for case, (place, value, text) in PARTS.items():
        print(case)
        edit(tmp_path / "part.json", run.parts["telco"], *place, value=value)
        refused(tmp_path / "part.json", Part, text)
        content = json.loads((tmp_path / "part.json").read_text())
        (tmp_path / "model.json").write_text(json.dumps(own | {"part": content | {"party": "bank"}}))
        refused(tmp_path / "model.json", Model, "part")


@pytest.mark.parametrize("kind", [Model, Part])
def test_files_of_something_else_are_refused(kind: type[Any], tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    for content in (b"", b"{", b"[]", b"null", b"\xff\xfe{}", b'{"format": 1}', b"\x80\x04N.", b"{}", b"[" * 100_000):
        path.write_bytes(content)
        refused(path, kind, "model.json")


def test_a_file_cut_short_is_refused(run: Any, tmp_path: Path) -> None:
    whole = run.model.model_dump_json()
    for length in np.linspace(1, len(whole) - 1, 40).astype(int).tolist():
        (tmp_path / "model.json").write_text(whole[:length])
        refused(tmp_path / "model.json", Model, "JSON")


def test_a_part_is_no_model_and_the_other_way_round(run: Any, tmp_path: Path) -> None:
    save(run.parts["telco"], tmp_path / "part.json")
    refused(tmp_path / "part.json", Model, "part.json")
    save(run.model, tmp_path / "model.json")
    refused(tmp_path / "model.json", Part, "model.json")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.json", tmp_path):
        with pytest.raises(InputError, match=re.escape(str(path))):
            load(path, Model)


def test_errors_show_no_values(run: Any, tmp_path: Path) -> None:
    edit(tmp_path / "part.json", run.parts["telco"], "binning", "features", 0, "name", value=[123456789.5])
    with pytest.raises(InputError) as caught:
        load(tmp_path / "part.json", Part)
    assert "123456789" not in str(caught.value)
    assert "binning.features.0.name" in str(caught.value)

"""The experiment `generators`: rows as they are drawn, its cells, and its page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.complete.generators.sampling import SAMPLERS
from unpooled.data import datasets
from unpooled.errors import InputError, TrainingDiverged
from unpooled.experiments import cells as kept
from unpooled.experiments import dealing, figures, generated_rows, generators, page
from unpooled.experiments.cells import Done
from unpooled.experiments.experiment import Figures, Tier
from unpooled.experiments.generated_rows import LABEL, drawn
from unpooled.experiments.generators import GENERATORS, settings_of
from unpooled.experiments.generators_page import HELD_OUT, MODELS, PLAIN, REAL, losses, with_ratios

ROWS = 400


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Instead of a public data set one of three numbers and three categories, one of them with missing cells."""
    rng = np.random.default_rng(1)
    one, two = rng.normal(size=(2, ROWS))
    frame = pl.DataFrame(
        {
            "id": range(ROWS),
            "age": np.rint(40 + 10 * one),
            "lab": one + 0.3 * rng.normal(size=ROWS),
            "stage": np.where(two > 0, "late", "early"),
            "drug": np.where(rng.random(ROWS) < 0.2, "?", np.where(two > 0.5, "x", "y")),
            "place": np.array(["a", "b", "c"])[rng.integers(3, size=ROWS)],
            "score": two + rng.normal(size=ROWS),
        }
    )
    label = one + two + 0.5 * rng.normal(size=ROWS) > 0
    monkeypatch.setattr(datasets, "load", lambda name: datasets.Dataset(name, frame, label))
    monkeypatch.setattr(dealing, "DOWNSTREAM", {**dealing.DOWNSTREAM, "n_estimators": 20})
    generated_rows.table_of.cache_clear()
    yield
    generated_rows.table_of.cache_clear()


@pytest.mark.usefixtures("made_up")
def test_rows_are_trained_on_or_held_out_and_half_the_columns_are_hidden() -> None:
    sample = drawn("census", 200, 1)
    ids = [set(table.frame["id"]) for table in (sample.training, sample.held_out)]
    assert ([len(each) for each in ids], ids[0] & ids[1]) == ([150, 50], set())
    assert sample.training.kinds[LABEL] == "category"
    names = list(sample.training.kinds)
    assert not sample.hidden[:, names.index(LABEL)].any()
    assert sample.hidden.any(axis=0).sum() == 3
    missing = sample.held_out.frame["drug"].is_null().to_numpy()
    assert missing.any()
    assert not sample.hidden[missing, names.index("drug")].any()
    one, other = sample.some()
    assert (one.frame.height, other.frame.height) == (50, 50)
    assert not set(one.frame["id"]) & set(other.frame["id"])
    assert drawn("census", 200, 1).training.frame.equals(sample.training.frame)
    assert drawn("census", 0, 1).training.frame.height == 300


@pytest.mark.usefixtures("made_up")
def test_copied_rows_are_alike_and_found_out() -> None:
    sample = drawn("census", 0, 1)
    copied, fair = generated_rows.judged(sample, sample.training), generated_rows.held_out_judged(sample)
    assert [copied[name] for name in ("ks", "tv", "association", "missing")] == pytest.approx([0, 0, 0, 0])
    assert copied["copies"] == 1
    assert copied["closest"] > 0.6
    assert fair["copies"] == 0
    assert abs(fair["closest"] - 0.5) < 0.15
    assert fair["ks"] > 0
    assert copied["auc"] == generated_rows.real_rows_judged(sample)["auc"] > 0.8


@pytest.mark.usefixtures("made_up")
def test_rows_with_one_label_teach_nothing() -> None:
    sample = drawn("census", 0, 1)
    one = replace(sample.training, frame=sample.training.frame.with_columns(pl.lit("yes").alias(LABEL)))
    assert generated_rows.judged(sample, one)["auc"] == 0.5


@pytest.mark.usefixtures("made_up")
@pytest.mark.parametrize("model", ["marginal", "copula", "hot-deck", "smote", "vae"])
def test_a_cell_gives_figures_that_the_experiment_names(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    more: dict[str, Any] = {"epochs": 2} if model == "vae" else {}
    monkeypatch.setattr(generators, "settings_of", lambda model, preset: settings_of(model, preset, **more))
    cell = next(cell for cell in GENERATORS.cells(Tier.quick, 1) if cell["model"] == model)
    found = GENERATORS.compute(dict(cell) | {"rows": 300})
    assert list(found) == [model, HELD_OUT, REAL]
    assert set(found[model]) == set(GENERATORS.figures)
    for each in found.values():
        assert set(each) <= set(GENERATORS.figures)
        assert np.isfinite(list(each.values())).all()
    assert found[model]["diverged"] == 0
    assert found[HELD_OUT]["ks"] > 0
    if model == "hot-deck":
        assert found[model]["copies"] == 1
    if model == "marginal":
        assert found[model]["association"] > 2 * found[HELD_OUT]["association"]


@pytest.mark.usefixtures("made_up")
def test_a_training_that_diverges_is_told_and_does_not_end_the_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    def diverges(*_: object) -> None:
        raise TrainingDiverged("it diverged")

    monkeypatch.setattr(generators, "fit_generator", diverges)
    cell = next(cell for cell in GENERATORS.cells(Tier.quick, 1) if cell["model"] == "vae")
    found = GENERATORS.compute(dict(cell) | {"rows": 200})
    assert set(found["vae"]) == {"diverged", "train_cpu", "train_wall"}
    text = GENERATORS.section(frame_of({("census", 200, "vae", "fast", 1): found}))
    assert "Training diverged, so that there are no rows: vae on census (random seed 1)." in text


def test_cells_of_a_tier_are_distinct_and_all_have_an_estimate() -> None:
    for tier in Tier:
        cells = GENERATORS.cells(tier, 11)
        assert len({GENERATORS.key(cell) for cell in cells}) == len(cells)
        assert all(GENERATORS.seconds(cell) > 0 for cell in cells)
        assert {cell["model"] for cell in cells} == set(SAMPLERS)
    standard = GENERATORS.cells(Tier.standard, 11)
    assert {cell["set"] for cell in standard} == {"bank", "credit", "census"}
    assert {cell["rows"] for cell in standard} == {10_000}
    assert {cell["preset"] for cell in GENERATORS.cells(Tier.seed, 11) if cell["model"] in MODELS} == {"fast", "paper"}


def test_what_is_missing_is_refused_before_anything_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> datasets.Dataset:
        raise InputError(f"{name} is missing")

    monkeypatch.setattr(datasets, "load", absent)
    with pytest.raises(InputError, match="census is missing"):
        GENERATORS.check(GENERATORS.cells(Tier.quick, 1))


def figures_of(ks: float, auc: float, **more: float) -> dict[str, float]:
    return {"ks": ks, "tv": ks, "association": ks, "auc": auc, "closest": 0.5, "diverged": 0.0, **more}


def some_cells() -> dict[tuple[Any, ...], Figures]:
    """Two sets, two draws: vae is worse than the copula everywhere, tvae only on bank."""
    found: dict[tuple[Any, ...], Figures] = {}
    for name in ("census", "bank"):
        for seed in (1, 2):
            beside: Figures = {HELD_OUT: {"ks": 0.01 * seed, "association": 0.01}, REAL: {"auc": 0.9}}
            tvae = figures_of(0.04 if name == "bank" else 0.01, 0.86)
            models = {
                ("copula", ""): figures_of(0.02, 0.85),
                ("hot-deck", ""): figures_of(0.0, 0.9, closest=0.67),
                ("vae", "fast"): figures_of(0.06, 0.7, train_cpu=10.0 * seed),
                ("tvae", "fast"): tvae,
            }
            for (model, preset), each in models.items():
                found[name, 1000, model, preset, seed] = {model: each, **beside}
    return found


def frame_of(found: dict[tuple[Any, ...], Figures]) -> pl.DataFrame:
    return kept.frame_of(GENERATORS, {key: Done(each, 60.0, "v", "m") for key, each in found.items()})


def test_figures_are_set_beside_those_of_the_same_draw() -> None:
    frame = with_ratios(frame_of(some_cells()))
    assert frame.filter(pl.col("method") == HELD_OUT).height == 4
    vae = frame.filter((pl.col("method") == "vae") & (pl.col("set") == "bank")).sort("seed")
    assert vae["ks_times"].to_list() == pytest.approx([6.0, 3.0])
    assert vae["association_times"].to_list() == pytest.approx([3.0, 3.0])
    assert vae["lost"].to_list() == pytest.approx([0.2, 0.2])


def test_the_page_says_who_loses_to_whom() -> None:
    told = losses(with_ratios(frame_of(some_cells()))).splitlines()
    everywhere = "than `hot-deck` is every model on every set"
    assert told[0] == f"- **KS**: worse than `copula` are vae on every set and tvae on bank; {everywhere}."
    assert told[3] == f"- **AUC**: worse than `copula` is vae on every set; {everywhere}."
    alone = {key: each for key, each in some_cells().items() if key[2] in ("tvae", "copula") and key[0] == "census"}
    assert "- **KS**: worse than `copula` is no model." in losses(with_ratios(frame_of(alone)))
    assert not losses(with_ratios(frame_of({key: each for key, each in alone.items() if key[2] == "tvae"})))


def test_the_section_and_its_picture_are_made_from_cells_alone(tmp_path: Path) -> None:
    cells = {key: Done(each, 60.0, "v", "m") for key, each in some_cells().items()}
    text = page.section(GENERATORS, Tier.standard, cells, "results")
    assert "![KS, and AUC lost, by model](results/generators-quality.svg)" in text
    assert "| vae | 0.060 ± 0.000 | 4.5 ± 2.1 |" in text
    assert "| vae | 15.0 ± 7.1 |" in text
    assert "nearer to a training row: hot-deck on census (0.67) and bank (0.67)." in text
    assert "nan" not in text.lower()
    picture = GENERATORS.pictures(kept.frame_of(GENERATORS, cells))["quality"]
    assert picture.x_names == [HELD_OUT, "copula", "hot-deck", "vae", "tvae"]
    svg, _ = figures.save(picture, tmp_path / "quality")
    drawn_text = svg.read_text()
    assert all(f">{name}<" in drawn_text for name in ("census", "bank", "tvae", HELD_OUT))


def test_plain_methods_and_models_are_what_the_library_has() -> None:
    assert {*PLAIN, *MODELS} == set(SAMPLERS)
    assert not set(PLAIN) & set(MODELS)

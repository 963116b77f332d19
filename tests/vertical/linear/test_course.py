"""How a descent begins, goes on, stops and fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from linear_settings import with_gradients
from pydantic import ValidationError

from unpooled.errors import InputError, RefusedError
from unpooled.vertical.inputs import Columns
from unpooled.vertical.linear.descent import order_of
from unpooled.vertical.linear.fitting import LinearParameters, Target, fit
from unpooled.vertical.linear.messages import NextEpoch
from unpooled.vertical.linear.model import LinearModel, LinearPart
from unpooled.vertical.linear.parameters import epochs_of
from unpooled.vertical.linear.predictor import score
from unpooled.vertical.linear.residuals import MOST_COLUMNS, Diverged
from unpooled.vertical.model_file import load, save
from unpooled.vertical.team import alone

Make = Callable[..., Any]

SMALL = {"batch_rows": 300, "insecure_batch": True, "tolerance": 0}


# beginning where another one ended


@pytest.mark.parametrize("optimiser", ["momentum", "adam", "plain"])
@pytest.mark.parametrize("classes", [2, 3, 0])
def test_a_descent_goes_on_as_if_it_had_not_stopped(
    together: Make, scene: Make, new_run: Any, tmp_path: Path, optimiser: str, classes: int
) -> None:
    data, settings = scene(), {"classes": classes, "optimiser": optimiser, "learning_rate": 0.03} | SMALL
    first = together(with_gradients(**settings, epochs=2), data=data)
    assert first.losses[1] < first.losses[0], "if the last weights are not the best ones, these are where it goes on"
    save(first.model, tmp_path / "bank.json")
    save(first.parts["telco"], tmp_path / "telco.json")
    new_run.parts["telco"] = load(tmp_path / "telco.json", LinearPart)
    new_run.fits.append(replace(first.fits[0], model=load(tmp_path / "bank.json", LinearModel)))
    second = together(with_gradients(**settings, epochs=3), data=data, start=new_run)
    whole = together(with_gradients(**settings, epochs=5), data=data)
    assert second.weights() == whole.weights()
    assert first.losses + second.losses == whole.losses
    assert second.model.part.name != first.model.part.name


def test_another_optimiser_begins_with_the_weights_alone(scene: Make) -> None:
    data = scene()
    first = fit(alone(), with_gradients(**SMALL, epochs=2), data.columns(), data.target())
    parameters = with_gradients(**SMALL, epochs=1, optimiser="plain")
    second = fit(alone(), parameters, data.columns(), data.target(), start=first.model)
    assert second.model.part.pace.steps == 4
    assert second.losses[0] < first.losses[0]


def test_a_start_that_does_not_fit_is_refused(scene: Make) -> None:
    data = scene()
    first = fit(alone(), with_gradients(**SMALL, epochs=1), data.columns(), data.target()).model
    for columns, classes in ((data.columns([0, 1]), 2), (data.columns(), 3)):
        with pytest.raises(InputError, match=r"pooled.*columns"):
            fit(alone(), with_gradients(classes=classes, **SMALL), columns, data.target(classes), start=first)
    pace = first.part.pace.model_copy(update={"velocity": ((0.0,),)})
    odd = first.model_copy(update={"part": first.part.model_copy(update={"pace": pace})})
    with pytest.raises(InputError, match=r"pooled.*steps"):
        fit(alone(), with_gradients(**SMALL), data.columns(), data.target(), start=odd)


def test_a_number_goes_on_with_the_scale_it_began_with(scene: Make) -> None:
    data, parameters = scene(), with_gradients(classes=0, **SMALL, epochs=3)
    first = fit(alone(), parameters, data.columns(), data.target(0)).model
    second = fit(alone(), parameters, data.columns(), Target(data.truth[0] + 1), start=first).model
    assert (second.centre, second.scale) == (first.centre, first.scale)
    assert second.intercept[0] > first.intercept[0]


# stopping


def test_validation_rows_judge_and_teach_nothing(scene: Make) -> None:
    data, share = scene(), 0.25
    parameters = with_gradients(**SMALL, epochs=3, validation_fraction=share)
    columns, held_back = data.columns(), order_of(1200)[900:]
    fitted = fit(alone(), parameters, columns, data.target())
    found = score(alone(), fitted.model, data.matrix[held_back])[:, 0]
    assert fitted.losses[-1] == pytest.approx(np.mean((found / 4 + 0.5 - data.truth[2][held_back]) ** 2), rel=1e-3)
    other = data.truth[2].copy()
    other[held_back] = 1 - other[held_back]
    again = fit(alone(), parameters.model_copy(update={"patience": 99}), columns, Target(other))
    assert again.losses[0] > fitted.losses[0]
    first = fit(alone(), parameters.model_copy(update={"epochs": 1}), columns, data.target())
    assert again.model.part.weights == first.model.part.weights, "the first epoch's weights judge best"


def test_the_best_weights_are_kept_and_patience_ends(together: Make, scene: Make) -> None:
    """Far too fast a rate: the loss rises after some epochs."""
    data = scene()
    parameters = with_gradients(
        **SMALL | {"batch_rows": 20}, learning_rate=0.5, l2=0, patience=2, validation_fraction=0.2
    )
    run = together(parameters, data=data)
    best = int(np.argmin(run.losses))
    assert len(run.losses) == best + 3
    again = together(parameters.model_copy(update={"epochs": best + 1}), data=data)
    assert again.weights() == run.weights()
    told = run.messages("telco", NextEpoch)
    assert [message.go_on for message in told] == [(True,)] * (len(told) - 1) + [(False,)]
    assert [place for place, message in enumerate(told) if message.best == (True,)][-1] == best


def test_tolerance_ends_a_descent_that_hardly_falls(scene: Make) -> None:
    data = scene()
    rough = fit(alone(), with_gradients(**SMALL | {"tolerance": 0.01}), data.columns(), data.target())
    fine = fit(alone(), with_gradients(**SMALL | {"tolerance": 0.00001}), data.columns(), data.target())
    assert 30 / 4 < len(rough.losses) < len(fine.losses) < 100
    assert min(fine.losses) < min(rough.losses) < 1.01 * min(fine.losses)


def test_two_fits_of_one_conversation_are_the_same(together: Make) -> None:
    run = together(with_gradients(**SMALL, epochs=2), "three", fits=2)
    one, other = (fitted.model for fitted in run.fits)
    assert one.part.weights == other.part.weights
    assert one.part.name != other.part.name


# failing


def test_small_batches_are_refused_unless_the_plan_says_so(together: Make, scene: Make) -> None:
    with pytest.raises(RefusedError, match=r" 1000 .*20 .* 900"):
        together(with_gradients(epochs=1), data=scene(900))
    with pytest.raises(RefusedError, match=" 64"):
        together(with_gradients(epochs=1, batch_rows=64), data=scene(1024))
    assert together(with_gradients(epochs=1), data=scene(1000)).losses


def test_a_wide_party_refuses_for_itself(together: Make, scene: Make) -> None:
    data = scene(1300)
    wide = data.__class__(np.tile(data.matrix[:, :1], (1, 110)), data.truth, data.weights)
    held = {"telco": tuple(range(100)), "bank": (100, 101)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(together.__globals__["HELD"], "two", held)
        with pytest.raises(RefusedError, match=r"telco.* 2000"):
            together(with_gradients(epochs=1, batch_rows=1000), data=wide)


@pytest.mark.parametrize(
    "settings",
    [
        {"learning_rate": 20.0},
        {"learning_rate": 300.0},
        {"classes": 0, "learning_rate": 20.0},
        {"optimiser": "adam", "learning_rate": 90.0},
    ],
)
def test_divergence_is_noticed_and_explained(together: Make, scene: Make, settings: dict[str, Any]) -> None:
    parameters, data = with_gradients(**SMALL, **settings), scene()
    with pytest.raises(Diverged, match="learning rate"):
        together(parameters, data=data)
    with pytest.raises(Diverged, match="learning rate"):
        fit(alone(), parameters, data.columns(), data.target(parameters.classes))


def test_wrong_tables_are_named(scene: Make) -> None:
    data, parameters = scene(), with_gradients(**SMALL)
    holes = data.matrix.copy()
    holes[6, 2] = np.nan
    with pytest.raises(InputError, match=r"pooled.*column no. 2.*row 7"):
        fit(alone(), parameters, Columns(holes, data.names), data.target())
    with pytest.raises(InputError, match=r"pooled.* 6 columns"):
        fit(alone(), parameters, Columns(data.matrix[:, :5], data.names), data.target())
    names = tuple(map(str, range(MOST_COLUMNS + 1)))
    with pytest.raises(InputError, match=rf"pooled.* {MOST_COLUMNS} columns"):
        fit(alone(), parameters, Columns(np.zeros((2, len(names))), names), Target(np.array([0.0, 1.0])))


def test_wrong_targets_are_named(scene: Make) -> None:
    data, parameters = scene(), with_gradients(**SMALL)
    with pytest.raises(InputError, match=r"target.*1 of 2"):
        fit(alone(), parameters, data.columns(), Target(np.ones(1200)))
    with pytest.raises(InputError, match="target"):
        fit(alone(), parameters, data.columns(), Target(np.full(1200, np.nan)))
    with pytest.raises(InputError, match=r"target.* 3 .* 1200"):
        fit(alone(), parameters, data.columns(), Target(np.ones(3)))
    with pytest.raises(InputError, match=r"classes.* 3 .* 2"):
        fit(alone(), parameters, data.columns(), data.target(), ("a", "b", "c"))
    far = data.truth[0].copy()
    far[0] = 1e6
    with pytest.raises(InputError, match=r"target.* 32"):
        fit(alone(), with_gradients(classes=0), data.columns(), Target(far))


def test_without_epochs_there_are_as_many_as_make_enough_steps(together: Make) -> None:
    counts = {steps: epochs_of(LinearParameters(), steps) for steps in (1, 3, 4, 24, 60, 120)}
    assert counts == {1: 100, 3: 100, 4: 75, 24: 13, 60: 5, 120: 5}
    assert epochs_of(with_gradients(), 24) == 100
    assert epochs_of(LinearParameters(epochs=7), 24) == epochs_of(with_gradients(epochs=7), 24) == 7
    run = together(LinearParameters(batch_rows=20), engine="plain")
    assert (run.fits[0].epochs, run.losses) == (5, ()), "60 batches of 1200 rows"


def test_a_constant_number_is_learned(scene: Make) -> None:
    fitted = fit(alone(), with_gradients(classes=0, **SMALL), scene().columns(), Target(np.full(1200, 5.0)))
    assert fitted.model.centre == 5
    assert fitted.losses[-1] == 0


def test_impossible_settings_are_refused(scene: Make) -> None:
    with pytest.raises(ValidationError, match="classes"):
        with_gradients(classes=1)
    with pytest.raises(ValidationError, match=r"the default.*With reveal = 'gradients' it works"):
        LinearParameters(optimiser="adam")
    with pytest.raises(ValidationError, match=r"the default.*With reveal = 'gradients' it works"):
        LinearParameters(validation_fraction=0.1)
    with pytest.raises(InputError, match="validation_fraction"):
        fit(alone(), with_gradients(validation_fraction=0.9999), scene(100).columns(), scene(100).target())


def test_sums_that_might_not_fit_are_refused_before_they_are_made(scene: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    data = scene()
    with monkeypatch.context() as patch:
        patch.setattr("unpooled.vertical.linear.descent.LARGEST", 2**47)
        with pytest.raises(InputError, match=r"batch_rows.* 1200 .* 1024"):
            fit(alone(), with_gradients(), data.columns(), data.target())


def test_a_limit_on_questions_holds(together: Make) -> None:
    with pytest.raises(RefusedError, match=" 5 columns"):
        together(with_gradients(**SMALL, epochs=3), rules={"questions": 5})
    run = together(with_gradients(**SMALL, epochs=3))
    assert all(engine.rules.questions is None for engine in run.engines.values())

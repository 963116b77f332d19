"""Using linear models: classes, probabilities and numbers, and what is kept of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from linear_settings import with_gradients

from unpooled.errors import InputError, ProtocolError
from unpooled.vertical.inputs import Columns
from unpooled.vertical.linear.fitting import fit, help_fit
from unpooled.vertical.linear.messages import PartialScores
from unpooled.vertical.linear.model import LinearModel, LinearPart
from unpooled.vertical.linear.predictor import help_predict, predict, predict_proba, score
from unpooled.vertical.model_file import load, save
from unpooled.vertical.team import Team, alone

Make = Callable[..., Any]

SMALL = {"batch_rows": 300, "insecure_batch": True, "epochs": 6}


def fitted(scene: Make, names: tuple[str, ...] = (), **settings: Any) -> tuple[Any, LinearModel]:
    data, parameters = scene(), with_gradients(**SMALL, **settings)
    return data, fit(alone(), parameters, data.columns(), data.target(parameters.classes), names).model


def test_two_classes(scene: Make) -> None:
    data, model = fitted(scene, ("stays", "leaves"))
    chances, found = predict_proba(alone(), model, data.matrix), score(alone(), model, data.matrix)
    np.testing.assert_allclose(chances[:, 1], 1 / (1 + np.exp(-found[:, 0])), rtol=1e-12)
    np.testing.assert_allclose(chances.sum(axis=1), 1, rtol=1e-12)
    classes = predict(alone(), model, data.matrix)
    assert np.array_equal(classes == "leaves", chances[:, 1] > 0.5)
    assert np.mean((classes == "leaves") == data.truth[2]) > 0.75


@pytest.mark.parametrize("several", ["softmax", "one-versus-rest"])
def test_several_classes(scene: Make, several: str) -> None:
    data, model = fitted(scene, ("low", "middle", "high"), classes=3, several=several)
    chances, found = predict_proba(alone(), model, data.matrix), score(alone(), model, data.matrix)
    expected = np.exp(found) if several == "softmax" else 1 / (1 + np.exp(-found))
    np.testing.assert_allclose(chances, expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)
    classes = predict(alone(), model, data.matrix)
    assert np.array_equal(classes, np.array(["low", "middle", "high"])[chances.argmax(axis=1)])
    assert np.mean(classes == np.array(["low", "middle", "high"])[data.truth[3].astype(int)]) > 0.55


def test_numbers(scene: Make) -> None:
    data, model = fitted(scene, classes=0)
    left = data.truth[0] - predict(alone(), model, data.matrix)
    assert left.var() < 0.35 * data.truth[0].var()
    assert abs(left.mean()) < 0.3
    with pytest.raises(InputError, match="probabilities"):
        predict_proba(alone(), model, data.matrix)


def test_importance_is_each_partys_own(together: Make) -> None:
    run = together(with_gradients(classes=3, **SMALL))
    assert set(run.parts["telco"].importance) == {f"column no. {number}" for number in (0, 1, 2, 5)}
    assert set(run.model.part.importance) == {"column no. 3", "column no. 4"}
    sizes = run.parts["telco"].importance
    assert sizes["column no. 0"] == pytest.approx(np.abs(run.parts["telco"].weights[0]).mean())
    assert sizes["column no. 0"] > sizes["column no. 5"], "the one matters more"


def test_parts_are_kept_and_used_in_another_conversation(together: Make, scene: Make, tmp_path: Path) -> None:
    run, data = together(with_gradients(**SMALL), "three"), scene()
    for party, part in {"bank": run.model, **run.parts}.items():
        save(part, tmp_path / party)
    text = (tmp_path / "telco").read_text()
    assert "column no. 0" in text
    assert "column no. 2" not in text, "a party's file says nothing of others' columns"
    new = data.matrix[:50]
    found = []

    def active(team: Team, _: Any) -> None:
        model = load(tmp_path / "bank", LinearModel)
        found.append(score(team, model, new[:, [2, 3]]))
        found.append(predict(team, model, new[:, [2, 3]]))
        found.append(predict_proba(team, model, new[:, [2, 3]]))

    def passive(which: list[int]) -> Callable[[Team, Any], None]:
        def help_thrice(team: Team, _: Any) -> None:
            part = load(tmp_path / team.session.party, LinearPart)
            for _ in range(3):
                help_predict(team, part, new[:, which])

        return help_thrice

    own = {"bank": active, "telco": passive([0, 1]), "shop": passive([4, 5])}
    together(with_gradients(), "three", "plain", own=own)
    np.testing.assert_array_equal(found[0], run.scores[:50])
    assert np.array_equal(found[1] == "1", found[0][:, 0] > 0)
    assert np.array_equal(found[2][:, 1] > 0.5, found[0][:, 0] > 0)


def test_a_damaged_file_is_named(tmp_path: Path, scene: Make) -> None:
    _, model = fitted(scene)
    for change, what in (
        ({"weights": ((1.0,),)}, "weights"),
        ({"name": "x"}, "name"),
    ):
        save(model.part.model_copy(update=change), tmp_path / "odd.json")
        with pytest.raises(InputError, match=rf"odd\.json.*{what}"):
            load(tmp_path / "odd.json", LinearPart)
    for change, what in (
        ({"intercept": (1.0, 2.0)}, "intercept"),
        ({"owners": ("somebody",)}, "owners"),
        ({"classes": ("a", "b", "c")}, "classes"),
    ):
        save(model.model_copy(update=change), tmp_path / "odd.json")
        with pytest.raises(InputError, match=rf"odd\.json.*{what}"):
            load(tmp_path / "odd.json", LinearModel)


# misuse


def test_other_parties_rows_or_models_are_refused(together: Make, scene: Make) -> None:
    parameters, data = with_gradients(**SMALL), scene()
    model = fit(alone(), parameters, data.columns(), data.target()).model
    with pytest.raises(InputError, match=r"pooled.*telco, bank"):
        together(parameters, own={"bank": lambda team, _: score(team, model, data.matrix)})

    def other_rows(team: Team, data: Any) -> None:
        part = help_fit(team, parameters, data.columns((0, 1, 2, 5)))
        help_predict(team, part, data.matrix[:7, [0, 1, 2, 5]])

    with pytest.raises(ProtocolError, match=r"bank.* 1200 .*telco.* 7"):
        together(parameters, own={"telco": other_rows})

    def other_model(team: Team, data: Any) -> None:
        part = help_fit(team, parameters, data.columns((0, 1, 2, 5)))
        help_predict(team, part.model_copy(update={"name": "0" * 32}), data.matrix[:, [0, 1, 2, 5]])

    with pytest.raises(ProtocolError, match=r"bank .*another model than telco"):
        together(parameters, own={"telco": other_model})


def test_scores_of_the_wrong_shape_are_refused(together: Make) -> None:
    def cut(_: str, message: Any) -> Any:
        return replace(message, values=message.values[1:]) if isinstance(message, PartialScores) else message

    with pytest.raises(ProtocolError, match="PartialScores from telco"):
        together(with_gradients(**SMALL), tamper={"telco": cut})


def test_new_rows_must_have_the_models_columns(scene: Make) -> None:
    data, model = fitted(scene)
    with pytest.raises(InputError, match=r"pooled.* 6 columns"):
        predict(alone(), model, data.matrix[:, :4])
    holes = Columns(np.where(np.arange(6) == 3, np.inf, data.matrix), data.names).matrix
    with pytest.raises(InputError, match=r"pooled.*column no. 3.*row 1"):
        predict(alone(), model, holes)

"""A fit that is interrupted after any page goes on, and leaves what it would have left."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from linear_settings import with_gradients

from unpooled.checkpoint import Notebook
from unpooled.errors import InputError
from unpooled.secure.product import finish
from unpooled.vertical.linear.checkpoint import is_page_due
from unpooled.vertical.linear.fitting import LinearParameters, Target, fit_many, help_fit_many
from unpooled.vertical.linear.messages import NextEpoch
from unpooled.vertical.team import Team, alone

Make = Callable[..., Any]

SMALL: dict[str, Any] = {"epochs": 20, "batch_rows": 300, "insecure_batch": True}


def learned(
    together: Make, data: Any, parameters: LinearParameters, targets: list[Target], team: str, engine: str, folder: Path
) -> tuple[list[Any], Any]:
    """What all parties learn of all models, with a notebook each, and the run."""
    held, found = together.__globals__["HELD"][team], dict[str, Any]()

    def active(members: Team, _: Any) -> None:
        columns, notebook = data.columns(held["bank"]), Notebook(folder / "bank")
        fitted = fit_many(members, parameters, columns, targets, notebook=notebook)
        finish(members.products)
        found["bank"] = [(f.model.part.weights, f.model.part.pace, f.model.intercept, f.losses) for f in fitted]

    def passive(members: Team, _: Any) -> None:
        party = members.session.party
        columns, notebook = data.columns(held[party]), Notebook(folder / party)
        parts = help_fit_many(members, parameters, columns, len(targets), notebook=notebook)
        found[party] = [(part.weights, part.pace) for part in parts]

    own = {party: active if party == "bank" else passive for party in held}
    run = together(parameters, team, engine, data=data, own=own)
    return [found[party] for party in sorted(found)], run


def cut_to(pages: int, whole: Path, folder: Path) -> None:
    """The notebooks as they were when all had so many pages."""
    shutil.copytree(whole, folder)
    for party in whole.iterdir():
        Notebook(folder / party.name).keep_first(pages)


@pytest.mark.parametrize(
    ("team", "engine", "settings", "weighted"),
    [
        ("two", "shares", {"optimiser": "adam", "learning_rate": 0.02}, False),
        ("two", "shares", {}, True),
        ("three", "plain", {"classes": 3, "epochs": 12}, True),
        ("a passive one without columns", "plain", {"epochs": 7, "validation_fraction": 0.2}, False),
    ],
    ids=str,
)
def test_it_goes_on_after_any_page(
    together: Make, scene: Make, tmp_path: Path, team: str, engine: str, settings: dict[str, Any], weighted: bool
) -> None:
    data, parameters = scene(), with_gradients(**SMALL | settings)
    truth = data.truth[parameters.classes]
    targets = [Target(values, data.weights if weighted else None) for values in (truth, truth[::-1].copy())]
    whole, run = learned(together, data, parameters, targets, team, engine, tmp_path / "whole")
    pages = len(Notebook(tmp_path / "whole" / "bank"))
    assert pages >= 4
    assert {len(Notebook(folder)) for folder in (tmp_path / "whole").iterdir()} == {pages}
    epochs = len(run.messages("telco", NextEpoch))
    for kept in (1, pages // 2, pages):
        cut_to(kept, tmp_path / "whole", tmp_path / str(kept))
        again, rest = learned(together, data, parameters, targets, team, engine, tmp_path / str(kept))
        assert again == whole
        done = int(Notebook(tmp_path / str(kept) / "bank").read(kept - 1)["epochs"])
        assert len(rest.messages("telco", NextEpoch)) == epochs - done
        assert len(Notebook(tmp_path / str(kept) / "telco")) == pages


def test_models_that_have_stopped_stay_so(together: Make, scene: Make, tmp_path: Path) -> None:
    """The second model is of noise, and stops long before the first."""
    data, parameters = scene(), with_gradients(**SMALL | {"epochs": 60, "patience": 1, "tolerance": 0.001})
    noise = np.random.default_rng(4).integers(0, 2, 1200).astype(float)
    targets = [data.target(), Target(noise)]
    whole, _ = learned(together, data, parameters, targets, "two", "plain", tmp_path / "whole")
    first, second = (len(losses) for *_, losses in whole[0])
    assert first != second
    notebook = Notebook(tmp_path / "whole" / "bank")
    assert not notebook.read(len(notebook) - 1)["going"].all()
    for kept in range(1, len(notebook) + 1):
        cut_to(kept, tmp_path / "whole", tmp_path / str(kept))
        assert learned(together, data, parameters, targets, "two", "plain", tmp_path / str(kept))[0] == whole


def test_a_party_alone_goes_on_too(scene: Make, tmp_path: Path) -> None:
    data, parameters = scene(), with_gradients(**SMALL)
    (whole,) = fit_many(alone(), parameters, data.columns(), [data.target()], notebook=Notebook(tmp_path / "whole"))
    Notebook(tmp_path / "whole").keep_first(3)
    (again,) = fit_many(alone(), parameters, data.columns(), [data.target()], notebook=Notebook(tmp_path / "whole"))
    assert (again.model.part.weights, again.losses) == (whole.model.part.weights, whole.losses)


def test_shares_of_weights_are_not_kept(together: Make, scene: Make, tmp_path: Path) -> None:
    parameters = LinearParameters(reveal="final", epochs=10, batch_rows=1200)
    data = scene()
    learned(together, data, parameters, [data.target()], "two", "plain", tmp_path)
    assert not list(tmp_path.rglob("*.npz"))


def test_pages_are_few() -> None:
    due = {epochs: [e for e in range(1, epochs + 1) if is_page_due(e, epochs)] for epochs in (1, 7, 100, 101)}
    assert due[1] == []
    assert due[7] == [1, 2, 3, 4, 5, 6]
    assert due[100] == list(range(10, 100, 10))
    assert due[101] == list(range(11, 101, 11))


@pytest.mark.parametrize("damage", [{"weights": np.zeros((1, 3, 1))}, {"losses": None}, {"going": np.ones(2, bool)}])
def test_a_page_of_something_else_is_refused(scene: Make, tmp_path: Path, damage: dict[str, Any]) -> None:
    data, parameters = scene(), with_gradients(**SMALL)
    notebook = Notebook(tmp_path / "whole")
    fit_many(alone(), parameters, data.columns(), [data.target()], notebook=notebook)
    page = {name: values for name, values in (notebook.read(0) | damage).items() if values is not None}
    other = Notebook(tmp_path / "other")
    other.write(**page)
    with pytest.raises(InputError, match="checkpoint"):
        fit_many(alone(), parameters, data.columns(), [data.target()], notebook=other)

"""What columns add to what linear models say of a row: weights times distances from means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from linear_settings import with_gradients

from unpooled.errors import InputError, ProtocolError
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Rules, open_engine
from unpooled.session import Session
from unpooled.vertical.linear.explaining import contributions, help_contributions
from unpooled.vertical.linear.fitting import fit_many
from unpooled.vertical.linear.messages import ExplainedOutputs, PartyContributions
from unpooled.vertical.linear.model import LinearModels, LinearPart, LinearParts
from unpooled.vertical.linear.predictor import score
from unpooled.vertical.team import Team, alone

Make = Callable[..., Any]
HELD = {"telco": (0, 1), "bank": (2, 3), "shop": (4, 5)}
ROWS = np.array([2, 3, 11])


def fitted(scene: Make, classes: int) -> tuple[Any, LinearModels]:
    """Two models of pooled columns."""
    data = scene()
    parameters = with_gradients(batch_rows=300, insecure_batch=True, epochs=3, classes=classes)
    targets = [data.target(classes), replace(data.target(classes), weights=data.weights)]
    fits = fit_many(alone(), parameters, data.columns(), targets)
    return data, LinearModels(models=tuple(one.model for one in fits))


def dealt(model: LinearModels, owner: str) -> Any:
    """A party's part of models of pooled columns."""

    def of(part: LinearPart) -> LinearPart:
        chosen = {
            name: tuple(getattr(part, name)[place] for place in HELD[owner]) for name in ("columns", "weights", "means")
        }
        return part.model_copy(update={"party": owner, "pace": None} | chosen)

    parts = [of(one.part) for one in model.models]
    if owner != "bank":
        return LinearParts(parts=tuple(parts))
    each = zip(model.models, parts, strict=True)
    return LinearModels(
        models=tuple(one.model_copy(update={"part": part, "owners": tuple(HELD)}) for one, part in each)
    )


def explained(data: Any, model: LinearModels, outputs: Any, tamper: Any = None) -> dict[str, Any]:
    def part(session: Session) -> Any:
        send = session.send
        if tamper:
            session.send = lambda peer, message, **how: send(peer, tamper(message), **how)  # type: ignore[method-assign]
        team = Team("bank", tuple(HELD), open_engine(session, Rules("plain"), tuple(HELD), "bank", None), "digest")
        own, matrix = dealt(model, session.party), data.matrix[:, list(HELD[session.party])]
        if session.party == "bank":
            return contributions(team, own, matrix, ROWS, outputs)
        return help_contributions(team, own, matrix, 3)

    return dict(simulate_roles(dict.fromkeys(HELD, part)).results)


@pytest.mark.parametrize("classes", [2, 3, 0])
def test_each_owner_learns_what_pooled_columns_give_for_its_own(scene: Make, classes: int) -> None:
    data, model = fitted(scene, classes)
    outputs = np.arange(3) % max(classes - 1, 1)
    pooled, found = contributions(alone(), model, data.matrix, ROWS, outputs), explained(data, model, outputs)
    np.testing.assert_array_equal(found["bank"].own, pooled.own[:, [2, 3]])
    for owner in ("telco", "shop"):
        rows, added = found[owner]
        np.testing.assert_array_equal(rows, ROWS)
        np.testing.assert_array_equal(added, pooled.own[:, list(HELD[owner])])
        np.testing.assert_allclose(found["bank"].others[owner], added.sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(found["bank"].base, pooled.base, atol=1e-12)
    each = [one.centre + one.scale * score(alone(), one, data.matrix) for one in model.models]
    if classes:
        each = [score(alone(), one, data.matrix) for one in model.models]
    said = np.mean(each, axis=0)[ROWS, outputs]
    np.testing.assert_allclose(found["bank"].margins, said, atol=1e-6)  # scores travel in steps of 2^-24
    mean_row = data.matrix.clip(-8, 8).mean(axis=0)[np.newaxis]
    of_mean = contributions(alone(), model, mean_row, np.array([0]), outputs[:1])
    np.testing.assert_allclose(of_mean.own, 0, atol=1e-2)  # columns are in steps of 2^-12


def test_what_cannot_be_right_is_refused(scene: Make) -> None:
    data, model = fitted(scene, 2)
    for kind, change in (
        (ExplainedOutputs, {"outputs": np.array([0, 0, 1], np.int32)}),
        (ExplainedOutputs, {"scales": np.ones(1)}),
        (PartyContributions, {"totals": np.zeros(2)}),
    ):
        with pytest.raises(ProtocolError, match=f"invalid {kind.__name__} from (bank|telco|shop)"):
            explained(
                data,
                model,
                np.zeros(3, np.int64),
                lambda message, kind=kind, change=change: (
                    replace(message, **change) if isinstance(message, kind) else message
                ),
            )
    old = [one.model_copy(update={"part": one.part.model_copy(update={"means": ()})}) for one in model.models]
    assert '"means"' not in old[0].model_dump_json()
    with pytest.raises(InputError, match="the model lacks the means of its columns"):
        contributions(alone(), LinearModels(models=tuple(old)), data.matrix, ROWS, np.zeros(3, np.int64))

"""What parties keep of a descent, so that one that was interrupted goes on after the last page that all have.

A page has what follows from shown gradients: a party's own weights, what its optimiser remembers, and at the active
party the losses. With `reveal = "final"` weights are secret shares until the end, so nothing is kept and an interrupted
fit begins again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unpooled.checkpoint import Page
from unpooled.errors import InputError
from unpooled.vertical.linear.parameters import LinearParameters
from unpooled.vertical.linear.state import Side, State

_PAGES = 10
_STATE = ("weights", "velocity", "squares", "steps")


def is_page_due(parameters: LinearParameters, epochs: int) -> bool:
    """Whether a page is written after so many epochs: at each tenth of all, but not at the end."""
    return epochs % -(-parameters.epochs // _PAGES) == 0 and epochs < parameters.epochs


def page_of(sides: Sequence[Side], going: Sequence[Side], epochs: int) -> Page:
    """Where all models are after so many epochs; of those that have no best weights yet the current ones stand in."""
    page: Page = {"epochs": np.array(epochs), "going": np.array([side in going for side in sides])}
    for name in _STATE:
        page[name] = np.stack([np.asarray(getattr(side.state, name)) for side in sides])
        page[f"best_{name}"] = np.stack([np.asarray(getattr(side.best or side.state, name)) for side in sides])
    page["has_best"] = np.array([side.best is not None for side in sides])
    page["losses"] = np.array([loss for side in sides for loss in side.losses])
    page["loss_counts"] = np.array([len(side.losses) for side in sides])
    return page | {"fell": np.array([side.fell for side in sides])}


def go_on_from(page: Page, sides: Sequence[Side]) -> tuple[int, list[Side]]:
    """Put all models where a page has them; after how many epochs that was, and the models that go on."""
    try:
        losses = np.split(page["losses"], np.cumsum(page["loss_counts"])[:-1])
        for place, side in enumerate(sides):
            side.state = _state(page, "", place, side.state.weights.shape)
            side.best = _state(page, "best_", place, side.state.weights.shape) if page["has_best"][place] else None
            side.losses, side.fell = losses[place].tolist(), int(page["fell"][place])
        return int(page["epochs"]), [side for side, goes_on in zip(sides, page["going"], strict=True) if goes_on]
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise InputError(f"a page of a checkpoint is not one of these linear models: {error}") from None


def _state(page: Page, prefix: str, place: int, shape: tuple[int, ...]) -> State:
    weights, velocity, squares, steps = (page[f"{prefix}{name}"][place] for name in _STATE)
    if not weights.shape == velocity.shape == squares.shape == shape:
        raise ValueError("it is about other columns")
    return State(weights, velocity, squares, int(steps))

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
from unpooled.vertical.linear.state import FitState, Iterate

_PAGES = 10
_STATE = ("weights", "velocity", "squares", "steps")


def is_page_due(epochs: int, most: int) -> bool:
    """Whether a page is written after so many epochs: at each tenth of all, but not at the end."""
    return epochs % -(-most // _PAGES) == 0 and epochs < most


def page_of(states: Sequence[FitState], going: Sequence[FitState], epochs: int) -> Page:
    """Where all models are after so many epochs; a model without best weights yet has the current ones there."""
    page: Page = {"epochs": np.array(epochs), "going": np.array([state in going for state in states])}
    for name in _STATE:
        page[name] = np.stack([np.asarray(getattr(state.iterate, name)) for state in states])
        page[f"best_{name}"] = np.stack([np.asarray(getattr(state.best or state.iterate, name)) for state in states])
    page["has_best"] = np.array([state.best is not None for state in states])
    page["losses"] = np.array([loss for state in states for loss in state.losses])
    page["loss_counts"] = np.array([len(state.losses) for state in states])
    return page | {"fell": np.array([state.fell for state in states])}


def go_on_from(page: Page, states: Sequence[FitState]) -> tuple[int, list[FitState]]:
    """Put all models where a page has them; after how many epochs that was, and the models that go on."""
    try:
        losses = np.split(page["losses"], np.cumsum(page["loss_counts"])[:-1])
        for place, state in enumerate(states):
            shape = state.iterate.weights.shape
            state.iterate = _iterate(page, "", place, shape)
            state.best = _iterate(page, "best_", place, shape) if page["has_best"][place] else None
            state.losses, state.fell = losses[place].tolist(), int(page["fell"][place])
        return int(page["epochs"]), [state for state, goes_on in zip(states, page["going"], strict=True) if goes_on]
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise InputError(f"a page of a checkpoint is not one of these linear models: {error}") from None


def _iterate(page: Page, prefix: str, place: int, shape: tuple[int, ...]) -> Iterate:
    weights, velocity, squares, steps = (page[f"{prefix}{name}"][place] for name in _STATE)
    if not weights.shape == velocity.shape == squares.shape == shape:
        raise ValueError("it is about other columns")
    return Iterate(weights, velocity, squares, int(steps))

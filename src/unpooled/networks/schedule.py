"""How long a network is trained, and in what steps; nothing here needs JAX."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """Epochs, rows in a step, and the step size."""

    epochs: int
    batch_rows: int
    learning_rate: float

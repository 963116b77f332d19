"""The loop that trains all networks.

A model gives a function for one step, which `chunked` compiles together with a loop over a fixed number of batches.
Batches are put together here, epoch by epoch, so that the compiled function does not depend on the number of rows: rows
held out to measure quality need no second compilation. Everything random follows from one random seed and the number of
the epoch, so a training that was resumed ends with the same weights as one that was not interrupted.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array

from unpooled.arrays import Floats, Ints
from unpooled.data.coding import Column
from unpooled.errors import TrainingDiverged
from unpooled.networks.checkpoints import Checkpoint, read_checkpoint, write_checkpoint
from unpooled.networks.encoding import Singles
from unpooled.networks.schedule import Schedule
from unpooled.settings import Section

STEPS = 8
"""So many batches are handed to the compiled function at once."""
_LARGEST_LOSS = 1e8
_SEEDS = 2**62
_FEW_BATCHES = 4

Tree = Any
"""Arrays in nested tuples, lists and dictionaries, as JAX has them."""

Step = Callable[[Any, Tree, Tree, Array, Tree], tuple[Tree, Array]]
"""(form, state, batch, key, fixed) to the state after one step and its loss."""

Steps = Callable[[Any, Tree, Tree, Any, Array, Tree], tuple[Tree, Array]]
"""(form, state, batches, count, key, fixed) to the state after `count` of the batches and the sum of their losses."""

Batches = Callable[[np.random.Generator], Tree]
"""An epoch's batches: arrays whose first axis is the steps."""


@dataclass(frozen=True)
class Progress:
    """How far a training is: epochs done, the last one's mean loss, about how long it will still take."""

    epoch: int
    epochs: int
    loss: float
    seconds_left: float


Watch = Callable[[Progress], None]


def unwatched(_: Progress) -> None:
    """For trainings that nobody watches."""


@dataclass(frozen=True)
class EarlyStop:
    """Stop if the loss on held-out rows has not fallen for so many epochs; the best weights are kept."""

    loss: Callable[[Tree], Array]
    patience: int


def chunked(step: Step) -> Steps:
    """Compile a step with a loop over batches; `form` is fixed at compilation and must be hashable.

    The state is used up: its memory is used again for the new state.
    """

    @partial(jax.jit, static_argnums=0, donate_argnums=1)
    def steps(form: Any, state: Tree, batches: Tree, count: Any, key: Array, fixed: Tree) -> tuple[Tree, Array]:
        def one(number: Array, carry: tuple[Tree, Array]) -> tuple[Tree, Array]:
            state, total = carry
            batch = jax.tree.map(lambda part: jax.lax.dynamic_index_in_dim(part, number, keepdims=False), batches)
            state, loss = step(form, state, batch, jax.random.fold_in(key, number), fixed)
            return state, total + loss

        done: tuple[Tree, Array] = jax.lax.fori_loop(0, count, one, (state, jax.numpy.zeros(())))
        return done

    return steps


def fitting_batch(batch_rows: int, rows: int) -> int:
    """How many rows a batch has: two fifths of what was asked for if the table would have few batches.

    There are just two sizes, so that few are compiled. The smaller is a multiple of ten.
    """
    return batch_rows if rows >= _FEW_BATCHES * batch_rows else max(batch_rows // 25 * 10, 10)


def shuffled(rows: Singles, batch_rows: int) -> Batches:
    """Rows in a new order in each epoch; what does not fill a batch is left out, and a few rows are repeated."""
    steps = max(len(rows) // batch_rows, 1)

    def batches(rng: np.random.Generator) -> Singles:
        places = shuffled_places(len(rows), steps * batch_rows, rng)
        return rows[places].reshape(steps, batch_rows, rows.shape[1])

    return batches


def shuffled_places(rows: int, wanted: int, rng: np.random.Generator) -> Ints:
    """So many numbers of rows, each as often as the others but for one."""
    orders = [rng.permutation(rows) for _ in range(-(-wanted // rows))]
    return np.concatenate(orders)[:wanted]


def key_from(rng: np.random.Generator) -> Array:
    """JAX's source of random numbers; of its kinds, the one that is fast on a processor."""
    return _key(int(rng.integers(_SEEDS)))


def _key(seed: int) -> Array:
    return jax.random.key(seed % 2**32, impl="rbg")


def train(
    name: str,
    schedule: Schedule,
    steps: Steps,
    form: Any,
    state: Tree,
    batches: Batches,
    fixed: Tree,
    rng: np.random.Generator,
    *,
    about: Mapping[str, str],
    watch: Watch = unwatched,
    checkpoint: Path | None = None,
    checkpoint_seconds: float = 60.0,
    early_stop: EarlyStop | None = None,
) -> Tree:
    """Train for as many epochs as the schedule says, from a checkpoint if there is one; returns the state.

    `about` says what the training is about, by digests: a checkpoint of something else is refused. A KeyboardInterrupt
    that `watch` raises ends the training after its checkpoint is written. The checkpoint of a training that has ended
    stays, for the caller to remove once the result is kept.
    """
    seed, epochs = int(rng.integers(_SEEDS)), schedule.epochs
    about = {**about, "random seed": _digest(str(seed).encode())}
    reached = Checkpoint(0, math.inf, 0, state, state)
    if checkpoint is not None and checkpoint.exists():
        reached = read_checkpoint(checkpoint, about, state)
    state, best = reached.state, reached.best
    epoch, best_loss, best_epoch = reached.epoch, reached.best_loss, reached.best_epoch
    if early_stop and not epoch:
        best = _copied(state)
    begun, first, written = time.monotonic(), epoch, time.monotonic()
    while epoch < epochs and not (early_stop and epoch - best_epoch >= early_stop.patience):
        epoch += 1
        state, loss = _epoch(steps, form, state, batches(np.random.default_rng([seed, epoch])), fixed, (seed, epoch))
        if not (math.isfinite(loss) and abs(loss) < _LARGEST_LOSS):
            raise _diverged(name, schedule, epoch)
        if early_stop and (held_out := float(early_stop.loss(state))) < best_loss:
            best, best_loss, best_epoch = _copied(state), held_out, epoch
        now = time.monotonic()
        interrupted: KeyboardInterrupt | None = None
        try:
            watch(Progress(epoch, epochs, loss, (now - begun) / (epoch - first) * (epochs - epoch)))
        except KeyboardInterrupt as error:
            interrupted = error
        if epoch == first + 1:  # compilation, which the first epoch includes, does not come again
            begun, first = now, epoch
        if checkpoint is not None and (interrupted or now - written >= checkpoint_seconds or epoch == epochs):
            kept = best if early_stop else state
            write_checkpoint(checkpoint, about, Checkpoint(epoch, best_loss, best_epoch, state, kept))
            written = time.monotonic()
        if interrupted:
            raise interrupted
    state = best if early_stop and best_epoch else state
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state)):
        raise _diverged(name, schedule, epoch)
    return state


def _epoch(
    steps: Steps, form: Any, state: Tree, batches: Tree, fixed: Tree, seed: tuple[int, int]
) -> tuple[Tree, float]:
    """The state after one epoch, and the mean loss."""
    count = len(jax.tree.leaves(batches)[0])
    key = jax.random.fold_in(_key(seed[0]), seed[1])
    total = 0.0
    for start in range(0, count, STEPS):
        some = jax.tree.map(lambda part, start=start: _filled_up(part[start : start + STEPS]), batches)
        state, loss = steps(form, state, some, min(STEPS, count - start), jax.random.fold_in(key, start), fixed)
        total += float(loss)
    return state, total / count


def _filled_up(part: Any) -> Any:
    """With zeros up to the number of batches that the compiled function takes."""
    missing = STEPS - len(part)
    return np.concatenate([part, np.zeros((missing, *part.shape[1:]), part.dtype)]) if missing else part


def _copied(state: Tree) -> Tree:
    """So that it outlives the next step."""
    return jax.tree.map(jax.numpy.array, state)


def _diverged(name: str, schedule: Schedule, epoch: int) -> TrainingDiverged:
    return TrainingDiverged(
        f"the training of '{name}' diverged in epoch {epoch:,}: set a lower learning_rate "
        f"than {schedule.learning_rate:g}, train on more rows, or choose another preset"
    )


def about_training(settings: Section, columns: Sequence[Column], values: Floats) -> dict[str, str]:
    """What a checkpoint must agree with: digests of the settings and of the table."""
    described = "".join(column.model_dump_json() for column in columns).encode()
    return {
        "settings": _digest(settings.model_dump_json().encode()),
        "table": _digest(described + np.ascontiguousarray(values).tobytes()),
    }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

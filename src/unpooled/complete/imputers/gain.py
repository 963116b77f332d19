"""GAIN, generative adversarial imputation nets (Yoon, Jordon and van der Schaar 2018).

The preset `fast` differs from the paper: another fifth of the known cells is hidden in training, at random or as in
other rows, and errors there count most; training stops when the error in held-out cells no longer falls; numbers are
standardised on their way in and out; the generator has a linear layer beside its others, hidden layers of at least 64
units, and is used with the mean of its weights over the last steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers.completer import some_rows
from unpooled.complete.completers.neural import Preset
from unpooled.complete.imputers.cells import (
    decoded,
    encoded,
    learn_cells,
    most_likely,
    narrowed,
    patterns_of,
    shown_cells,
)
from unpooled.complete.imputers.gain_network import (
    Batch,
    Fixed,
    Form,
    State,
    answers,
    held_out_error,
    initial,
    initial_generator,
    one_step,
)
from unpooled.complete.imputers.settings import STEPS, AdversarialSettings, GainSettings
from unpooled.data.coding import Column
from unpooled.networks.encoding import Layout, Singles
from unpooled.networks.groups import units_of
from unpooled.networks.layers import Weights, blocks
from unpooled.networks.trained import Shapes, Trained, as_weights
from unpooled.networks.training import (
    Batches,
    EarlyStop,
    Watch,
    about_training,
    chunked,
    key_from,
    shuffled_places,
    train,
    unwatched,
)

_PAPER = Form()
_FAST = replace(
    _PAPER,
    narrowest=64,
    widest=256,
    alpha=10.0,
    class_weight=1.0,
    hiding=0.2,
    hidden_alpha=100.0,
    standard=True,
    skip=True,
    mean_steps=500,
    held_out=0.25,
)
FORMS: Mapping[Preset, Form] = {"fast": _FAST, "paper": _PAPER}

_HELD_OUT_ROWS = 2_000
_CENTRE, _SCALE, _ANSWERED, _DEVIATIONS = "centre", "scale", "answered", "deviations"
_BESIDE = (_CENTRE, _SCALE, _ANSWERED, _DEVIATIONS)
_PAIRS, _FEW, _NEAR = 200, 20, 10
_TURNS = 5


def _step(form: Form, state: State, batch: Batch, key: Array, fixed: Fixed) -> tuple[State, Array]:
    known, shown = (cells.astype(batch.rows.dtype) for cells in (batch.known, batch.shown))
    return one_step(form, state, Batch(batch.rows, known, shown), key, fixed)


_steps = chunked(_step)


def fit_gain(
    form: Form,
    settings: AdversarialSettings,
    columns: Sequence[Column],
    values: Floats,
    rng: np.random.Generator,
    watch: Watch,
    checkpoint: Path | None,
) -> Trained:
    """Learn from the known cells."""
    about = about_training(settings, columns, values)
    patterns = patterns_of(values, rng)
    values = some_rows(values, settings.rows, rng)
    encoding = learn_cells(columns, values, settings.levels)
    rows, known = encoded(encoding, values, rng)
    learned, held_out = _held_out(form, rows, known, patterns, rng)
    centre, scale = _moments(encoding.layout, rows, learned)
    layout, schedule = narrowed(encoding.layout), settings.schedule
    fixed = Fixed(units_of(layout), centre, scale, jnp.float32(schedule.learning_rate))
    stop = None
    if settings.patience_epochs and held_out is not None:
        stop = EarlyStop(lambda state: held_out_error(form, _used(state), held_out, fixed), settings.patience_epochs)
    state: State = train(
        settings.completer,
        schedule,
        _steps,
        form,
        initial(form, layout.width, len(columns), key_from(rng)),
        _batches(form, settings, rows, learned, patterns),
        fixed,
        rng,
        about=about,
        watch=watch,
        checkpoint=checkpoint,
        early_stop=stop,
    )
    weights = as_weights({**_used(state), _CENTRE: centre, _SCALE: scale})
    cells = _deviations(form, weights, layout, rows, known, learned, rng)
    return Trained(encoding, weights | as_weights(cells))


def _used(state: State) -> Weights:
    """What cells are filled with."""
    return state.averaged or state.generator


def _batches(form: Form, settings: AdversarialSettings, rows: Singles, known: Bools, patterns: Bools) -> Batches:
    steps, batch_rows = min(settings.steps, STEPS), settings.schedule.batch_rows

    def batches(rng: np.random.Generator) -> Batch:
        places = shuffled_places(len(rows), steps * batch_rows, rng)
        there = known[places]
        shown = shown_cells(there, patterns, form.hiding, rng) if form.hiding else there
        return Batch(*(part.reshape(steps, batch_rows, -1) for part in (rows[places], there, shown)))

    return batches


def _held_out(
    form: Form, rows: Singles, known: Bools, patterns: Bools, rng: np.random.Generator
) -> tuple[Bools, Batch | None]:
    """The known cells that are learned from, and rows with others hidden; every column keeps a cell to learn from."""
    if not form.held_out:
        return known, None
    some = rng.permutation(len(rows))[: min(round(form.held_out * len(rows)), _HELD_OUT_ROWS)]
    learned = known.copy()
    learned[some] = shown_cells(known[some], patterns, form.hiding, rng)
    lost = ~learned.any(axis=0)
    learned[:, lost] = known[:, lost]
    if (learned == known).all():
        return known, None
    there, shown = (cells[some].astype(np.float32) for cells in (known, learned))
    return learned, Batch(rows[some], there, shown)


def _moments(layout: Layout, rows: Singles, known: Bools) -> tuple[Singles, Singles]:
    """Mean and standard deviation of each scalar's known cells; 0 and 1 for all other units."""
    width = rows.shape[1]
    centre, scale = np.zeros(width, np.float32), np.ones(width, np.float32)
    for column, unit in enumerate(layout.scalars):
        if unit >= 0:
            cells = rows[known[:, column], unit].astype(np.float64)
            centre[unit], scale[unit] = cells.mean(), cells.std() or 1.0
    return centre, scale


def _answered(
    form: Form,
    weights: Mapping[str, Singles],
    layout: Layout,
    rows: Singles,
    shown: Bools,
    rng: np.random.Generator | None,
) -> Singles:
    """Units of all cells as the generator answers them; without a source of random numbers, its one answer."""
    own = {name: array for name, array in weights.items() if name not in _BESIDE}
    fixed = Fixed(units_of(layout), weights[_CENTRE], weights[_SCALE], jnp.float32(0.0))
    found = np.empty_like(rows)
    for block, size in blocks(len(rows)):
        count = block.stop - block.start
        some, cells = (np.zeros((size, part.shape[1]), np.float32) for part in (rows, shown))
        some[:count], cells[:count] = rows[block], shown[block]
        key = None if rng is None else key_from(rng)
        found[block] = np.asarray(answers(form, own, some, cells, key, fixed))[:count]
    return found


def _deviations(
    form: Form,
    weights: Mapping[str, Singles],
    layout: Layout,
    rows: Singles,
    known: Bools,
    learned: Bools,
    rng: np.random.Generator,
) -> dict[str, Floats]:
    """Answers to scalars of known cells that were hidden, in order, and how far the cells deviate from them.

    They are those of cells that were not learned from, or of all known cells where these are few. What draws of the
    network vary by themselves is taken off.
    """
    some = rng.permutation(len(rows))[:_HELD_OUT_ROWS]
    half = rng.random((len(some), known.shape[1])) < 0.5
    fresh = known & ~learned
    hidden = np.vstack([fresh, known[some] & half, known[some] & ~half])
    units = np.vstack([rows, rows[some], rows[some]])
    shown = np.vstack([known, known[some], known[some]]) & ~hidden
    asked = np.flatnonzero(hidden.any(axis=1))
    hidden, units, shown = hidden[asked], units[asked], shown[asked]
    single = _answered(form, weights, layout, units, shown, None)
    drawn = _answered(form, weights, layout, units, shown, rng)
    answered, deviations = (np.zeros((layout.scalar_units, _PAIRS)) for _ in range(2))
    first = int(fresh.any(axis=1).sum())
    for column, unit in enumerate(layout.scalars):
        if unit < 0:
            continue
        cells = np.flatnonzero(hidden[:first, column])
        cells = cells if len(cells) >= _FEW else np.flatnonzero(hidden[:, column])
        if not len(cells):
            continue
        order = cells[np.argsort(single[cells, unit], kind="stable")]
        order = order[np.rint(np.linspace(0, len(order) - 1, _PAIRS)).astype(np.int64)]
        away = (units[order, unit] - single[order, unit]).astype(np.float64)
        varied = np.mean((drawn[order, unit] - single[order, unit]).astype(np.float64) ** 2)
        left = 1.0 - varied / max(float(np.mean(away**2)), np.finfo(np.float64).tiny)
        answered[unit], deviations[unit] = single[order, unit], away * np.sqrt(max(left, 0.0))
    return {_ANSWERED: answered, _DEVIATIONS: deviations}


def gain_shapes(form: Form, layout: Layout) -> Shapes:
    """The shapes of the weights, and of what is kept beside them."""
    width, columns = narrowed(layout).width, len(layout.scalars)
    arrays = jax.eval_shape(lambda: initial_generator(form, width, columns, jax.random.key(0)))
    found = {name: tuple(array.shape) for name, array in arrays.items()}
    return (
        found
        | {_CENTRE: (width,), _SCALE: (width,)}
        | dict.fromkeys((_ANSWERED, _DEVIATIONS), (layout.scalar_units, _PAIRS))
    )


def fill_gain(
    form: Form,
    settings: AdversarialSettings,
    trained: Trained,
    values: Floats,
    wanted: Bools,
    rng: np.random.Generator,
) -> Floats:
    """Values with the wanted cells filled: with the best single value, or drawn.

    Draws of a row's cells follow each other: some are drawn given the known ones, the next given these too.
    """
    encoding, weights = trained.encoding, trained.weights
    layout = narrowed(encoding.layout)
    rows, shown = encoded(encoding, np.where(wanted, np.nan, values), rng)
    if not settings.sample:
        units = most_likely(encoding, _answered(form, weights, layout, rows, shown, None))
        return np.where(wanted, decoded(encoding, units, rng), values)
    filled = np.where(wanted, np.nan, values)
    turns = rng.integers(_TURNS, size=wanted.shape)
    for turn in range(_TURNS):
        now = wanted & (turns == turn)
        if now.any():
            units = _answered(form, weights, layout, rows, shown, rng)
            filled[now] = decoded(encoding, _deviating(weights, layout, units, rng), rng)[now]
            rows, shown = encoded(encoding, filled, rng)
    return filled


def _deviating(weights: Mapping[str, Singles], layout: Layout, units: Singles, rng: np.random.Generator) -> Singles:
    """Scalars with deviations that cells with a near answer had."""
    found = units.copy()
    for unit in (unit for unit in layout.scalars if unit >= 0):
        answered, deviations = weights[_ANSWERED][unit], weights[_DEVIATIONS][unit]
        near = np.searchsorted(answered, units[:, unit]) + rng.integers(-_NEAR, _NEAR, len(units))
        found[:, unit] += deviations[np.clip(near, 0, _PAIRS - 1)]
    return found


def fit(
    settings: GainSettings,
    columns: Sequence[Column],
    values: Floats,
    rng: np.random.Generator,
    watch: Watch = unwatched,
    checkpoint: Path | None = None,
) -> Trained:
    """Learn from the known cells."""
    return fit_gain(FORMS[settings.preset], settings, columns, values, rng, watch, checkpoint)


def fill(
    settings: GainSettings,
    _: Sequence[Column],
    trained: Trained,
    values: Floats,
    wanted: Bools,
    rng: np.random.Generator,
) -> Floats:
    """Values with the wanted cells filled, given the known ones."""
    return fill_gain(FORMS[settings.preset], settings, trained, values, wanted, rng)


def shapes(settings: GainSettings, layout: Layout) -> Shapes:
    """The shapes of the weights."""
    return gain_shapes(FORMS[settings.preset], layout)

"""Noise and how it is undone: the schedule, and both processes beside formulas worked out one by one."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from unpooled.arrays import Floats
from unpooled.complete.generators.diffusion import (
    FARTHEST,
    cosine_noise,
    divergence_before,
    drawn_groups,
    log_chances,
    log_chances_before,
    noised_groups,
    noised_scalars,
    scalars_before,
)
from unpooled.networks.encoding import Group, Layout
from unpooled.networks.groups import Units, units_of
from unpooled.networks.training import key_from

SIZES = (2, 3, 5)
STARTS = (8, 10, 13)
LAYOUT = Layout((0, -1, -1, -1), tuple(Group(n + 1, STARTS[n], SIZES[n], False) for n in range(3)), 8, 64)
SCHEDULE = cosine_noise(20)
ROWS = 20_000


@pytest.fixture(scope="module")
def units() -> Units:
    return units_of(LAYOUT)


def key(seed: int = 1) -> Array:
    return key_from(np.random.default_rng(seed))


def one_hot(levels: tuple[int, ...], rows: int = 1) -> Array:
    """The same levels in all rows."""
    row = np.zeros((rows, LAYOUT.width), np.float32)
    row[:, [start + level for start, level in zip(STARTS, levels, strict=True)]] = 1.0
    return jnp.asarray(row)


def parts(rows: Array | Floats) -> list[Floats]:
    """The units of each group."""
    return [np.asarray(rows)[..., start : start + size] for start, size in zip(STARTS, SIZES, strict=True)]


def transition(left: float, size: int) -> Floats:
    """From each level to each level, if a part is left and the others are drawn uniformly."""
    return left * np.eye(size) + (1.0 - left) / size


@pytest.mark.parametrize("steps", [1, 20, 100, 1000])
def test_the_schedule_falls_from_all_to_nothing_like_a_squared_cosine(steps: int) -> None:
    schedule = cosine_noise(steps)
    bars = schedule.alpha_bars.astype(np.float64)
    assert schedule.steps == steps
    assert bars[0] == 1.0
    assert (np.diff(bars) < 0).all()
    assert 0 < bars[-1] < 2e-3
    assert ((schedule.alphas > 0) & (schedule.alphas <= 1)).all()
    angles = (np.arange(steps) / steps + 0.008) / 1.008 * np.pi / 2
    assert bars[:-1] == pytest.approx((np.cos(angles) / np.cos(angles[0])) ** 2, rel=1e-4)
    assert np.cumprod(schedule.alphas.astype(np.float64)) == pytest.approx(bars, rel=1e-4)


def test_nothing_is_left_after_the_last_step(units: Units) -> None:
    last = jnp.float32(SCHEDULE.alpha_bars[-1])
    scalars, noise = (np.asarray(part) for part in noised_scalars(key(), jnp.full((ROWS, 8), 3.0), last))
    assert (scalars.mean(), scalars.std()) == pytest.approx((0.0, 1.0), abs=0.15)
    assert np.quantile(scalars, [0.05, 0.5, 0.95]) == pytest.approx([-1.64, 0.0, 1.64], abs=0.15)
    assert np.corrcoef(scalars[:, 0], noise[:, 0])[0, 1] > 0.999
    groups = noised_groups(key(), one_hot((1, 0, 4), ROWS), last, units)
    for found, size in zip(parts(groups), SIZES, strict=True):
        assert (found.sum(axis=1) == 1.0).all()
        assert found.mean(axis=0) == pytest.approx(np.full(size, 1.0 / size), abs=0.02)


def test_a_part_of_the_groups_is_left(units: Units) -> None:
    levels = (1, 0, 4)
    groups = noised_groups(key(), one_hot(levels, ROWS), jnp.float32(0.7), units)
    for found, size, level in zip(parts(groups), SIZES, levels, strict=True):
        assert found.mean(axis=0) == pytest.approx(transition(0.7, size)[level], abs=0.02)
    assert np.asarray(groups).sum() == 3 * ROWS, "there is nothing outside of groups"


@pytest.mark.parametrize("t", [1, 2, 10, 20])
def test_chances_one_step_earlier_add_up_to_1_and_are_those_of_all_ways_counted(t: int, units: Units) -> None:
    rng = np.random.default_rng(t)
    chances = [rng.dirichlet(np.ones(size)) for size in SIZES]
    log_start = np.zeros((1, LAYOUT.width), np.float32)
    for start, size, part in zip(STARTS, SIZES, chances, strict=True):
        log_start[0, start : start + size] = np.log(part)
    now = (0, 2, 3)
    found = np.exp(log_chances_before(jnp.asarray(log_start), one_hot(now), jnp.int32(t), SCHEDULE, units))
    for part, before, size, level in zip(parts(found), chances, SIZES, now, strict=True):
        ways = before @ transition(float(SCHEDULE.alpha_bars[t - 1]), size)
        ways = ways * transition(float(SCHEDULE.alphas[t]), size)[:, level]
        assert part.sum() == pytest.approx(1.0, abs=1e-5)
        assert part[0] == pytest.approx(ways / ways.sum(), abs=1e-5)


def test_logarithms_of_chances_are_finite() -> None:
    found = np.asarray(log_chances(jnp.asarray([0.0, 0.25, 1.0])))
    assert np.isfinite(found).all()
    assert (found[1:], np.exp(found[0])) == (pytest.approx([np.log(0.25), 0.0]), pytest.approx(0.0, abs=1e-20))


@pytest.mark.parametrize("t", [1, 2, 10, 20])
def test_the_divergence_is_that_of_the_definition(t: int, units: Units) -> None:
    start, now, at = one_hot((1, 1, 0)), one_hot((1, 0, 0)), jnp.int32(t)
    uniform = -jnp.log(units.member @ units.member.sum(axis=0) + (1.0 - units.grouped)) * jnp.ones_like(start)
    true, taken = (
        np.exp(np.asarray(log_chances_before(log, now, at, SCHEDULE, units), np.float64))
        for log in (jnp.log(jnp.maximum(start, 1e-30)), uniform)
    )
    pairs = zip(parts(true), parts(taken), strict=True)
    expected = sum(np.sum(one * np.log(np.maximum(one, 1e-300) / two)) for one, two in pairs)
    assert float(divergence_before(uniform, start, now, at, SCHEDULE, units)[0]) == pytest.approx(expected, abs=1e-4)
    right = jnp.log(jnp.maximum(start, 1e-30))
    assert float(divergence_before(right, start, now, at, SCHEDULE, units)[0]) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("t", [2, 10, 20])
def test_undoing_a_step_with_the_truth_known_gives_what_one_step_less_gives(t: int, units: Units) -> None:
    at, levels = jnp.int32(t), (1, 2, 4)
    left, before = jnp.float32(SCHEDULE.alpha_bars[t]), float(SCHEDULE.alpha_bars[t - 1])
    start = jnp.full((ROWS, 8), 0.8)
    scalars, noise = noised_scalars(key(2), start, left)
    earlier = np.asarray(scalars_before(key(3), scalars, noise, at, SCHEDULE))
    assert earlier.mean() == pytest.approx(np.sqrt(before) * 0.8, abs=0.01)
    assert earlier.var() == pytest.approx(1.0 - before, abs=0.01)
    rows = one_hot(levels, ROWS)
    now = noised_groups(key(4), rows, left, units)
    logs = log_chances_before(jnp.log(jnp.maximum(rows, 1e-30)), now, at, SCHEDULE, units)
    groups = drawn_groups(key(5), logs, units)
    for found, size, level in zip(parts(groups), SIZES, levels, strict=True):
        assert found.mean(axis=0) == pytest.approx(transition(before, size)[level], abs=0.02)


def test_the_last_step_gives_the_scalars_without_noise_within_bounds() -> None:
    start = jnp.asarray(np.random.default_rng(1).standard_normal((50, 8)), jnp.float32)
    scalars, noise = noised_scalars(key(), start, jnp.float32(SCHEDULE.alpha_bars[1]))
    assert np.asarray(scalars_before(key(2), scalars, noise, jnp.int32(1), SCHEDULE)) == pytest.approx(
        np.asarray(start), abs=1e-3
    )
    wild = scalars_before(key(2), scalars, 1e6 * noise, jnp.int32(1), SCHEDULE)
    assert float(jnp.abs(wild).max()) == pytest.approx(FARTHEST, rel=1e-4)


def test_groups_are_drawn_by_their_chances(units: Units) -> None:
    chances = [np.array([0.9, 0.1]), np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.3, 0.05, 0.65, 0.0])]
    logs = np.zeros((ROWS, LAYOUT.width), np.float32)
    for start, size, part in zip(STARTS, SIZES, chances, strict=True):
        logs[:, start : start + size] = np.log(np.maximum(part, 1e-30))
    found = drawn_groups(key(), jnp.asarray(logs), units)
    for part, expected in zip(parts(found), chances, strict=True):
        assert (part.sum(axis=1) == 1.0).all()
        assert part.mean(axis=0) == pytest.approx(expected, abs=0.012)
        assert not part[:, expected == 0.0].any()
    assert np.asarray(found).sum() == 3 * ROWS

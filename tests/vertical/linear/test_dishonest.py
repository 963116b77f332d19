"""What a passive party that deviates can read: its columns are made up, powers of two, so that a result is many rows.

Its own software is changed here: it checks nothing, and hands in whatever it likes. Its columns are bound: one matrix
for each batch, for all steps, models and fits of a job. Where rows have weights that it must not know, its columns
times its residuals are new in every step, and not bound. `pytest -s` shows the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Event
from typing import Any

import numpy as np
import pytest
from linear_settings import with_gradients

from unpooled.arrays import Bools, Floats, Ints
from unpooled.errors import ProtocolError
from unpooled.secure import product
from unpooled.secure.engine import Engine
from unpooled.secure.paillier import engine as paillier
from unpooled.secure.paillier import keys
from unpooled.secure.product import finish
from unpooled.secure.shares import opening
from unpooled.secure.shares.opening import Hidden
from unpooled.secure.shares.state import Mask
from unpooled.vertical.inputs import Columns
from unpooled.vertical.linear import descent, hidden_weights
from unpooled.vertical.linear.descent import order_of
from unpooled.vertical.linear.fitting import LinearParameters, Target, fit_many, help_fit_many
from unpooled.vertical.linear.parameters import rate_of
from unpooled.vertical.linear.residuals import Diverged
from unpooled.vertical.linear.row_weights import RowWeighting
from unpooled.vertical.linear.state import FitState
from unpooled.vertical.team import Team

Make = Callable[..., Any]
Craft = Callable[[Ints, int], Ints]
"""What takes the place of a party's columns, given these and the number of the step."""

ROWS, WIDTH = 1200, 4
HALF_LABEL = 2**15  # ½ less the label, in steps of 2^-16
LABELS_READ = 48  # the signs of so many halves in a sum of 63 bits


def powers(rows: int, first: int, each: int, base: int = 2) -> Ints:
    """Each column has the powers of a base in rows of its own, from some row on, and zeros elsewhere."""
    crafted = np.zeros((rows, WIDTH), np.int64)
    for column in range(WIDTH):
        for power in range(each):
            row = first + column * each + power
            if row < rows:
                crafted[row, column] = base**power
    return crafted


def watched(
    together: Make,
    monkeypatch: pytest.MonkeyPatch,
    craft: Craft,
    targets: Sequence[Target],
    parameters: LinearParameters,
    engine: str = "shares",
    fits: int = 1,
) -> list[Ints]:
    """What a telco that makes up its columns is shown: by step and model, a number for each column."""
    shown: list[Ints] = []

    def noted(side: FitState, number: int, results: Sequence[Ints]) -> Floats:
        if side.active:
            return in_units(side, number, results)
        shown.append(results[0][:, 0])
        return np.zeros(side.iterate.weights.shape)

    def handed_in(side: FitState, number: int, residuals: Ints) -> list[Any]:
        calls = asked(side, number, residuals)
        if side.active:
            return calls
        step = len(shown) // len(targets)
        made = [(call, inputs, craft(inputs.x, step)) for call, inputs in calls if inputs.x is not None]
        crafted = {call: product.Inputs(x=x, added=inputs.added) for call, inputs, x in made}
        return [(call, crafted.get(call, inputs)) for call, inputs in calls]

    in_units, asked, bind = descent._in_units, descent.products_of, Mask.bind
    with monkeypatch.context() as patch:
        patch.setattr(descent, "_in_units", noted)
        patch.setattr(descent, "products_of", handed_in)
        patch.setattr(product, "check_inputs", lambda *_: None)
        patch.setattr(product, "_check_bound", lambda *_: None)
        patch.setattr(
            Mask, "bind", lambda mask, whose, *m, **s: None if whose == "telco" else bind(mask, whose, *m, **s)
        )

        def active(team: Team, data: Any) -> None:
            for _ in range(fits):
                fit_many(team, parameters, data.columns((3, 4)), targets)
            finish(team.products)

        def passive(team: Team, data: Any) -> None:
            for _ in range(fits):
                help_fit_many(team, parameters, data.columns((0, 1, 2, 5)), len(targets))

        together(parameters, "two", engine, own={"bank": active, "telco": passive})
    return shown


def signs(number: int, count: int) -> list[bool]:
    """Which of so many halves, each times a power of two, were added up as negative: those of label 1."""
    positive = (number // HALF_LABEL + 2**count - 1) // 2
    return [not positive >> power & 1 for power in range(count)]


def labels_in(results: Sequence[Ints], each: int = LABELS_READ) -> list[bool]:
    return [label for number in results[0].tolist() for label in signs(int(number), each)]


def random_numbers(results: Ints) -> bool:
    """Whether they may be any of 64 bits: sums of few enough powers of two, or of three, do not become so large."""
    return bool((np.abs(results) > 2**62).mean() > 0.1)


@pytest.fixture(scope="module")
def labels() -> Floats:
    return (np.random.default_rng(5).random(ROWS) < 0.3).astype(float)


def in_batch(values: Floats) -> Floats:
    """Rows in the order of the only batch."""
    return values[order_of(ROWS)]


ONE_BATCH = with_gradients(epochs=8, batch_rows=ROWS)


def test_columns_that_stay_the_same_read_as_many_labels_as_bits_allow(
    together: Make, monkeypatch: pytest.MonkeyPatch, labels: Floats
) -> None:
    """48 rows for each column and batch, in the first step: scores are zero then, and residuals are halves."""
    craft = lambda columns, _: powers(len(columns), 0, LABELS_READ)  # noqa: E731
    shown = watched(together, monkeypatch, craft, [Target(labels)], ONE_BATCH)
    found = labels_in(shown)
    assert found == (in_batch(labels)[: len(found)] == 1).tolist()
    print(
        f"\nbound columns, no weights: {len(found)} of {ROWS} labels, {len(found) // WIDTH} for each column and batch"
    )


@pytest.mark.parametrize("fits", [1, 2])
def test_columns_that_change_read_nothing_more(
    together: Make, monkeypatch: pytest.MonkeyPatch, labels: Floats, fits: int
) -> None:
    """A step, or a fit, with other columns: what was opened is the first ones', and the result is a random number."""
    each, begin = 40, ONE_BATCH.epochs if fits > 1 else 1  # the first step with other columns
    craft = lambda columns, step: powers(len(columns), each * WIDTH * (step >= begin), each)  # noqa: E731
    shown = watched(together, monkeypatch, craft, [Target(labels)], ONE_BATCH, fits=fits)
    assert len(shown) == ONE_BATCH.epochs * fits
    assert labels_in(shown, each) == (in_batch(labels)[: each * WIDTH] == 1).tolist()
    assert random_numbers(np.concatenate(shown[begin:]))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_party_whose_software_is_as_it_was_made_refuses_other_columns(together: Make, weighted: bool) -> None:
    def passive(team: Team, data: Any) -> None:
        for which in ((0, 1, 2, 5), (2, 1, 0, 5)):
            help_fit_many(team, ONE_BATCH, data.columns(which), 1)

    def active(team: Team, data: Any) -> None:
        for _ in range(2):
            fit_many(team, ONE_BATCH, data.columns((3, 4)), [data.target(weighted=weighted)])

    with pytest.raises(ProtocolError, match=r"telco.*mask"):
        together(ONE_BATCH, own={"bank": active, "telco": passive})


def test_other_columns_cannot_be_opened_again(together: Make, monkeypatch: pytest.MonkeyPatch, labels: Floats) -> None:
    """The bank knows what it has, and takes nothing under a name it has had."""
    hidden_for = opening._hidden_for

    def hidden_again(engine: Engine, peer: str, tasks: Any) -> Iterator[Hidden]:
        if engine.party == "telco":
            engine.shares.sent.clear()
        return hidden_for(engine, peer, tasks)

    monkeypatch.setattr(opening, "_hidden_for", hidden_again)
    with pytest.raises(ProtocolError, match="Hidden from telco"):
        watched(together, monkeypatch, lambda columns, _: columns, [Target(labels)], ONE_BATCH)


def test_more_or_fewer_columns_than_before_are_refused(together: Make) -> None:
    """Other batches would follow, and a name for each of them that has not been used."""

    def passive(team: Team, data: Any) -> None:
        help_fit_many(team, ONE_BATCH, data.columns((0, 1)), 1)
        help_fit_many(team, ONE_BATCH, data.columns((0, 1, 2)), 1)

    def active(team: Team, data: Any) -> None:
        for _ in range(2):
            fit_many(team, ONE_BATCH, data.columns((3, 4)), [data.target()])

    with pytest.raises(ProtocolError, match=r"telco.* 3 columns.* 2"):
        together(ONE_BATCH, own={"bank": active, "telco": passive})


def test_columns_travel_once_for_all_steps_and_models(together: Make, scene: Make) -> None:
    """With hidden weights, too; there what is new in every step are the columns times residuals, as many numbers."""
    data, models = scene(), 3
    for weighted in (False, True):
        targets = [data.target(weighted=weighted)] * models
        run = together(
            ONE_BATCH,
            own={
                "bank": lambda team, d, t=targets: [
                    fit_many(team, ONE_BATCH, d.columns((3, 4)), t),
                    finish(team.products),
                ],
                "telco": lambda team, d: help_fit_many(team, ONE_BATCH, d.columns((0, 1, 2, 5)), models),
            },
            data=data,
        )
        opened = [values.shape[1:] for message in run.messages("bank", Hidden) for values in message.values]
        moments = ONE_BATCH.epochs * models if weighted else 0
        assert opened.count((ROWS, WIDTH)) == 1 + moments


def bags_of(known: Bools, count: int) -> list[Target]:
    rng, bags = np.random.default_rng(6), []
    for _ in range(count):
        others = rng.choice(np.flatnonzero(~known), known.sum(), replace=False)
        weights = known.astype(float)
        weights[others] = 1.0
        bags.append(Target(known.astype(float), weights))
    return bags


def weights_in(numbers: Sequence[int], each: int, unit: int) -> list[bool]:
    """Which rows have weight, where all that have any have the same."""
    return [bool(number // unit >> power & 1) for number in numbers for power in range(each)]


def test_hidden_weights_can_be_read_step_by_step(together: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """What binding columns does not stop: columns times residuals are new in every step, and stand beside the weights.

    Rows that are in every bag are the positives.
    """
    known, bags, each = np.random.default_rng(7).random(ROWS) < 0.05, 5, 40
    targets = bags_of(known, bags)
    weighting = RowWeighting(weighted=True, heaviest=int(np.ceil(np.log2(ROWS / (2 * known.sum())))))
    unit = int(weighting.weights.encode(np.array([ROWS / (2 * known.sum())]), "weights")[0])
    craft = lambda x, step: np.concatenate([0 * x[:ROWS], powers(ROWS, step * each * WIDTH, each)])  # noqa: E731
    shown = watched(together, monkeypatch, craft, targets, ONE_BATCH)
    in_bags = np.ones(ROWS, bool)
    for bag in range(bags):
        read = [weights_in(numbers.tolist(), each, unit) for numbers in shown[bag::bags]]
        in_bags &= np.array([one for step in read for one in step])[:ROWS]
    found = in_bags == (in_batch(known.astype(float)) == 1)
    print(f"\nhidden weights: {int(in_bags.sum())} of {known.sum()} positives, {each} rows for each column and step")
    assert found.all()


def test_hidden_weights_are_read_once_beside_another_passive_party(
    together: Make, scene: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns are bound, and residuals are the same in all gradients of a step: made-up ones drive others away."""
    known, each, above = np.random.default_rng(7).random(ROWS) < 0.05, 24, 2**24
    (target,), shown, seen, half = bags_of(known, 1), list[Ints](), Event(), ROWS // 2
    marked = np.zeros((ROWS, 2))  # a column has the smallest step in one half of the batch
    marked[order_of(ROWS)[:half], 0] = marked[order_of(ROWS)[half:], 1] = 2**-12
    honest, in_units, check = descent.own_residuals, descent._in_units, product.check_inputs

    def residuals(side: FitState, part: slice) -> Ints:
        made = np.zeros((ROWS, 1), np.int64)
        made[:each, 0] = made[half : half + each, 0] = above * 2 ** np.arange(each)
        return made if side.party == "telco" else honest(side, part)

    def noted(side: FitState, number: int, results: Sequence[Ints]) -> Floats:
        if side.party == "telco":
            shown.append(results[0][:, 0])
            seen.set()
        seen.wait(60)  # others fail as soon as they see theirs
        return in_units(side, number, results)

    def passive(team: Team, data: Any) -> None:
        own = Columns(marked, ("a", "b")) if team.session.party == "telco" else data.columns((4, 5))
        help_fit_many(team, ONE_BATCH, own, 1)

    def active(team: Team, data: Any) -> None:
        fit_many(team, ONE_BATCH, data.columns((2, 3)), [target])

    monkeypatch.setattr(descent, "own_residuals", residuals)
    monkeypatch.setattr(descent, "_in_units", noted)
    monkeypatch.setattr(product, "_check_bound", lambda *_: None)
    monkeypatch.setattr(product, "check_inputs", lambda call, party, *i: party == "telco" or check(call, party, *i))
    with pytest.raises(Diverged, match=r"bank|shop"):
        together(ONE_BATCH, "three", own={"bank": active, "telco": passive, "shop": passive})
    scaled = ROWS / (2 * known.sum())
    unit = above * round(scaled * 2 ** (15 - int(np.ceil(np.log2(scaled)))))
    (numbers,) = shown
    found = [[round(number / unit) >> power & 1 for power in range(each)] for number in numbers.tolist()]
    weighs = (in_batch(target.weights) > 0).reshape(2, half)
    assert (np.array(found) == weighs[:, :each]).all()
    print(f"\nhidden weights, two passive parties: {each} rows for each column, then the others' descents diverge")


def test_hidden_weights_beside_columns_that_stay_the_same(together: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The half that is bound: residuals times weights are minus, zero or plus a half, so digits have the base 3."""
    known, each = np.random.default_rng(8).random(ROWS) < 0.05, 28
    (target,) = bags_of(known, 1)
    craft = lambda x, step: np.concatenate([powers(ROWS, 50 * step, each, base=3), 0 * x[ROWS:]])  # noqa: E731
    shown = watched(together, monkeypatch, craft, [target], ONE_BATCH)
    scaled = ROWS / (2 * known.sum())
    weighting = RowWeighting(weighted=True, heaviest=int(np.ceil(np.log2(scaled))))
    unit = int(weighting.residuals.encode(np.array([scaled / 2]), "residuals")[0])
    digits = []
    for number in shown[0].tolist():
        rest = number // unit
        for _ in range(each):
            digit = (rest + 1) % 3 - 1
            digits.append(digit < 0)
            rest = (rest - digit) // 3
    assert digits == (in_batch(known.astype(float)) == 1)[: len(digits)].tolist()
    assert random_numbers(np.concatenate(shown[1:]))
    print(f"\nhidden weights, the half that is bound: {len(digits)} of {ROWS} rows, {each} for each column and batch")


def test_under_paillier_one_result_is_as_long_as_the_key(
    together: Make, scene: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing binds X there: a party adds up encrypted rows as it likes, and reads a bit in each of the key's bits."""
    rows, shift, read = 150, 270, list[int]()
    data, known = scene(rows), np.random.default_rng(9).random(rows) < 0.1
    (target,) = bags_of(known, 1)
    totals, plain_read = paillier._totals, paillier.read

    def added_up(engine: Any, task: Any) -> Any:
        if engine.party != "telco" or not task.call.fixed:
            return totals(engine, task)
        public, encrypted = paillier.public_key(engine), engine.paillier.received[task.right, task.rows_key]
        weights = keys.from_bytes(public, encrypted[rows:, 0])
        return [keys.add_many(public, [keys.shift(public, c, shift + row) for row, c in enumerate(weights)])]

    def noted(engine: Any, call: Any, total: Any) -> Any:
        if engine.party == "telco" and call.fixed:
            read.append(int(keys.centre(paillier.public_key(engine), total)[0]))
            return np.zeros(call.shape, np.int64)
        return plain_read(engine, call, total)

    monkeypatch.setattr(paillier, "_totals", added_up)
    monkeypatch.setattr(paillier, "read", noted)
    settings = with_gradients(epochs=1, batch_rows=rows, insecure_batch=True)
    together(
        settings,
        "two",
        "paillier",
        data=data,
        own={
            "bank": lambda team, d: [fit_many(team, settings, d.columns((3, 4)), [target]), finish(team.products)],
            "telco": lambda team, d: [help_fit_many(team, settings, d.columns((0, 1, 2, 5)), 1), finish(team.products)],
        },
    )
    scaled = rows / (2 * known.sum())
    weighting = RowWeighting(weighted=True, heaviest=int(np.ceil(np.log2(scaled))))
    unit = int(weighting.weights.encode(np.array([scaled]), "weights")[0])
    (number,) = read
    whole = (number + (unit << shift - 1)) // (unit << shift)
    found = [bool(whole >> row & 1) for row in range(rows)]
    weight = (target.weights > 0)[order_of(rows)]
    assert found == weight.tolist()
    print(f"\npaillier: the weights of all {rows} rows from one result of a key of 512 bits")


def test_weights_that_are_shown_at_the_end_say_as_much_as_their_bits(
    together: Make, monkeypatch: pytest.MonkeyPatch, labels: Floats
) -> None:
    """One epoch of one batch with `reveal = "final"`: the weights are the gradients of columns that were made up."""
    each, up, begun = 22, 2**8, hidden_weights._begun
    parameters = with_gradients(epochs=1, batch_rows=ROWS, reveal="final", optimiser="plain", l2=0.0)

    def crafted(side: FitState) -> Any:
        descent = begun(side)
        if not side.active:
            side.multiplied = up * powers(ROWS, 0, each)
        return descent

    monkeypatch.setattr(hidden_weights, "_begun", crafted)
    parts: list[Any] = []
    together(
        parameters,
        own={
            "bank": lambda team, d: [
                fit_many(team, parameters, d.columns((3, 4)), [Target(labels)]),
                finish(team.products),
            ],
            "telco": lambda team, d: parts.extend(help_fit_many(team, parameters, d.columns((0, 1, 2, 5)), 1)),
        },
    )
    rate = round(rate_of(parameters) / (4 * ROWS) * 2**30) / 2**30  # as the parties round it; residuals are four-fold
    unit = -rate * up / 2**9
    found = [
        label
        for (weight,) in parts[0].weights
        for label in signs(HALF_LABEL * (round(weight / unit / 2 - 0.5) * 2 + 1), each)
    ]
    assert found == (in_batch(labels)[: len(found)] == 1).tolist()
    print(f"\nreveal = 'final': {len(found)} of {ROWS} labels, {each} for each column")

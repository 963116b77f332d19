"""What a passive party can make of the gradients it is shown: labels from small reshuffled batches, not by default.

A gradient is XᵀR / b, X the party's columns of a batch of b rows and R the residuals. What its own columns add to R the
party knows and takes off. What is left is, for each row, ½ less the label and a quarter of the others' scores: as if
that did not change, a batch gives as many linear equations as the party has columns. With enough of them least squares
finds every row's unknown, and its sign is the label. `pytest -s` shows the figures.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from linear_settings import with_gradients
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import lsqr

from unpooled.arrays import Floats, Ints
from unpooled.budget.book import Book
from unpooled.budget.limits import OverRuns
from unpooled.budget.places import Places
from unpooled.budget.spending import About, Spending, spending_in
from unpooled.data import datasets, prepare
from unpooled.data.table import table_from_frame
from unpooled.errors import RefusedError
from unpooled.evaluate.metrics import auc
from unpooled.vertical.inputs import Columns
from unpooled.vertical.linear import descent
from unpooled.vertical.linear.descent import batches, order_of
from unpooled.vertical.linear.fitting import LinearParameters, Target, fit, fit_many, help_fit, help_fit_many
from unpooled.vertical.linear.parameters import PAPER_PRESETS
from unpooled.vertical.team import Team

Make = Callable[..., Any]

ROWS = 2000


class Credit(NamedTuple):
    """Two parties' columns of the same rows, and their labels."""

    telco: Columns
    bank: Columns
    labels: Floats


class Seen(NamedTuple):
    """What the attacker has of one step: the rows, its weights before it, and its gradient."""

    rows: Ints
    weights: Floats
    gradient: Floats


@pytest.fixture(scope="module")
def credit() -> Credit:
    if not os.environ.get(datasets.FOLDER_VARIABLE) and not (datasets.cache_folder() / "credit.csv.gz").is_file():
        pytest.skip(f"credit: neither in the cache nor in {datasets.FOLDER_VARIABLE}")
    data, held = datasets.load("credit"), []
    for share in ("b", "c"):
        columns = list(datasets.SPLIT["credit"][share])
        types = {column: kind for column, kind in datasets.TYPES["credit"].items() if column in columns}
        table = table_from_frame(data.frame.select(["id", *columns]), "id", share, types)
        table, _ = prepare.clean(table, prepare.PrepareSettings())
        prepared = prepare.transform(prepare.fit(table, prepare.PrepareSettings(), np.arange(30_000)), table)
        held.append(Columns(prepared.matrix, prepared.names))
    return Credit(held[0], held[1], data.label.astype(float))


def cut(credit: Credit, rows: Ints) -> Credit:
    telco, bank, labels = credit
    return Credit(Columns(telco.matrix[rows], telco.names), Columns(bank.matrix[rows], bank.names), labels[rows])


def watched(
    together: Make,
    monkeypatch: pytest.MonkeyPatch,
    credit: Credit,
    parameters: LinearParameters,
    orders: Sequence[Ints],
    spending: Spending | None = None,
) -> list[Seen]:
    """Fit, and go on with the rows in another order, as often as there are orders: all that the telco sees.

    `spending` counts what the bank discloses.
    """

    def active(team: Team, _: Any) -> None:
        team.products.spending = spending
        model = None
        for order in orders:
            held = cut(credit, order)
            model = fit(team, parameters, held.bank, Target(held.labels), start=model).model

    def passive(team: Team, _: Any) -> None:
        part = None
        for order in orders:
            part = help_fit(team, parameters, cut(credit, order).telco, part)

    shown = noted(together, monkeypatch, parameters, active, passive)
    rows = len(credit.labels)
    parts = batches(parameters, rows, {"telco": len(credit.telco.names), "bank": len(credit.bank.names) + 1})
    epochs = len(shown) // len(parts) // len(orders)
    places = [order[order_of(rows)][part] for order in orders for _ in range(epochs) for part in parts]
    return [Seen(where, *what) for where, what in zip(places, shown, strict=True)]


def noted(
    together: Make,
    monkeypatch: pytest.MonkeyPatch,
    parameters: LinearParameters,
    active: Callable[[Team, Any], Any],
    passive: Callable[[Team, Any], Any],
) -> list[tuple[Floats, Floats]]:
    """The telco's weights before each step, and its gradients."""
    shown: list[tuple[Floats, Floats]] = []
    step = descent.step

    def noting(settings: LinearParameters, state: Any, gradient: Floats, penalised: slice) -> Any:
        if penalised.stop == len(state.weights):  # the telco: it has no intercept
            shown.append((state.weights[:, 0], gradient[:, 0]))
        return step(settings, state, gradient, penalised)

    with monkeypatch.context() as patch:
        patch.setattr(descent, "step", noting)
        together(parameters, "two", "plain", own={"bank": active, "telco": passive})
    return shown


def guesses(columns: Floats, seen: Sequence[Seen]) -> Floats:
    """For each row the solution of least squares of all equations, the shortest one where there are too few.

    The active party's intercept moves all rows alike, and is one more unknown of each step.
    """
    known, rows = np.clip(columns, -4, 4), len(columns)
    entries, where, right = [], [], []
    for number, step in enumerate(seen):
        own = known[step.rows]
        right.append(len(own) * step.gradient - own.T @ (own @ step.weights / 4))
        entries.append(np.column_stack([own.T, own.sum(axis=0)]).reshape(-1))
        where.append(np.tile(np.append(step.rows, rows + number), own.shape[1]))
    ends = np.cumsum([len(step.rows) + 1 for step in seen for _ in range(known.shape[1])])
    shape = len(ends), rows + len(seen)
    system = csr_matrix((np.concatenate(entries), np.concatenate(where), np.append(0, ends)), shape=shape)
    return -lsqr(system, np.concatenate(right), iter_lim=200)[0][:rows]


def test_small_batches_reshuffled_give_labels_away(
    together: Make, monkeypatch: pytest.MonkeyPatch, credit: Credit
) -> None:
    """With the VFPU paper's settings, and with faster steps, which disturb the equations more."""
    rng = np.random.default_rng(1)
    some = cut(credit, rng.permutation(30_000)[:ROWS])
    for settings in (PAPER_PRESETS["experiments 1 and 2"], with_gradients(batch_rows=64, insecure_batch=True)):
        orders = [rng.permutation(ROWS) for _ in range(10)]
        seen = watched(together, monkeypatch, some, settings.model_copy(update={"epochs": 1}), orders)
        for epochs, least in ((5, 0.95), (10, 0.99)):
            found = auc(some.labels, guesses(some.telco.matrix, seen[: epochs * len(seen) // 10]))
            print(f"\nbatches of 64, reshuffled, rate {settings.learning_rate}, {epochs} epochs: AUC {found:.4f}")
            assert found >= least


def test_the_defaults_give_no_more_than_the_columns_say(
    together: Make, monkeypatch: pytest.MonkeyPatch, credit: Credit
) -> None:
    """The guesses are as good as a line through the party's own columns and the labels, which is the model itself."""
    some = cut(credit, np.random.default_rng(3).permutation(30_000)[: 3 * ROWS])
    seen = watched(together, monkeypatch, some, with_gradients(), [np.arange(3 * ROWS)])
    cuts = len({step.rows.tobytes() for step in seen})
    assert len(seen) > 5 * cuts, "several epochs, always the same batches"
    own = np.column_stack([np.clip(some.telco.matrix, -4, 4), np.ones(3 * ROWS)])
    line = auc(some.labels, own @ np.linalg.lstsq(own, some.labels)[0])
    found = {
        "all gradients": auc(some.labels, guesses(some.telco.matrix, seen)),
        "those of the first epoch": auc(some.labels, guesses(some.telco.matrix, seen[:cuts])),
        "those of the last epoch": auc(some.labels, guesses(some.telco.matrix, seen[-cuts:])),
    }
    print(f"\na line through the telco's columns and the labels: AUC {line:.4f}")
    for what, reached in found.items():
        print(f"defaults, {what}: AUC {reached:.4f}")
        assert reached < 0.8
        assert reached < line + 0.03


def test_many_fits_in_other_orders_add_up(together: Make, monkeypatch: pytest.MonkeyPatch, credit: Credit) -> None:
    """Every new alignment is a reshuffle: batches are safe once, and not any number of times."""
    rng = np.random.default_rng(2)
    some, reached = cut(credit, rng.permutation(30_000)[:ROWS]), {}
    parameters = with_gradients(epochs=1)
    orders = [rng.permutation(ROWS) for _ in range(40)]
    seen = [watched(together, monkeypatch, some, parameters, [order]) for order in orders]
    for fits in (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 40):
        steps = [step for each in seen[:fits] for step in each]
        reached[fits] = auc(some.labels, guesses(some.telco.matrix, steps))
        print(f"\ndefaults, {fits} fits in other orders: AUC {reached[fits]:.4f}")
    assert reached[3] < reached[1] + 0.01, "the default of maximum_linear_fits"
    assert reached[5] < 0.8 < 0.88 < reached[40]


def test_many_fits_in_other_orders_are_refused_in_time(
    together: Make, monkeypatch: pytest.MonkeyPatch, credit: Credit, tmp_path: Path
) -> None:
    """The same attack where the bank keeps a book of its table: it ends before it tells more than one fit does."""
    rng = np.random.default_rng(2)
    some, seen, refused = cut(credit, rng.permutation(30_000)[:ROWS]), list[list[Seen]](), ""
    book = Book("customers", Places(tmp_path / "books", tmp_path / "anchors"))
    about = About("bank", "train", "digest of the plan", {"telco": "passive"})
    for number in range(40):
        folder, order = tmp_path / f"run {number}", rng.permutation(ROWS)
        folder.mkdir()
        try:
            with spending_in(folder, book, OverRuns(), about, resume=False) as spending:
                seen.append(watched(together, monkeypatch, some, with_gradients(epochs=1), [order], spending))
        except RefusedError as error:
            refused = str(error)
            break
    assert "policy.maximum_linear_fits" in refused
    assert len(seen) == OverRuns().maximum_linear_fits
    one, all_fits = (
        auc(some.labels, guesses(some.telco.matrix, [step for each in fits for step in each]))
        for fits in (seen[:1], seen)
    )
    print(f"\ndefaults, refused after {len(seen)} fits in other orders: AUC {all_fits:.4f}, after one {one:.4f}")
    assert all_fits < one + 0.02 < 0.8


def test_bags_that_are_shown_add_up_and_hidden_ones_do_not(
    together: Make, monkeypatch: pytest.MonkeyPatch, credit: Credit
) -> None:
    """Every bag is cut into batches of its own, another reshuffle; hidden in weights, all are cut in the same way."""
    rng = np.random.default_rng(4)
    some, reached = cut(credit, rng.permutation(30_000)[:ROWS]), {}
    bags = [rng.random(ROWS) < 0.6 for _ in range(80)]
    targets = [Target(some.labels, bag.astype(float)) for bag in bags]
    for hide_bags in (True, False):
        parameters = with_gradients(epochs=1, hide_bags=hide_bags)
        shown = noted(
            together,
            monkeypatch,
            parameters,
            lambda team, _, p=parameters: fit_many(team, p, some.bank, targets),
            lambda team, _, p=parameters: help_fit_many(team, p, some.telco, len(targets)),
        )
        rows = [np.arange(ROWS) if hide_bags else np.flatnonzero(bag) for bag in bags]
        parts = [batches(parameters, len(each), {"telco": len(some.telco.names)}) for each in rows]
        assert {len(each) for each in parts} == {2 if hide_bags else 1}
        places = [
            (bag, part) for number in range(len(parts[0])) for bag, part in enumerate(each[number] for each in parts)
        ]
        for count in (1, 80) if hide_bags else (1, 20, 80):
            seen = [
                Seen(rows[bag][order_of(len(rows[bag]))][part], *what)
                for (bag, part), what in zip(places, shown, strict=True)
                if bag < count
            ]
            reached[hide_bags, count] = auc(some.labels, guesses(some.telco.matrix, seen))
            print(f"\ndefaults, {count} bags, hide_bags = {hide_bags}: AUC {reached[hide_bags, count]:.4f}")
    assert reached[True, 80] < 0.8
    assert reached[False, 1] < 0.8 < 0.9 < reached[False, 80]


def test_a_row_that_alone_has_a_level_is_exposed(credit: Credit) -> None:
    """How much of a row's own unknown the shortest solution has: 1 where a batch's equations determine it."""
    known = np.clip(credit.telco.matrix, -4, 4)
    parts = batches(with_gradients(), 30_000, {"telco": known.shape[1]})
    share = np.concatenate(
        [np.einsum("ij,ji->i", own, np.linalg.pinv(own)) for own in (known[order_of(30_000)[p]] for p in parts)]
    )
    exposed = int((share > 0.9).sum())
    print(f"\nrows whose label a batch's gradient determines, nearly: {exposed} of 30,000")
    assert 0 < exposed < 60
    assert np.median(share) < 0.03


def with_noise(credit: Credit, rows: int) -> Credit:
    """Some rows where the telco's columns are noise, so that all it finds comes from what it is shown."""
    some, rng = cut(credit, np.random.default_rng(5).permutation(30_000)[:rows]), np.random.default_rng(6)
    bank = np.concatenate([some.telco.matrix, some.bank.matrix], axis=1)
    names = (*some.telco.names, *some.bank.names)
    return Credit(
        Columns(rng.normal(size=some.telco.matrix.shape), some.telco.names), Columns(bank, names), some.labels
    )


def recovered_from_weights(together: Make, held: Credit, parameters: LinearParameters) -> float:
    """How well the telco tells labels by the scores of its own columns with its own weights, which it is shown."""
    weights = []

    def active(team: Team, _: Any) -> None:
        fit(team, parameters, held.bank, Target(held.labels))

    def passive(team: Team, _: Any) -> None:
        weights.append(np.array(help_fit(team, parameters, held.telco).weights)[:, 0])

    together(parameters, "two", "plain", own={"bank": active, "telco": passive})
    return auc(held.labels, np.clip(held.telco.matrix, -4, 4) @ weights[0])


def test_by_default_a_party_whose_columns_are_noise_learns_next_to_nothing(together: Make, credit: Credit) -> None:
    """Its weights fit these rows a little by chance, and that is all: as much as a line through noise and labels."""
    held = with_noise(credit, 3 * ROWS)
    found = recovered_from_weights(together, held, LinearParameters())
    own = np.column_stack([held.telco.matrix, np.ones(3 * ROWS)])
    line = auc(held.labels, own @ np.linalg.lstsq(own, held.labels)[0])
    print(f"\nnoise, 6000 rows, no gradients: AUC {found:.4f}; a line through noise and labels: AUC {line:.4f}")
    assert found <= 0.55
    assert found < line + 0.01


def test_gradients_of_small_batches_tell_labels_also_to_noise(
    together: Make, monkeypatch: pytest.MonkeyPatch, credit: Credit
) -> None:
    held, rng = with_noise(credit, ROWS), np.random.default_rng(7)
    parameters = with_gradients(batch_rows=64, insecure_batch=True, epochs=1)
    seen = watched(together, monkeypatch, held, parameters, [rng.permutation(ROWS) for _ in range(10)])
    found = auc(held.labels, guesses(held.telco.matrix, seen))
    print(f"\nnoise, batches of 64, reshuffled, 10 epochs: AUC {found:.4f}")
    assert found > 0.99


def test_weights_tell_more_where_few_have_a_label(together: Make, credit: Credit) -> None:
    """The fewer positives there are for each column, the better weights fit them by chance."""
    held, reached = with_noise(credit, 3 * ROWS), {}
    positives = np.flatnonzero(held.labels)
    for count in (1000, 300, 119):
        labels = np.zeros(3 * ROWS)
        labels[positives[:count]] = 1
        reached[count] = recovered_from_weights(together, held._replace(labels=labels), LinearParameters(balanced=True))
        print(f"\nnoise, 6000 rows, {count} positives, no gradients: AUC {reached[count]:.4f}")
    assert reached[1000] < reached[300] < reached[119] < 0.7

"""How figures are scaled up, by rehearsals that are made up: what they would be with many rows is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from unpooled.jobs.examples.example_job import example_job
from unpooled.run.rehearsal import ADD, KEY, REST, Cast, Key, Rehearsal
from unpooled.run.scaling import OwnKey, Scale
from unpooled.secure.paillier.engine import EncryptedRows
from unpooled.secure.paillier.key_holder import MaskedSums
from unpooled.wire import kind_of

ROWS, WANTED = 900, 900 * 3**4
SENT: Key = ("telco", "coordinator", kind_of(MaskedSums), False)
MADE: Key = ("coordinator", "bank", KEY, False)
LENT: Key = ("bank", "telco", kind_of(EncryptedRows), False)
PLAN = example_job("train").plan


def rehearsal(rows: int, **found: dict[object, float]) -> Rehearsal:
    made = Rehearsal(rows, {"telco": rows, "bank": rows})
    for figure, values in found.items():
        getattr(made, figure).update(values)
    return made


def scale(figure: Callable[[int, int], dict[str, dict[object, float]]], own_key: OwnKey | None = None) -> Scale:
    """By rehearsals with the figures of so many rows and rounds, for 10 rounds and many rows."""
    cast = Cast(PLAN, {}, {}, {"telco": WANTED, "bank": WANTED}, WANTED, 0, WANTED)
    high, low, *fewer = (
        rehearsal(rows, **figure(rows, rounds))
        for rows, rounds in ((ROWS, 2), (ROWS, 1), (ROWS // 3, 1), (ROWS // 9, 1))
    )
    return Scale(cast, {}, high, low, fewer, 1, 2, 10, 1.0, 1.0, own_key=own_key)


@pytest.mark.parametrize(
    "of_rows",
    [
        lambda rows: 50.0,
        lambda rows: 7.0 * rows,
        lambda rows: 100 + 7.0 * rows,
        lambda rows: 1 / (3 / rows + 1 / 200),
    ],
    ids=["constant", "by row", "by row and once", "to an end"],
)
def test_growth_with_the_rows_goes_on_as_it_was_seen(of_rows: Callable[[int], float]) -> None:
    found = scale(lambda rows, rounds: {"bytes": {SENT: rounds * of_rows(rows)}})
    assert found.bytes(SENT) == pytest.approx(10 * of_rows(WANTED))


def test_nothing_grows_faster_than_the_rows() -> None:
    found = scale(lambda rows, rounds: {"bytes": {SENT: rounds * rows**1.5}})
    assert found.bytes(SENT) == pytest.approx(10 * ROWS**1.5 * WANTED / ROWS)


def test_a_key_takes_its_time_by_the_byte_by_the_row_and_once() -> None:
    """A ciphertext takes four times the bytes of a short key's; the telco adds up rows, then packs the sums."""

    def figure(rows: int, rounds: int, key: int = 1) -> dict[str, dict[object, float]]:
        sent: dict[object, float] = {LENT: 128 * key * rows * rounds, SENT: 1_000 * rounds, MADE: 2_600 + rounds}
        seconds = {
            ("bank", LENT[2]): 0.1 + 0.001 * rows * rounds,
            ("telco", ADD): 0.3 + 0.002 * rows * rounds,
            ("telco", SENT[2]): 0.5 * rounds,
            ("telco", REST): 0.001 * rows,
            ("coordinator", KEY): 0.2 * rounds,  # by chance
        }
        return {"bytes": sent, "largest": dict(sent), "cpu": dict(seconds)}

    own = OwnKey(
        rehearsal(90, **figure(90, 3, 4)),
        rehearsal(90, **figure(90, 1, 4)),
        rehearsal(90, **figure(90, 1)),
        rounds=3,
        loops=False,
    )
    found = scale(figure, own)
    assert found.bytes(LENT) == pytest.approx(512 * WANTED * 10)
    assert found.bytes(SENT) == pytest.approx(1_000 * 10)
    assert found.cpu("coordinator") == pytest.approx(0.2)
    assert found.cpu("bank") == pytest.approx(0.1 + 0.001 * WANTED * 10)
    assert found.cpu("telco") == pytest.approx(0.3 + 0.002 * WANTED * 10 + 0.5 * 10 + 0.001 * WANTED)

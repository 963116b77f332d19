"""Tables whose columns stay on disk are read, cleaned and prepared like those in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from unpooled.data import sources
from unpooled.data.prepare import PrepareSettings, clean, fit, transform
from unpooled.data.quality import quality_of
from unpooled.data.sources import TableSettings, load, look
from unpooled.data.stored import Stored
from unpooled.data.table import Table
from unpooled.errors import InputError

ROWS = 40


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "rows_at_once", 7)


@pytest.fixture(params=["people.csv", "people.csv.gz", "people.parquet"])
def people(request: pytest.FixtureRequest, tmp_path: Path) -> TableSettings:
    """Numbers, dates, texts, cells that are missing or impossible, and rows that repeat others."""
    rng, path = np.random.default_rng(5), tmp_path / request.param
    frame = pl.DataFrame(
        {
            "id": [f"p{number:03}" for number in rng.permutation(ROWS)],
            "age": np.where(rng.random(ROWS) < 0.1, 1e101, rng.normal(50, 9, ROWS)),
            "city": pl.Series(
                [("Oslo", "Riga", "Bern", None)[each] for each in rng.choice(4, ROWS, p=[0.5, 0.3, 0.02, 0.18])]
            ),
            "since": pl.Series(rng.integers(0, 9000, ROWS).astype(np.int32)).cast(pl.Date),
            "active": pl.Series([(True, False, None)[each] for each in rng.choice(3, ROWS)]),
            "level": rng.integers(0, 3, ROWS),
        }
    )
    frame = frame[[*range(ROWS), 3, 17, 3]]
    if path.suffix == ".parquet":
        frame.write_parquet(path, row_group_size=11)
    else:
        frame.write_csv(path, compression="gzip" if path.suffix == ".gz" else "uncompressed")
    return TableSettings(path=path, id="id", types={"level": "number"})


def both(settings: TableSettings, tmp_path: Path) -> tuple[Table, Table]:
    return load(settings, "clinic"), load(settings, "clinic", tmp_path / "disk")


@pytest.mark.parametrize("missing", ["impute", "drop", "keep"])
@pytest.mark.parametrize("categories", ["one-hot", "in order"])
def test_rows_are_cleaned_and_prepared_to_the_same_bits(
    people: TableSettings, tmp_path: Path, missing: str, categories: str
) -> None:
    settings = PrepareSettings.model_validate({"missing": missing, "categories": categories, "impossible": "missing"})
    rows, found = np.random.default_rng(3).permutation(20), []
    for table, folder in zip(both(people, tmp_path), (None, tmp_path / "disk"), strict=True):
        cleaned, cleaning = clean(table, settings)
        assert cleaning.duplicates_removed == 3
        taken = cleaned.take(rows).take(np.arange(15))
        preparation = fit(taken, settings)
        prepared = transform(preparation, cleaned, folder)
        quality = quality_of(cleaned, settings, cleaning)
        found.append((taken.in_memory().frame, cleaning, preparation, prepared, quality))
    (frame, *others, ours, quality), (frame_2, *others_2, theirs, quality_2) = found
    assert_frame_equal(frame, frame_2, check_exact=True)
    assert (others, quality, ours.names, ours.unseen) == (others_2, quality_2, theirs.names, theirs.unseen)
    assert ours.matrix.tobytes() == theirs.matrix.tobytes()
    assert not list((tmp_path / "disk").iterdir())


def test_notes_are_the_same_and_so_is_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("id;pay;tax\n1;1,5; 2.5\n2;2,5;3.5\n" + "".join(f"{row};3,5;4.5\n" for row in range(3, 30)))
    settings = TableSettings(path=path, id="id")
    one, other = look(settings, "clinic"), look(settings, "clinic", tmp_path / "disk")
    assert [str(note) for note in one.notes] == [str(note) for note in other.notes]
    with pytest.raises(InputError, match="numbers have a point here and a comma in column 'pay'"):
        load(settings, "clinic", tmp_path / "disk")


def test_the_same_id_with_different_values_is_refused(people: TableSettings, tmp_path: Path) -> None:
    for table in both(people, tmp_path):
        changed = table.with_column(pl.Series("level", np.arange(ROWS + 3.0)))
        with pytest.raises(InputError, match=r"rows 4, 41 and 43.*the same id with different values"):
            clean(changed, PrepareSettings(impossible="missing"))


def test_a_column_is_replaced_and_others_keep_their_rows() -> None:
    stored = Stored(None)
    stored.append(pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]}))
    taken = stored.take(np.array([2, 0]))
    changed = taken.with_column(pl.Series("a", [7, 8]))
    assert changed.take(np.array([1]))["a"].to_list() == [8]
    assert changed.take(np.array([1]))["b"].to_list() == ["x"]
    assert taken["a"].to_list() == [3, 1]
    assert stored["a"].to_list() == [1, 2, 3]

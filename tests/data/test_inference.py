"""Types that are inferred by the written rules, and what is refused instead of guessed."""

import datetime

import polars as pl
import pytest

from unpooled.data.columns import Kind
from unpooled.data.inference import CellSettings, Note, understand

TEXT = CellSettings({}, untyped=True)


def errors(notes: tuple[Note, ...]) -> list[Note]:
    return [note for note in notes if note.level == "error"]


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-2.5", "1e6", "+3", ".5"], "number"),
        (["1", None], "number"),
        ([None, None], "number"),
        (["0", "0.5", "-0.5"], "number"),
        (["007", "12"], "category"),
        (["1", "x"], "category"),
        (["2024-02-29", "1969-12-31"], "date"),
        (["2024-02-29 10:30:00", "2024-02-29T10:30:00.5Z"], "date"),
        (["29.02.2024"], "date"),
        (["13/01/2024", "01/02/2024"], "date"),
        (["01067", "80331"], "category"),
        (["1.2.3", "10.0.0.1"], "category"),
        (["1.5", "1.234,50"], "category"),
        (["True", "false", None], "boolean"),
        (["yes", "no"], "category"),
    ],
)
def test_text_of_a_csv_file_is_looked_at(texts: list[str | None], kind: Kind) -> None:
    found = understand(pl.Series("x", texts, dtype=pl.String), TEXT)
    assert (found.kind, errors(found.notes)) == (kind, [])


def test_a_category_of_which_most_cells_are_true_or_false_has_a_warning() -> None:
    found = understand(pl.Series("x", ["true", "False", None, "unknown", "true"]), TEXT)
    assert found.kind == "category"
    assert [(note.level, note.column, note.rows) for note in found.notes] == [("warning", "x", (4,))]
    assert "'unknown'" in found.notes[0].text


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (pl.Series(["1", "2"]), "category"),
        (pl.Series([1, 2]), "number"),
        (pl.Series(["1.50"]).cast(pl.Decimal(10, 2)), "number"),
        (pl.Series([True]), "boolean"),
        (pl.Series([datetime.date(2024, 1, 1)]), "date"),
        (pl.Series([datetime.datetime(2024, 1, 1)]), "date"),
        (pl.Series(["a"]).cast(pl.Categorical), "category"),
        (pl.Series(["a"]).cast(pl.Enum(["a"])), "category"),
        (pl.Series(["b", "a", None]).cast(pl.Enum(["low", "b", "a"])), ("low", "b", "a")),
        (pl.Series([None]), "number"),
        (pl.Series([[1]]), None),
        (pl.Series([b"1"]), None),
    ],
)
def test_types_of_a_typed_source_are_kept(cells: pl.Series, kind: Kind | None) -> None:
    found = understand(cells, CellSettings({}))
    assert found.kind == kind if kind else errors(found.notes)


def test_the_order_of_an_ordered_category_is_said_and_can_be_declared_away() -> None:
    stage = pl.Series("stage", ["late", "early"]).cast(pl.Enum(["early", "middle", "late"]))
    (note,) = understand(stage, CellSettings({})).notes
    assert str(note).startswith("column 'stage': an ordered category, from 'early' to 'late'; ")
    declared = understand(stage, CellSettings({"stage": "category"}))
    assert (declared.kind, declared.notes) == ("category", ())


@pytest.mark.parametrize(
    ("texts", "rows", "words"),
    [
        (["1", "2", "none"], (3,), ["'none' is not a number", 'types = {x = "category"}', "missing", "unfit = 0.4"]),
        (["1", "2", "\0"], (3,), [r"'\x00' is not a number"]),
        (["1", "1,5"], (2,), ["'1,5'", 'decimal = ","', "types"]),
        (["1", "1,234"], (2,), ['decimal = ","', 'thousands = ","']),
        (["1.5", "1,234.50"], (2,), ["'1,234.50'", 'thousands = ","']),
        (["1", "20", "300", "007"], (4,), ["'007'", 'types = {x = "number"}', 'types = {x = "category"}']),
        (["2024-02-29", "2024-03-01", "2023-02-29"], (3,), ["'2023-02-29' is not a date written YYYY-MM-DD"]),
        (["2024-02-29", "2024-03-01", "01.02.2024"], (3,), ["DD.MM.YYYY", "YYYY-MM-DD"]),
        (["2024-02-29", "01.02.2024"], (2,), ["set dates"]),
        (["01/02/2024", "03/04/2024"], (1, 2), ["DD/MM/YYYY or MM/DD/YYYY", 'dates = "%m/%d/%Y"']),
        (["01.02.24", "31.01.24"], (1, 2), ["set dates"]),
    ],
)
def test_what_is_in_doubt_is_refused_with_the_settings_that_help(
    texts: list[str], rows: tuple[int, ...], words: list[str]
) -> None:
    found = understand(pl.Series("x", texts), TEXT)
    (note,) = errors(found.notes)
    assert note.rows == rows
    assert all(word in note.text for word in words), note.text


def test_a_decimal_comma_is_inferred_only_where_it_can_be_nothing_else() -> None:
    semicolons = CellSettings({}, untyped=True, commas=True)
    found = understand(pl.Series("x", ["1,5", "2"]), semicolons)
    assert (found.kind, found.cells.to_list(), [note.level for note in found.notes]) == ("number", [1.5, 2.0], ["note"])
    assert errors(understand(pl.Series("x", ["1,234", "2"]), semicolons).notes), "or thousands"
    (note,) = errors(understand(pl.Series("x", ["1,5", "2,5", "n"]), semicolons).notes)
    assert note.rows == (3,)


def test_a_declared_type_is_held_against_every_cell() -> None:
    for kind, bad in (("number", "x"), ("date", "x"), ("boolean", "yes"), (("low", "high"), "mid")):
        cells = pl.Series("x", [bad, None])
        (note,) = errors(understand(cells, CellSettings({"x": kind})).notes)
        assert (note.column, note.rows, repr(bad) in note.text) == ("x", (1,), True)
    dates = CellSettings({"x": "date"}, dates="%d.%m.%Y")
    assert understand(pl.Series("x", ["1.2.2024"]), dates).cells.to_list() == [datetime.date(2024, 2, 1)]


def test_a_long_cell_is_shown_in_part() -> None:
    (note,) = errors(understand(pl.Series("my column", ["1", "2", "long" * 100]), TEXT).notes)
    assert len(note.text) < 400
    assert '{"my column" = "category"}' in note.text

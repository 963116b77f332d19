"""The page about generated rows: everything is escaped, and figures, pictures and warnings are there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from unpooled.data.table import Table, table_from_frame
from unpooled.drawing.matrix import square_of
from unpooled.errors import InputError
from unpooled.evaluate.generated import GeneratedRows, judge_generated
from unpooled.report.generated import Generation, draw_generated, memorised, nearest_words, write_generated

EVIL = "<script>alert('x')</script>"
ABOUT = Generation(f"{EVIL}.csv", "tvae", {"epochs": "3"}, f"{EVIL}.out", (f"id{EVIL}",), (f"note {EVIL}",))


def people(rows: int, seed: int) -> Table:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    frame = pl.DataFrame(
        {
            f"x{EVIL}": x,
            "since": pl.Series((19000 + 300 * x).astype(np.int32)).cast(pl.Date),
            "side": np.where(x > 0, EVIL, "left"),
            "nothing": pl.Series([None] * rows, dtype=pl.Float64),
        }
    )
    return table_from_frame(frame, (), "telco")


def judged(seed: int = 1, *, held_out: bool = True) -> GeneratedRows:
    others = people(100, 3) if held_out else None
    return judge_generated(people(200, seed), people(200, 2), others, np.random.default_rng(1))


def test_the_page_shows_columns_pairs_and_nearest_records_and_escapes_all() -> None:
    page = draw_generated(judged(), ABOUT)
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;" in page
    assert page.count('class="chart pair"') == 2
    assert page.count('class="lines square"') == 3
    assert page.count("<h3>") == 3 + 3
    assert "Generated rows are not anonymous by themselves" in page
    assert "Nearest records" in page
    assert "Held-out rows" in page
    assert "Be careful" not in page


def test_without_held_out_rows_the_page_says_what_it_cannot_say() -> None:
    page = draw_generated(judged(held_out=False), ABOUT)
    assert "no rows were held out" in page
    assert "Held-out rows</th>" not in page
    assert "How near generated rows are" not in page


def test_memorised_rows_are_warned_of() -> None:
    copied = judged(seed=2)
    assert memorised(copied)
    assert "has memorised some of them" in draw_generated(copied, ABOUT).replace("\n", " ")
    assert not memorised(judged())
    assert not memorised(judged(held_out=False))
    assert nearest_words(copied)[0].startswith("71.0 % of 200 generated rows are nearer")
    assert nearest_words(copied)[1].startswith("200 of 200 generated rows equal a row")


def test_the_page_is_for_its_owner_alone_and_errors_name_it(tmp_path: Path) -> None:
    page = write_generated(judged(), ABOUT, tmp_path / "page.html")
    assert page.stat().st_mode & 0o077 == 0
    with pytest.raises(InputError, match=r"page\.html: cannot be written"):
        write_generated(judged(), ABOUT, tmp_path / "absent" / "page.html")


def test_a_square_has_a_cell_for_each_pair_and_numbers_that_have_room() -> None:
    drawn = square_of(
        ["age", "income", "a very long name indeed"], [[1.0, -0.1, 0.5], [-0.1, 1.0, 0], [0.5, 0, 1.0]], 0.25
    )
    assert [(cell.shade, cell.negative) for cell in drawn.cells[:2]] == [(0.4, True), (1.0, False)]
    assert drawn.cells[0].title == "age, income: -0.10"
    assert len(drawn.cells) == 6
    assert [number for number, _ in drawn.numbers] == [1, 2, 3]
    assert drawn.labels[2].text == "a very long n… 3"
    many = square_of([str(n) for n in range(30)], np.eye(30).tolist())
    assert max(cell.left for cell in many.cells) + many.cell <= many.width
    assert [number for number, _ in many.numbers][:2] == [1, 4]

"""The frame of experiments, with a tiny one that the tests add."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner

from unpooled import workers
from unpooled.cli import app
from unpooled.cli import experiment as command
from unpooled.errors import InputError, PlanError
from unpooled.experiments import cells as kept
from unpooled.experiments import experiments, figures, page
from unpooled.experiments.cells import Done
from unpooled.experiments.experiment import Cell, Experiment, Figures, Tier
from unpooled.experiments.figures import Line, Panel, Picture
from unpooled.experiments.running import Progress, compute, seconds_left
from unpooled.experiments.tables import chosen, summarised, summary_of, table


def tiny_cells(tier: Tier, seed: int) -> list[Cell]:
    sizes = (1, 2) if tier is Tier.quick else (1, 2, 3)
    return [{"seed": one, "size": size} for one in (seed, seed + 1) for size in sizes]


def tiny_figures(cell: Cell) -> Figures:
    size, seed = int(cell["size"]), int(cell["seed"])
    return {"plain": {"score": size + 0.1 * seed}, "with, comma": {"score": 2.0 * size, "rest": 1 / 3}}


def tiny_section(frame: pl.DataFrame) -> str:
    rows = {name: {"method": name} for name in ("plain", "with, comma", "absent")}
    columns = {f"size {size}": {"size": size} for size in (1, 2)}

    def cell(**where: object) -> str:
        found = summarised(frame, "score", **where)
        return found.text(2) if found else ""

    return "![scores](scores.svg)\n\n" + table("method", rows, columns, cell)


def tiny_pictures(frame: pl.DataFrame) -> dict[str, Picture]:
    lines = []
    for name in ("plain", "with, comma"):
        found = [summary_of(chosen(frame, method=name, size=size)["score"].to_list()) for size in (1, 2)]
        means, spreads = [one.mean for one in found if one], [one.spread or 0.0 for one in found if one]
        lines.append(Line(name, [1, 2], means, spreads))
    return {"scores": Picture("Scores", "size", "score", [1, 2], [Panel("all", lines)])}


TINY = Experiment(
    name="tiny",
    about="made up",
    file="tiny",
    keys={"seed": int, "size": int},
    figures=("score", "rest"),
    packages=("numpy", "no-such-package"),
    seed=1,
    cells=tiny_cells,
    check=lambda _: None,
    seconds=lambda cell: 10.0 * int(cell["size"]),
    compute=tiny_figures,
    one_core=lambda _: False,
    section=tiny_section,
    pictures=tiny_pictures,
)


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "EXPERIMENTS", (*experiments.EXPERIMENTS, TINY))


def counting(asked: list[Cell], fail_at: int = -1) -> Callable[[Cell], Figures]:
    def computed(cell: Cell) -> Figures:
        if len(asked) == fail_at:
            raise KeyboardInterrupt
        asked.append(cell)
        return tiny_figures(cell)

    return computed


def test_cells_that_are_done_are_skipped(tmp_path: Path) -> None:
    asked: list[Cell] = []
    counted = replace(TINY, compute=counting(asked))
    first = compute(counted, Tier.quick, 1, tmp_path)
    assert (len(asked), len(first)) == (4, 4)
    assert compute(counted, Tier.quick, 1, tmp_path) == first
    assert len(asked) == 4
    assert len(compute(counted, Tier.quick, 2, tmp_path)) == 6  # seed 2 is there, seed 3 is new
    assert len(asked) == 6


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    asked: list[Cell] = []
    with pytest.raises(KeyboardInterrupt):
        compute(replace(TINY, compute=counting(asked, fail_at=2)), Tier.quick, 1, tmp_path)
    assert len(kept.read(TINY, tmp_path / "tiny-quick.csv")) == 2
    resumed = compute(replace(TINY, compute=counting(asked)), Tier.quick, 1, tmp_path)
    assert asked == tiny_cells(Tier.quick, 1)
    figures_of = {key: done.figures for key, done in resumed.items()}
    whole = compute(TINY, Tier.quick, 1, tmp_path / "other")
    assert figures_of == {key: done.figures for key, done in whole.items()}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_figure_that_is_no_number_is_refused_and_the_cells_before_stay(tmp_path: Path, value: float) -> None:
    def computed(cell: Cell) -> Figures:
        return tiny_figures(cell) if cell["size"] == 1 else {"plain": {"score": 1.0, "rest": value}}

    with pytest.raises(InputError, match=r"^experiment tiny: cell 1, 2, plain: rest is not a number"):
        compute(replace(TINY, compute=computed), Tier.quick, 1, tmp_path)
    assert list(kept.read(TINY, tmp_path / "tiny-quick.csv")) == [(1, 1)]


def test_a_cell_is_kept_with_versions_kind_of_machine_and_duration(tmp_path: Path) -> None:
    compute(TINY, Tier.quick, 1, tmp_path)
    done = kept.read(TINY, tmp_path / "tiny-quick.csv")[1, 2]
    assert done.figures == {"plain": {"score": 2.1}, "with, comma": {"score": 4.0, "rest": 0.333333}}
    assert done.seconds >= 0
    assert re.fullmatch(r"unpooled \S+, numpy \S+, no-such-package none", done.versions)
    assert re.fullmatch(r"\w+ \S+, Python \d+\.\d+\.\d+, \d+ CPUs", done.machine)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[: text.rindex(",")], "line 9: 8 fields instead of 9"),
        (lambda text: "".join(text.splitlines(keepends=True)[:-1]), "of the cell 2, 2 lines are missing"),
        (lambda text: text.replace("4", "four"), "line 5: could not convert"),
        (lambda text: text.replace("4", "nan"), "line 5: a value is not a number"),
        (lambda text: text + text.splitlines()[1] + "\n", "line 10: a cell occurs twice"),
        (lambda text: text.replace("score", "points"), "its columns are not those of the experiment tiny"),
        (lambda text: "", "its columns are not"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, change: Callable[[str], str], message: str) -> None:
    path = tmp_path / "tiny-quick.csv"
    cells = {TINY.key(one): Done(tiny_figures(one), 1.0, "v", "m") for one in tiny_cells(Tier.quick, 1)}
    kept.write(TINY, cells, path)
    path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=f"tiny-quick.csv: damaged: .*{message}.*remove it"):
        compute(TINY, Tier.quick, 1, tmp_path)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny-quick.csv"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="damaged: it is not text"):
        kept.read(TINY, path)


def test_the_estimate_is_the_guess_and_then_follows_what_was_measured() -> None:
    wanted = tiny_cells(Tier.quick, 1)
    assert seconds_left(TINY, wanted, {}) == 60
    half = {TINY.key(wanted[0]): Done({}, 5.0, "", "")}
    assert seconds_left(TINY, wanted, half) == 25  # the guess was twice too long
    assert seconds_left(TINY, wanted, {TINY.key(cell): Done({}, 1.0, "", "") for cell in wanted}) == 0


def test_cells_of_one_core_are_computed_side_by_side_and_kept_in_order(tmp_path: Path) -> None:
    some = replace(TINY, one_core=lambda cell: cell["size"] == 2)
    cells = compute(some, Tier.standard, 1, tmp_path)
    assert list(cells) == [TINY.key(cell) for cell in tiny_cells(Tier.standard, 1)]
    alone = compute(TINY, Tier.standard, 1, tmp_path / "alone")
    assert [done.figures for done in cells.values()] == [done.figures for done in alone.values()]
    assert seconds_left(some, tiny_cells(Tier.quick, 1), {}) == 20 + 40 / workers.cores()


def test_experiments_may_share_cells(tmp_path: Path) -> None:
    asked: list[Cell] = []
    less = replace(TINY, name="less", cells=lambda tier, seed: tiny_cells(tier, seed)[:2], compute=counting(asked))
    compute(TINY, Tier.quick, 1, tmp_path)
    cells = compute(less, Tier.quick, 1, tmp_path)
    assert (asked, len(cells)) == ([], 4)
    assert list(less.own(Tier.quick, cells)) == [(1, 1), (1, 2), (2, 1), (2, 2)]  # those of seed 2 too
    fewer = replace(
        less,
        cells=lambda tier, seed: [cell for cell in tiny_cells(tier, seed) if cell["size"] == 2],
        pictures=lambda _: {},
    )
    page.write(fewer, Tier.quick, cells, tmp_path, tmp_path / "results.md")
    text = (tmp_path / "results.md").read_text()
    assert "all 2 cells of this tier" in text
    assert "| plain |  | 2.15 ± 0.07 |" in text
    assert "Cells: `tiny-quick.csv`" in text


def test_progress_counts_cells_that_were_there(tmp_path: Path) -> None:
    seen: list[Progress] = []
    compute(TINY, Tier.quick, 1, tmp_path)
    compute(TINY, Tier.quick, 2, tmp_path, seen.append)
    assert [(one.done, one.total) for one in seen] == [(2, 4), (3, 4), (4, 4)]
    assert [one.cell for one in seen] == [*tiny_cells(Tier.quick, 2)[2:], None]


def test_a_table_has_mean_and_spread(tmp_path: Path) -> None:
    cells = compute(TINY, Tier.quick, 1, tmp_path)
    assert tiny_section(kept.frame_of(TINY, cells)).splitlines()[2:] == [
        "| method | size 1 | size 2 |",
        "|---|---|---|",
        "| plain | 1.15 ± 0.07 | 2.15 ± 0.07 |",
        "| with, comma | 2.00 ± 0.00 | 4.00 ± 0.00 |",
    ]


def test_figures_need_no_colour(tmp_path: Path) -> None:
    styles = [figures.style(place) for place in range(len(figures.MARKERS))]
    for what in ("marker", "linestyle"):
        assert len({str(style[what]) for style in styles}) == len(styles)
    cells = kept.frame_of(TINY, compute(TINY, Tier.quick, 1, tmp_path))
    svg, png = figures.save(tiny_pictures(cells)["scores"], tmp_path / "tiny-scores")
    text = svg.read_text()
    colours = set(re.findall(r"#([0-9a-f]{6})", text))
    assert colours
    assert all(colour[:2] == colour[2:4] == colour[4:] for colour in colours), colours
    assert all(f">{name}<" in text for name in ("plain", "with, comma", "size", "score", "Scores"))
    assert png.read_bytes().startswith(b"\x89PNG")
    first = svg.read_bytes()
    figures.save(tiny_pictures(cells)["scores"], tmp_path / "tiny-scores")
    assert svg.read_bytes() == first


def test_a_figure_with_too_many_lines_is_refused(tmp_path: Path) -> None:
    lines = [Line(f"line {place}", [1], [1.0], [0.0]) for place in range(9)]
    with pytest.raises(InputError, match="9 lines cannot be told apart; 8 can"):
        figures.save(Picture("many", "x", "y", [1], [Panel("", lines)]), tmp_path / "many")


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"pip install 'unpooled\[plots\]'"):
        figures.check()


def test_a_section_replaces_its_predecessor_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "results.md"
    once = page.with_section("# Results\n", "one", "first", path)
    both = page.with_section(once, "two", "second", path)
    again = page.with_section(both, "one", r"changed \1", path)
    assert again == both.replace("first", r"changed \1")
    with pytest.raises(InputError, match="the markers of the section one do not fit"):
        page.with_section(again.replace("<!-- end one -->", ""), "one", "x", path)


def call(*words: str) -> str:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["experiment", *words])
    if result.exception:
        raise result.exception
    return result.output


@pytest.mark.usefixtures("added")
def test_the_command_computes_and_writes(tmp_path: Path) -> None:
    out, to_page = tmp_path / "docs" / "results", tmp_path / "docs" / "results.md"
    said = call("tiny", "--out", str(out), "--page", str(to_page))
    assert "tiny, tier quick: 4 cells, 0 done, about 61 s to go" in said
    assert "tiny: 4 of 4 cells" in said
    text = to_page.read_text()
    assert "By `unpooled experiment tiny --tier quick`: all 4 cells of this tier, random seeds 1 and 2" in text
    assert "![scores](results/tiny-scores.svg)" in text
    assert {path.name for path in out.iterdir()} == {"tiny-quick.csv", "tiny-scores.svg", "tiny-scores.png"}
    assert "4 cells, 4 done\n" in call("tiny", "--out", str(out), "--page", str(to_page))
    assert to_page.read_text() == text
    assert call("tiny", "--out", str(out), "--page", str(to_page), "--from-cells", "--quiet") == ""
    assert to_page.read_text() == text
    call("tiny", "--seed", "7", "--out", str(tmp_path))
    assert "--tier quick --seed 7`" in (tmp_path / "results.md").read_text()


@pytest.mark.usefixtures("added")
def test_a_page_from_some_cells_says_so(tmp_path: Path) -> None:
    some = {TINY.key(cell): Done(tiny_figures(cell), 60.0, "v", "m") for cell in tiny_cells(Tier.quick, 1)[:3]}
    kept.write(TINY, some, tmp_path / "tiny-quick.csv")
    call("tiny", "--from-cells", "--out", str(tmp_path))
    assert "3 of 4 cells of this tier, random seeds 1 and 2, 3 minutes." in (tmp_path / "results.md").read_text()
    with pytest.raises(InputError, match=r"tiny-standard.csv: there are no cells yet"):
        call("tiny", "--from-cells", "--tier", "standard", "--out", str(tmp_path))


def test_on_a_terminal_there_is_a_bar_with_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=120)
    monkeypatch.setattr(command, "Console", lambda **_: console)
    with command._bar(TINY, quiet=False) as watch:
        watch(Progress(1, 4, 300.0, {"seed": 1, "size": 2}))
    assert "seed 1, size 2, about 5 min left" in written.getvalue()
    assert "1/4" in written.getvalue()


def test_without_a_name_experiments_are_listed() -> None:
    assert "completion" in call()


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(PlanError, match="unknown experiment 'completing'; known are completion"):
        call("completing")


def test_missing_data_is_refused_before_anything_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNPOOLED_DATA", "")  # so that what the command sets is undone
    with pytest.raises(InputError, match=r"adult-train.csv.gz is missing; .*UNPOOLED_DATA"):
        call("completion", "--data", str(tmp_path), "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()

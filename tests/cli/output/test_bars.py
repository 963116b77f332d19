"""Bars as a terminal would get them: who is drawn, what is said of a step, and log lines that stay whole."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from rich.console import Console
from rich.progress import Progress as Drawing

from unpooled.cli.output.bars import ConsoleHandler, _drawn_in, _lines, _Rest, bars
from unpooled.run.progress import Progress, nested


@dataclass
class Session:
    sent: int
    weights: dict[str, Sequence[int]]


def terminal(width: int = 80) -> tuple[Console, io.StringIO]:
    written = io.StringIO()
    return Console(file=written, force_terminal=True, width=width, color_system=None, _environ={}), written


def lines(written: io.StringIO) -> list[str]:
    """What was written, drawing by drawing and line by line, without what moves the cursor."""
    return [line for line in re.split(r"\n|\r|\x1b\[[0-9;?]*[A-Za-z]", written.getvalue()) if line]


def test_each_party_that_has_spoken_has_a_bar_below_the_title() -> None:
    console, written = terminal()
    with bars(console, False, "check: shop, bank") as watch:
        watch({})
        watch({"bank": Progress("fit/tree 3/level 2", 3, 10, sent=1_250_000)})
    assert any(re.fullmatch(r". check: shop, bank 0:00:\d\d", line) for line in lines(written))
    assert re.fullmatch(r"bank fit, tree 3, level 2 [━╸╺]+ + 3/10 1 MB *", lines(written)[-1])
    assert not any(line.startswith("shop") for line in lines(written))


def test_bars_are_gone_in_the_end() -> None:
    console, written = terminal()
    with bars(console, False) as watch:
        watch({"shop": Progress("fit", 1, 2), "bank": Progress("fit", 2, 2)})
    assert [line.split()[0] for line in lines(written)[-2:]] == ["shop", "bank"]
    assert written.getvalue().endswith("\n\x1b[?25h\r" + "\x1b[1A\x1b[2K" * 2)


def test_names_and_scopes_are_printed_as_they_are() -> None:
    console, written = terminal()
    with bars(console, False, "[red]title :bank:") as watch:
        watch({"bank": Progress("[bold]fit {task} :bank:", 0, 0)})
    assert "[red]title :bank:" in written.getvalue()
    assert "bank [bold]fit {task} :bank: ━" in written.getvalue()


def test_a_long_step_leaves_room_for_the_bar() -> None:
    console, written = terminal(80)
    with bars(console, False) as watch:
        watch({"coordinator": Progress("align/" + "a very long name of a step " * 5, 7, 10)})
    line = lines(written)[-1]
    assert len(line) <= 80
    assert re.fullmatch(r"coordinator align, a very long .*… [━╸╺]+ + 7/10 0 bytes *", line)


@pytest.mark.parametrize("quiet", [True, False])
def test_without_a_terminal_there_is_at_first_the_title_alone_and_quiet_not_even_that(quiet: bool) -> None:
    written = io.StringIO()
    with bars(Console(file=written, force_terminal=False), quiet, "check: bank") as watch:
        watch({"bank": Progress("fit", 1, 2)})
    assert written.getvalue() == ("" if quiet else "check: bank\n")


def test_quiet_draws_nothing_on_a_terminal() -> None:
    console, written = terminal()
    with bars(console, True, "check: bank") as watch:
        watch({"bank": Progress("fit", 1, 2)})
    assert written.getvalue() == ""


def test_a_whole_line_fits_a_terminal_of_eighty(monkeypatch: pytest.MonkeyPatch) -> None:
    console, written = terminal(80)
    monkeypatch.setattr(_Rest, "after", lambda *_: "about 12 min left")
    with bars(console, False, "lookalike: bank, coordinator") as watch:
        watch({"coordinator": Progress("find/iteration 4 of 5, trees of 10 bags", 42, 50, 384_000_000, "find", 0.7)})
    line = r"coordinator iteration 4 of 5, trees of 10 bags [━╸╺ ]+ 42/50 384 MB about 12 min left"
    assert re.fullmatch(line, lines(written)[-1])


def test_without_a_terminal_each_party_has_a_line_now_and_then() -> None:
    now, written = 0.0, io.StringIO()
    watch = _lines(Console(file=written, force_terminal=False, width=40), lambda: now)

    def said(seconds: float, **found: Progress) -> str:
        nonlocal now
        now = seconds
        watch(found)
        line = written.getvalue()
        written.seek(0)
        written.truncate()
        return line

    def at(fraction: float, sent: int = 120_000_000) -> Progress:
        return Progress("find/iteration 3 of 6, trees of 10 bags", 21, 50, sent, "find", fraction)

    assert said(1, bank=at(0.1)) == ""
    assert said(14, bank=at(0.15)) == ""
    line = "iteration 3 of 6, trees of 10 bags, 21 of 50, 120 MB sent"
    assert said(31, bank=at(0.4), telco=at(0.4)) == f"bank: {line}, about 60 s left\ntelco: {line}\n"
    assert said(60, bank=at(0.5)) == "", "too soon"
    assert said(90, bank=at(0.45)) == "", "too little"
    assert said(100, bank=at(1.0, 2_000)) == "bank: iteration 3 of 6, trees of 10 bags, 21 of 50, 2 kB sent\n"
    assert said(140, bank=Progress("deliver", 0, 1, 2_000, "deliver", 0.0)) == "bank: deliver, 0 of 1, 2 kB sent\n"
    assert said(700, bank=Progress("deliver", 0, 1, 2_000, "deliver", 0.0)) == ""
    assert said(800, bank=Progress("deliver", 0, 1, 2_000, "deliver", 0.0)) == "bank: deliver, 0 of 1, 2 kB sent\n"


def test_a_long_run_without_a_terminal_fits_a_page() -> None:
    now, written = 0.0, io.StringIO()
    watch = _lines(Console(file=written, force_terminal=False), lambda: now)
    for second in range(0, 4_600):
        now = float(second)
        watch({party: Progress("find", 1, 9, 0, "find", second / 4_600) for party in ("shop", "telco", "bank", "aide")})
    assert len(written.getvalue().splitlines()) <= 40


def test_the_time_left_is_that_of_the_outermost_step() -> None:
    now = 0.0
    drawing = Drawing(console=terminal()[0], get_time=lambda: now)
    watch = _drawn_in(drawing)

    def left(seconds: float, where: str, step: str, fraction: float) -> str:
        nonlocal now
        now = seconds
        watch({"bank": Progress(where, 1, 10, 0, step, fraction)})
        return str(drawing.tasks[0].fields["left"])

    assert left(0, "find/iteration 1 of 4, trees of 10 bags", "find", 0.0) == ""
    assert left(1, "find/iteration 1 of 4, trees of 10 bags", "find", 0.1) == "", "too early to tell"
    assert left(100, "find/iteration 1 of 4, trees of 10 bags", "find", 0.01) == "", "too little to tell"
    assert left(100, "find/iteration 1 of 4, trees of 10 bags", "find", 0.2) == "about 7 min left"
    assert left(7200, "find/iteration 3 of 4, trees of 10 bags", "find", 0.5) == "about 2 h left"
    assert left(7300, "score", "score", 0.0) == "", "another step"
    assert left(7310, "score", "score", 0.5) == "about 11 s left"
    assert left(7320, "score", "score", 1.0) == ""


def test_the_time_left_is_true_if_all_models_take_alike() -> None:
    """A search as it reports itself: five models for estimates, then three iterations of ten bags, 20 trees each.

    A tree takes as many seconds as its step has models. From when it is first told on, the time left is within a tenth
    of the truth.
    """
    groups, trees, clock, rest = [5, 10, 10, 10], 20, 0.0, _Rest()
    found: list[tuple[float, float]] = []

    def watch(progress: Progress) -> None:
        left = rest.seconds(progress, clock)
        if left is not None:
            found.append((left, sum(groups) * trees - clock))

    told = Session(sent=0, weights={"find": groups})
    tell = nested(watch, lambda: told)
    for step, models in enumerate(groups):
        tell("find", step, len(groups))
        for tree in range(trees):
            tell(f"find/step {step}, trees of {models} bags", tree, trees)
            clock += models
    assert len(found) > 70
    for left, truth in found:
        assert left == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize("drawn", [True, False])
def test_log_lines_stay_whole(drawn: bool) -> None:
    console, written = terminal(40)
    log = logging.Logger("test")
    handler = ConsoleHandler(console)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    log.addHandler(handler)
    with bars(console, not drawn) as watch:
        watch({"bank": Progress("fit", 1, 2)})
        log.info("bank is connected with [telco] :bank:" + " and more" * 10)
        watch({"bank": Progress("fit", 2, 2)})
        log.warning("bank %s", "refused")
    told = ["INFO bank is connected with [telco] :bank:" + " and more" * 10, "WARNING bank refused"]
    assert [line for line in lines(written) if not re.match("bank +fit ", line)] == told
    assert any(line.startswith("bank fit") for line in lines(written)) is drawn

"""The page as a browser lays it out: nothing is wider than the window, wide or narrow, light or dark."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zlib
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from unpooled.data.table import table_from_frame
from unpooled.evaluate.generated import judge_generated
from unpooled.jobs.lookalike.evaluation import EVALUATION
from unpooled.jobs.lookalike.list_files import RELIABLE
from unpooled.jobs.run_files import RESULT
from unpooled.report.generated import Generation, write_generated
from unpooled.report.page import write_report
from unpooled.run.folder import REPORT

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--allow-file-access-from-files",
)
WIDTHS, SCHEMES = (1200, 375), ("light", "dark")
DAY_AND_NIGHT = {"light": "rgb(247, 247, 244)", "dark": "rgb(20, 24, 27)"}

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on PATH")

PROBE = """<!DOCTYPE html><html><body>%s<script>
onload = () => {
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument, line = document.createElement("p");
    const colour = frame.contentWindow.getComputedStyle(page.body).backgroundColor;
    line.textContent = `measured ${frame.title}: ${page.documentElement.scrollWidth} ${colour};`;
    document.body.append(line);
  }
};
</script></body></html>"""
FRAME = (
    '<iframe title="{3} {0} {1}" src="{2}" style="width: {0}px; height: 800px; border: 0; color-scheme: {1}"></iframe>'
)


def browse(folder: Path, page: Path, *options: str) -> str:
    assert BROWSER
    command = [BROWSER, *FLAGS, f"--user-data-dir={folder / 'profile'}", *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout


def check_widths(folder: Path, *reports: Path) -> None:
    """Every page is as wide as its window, and of the colour that belongs to the scheme."""
    windows = list(product(range(len(reports)), WIDTHS, SCHEMES))
    frames = [FRAME.format(width, scheme, reports[number].as_uri(), number) for number, width, scheme in windows]
    wrapper = folder / "probe.html"
    wrapper.write_text(PROBE % "".join(frames))
    found = re.findall(r"measured (\d+) (\d+) (\w+): (\d+) ([^;]+);", browse(folder, wrapper, "--dump-dom"))
    assert {
        (reports[int(number)], int(width), scheme): (int(content), colour)
        for number, width, scheme, content, colour in found
    } == {(reports[number], width, scheme): (width, DAY_AND_NIGHT[scheme]) for number, width, scheme in windows}


def test_no_page_is_wider_than_its_window(real_run: Path, trained: Path, tmp_path: Path) -> None:
    check_widths(tmp_path, *(write_report(run) for run in (real_run, trained / "train", trained / "predict")))


def test_no_page_of_a_search_is_wider_than_its_window(searched: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(searched, run)
    part = {"rows": 10**9, "known": 10**9, "positive": 10**9, "precision": 0.999, "recall": 0.999, "lift": 12345.6}
    parts = {"tiers": {"first": part}, "iterations": {"0": part, "1": part}, "whole": part}
    outcomes = {"positives": 10**9, "everybody": 10**9, "fraction": 0.999} | parts
    (run / "shop" / EVALUATION).write_text(json.dumps(outcomes))
    path = run / "bank" / RESULT
    result = json.loads(path.read_text())
    result["estimates"]["warning"] = "unbreakable" * 30
    path.write_text(json.dumps(result))
    header, first, *others = (run / "shop" / RELIABLE).read_text().splitlines()
    (run / "shop" / RELIABLE).write_text("\n".join((header, "unbreakable" * 30 + first, *others)))
    write_report(run)
    check_widths(tmp_path, *(run / party / REPORT for party in ("", "shop", "bank", "telco", "coordinator")))


def test_long_words_do_not_widen_the_page(trained: Path, write_run: Callable[..., Path], tmp_path: Path) -> None:
    run = tmp_path / "trained"
    shutil.copytree(trained / "train", run)
    word = "unbreakable" * 30
    result = json.loads((run / "bank" / RESULT).read_text())
    result["importance"][0]["name"] = result["own_gains"][0]["name"] = word
    result |= {"class_names": [word, "other"], "notes": [word], "calibration": [{"prediction": -1e99, "truth": 1e100}]}
    (run / "bank" / RESULT).write_text(json.dumps(result | {"classes": 0}))
    times = {"started": "2026-03-01T09:00:00+00:00", "ended": "2026-03-01T09:00:01+00:00"}
    column = {"name": word, "kind": "number", "missing": 0, "impossible": 0, "constant": False, "left_out": False}
    counts = dict.fromkeys(("rows_read", "duplicates_removed", "rows_dropped", "rows", "prepared_columns"), 10**12)
    other = write_run(
        {"clinic": times | {"state": "failed", "origin": "clinic", "error": word}},
        {"lab": {"table": counts | {"columns": [column]}, "rows": {}, "links": []}},
    )
    check_widths(tmp_path, write_report(run), write_report(other))


def test_no_page_of_a_completed_table_is_wider_than_its_window(write_job: Callable[..., Path], tmp_path: Path) -> None:
    word = "unbreakable" * 30
    cells = dict.fromkeys(("real", "predicted", "generated", "not filled"), 10**9)
    error = {"measure": "r2", "value": -1e100, "low": -1e120, "high": 0.5, "cells": 10**9, "guess": 0.0}
    column = {
        **{"name": word, "type": "number", "way": "predicted", "why": "significant", "strength": 0.5},
        **{"cells": cells, "in_common": cells, "unsure": 10**9, "confidence": 0.5, "errors": [error]},
        "distribution": {"edges": [-1e99, 0.0, 1e100], "real": [0.5, 0.5], "filled": [0.0, 1.0], "apart": 0.5},
    }
    levels = {"levels": [word, "b"], "real": [0.5, 0.5], "filled": [0.0, 1.0], "apart": 0.5}
    counts = {"rows_read": 10**9, "rows": 10**9, "common": 10**8, "others": 10**9}
    result = counts | {
        **{"measure": "gain", "alpha": 0.5, "cells": cells, "file": word, "files": [word], "weight": word},
        "completed": [column, column | {"name": f"{word}2", "distribution": levels}],
        "associations": {"what": word, "columns": [word, f"{word}2"], "values": [[0.5] * 300] * 2},
    }
    lent = {"columns": 2, "importance": [{"name": word, "splits": 10**9, "rows": 10**12}], "file": word}
    roles = {"registry": "passive", "clinic": "active", "helper": "coordinator"}
    run = write_job("complete", roles, {"clinic": result, "registry": counts | lent, "helper": {}})
    write_report(run)
    assert "What came out cannot be shown" not in (run / "clinic" / REPORT).read_text()
    check_widths(tmp_path, *(run / party / REPORT for party in ("", *roles)))


def test_no_page_of_generated_rows_is_wider_than_its_window(tmp_path: Path) -> None:
    word = "unbreakable" * 30
    rng = np.random.default_rng(1)
    columns = {f"{word}{place}": 1e20 * rng.normal(size=40) for place in range(30)}
    frame = pl.DataFrame(columns | {word: [word, "b"] * 20})
    table = table_from_frame(frame, (), "telco")
    found = judge_generated(table, table, table, np.random.default_rng(1))
    about = Generation(word, word, {word: word}, word, (word,), (word,))
    check_widths(tmp_path, write_generated(found, about, tmp_path / "page.html"))


@pytest.mark.parametrize("party", ["", "shop"])
def test_a_picture_of_the_page_is_not_blank(party: str, searched: Path, tmp_path: Path) -> None:
    shot = tmp_path / "shot.png"
    write_report(searched)
    browse(tmp_path, searched / party / REPORT, f"--screenshot={shot}", "--window-size=1200,1600")
    content = shot.read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = (int.from_bytes(content[at : at + 4]) for at in (16, 20))
    assert (width, height) == (1200, 1600)
    pixels = zlib.decompress(_image_data(content))
    stride = len(pixels) // height
    assert len({pixels[start : start + stride] for start in range(0, len(pixels), stride)}) > height / 4


def _image_data(content: bytes) -> bytes:
    """The compressed rows of a PNG file: the contents of its IDAT chunks, one after the other."""
    parts, at = [], 8
    while at < len(content):
        size = int.from_bytes(content[at : at + 4])
        if content[at + 4 : at + 8] == b"IDAT":
            parts.append(content[at + 8 : at + 8 + size])
        at += size + 12
    return b"".join(parts)

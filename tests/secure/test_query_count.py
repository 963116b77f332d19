"""Counts of what a party was asked are on disk before the answer, and written once for each page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from unpooled import atomic
from unpooled.secure.engine import COUNTED, Engine
from unpooled.secure.query_count import ASKED, Asked

ROWS = "digest"
BETWEEN = {"answered": 4, "bits": 100, "opened": 10}


@dataclass
class Answering:
    """As much of an engine as counts."""

    counted: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in COUNTED})
    count_ahead: Callable[[str, str, int, int | None], None] | None = None

    def answer(self, name: str, amount: int, most: int | None = None, rows: str = ROWS) -> None:
        if self.count_ahead:
            self.count_ahead(name, rows, amount, most)
        self.counted[name][rows] += amount


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What was written to disk, one after the other."""
    found: list[dict[str, Any]] = []
    write = atomic.write_text

    def kept(path: Path, text: str) -> None:
        found.append(json.loads(text))
        write(path, text)

    monkeypatch.setattr(atomic, "write_text", kept)
    return found


def on_disk(folder: Path, rows: str = "") -> dict[str, int]:
    kept = json.loads((folder / ASKED).read_text(encoding="utf-8"))
    return {name: kept[name].get(rows, 0) for name in COUNTED}


def test_a_page_takes_one_write_whatever_is_asked(tmp_path: Path, written: list[dict[str, Any]]) -> None:
    engine, page = Answering(), 0
    with Asked(tmp_path).counting(cast(Engine, engine), ROWS, BETWEEN, lambda: page):
        for page in range(5):
            before = len(written)
            for name, amount in (("answered", 1), ("bits", 30), ("opened", 2), ("bits", 60), ("answered", 3)):
                engine.answer(name, amount)
                assert on_disk(tmp_path)[name] >= engine.counted[name][ROWS]
            assert len(written) - before == (3 if page == 0 else 1)
            assert on_disk(tmp_path) == {"answered": 4 * page + 4, "bits": 90 * page + 100, "opened": 2 * page + 10}
    assert on_disk(tmp_path) == {"answered": 20, "bits": 450, "opened": 10}


def test_what_was_not_asked_before_a_page_is_not_counted_ahead(tmp_path: Path) -> None:
    engine, page = Answering(), 0
    with Asked(tmp_path).counting(cast(Engine, engine), ROWS, BETWEEN, lambda: page):
        engine.answer("bits", 1)
        engine.answer("bits", 1, rows=f"{ROWS} others")
        page = 1
        engine.answer("answered", 1)
        assert on_disk(tmp_path) == {"answered": 4, "bits": 101, "opened": 0}
        assert on_disk(tmp_path, " others")["bits"] == 101
        page = 2
        engine.answer("answered", 1)
        assert on_disk(tmp_path) == {"answered": 5, "bits": 1, "opened": 0}
        assert on_disk(tmp_path, " others")["bits"] == 1


def test_no_more_is_counted_ahead_than_may_be_asked(tmp_path: Path) -> None:
    engine, page = Answering(), 0
    with Asked(tmp_path).counting(cast(Engine, engine), ROWS, BETWEEN, lambda: page):
        engine.answer("bits", 1, most=60)
        engine.answer("answered", 1)
        assert on_disk(tmp_path)["bits"] == 60
        page = 1
        engine.answer("answered", 1)
        assert on_disk(tmp_path)["bits"] == 60
        engine.answer("bits", 70, most=80)  # the limit may be another one now
        assert on_disk(tmp_path)["bits"] == 80


def test_without_pages_counts_are_doubled(tmp_path: Path, written: list[dict[str, Any]]) -> None:
    engine = Answering()
    with Asked(tmp_path).counting(cast(Engine, engine), ROWS):
        for _ in range(100):
            engine.answer("bits", 1)
            assert engine.counted["bits"][ROWS] <= on_disk(tmp_path)["bits"] <= 2 * engine.counted["bits"][ROWS]
    assert len(written) <= 8
    assert on_disk(tmp_path)["bits"] == 100


def test_a_resumed_run_goes_on_from_what_was_counted(tmp_path: Path) -> None:
    engine = Answering()
    with Asked(tmp_path).counting(cast(Engine, engine), ROWS, BETWEEN, lambda: 0):
        engine.answer("bits", 7)
    again = Answering()
    with Asked(tmp_path).counting(cast(Engine, again), "another", BETWEEN, lambda: 0):
        assert again.counted["bits"]["another"] == 7
        again.answer("bits", 3, rows="another")
    assert on_disk(tmp_path)["bits"] == 10

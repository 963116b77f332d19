"""When loops are compiled."""

import subprocess
import sys

import pytest

from unpooled import compiled
from unpooled.compiled import LOADED_AFTER, from_the_start, worthwhile


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has computed nothing."""
    monkeypatch.setattr(compiled, "_cells", 0)
    monkeypatch.delenv("UNPOOLED_COMPILED", raising=False)
    compiled._choice.cache_clear()


def test_a_short_job_does_without(fresh: None) -> None:
    assert not worthwhile(LOADED_AFTER // 2)
    assert not worthwhile(LOADED_AFTER // 2)
    assert worthwhile(1)


def test_a_little_shows_what_a_lot_takes(fresh: None) -> None:
    with from_the_start():
        assert worthwhile(1)
    assert not worthwhile(1)


@pytest.mark.parametrize(("word", "expected"), [("0", False), ("1", True)])
def test_the_environment_decides(fresh: None, monkeypatch: pytest.MonkeyPatch, word: str, expected: bool) -> None:
    monkeypatch.setenv("UNPOOLED_COMPILED", word)
    assert worthwhile(10 * LOADED_AFTER) is expected
    compiled._choice.cache_clear()


def test_without_numba_numpy_does_the_work(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_installed", lambda: False)
    assert not worthwhile(10 * LOADED_AFTER)


def test_nothing_imports_numba_ahead() -> None:
    code = "import sys, unpooled.vertical.learners, unpooled.secure.product; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_compiled_loop_gives_the_same() -> None:
    def doubled(number: int) -> int:
        return 2 * number

    assert compiled.compiled(doubled)(21) == 42

"""The public interface is what `unpooled` exports: nothing more is visible, nothing is undocumented."""

import subprocess
import sys
from pathlib import Path

import pytest

import unpooled

DOCUMENT = Path(__file__).parents[1] / "docs" / "python.md"


def test_what_is_visible_is_exactly_what_is_exported() -> None:
    assert dir(unpooled) == unpooled.__all__
    assert [name for name in unpooled.__all__ if not hasattr(unpooled, name)] == []
    with pytest.raises(AttributeError):
        _ = unpooled.encode  # type: ignore[attr-defined]


def test_importing_the_package_loads_little() -> None:
    look = "import sys, unpooled.align.ristretto; print({'polars', 'ssl', 'pydantic'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_names_are_exported_once_and_in_order() -> None:
    assert unpooled.__all__ == sorted(set(unpooled.__all__))


def test_every_public_name_is_documented() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [name for name in unpooled.__all__ if f"`{name}" not in text and f"unpooled.{name}" not in text] == []


def test_every_exported_class_and_function_says_what_it_is() -> None:
    exported = [getattr(unpooled, name) for name in unpooled.__all__ if name != "__version__"]
    assert [item.__name__ for item in exported if not item.__doc__] == []

"""The public interface is what `unpooled` exports: nothing more is visible, nothing is undocumented."""

import types
from pathlib import Path

import unpooled

DOCUMENT = Path(__file__).parents[1] / "docs" / "python.md"


def test_what_is_visible_is_exactly_what_is_exported() -> None:
    visible = {
        name
        for name, value in vars(unpooled).items()
        if not isinstance(value, types.ModuleType) and (not name.startswith("_") or name == "__version__")
    }
    assert visible == set(unpooled.__all__)


def test_names_are_exported_once_and_in_order() -> None:
    assert unpooled.__all__ == sorted(set(unpooled.__all__))


def test_every_public_name_is_documented() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [name for name in unpooled.__all__ if f"`{name}" not in text and f"unpooled.{name}" not in text] == []


def test_every_exported_class_and_function_says_what_it_is() -> None:
    exported = [getattr(unpooled, name) for name in unpooled.__all__ if name != "__version__"]
    assert [item.__name__ for item in exported if not item.__doc__] == []

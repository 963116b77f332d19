"""The public interface is what `unpooled` exports: nothing more is visible, nothing is undocumented."""

import ast
import doctest
import importlib.util
import re
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


PAGES = sorted([*DOCUMENT.parent.glob("*.md"), DOCUMENT.parents[1] / "README.md"])
_LISTED = re.compile(r"`(unpooled(?:\.\w+)+)`")


def public_modules() -> set[str]:
    """The modules that docs/python.md lists."""
    section = DOCUMENT.read_text(encoding="utf-8").partition("## Public modules\n")[2].partition("\n## ")[0]
    return set(_LISTED.findall(section))


def taught(page: Path) -> set[str]:
    """What the examples of a page take from the package: `unpooled.simulate`, or `unpooled.vertical.team`."""
    found = set()
    for example in doctest.DocTestParser().get_examples(page.read_text(encoding="utf-8")):
        for node in ast.walk(ast.parse(example.source)):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "unpooled":
                found.add(f"unpooled.{node.attr}")
    return {name for name in found if name.split(".")[0] == "unpooled"} - {"unpooled"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_use_public_names_alone(page: Path) -> None:
    allowed = {f"unpooled.{name}" for name in unpooled.__all__} | public_modules()
    assert {name for name in taught(page) if not {name, name.rpartition(".")[0]} & allowed} == set()


def test_every_public_module_is_there_and_named_by_a_page_that_shows_it() -> None:
    shown = set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8") if page != DOCUMENT else ""
        shown |= {name.rpartition(".")[0] for name in taught(page)} | taught(page)
        shown |= {module for module in public_modules() if module in text}
    assert public_modules() - shown == set()
    assert [name for name in public_modules() if importlib.util.find_spec(name) is None] == []

"""The notebooks run in a fresh kernel, show what they are kept with, and use public names alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import execute

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"


def shown(notebook: Any) -> list[list[Any]]:
    """What each cell of code shows; of pictures only that there is one, since other fonts draw others."""
    return [[_texts(output) for output in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]


def _texts(output: Any) -> Any:
    data = {kind: "a picture" if kind.startswith("image/") else text for kind, text in output.get("data", {}).items()}
    return data or output["text"]


@pytest.mark.parametrize("name", execute.NOTEBOOKS)
def test_a_notebook_runs_and_shows_what_it_is_kept_with(name: str) -> None:
    kept = execute.kept(name)
    assert any("\nassert " in f"\n{cell.source}" for cell in kept.cells if cell.cell_type == "code")
    assert shown(execute.executed(name)) == shown(kept), "if that is how it should be: make notebooks"


def test_notebooks_use_public_names_alone() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(execute.NOTEBOOKS)
    for name in execute.NOTEBOOKS:
        code = "\n".join(cell.source for cell in execute.kept(name).cells if cell.cell_type == "code")
        assert re.findall(r"^\s*(?:from unpooled|import unpooled\.).*", code, flags=re.MULTILINE) == []


def test_the_page_about_notebooks_lists_them() -> None:
    listed = re.findall(r"\[\S+?\]\((\w+)\.ipynb\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert tuple(listed) == execute.NOTEBOOKS

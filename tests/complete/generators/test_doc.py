"""docs/generators.md names every model and has the settings of the code: its tables are made from it, by this file.

After a change of settings: `UPDATE_DOCS=1 pytest tests/complete/generators/test_doc.py`, and look at the difference.
"""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from unpooled.cli import app
from unpooled.complete.completers.completers import COMPLETERS
from unpooled.complete.completers.smote import SmoteSettings
from unpooled.complete.generators.sampling import LEAST_ROWS, SAMPLERS
from unpooled.complete.generators.settings import (
    CtabGanSettings,
    CtganSettings,
    GeneratorSettings,
    TabDdpmSettings,
    TableGanSettings,
    TvaeSettings,
    VaeSettings,
)
from unpooled.complete.settings import GenerateSettings
from unpooled.evaluate import generated

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "generators.md"
BEGIN, END = "<!-- settings: made by tests/complete/generators/test_doc.py -->", "<!-- end of settings -->"
MODELS = (VaeSettings, TvaeSettings, CtganSettings, TableGanSettings, CtabGanSettings, TabDdpmSettings)


def name_of(kind: Any) -> str:
    return str(kind.model_fields["completer"].default)


def line(name: str, field: Any) -> str:
    default = "" if field.default is None else f"`{field.default}`"
    return f"| `{name}` | {default} | {field.description} |"


def tables() -> Iterator[str]:
    """Settings that all models have, those of some, and what presets stand for."""
    yield from ("All models:", "", "| setting | default | meaning |", "|---|---|---|")
    common = {name: field for name, field in GeneratorSettings.model_fields.items() if name != "completer"}
    yield from (line(name, field) for name, field in common.items())
    yield from ("", "Of some models:", "", "| model | setting | default | meaning |", "|---|---|---|---|")
    for kind in (*MODELS, SmoteSettings):
        for name, field in kind.model_fields.items():
            if name not in common and name != "completer":
                yield f"| `{name_of(kind)}` {line(name, field)}"
    yield from ("", "Presets:", "", "| model | preset | epochs | batch_rows | learning_rate |", "|---|---|---|---|---|")
    for kind in MODELS:
        for preset, schedule in kind.schedules.items():
            figures = f"{schedule.epochs} | {schedule.batch_rows} | {schedule.learning_rate:g}"
            yield f"| `{name_of(kind)}` | `{preset}` | {figures} |"


def test_the_settings_are_those_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    made = "\n".join([f"{before}{BEGIN}", "", *tables(), "", f"{END}{after}"])
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(made, encoding="utf-8")
        text = made
    hint = "docs/generators.md is out of date: UPDATE_DOCS=1 pytest tests/complete/generators/test_doc.py"
    assert text == made, hint


@pytest.mark.parametrize("page", ["generators.md", "completing.md"])
def test_the_pages_have_a_row_for_every_model(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    wanted = SAMPLERS if page == "generators.md" else [one.name for one in COMPLETERS]
    assert [name for name in wanted if not re.search(rf"^\| [^|]*`{name}`", text, re.MULTILINE)] == []
    wanted_in_settings = str(GenerateSettings.model_fields["completer"].description)
    assert [one.name for one in COMPLETERS if one.name not in wanted_in_settings] == []


def test_the_limits_are_those_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8").replace("\n", " ")
    assert f"At least {LEAST_ROWS} rows" in text
    assert f"at most {generated._ROWS:,} rows" in text
    assert f"first {generated.MOST_COLUMNS} columns and {generated._PAIRED_ROWS:,} rows" in text
    assert f"of {generated._NEAR_ROWS:,} generated rows" in text


def test_the_private_file_of_the_page_is_one() -> None:
    (text,) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = GenerateSettings.model_validate(tomllib.loads(text)["generate"])
    assert (found.completer.completer, found.groups[0].columns) == ("tvae", ("stage", "ward"))


def test_the_commands_of_the_page_work_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (fence,) = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for command in fence.splitlines():
        result = CliRunner().invoke(app, shlex.split(command.removeprefix("unpooled ")))
        assert result.exit_code == 0, result.output + repr(result.exception)
    assert sorted(path.name for path in tmp_path.glob("trial/*.html")) == [
        "bank-generated.html",
        "more.html",
        "plain.html",
    ]
    assert (tmp_path / "bank.npz").exists()

"""docs/commands.md says what the commands' own help says: it is made from it, by this file.

After a change of a command: `UPDATE_DOCS=1 pytest tests/cli/test_commands_doc.py`, and look at the difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from unpooled.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
INTRODUCTION = """\
# Commands

What `unpooled COMMAND --help` says, for every command. This page is made by `tests/cli/test_commands_doc.py`; do not
edit it by hand. How the commands go together is in [Jobs](jobs.md) and [Keys and certificates](certificates.md)."""


def page() -> str:
    return "\n\n".join([INTRODUCTION, *_sections(typer.main.get_command(app), "unpooled")]) + "\n"


def _sections(command: Any, call: str) -> Iterator[str]:
    arguments = [_as_called(p) for p in command.params if p.param_type_name == "argument"]
    subcommands = getattr(command, "commands", {})
    usage = " ".join([call, "[OPTIONS]", *(["COMMAND"] if subcommands else arguments)])
    yield f"## {call}\n\n```text\n{usage}\n```\n\n{command.help}"
    settings = [_setting(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
    if settings:
        yield "\n".join(settings)
    if command.epilog:
        yield command.epilog
    for name, subcommand in subcommands.items():
        yield from _sections(subcommand, f"{call} {name}")


def _value(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _as_called(argument: Any) -> str:
    name = _value(argument).removesuffix("...") + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _setting(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"- `{_value(parameter)}`: {parameter.help}"
    name = ", ".join(parameter.opts) + ("" if parameter.is_flag else f" {_value(parameter)}")
    if parameter.required:
        return f"- `{name}` (required): {parameter.help}"
    default = "" if parameter.default in (None, False) else f" (default: {parameter.default})"
    return f"- `{name}`{default}: {parameter.help}"


def test_the_page_is_what_the_commands_say() -> None:
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(page(), encoding="utf-8")
    hint = "docs/commands.md is out of date: UPDATE_DOCS=1 pytest tests/cli/test_commands_doc.py"
    assert PAGE.read_text(encoding="utf-8") == page(), hint


def test_the_page_has_every_command_once() -> None:
    headings = [line.removeprefix("## ") for line in page().splitlines() if line.startswith("## ")]
    assert len(headings) == len(set(headings))
    assert {"unpooled run", "unpooled join", "unpooled certs sign", "unpooled datasets fetch"} <= set(headings)
    assert "None" not in page()

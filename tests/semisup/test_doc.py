"""docs/semisup.md has the settings of the code: its tables are made from it, by this file.

After a change of settings: `UPDATE_DOCS=1 pytest tests/semisup/test_doc.py`, and look at the difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unpooled.semisup.estimators import ESTIMATORS
from unpooled.semisup.settings import ALL, NetworkSettings, chosen

PAGE = Path(__file__).parents[2] / "docs" / "semisup.md"
BEGIN, END = "<!-- settings: made by tests/semisup/test_doc.py -->", "<!-- end of settings -->"


def shown(value: Any) -> str:
    return f"`{list(value) if isinstance(value, tuple) else value}`"


def tables() -> Iterator[str]:
    """Settings that all methods have, then what each has besides or otherwise."""
    yield from ("All methods:", "", "| setting | `table` | `seed` | meaning |", "|---|---|---|---|")
    common = {name: field for name, field in NetworkSettings.model_fields.items() if name != "method"}
    for name, field in common.items():
        seed = NetworkSettings.changed.get(name, field.default)
        yield f"| `{name}` | {shown(field.default)} | {shown(seed)} | {field.description} |"
    yield from ("", "Of each method:", "", "| method | setting | `table` | `seed` | meaning |", "|---|---|---|---|---|")
    for kind in ALL:
        table, seed = chosen(kind), chosen(kind, "seed")
        for name, field in kind.model_fields.items():
            values = getattr(table, name), getattr(seed, name)
            usual = (
                (common[name].default, NetworkSettings.changed.get(name, common[name].default))
                if name in common
                else ()
            )
            if name != "method" and values != usual:
                yield f"| `{table.method}` | `{name}` | {shown(values[0])} | {shown(values[1])} | {field.description} |"


def test_the_settings_are_those_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    made = "\n".join([f"{before}{BEGIN}", "", *tables(), "", f"{END}{rest.split(END)[1]}"])
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(made, encoding="utf-8")
        text = made
    assert text == made, "docs/semisup.md is out of date: UPDATE_DOCS=1 pytest tests/semisup/test_doc.py"


def test_the_page_names_every_estimator() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [kind.__name__ for kind in ESTIMATORS.values() if f"`{kind.__name__}`" not in text] == []

"""docs/imputers.md names every imputer and has the settings of the code: its table is made from it, by this file.

After a change of settings: `UPDATE_DOCS=1 pytest tests/complete/imputers/test_doc.py`, and look at the difference.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from unpooled.complete.imputers import cells, gain
from unpooled.complete.imputers.imputers import IMPUTERS
from unpooled.complete.imputers.settings import AdversarialSettings
from unpooled.complete.settings import GenerateSettings

PAGE = Path(__file__).parents[3] / "docs" / "imputers.md"
BEGIN, END = "<!-- settings: made by tests/complete/imputers/test_doc.py -->", "<!-- end of settings -->"


def table() -> Iterator[str]:
    """The settings, which both have in common, and what presets stand for."""
    yield from ("| setting | default | meaning |", "|---|---|---|")
    for name, field in AdversarialSettings.model_fields.items():
        if name != "completer":
            default = "" if field.default is None else f"`{field.default}`"
            yield f"| `{name}` | {default} | {field.description} |"
    yield from (
        "",
        "Presets:",
        "",
        "| completer | preset | batch_rows | learning_rate | patience |",
        "|---|---|---|---|---|",
    )
    for one in IMPUTERS:
        for preset in ("fast", "paper"):
            settings = one.settings.model_validate({"preset": preset})
            assert isinstance(settings, AdversarialSettings)
            figures = (settings.schedule.batch_rows, f"{settings.schedule.learning_rate:g}", settings.patience_epochs)
            yield f"| `{one.name}` | `{preset}` | {' | '.join(map(str, figures))} |"


def test_the_settings_are_those_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    made = "\n".join([f"{before}{BEGIN}", "", *table(), "", f"{END}{after}"])
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(made, encoding="utf-8")
        text = made
    assert text == made, "docs/imputers.md is out of date: UPDATE_DOCS=1 pytest tests/complete/imputers/test_doc.py"


def test_both_have_the_settings_in_common() -> None:
    for one in IMPUTERS:
        assert set(one.settings.model_fields) == set(AdversarialSettings.model_fields)
        assert re.search(rf"^\| `{one.name}`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_limits_are_those_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    fast = gain.FORMS["fast"]
    assert (fast.hiding, fast.held_out, fast.hidden_alpha / fast.alpha, cells._WHOLLY) == (0.2, 0.25, 10.0, 0.02)
    assert f"at most {fast.widest} units in a hidden layer" in text
    assert f"at most {gain._HELD_OUT_ROWS:,}, some known cells" in text
    assert f"deviations of {gain._PAIRS} cells" in text
    assert gain._TURNS == 5


def test_the_private_file_of_the_page_is_one() -> None:
    (text,) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert GenerateSettings.model_validate(tomllib.loads(text)["generate"]).networks == ("gain",)

"""`docs/linear.md` says of every message what the message itself says, and of every setting its default."""

import inspect
from pathlib import Path

import pytest

from unpooled.secure.evidence import Commitment
from unpooled.vertical.linear import messages
from unpooled.vertical.linear.parameters import LinearParameters
from unpooled.wire import disclosure_of

PAGE = (Path(__file__).parents[3] / "docs" / "linear.md").read_text(encoding="utf-8")
KINDS = [Commitment] + [
    kind for _, kind in inspect.getmembers(messages, inspect.isclass) if kind.__module__ == messages.__name__
]


def rows(title: str) -> dict[str, list[str]]:
    """The rows of a section's table by what they begin with."""
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| `")]
    return {first.strip(): [cell.strip() for cell in others] for first, *others in cells}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_page_quotes_the_message(kind: type) -> None:
    said = {first.split("`")[1]: others[-1] for first, others in rows("What passes").items()}
    assert said[kind.__name__] == disclosure_of(kind).what


def test_the_page_names_no_message_that_is_not_there() -> None:
    named = {first.split("`")[1] for first in rows("What passes")}
    assert named - {"Contribution"} == {kind.__name__ for kind in KINDS}


def test_the_page_has_the_defaults() -> None:
    defaults = LinearParameters()
    for names, (said, _) in rows("Settings").items():
        if names in ("`batch_rows`", "`epochs`"):
            assert getattr(defaults, names.strip("`")) is None
            continue
        values = [getattr(defaults, name.strip("`")) for name in names.split(", ")]
        texts = [f"{v:g}" if isinstance(v, float) else str(v).lower() for v in values]
        assert said.replace("`", "") == ", ".join(texts)

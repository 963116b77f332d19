"""`docs/privacy.md` says of every message what the message itself says."""

import inspect
from pathlib import Path

import pytest

from unpooled.jobs.predict.job import ModelLearner
from unpooled.jobs.row_weights import LentWeights
from unpooled.secure.evidence import Commitment
from unpooled.vertical.explained import Explain
from unpooled.vertical.trees import messages
from unpooled.wire import disclosure_of

PAGE = Path(__file__).parents[3] / "docs" / "privacy.md"

KINDS = [ModelLearner, Commitment, LentWeights, Explain] + [
    kind for _, kind in inspect.getmembers(messages, inspect.isclass) if kind.__module__ == messages.__name__
]


def rows() -> dict[str, str]:
    """The rows of the tables on training and prediction by message; those on other things have tests of their own."""
    page = PAGE.read_text(encoding="utf-8").split("\n## Linear models\n")[0]
    cells = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| `")]
    return {first.split("`")[1]: last.strip() for first, _, last in cells}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_page_quotes_the_message(kind: type) -> None:
    assert rows()[kind.__name__] == disclosure_of(kind).what


def test_the_page_names_no_message_that_is_not_there() -> None:
    assert set(rows()) - {"Contribution"} == {kind.__name__ for kind in KINDS}

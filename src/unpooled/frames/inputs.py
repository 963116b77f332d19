"""What Python gives a party in place of files: a data frame, its part of a model, an earlier outcome."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from unpooled.budget.places import name_of
from unpooled.data.sources import TableSettings
from unpooled.errors import InputError
from unpooled.frames.models import ModelPart
from unpooled.frames.outcome import PartyOutcome
from unpooled.jobs.private import Private

_SOURCE = {"path", "postgres", "table", "query", "separator", "encoding", "id", "handles", "book"}
"""What a `[table]` says of where it is, or is asked for by name below."""


@contextmanager
def given(
    party: str, private: Private, model: ModelPart | None, earlier: PartyOutcome | None
) -> Iterator[dict[str, Path]]:
    """Folders with a party's part of a model and its earlier outcome, as keys of its private settings."""
    folders: dict[str, Path] = {}
    for key, one in (("model", model), ("earlier", earlier)):
        if one is not None and one.party != party:
            raise InputError(f"{party}: {key}: this is {one.party}'s")
        if one is not None and getattr(private, key) is not None:
            raise InputError(f"{party}: {key}: it is given twice, here and in the private settings")
    with ExitStack() as held:
        if model is not None:
            folders["model"] = model.save(Path(held.enter_context(tempfile.TemporaryDirectory())) / party)
        if earlier is not None:
            folders["earlier"] = held.enter_context(earlier.kept.on_disk())
        yield folders


def framed(party: str, table: TableSettings | None, frame: Any, **settings: Any) -> TableSettings:
    """A data frame in place of the source of a party's table, if it has one; what else is said of that still holds.

    Settings of None are not given. The book is that of the table; a party without one has a book for all its frames.
    """
    kept = table.model_dump(exclude=_SOURCE, exclude_unset=True) if table else {}
    kept |= {"id": table.id, "handles": table.handles, "book": name_of(table)} if table else {}
    named = {name: value for name, value in settings.items() if value is not None}
    try:
        return TableSettings.of_frame(frame, **{"book": f"data frames of {party}"} | kept | named)
    except InputError as error:
        raise InputError(f"{party}: {error}") from None

"""What Python gives a party in place of files: a data frame, its part of a model, an earlier outcome."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from unpooled.budget.places import name_of
from unpooled.data.sources import TableSettings
from unpooled.data.table import as_polars
from unpooled.errors import InputError
from unpooled.frames.models import ModelPart
from unpooled.frames.outcome import PartyOutcome
from unpooled.jobs.private import Private

_SOURCE = {"path", "postgres", "table", "query", "separator", "encoding", "id", "handles", "book"}
"""What a `[table]` says of where it is, or is asked for by name below."""


@contextmanager
def as_files(
    party: str, private: Private, *, model: ModelPart | None, earlier: PartyOutcome | None, exclude: Any
) -> Iterator[Private]:
    """A party's private settings with files of its part of a model, its earlier outcome, and ids to leave out."""
    for key, one in (("model", model), ("earlier", earlier), ("exclude", exclude)):
        if one is not None and getattr(private, key) is not None:
            raise InputError(f"{party}: {key}: it is given twice, here and in the private settings")
        if isinstance(one, ModelPart | PartyOutcome) and one.party != party:
            raise InputError(f"{party}: {key}: this is {one.party}'s")
    paths: dict[str, Path] = {}
    with tempfile.TemporaryDirectory() as made, ExitStack() as held:
        if model is not None:
            paths["model"] = model.save(Path(made) / party)
        if earlier is not None:
            paths["earlier"] = held.enter_context(earlier.files.on_disk())
        if exclude is not None:
            paths["exclude"] = Path(made) / "exclude.parquet"
            as_polars(exclude, party).write_parquet(paths["exclude"])
        yield private.model_copy(update=paths)


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

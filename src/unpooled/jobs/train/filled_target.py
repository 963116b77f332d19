"""Whether a target was itself filled when a table was completed, or helped to fill other columns.

Either makes a model look better than it is. Completing a table leaves files beside the completed table, and beside the
handles at a passive party, that show it.
"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from unpooled.complete.table import GENERATED, PREDICTED
from unpooled.data.handles import HANDLE
from unpooled.data.table import Table
from unpooled.drawing.words import listed
from unpooled.jobs.complete.table_files import PROVENANCE, FrameFile
from unpooled.jobs.private import Private
from unpooled.jobs.run_files import RESULT
from unpooled.jobs.work import log


def target_notes(private: Private, table: Table) -> list[str]:
    """What the owner of the target should know, as sentences; they are logged too."""
    found = _filled(private, table) + _lent(private)
    for note in found:
        log.warning("%s: %s", table.party, note)
    return found


def _filled(private: Private, table: Table) -> list[str]:
    """By the provenance beside a completed table."""
    target, settings = private.target, private.table
    if settings is None or settings.path is None or settings.handles or table.id != (HANDLE,) or target is None:
        return []
    origins = FrameFile(PROVENANCE).read(settings.path.parent, 1)
    if origins is None or HANDLE not in origins.columns or target not in origins.columns:
        return []
    origins = table.ids.join(origins.cast(pl.String), on=HANDLE)
    filled = int(origins[target].is_in([PREDICTED, GENERATED]).sum())
    if not filled:
        return []
    said = (
        f"{filled:,} of {table.frame.height:,} values of the target '{target}' are not real: completing the table "
        "filled them, so the model is learned from guesses and judged by them, and looks better than it is."
    )
    others = [name for name in table.kinds if name in origins.columns and name != target]
    generated = [name for name in others if (origins[name] == GENERATED).any()]
    if generated and (origins[target] == GENERATED).any():
        said += f" Columns that were generated with it may tell of it: {listed(generated)}."
    return [said]


def _lent(private: Private) -> list[str]:
    """By the result beside the handles of a party that lent columns."""
    target, handles = private.target, private.table.handles if private.table else None
    if target is None or handles is None:
        return []
    for one in _importance(handles.with_name(RESULT)):
        name = one.get("name")
        used = one.get("splits", one.get("weight"))
        if used and isinstance(name, str) and (name == target or name.startswith(f"{target}=")):
            return [
                f"The target '{target}' helped to predict columns of the completed table, which the model now learns "
                "from; it looks better than it is. Complete the table without that column."
            ]
    return []


def _importance(path: Path) -> list[dict[str, object]]:
    try:
        found = json.loads(path.read_bytes()).get("importance", [])
    except (OSError, ValueError, AttributeError):
        return []
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

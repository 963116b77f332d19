"""The label: what the classifier of some adversarial networks tells from the other columns, or what is drawn first."""

from __future__ import annotations

from collections.abc import Sequence

from unpooled.data.coding import Column
from unpooled.errors import InputError


def label_place(label: str | None, columns: Sequence[Column]) -> int | None:
    """Where the label is: as it was set, otherwise the last column of classes; None if there is none."""
    classes = [place for place, column in enumerate(columns) if not column.is_number]
    if label is None:
        return classes[-1] if classes else None
    found = next((place for place in classes if columns[place].name == label), None)
    if found is None:
        names = ", ".join(columns[place].name for place in classes) or "there is none"
        raise InputError(f"label: must be a column of classes that has values: {names}")
    return found

"""A completer that has learned, on disk: one .npz file with its arrays and, as JSON, everything else.

It is for its owner alone: most completers keep values of the table, some whole rows. Nothing in it is ever executed.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import ValidationError

from unpooled import atomic
from unpooled.complete.completers.completers import AnyCompleter, completer_of
from unpooled.complete.completers.filling import Fitted
from unpooled.data.coding import Column
from unpooled.errors import InputError
from unpooled.settings import Section, faults

_HEADER, _TYPES = "header", "types"
"""The types of the source's columns are there as an empty Parquet file, if it has types."""


class _Header(Section):
    format: Literal[1] = 1
    settings: AnyCompleter
    columns: tuple[Column, ...]
    quality: dict[str, float]


def save(fitted: Fitted, path: Path) -> None:
    """Write a fitted completer, for its owner alone; numbers come back exactly."""
    header = _Header(settings=fitted.settings, columns=fitted.columns, quality=dict(fitted.quality))
    arrays = completer_of(fitted.settings).arrays(fitted.state) if fitted.state is not None else {}
    parts = {_HEADER: header.model_dump_json().encode()}
    if fitted.dtypes:
        parts[_TYPES] = _written(fitted.dtypes)
    texts = {name: np.frombuffer(part, np.uint8) for name, part in parts.items()}
    with atomic.naming(path), atomic.replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **{**texts, **arrays})


def load(path: Path) -> Fitted:
    """Read what `save` wrote, and check it."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = _Header.model_validate_json(arrays.pop(_HEADER).tobytes())
        dtypes = _read(arrays.pop(_TYPES).tobytes()) if _TYPES in arrays else {}
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValidationError as error:
        raise InputError(f"{path}: is no fitted completer: {faults(error)[0]}") from None
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, pl.exceptions.PolarsError):
        raise InputError(f"{path}: is no fitted completer, or a damaged one") from None
    return Fitted(header.settings, header.columns, _state(header, arrays, path), header.quality, dtypes=dtypes)


def _written(dtypes: Mapping[str, pl.DataType]) -> bytes:
    file = io.BytesIO()
    pl.DataFrame(schema=dtypes).write_parquet(file)
    return file.getvalue()


def _read(content: bytes) -> dict[str, pl.DataType]:
    return dict(pl.read_parquet_schema(io.BytesIO(content)))


def _state(header: _Header, arrays: dict[str, NDArray[Any]], path: Path) -> Any:
    used = [column for column in header.columns if not column.empty]
    if not used:
        return None
    try:
        return completer_of(header.settings).restore(header.settings, used, arrays)
    except ValueError:
        raise InputError(f"{path}: is no fitted completer: its arrays do not fit its columns") from None

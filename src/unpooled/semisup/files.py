"""A fitted network on disk: one .npz file with its arrays and, as JSON, everything else; nothing in it is executed."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError

from unpooled import atomic
from unpooled.data.coding import Column
from unpooled.errors import InputError
from unpooled.networks.trained import Trained, encoding_in, trained_from
from unpooled.semisup import fitting
from unpooled.semisup.settings import NetworkSettings, kind_of
from unpooled.settings import Section, faults

_HEADER = "header"


class Header(Section):
    """All but the arrays: `parameters` are those of the estimator that JSON has."""

    format: Literal[1] = 1
    settings: dict[str, Any]
    columns: tuple[Column, ...]
    classes: tuple[bool | int | float | str, ...]
    names: tuple[str, ...] | None
    parameters: dict[str, Any]


def save(path: Path, header: Header, trained: Trained) -> None:
    """Write a fitted network, for its owner alone: it holds values of the table."""
    text = np.frombuffer(header.model_dump_json().encode(), np.uint8)
    with atomic.naming(path), atomic.replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **{_HEADER: text, **trained.arrays()})


def load(path: Path) -> tuple[Header, NetworkSettings, Trained]:
    """Read what `save` wrote, and check it."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = Header.model_validate_json(arrays.pop(_HEADER).tobytes())
        settings = kind_of(str(header.settings.get("method"))).model_validate(header.settings)
        encoding = encoding_in(header.columns, arrays)
        trained = trained_from(encoding, arrays, fitting.shapes(settings, encoding.layout))
        if len(header.classes) != 2:
            raise ValueError
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValidationError as error:
        raise InputError(f"{path}: is no fitted network: {faults(error)[0]}") from None
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile):
        raise InputError(f"{path}: is no fitted network, or a damaged one") from None
    return header, settings, trained

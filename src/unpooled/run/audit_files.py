"""The two files of an audit: a request, and the answer to it. Either comes from somebody else, and is checked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unpooled import atomic
from unpooled.errors import InputError
from unpooled.secure.evidence import OWN, Arrays

_WORDS = "audit"

Word = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,200}$")]
Hex = Annotated[str, Field(pattern=r"^([0-9a-f]{2})*$")]


class _Told(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Request(_Told):
    """What the checker asks the opener: to open these products, under the plan with this digest."""

    audit: Literal[1] = 1
    plan: Hex
    checker: Word
    opener: Word
    products: tuple[Word, ...]


class Opening(_Told):
    """What opens a product: a seed, unless it is on a page of numbers; and what the opener says it is about."""

    about: dict[str, Any]
    seed: Hex = ""


class Salt(_Told):
    """What opens a commitment: a salt, and the page with the inputs."""

    fit: int
    salt: Hex
    page: Word


class _Words(_Told):
    """An answer without its numbers."""

    request: Request
    openings: dict[Word, Opening]
    salts: tuple[Salt, ...]


@dataclass(frozen=True)
class Answer:
    """What opens the products of a request: seeds and salts, and pages of inputs, leaves and noise by name."""

    request: Request
    openings: dict[str, Opening]
    salts: tuple[Salt, ...]
    pages: dict[str, Arrays]

    def __str__(self) -> str:
        told = []
        if targets := [page for page in self.pages.values() if "seeds" in page]:
            models, rows = sum(len(page["seeds"]) for page in targets), targets[0]["values"].shape[1]
            told.append(f"the labels and weights of {rows} rows in {models} models")
        if trees := sum(len(page["nodes"]) for page in self.pages.values() if "nodes" in page):
            told.append(f"each row's leaf in {trees} trees")
        if any("columns" in page for page in self.pages.values()):
            told.append(f"all columns of {self.request.opener} as they were learned from")
        if any(OWN in opening.about for opening in self.openings.values()):
            told.append("its weights in the models at the steps in question")
        whom = f"{self.request.checker}, or whoever checks in its place"
        return f"To open {len(self.openings)} products tells {whom}: {'; '.join(told)}."


def write_request(path: Path, request: Request) -> None:
    atomic.write_text(path, request.model_dump_json(indent=2) + "\n")


def read_request(path: Path) -> Request:
    try:
        return Request.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError:
        raise InputError(f"{path}: is not a request for an audit") from None


def write_answer(path: Path, answer: Answer) -> None:
    """Numbers as arrays, words as JSON."""
    words = _Words(request=answer.request, openings=answer.openings, salts=answer.salts)
    arrays = {f"{page}/{name}": values for page, named in answer.pages.items() for name, values in named.items()}
    arrays[_WORDS] = np.frombuffer(words.model_dump_json().encode(), np.uint8)
    with atomic.replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def read_answer(path: Path) -> Answer:
    """Nothing in it is ever executed."""
    pages: dict[str, Arrays] = {}
    try:
        with np.load(path, allow_pickle=False) as arrays:
            words = _Words.model_validate(json.loads(arrays[_WORDS].tobytes()))
            for full in arrays.files:
                page, _, name = full.partition("/")
                if name:
                    pages.setdefault(page, {})[name] = arrays[full]
    except Exception as error:  # whatever zipfile, numpy and json make of bytes that are no answer: there are many ways
        raise InputError(f"{path}: is not an answer to a request for an audit ({type(error).__name__})") from None
    return Answer(words.request, words.openings, words.salts, pages)

"""Three public data sets, checked against the published files.

`bank` (Bank Marketing), `credit` (Default of Credit Card Clients) and `census` (Adult) come from the UCI Machine
Learning Repository under CC BY 4.0. They are read from the folder that UNPOOLED_DATA names, else from the user's cache.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unpooled.errors import InputError

FOLDER_VARIABLE = "UNPOOLED_DATA"


@dataclass(frozen=True)
class Published:
    """One file as published: the sha256 is of the text inside the gzip, the columns include the target.

    `original_sha256` is that of the publisher's own file, and `inside` leads to it in the publisher's zip, through
    further zips where there are any.
    """

    file: str
    sha256: str
    rows: int
    columns: int
    target: str
    positive: str
    positives: int
    inside: tuple[str, ...]
    original_sha256: str


PUBLISHED: dict[str, dict[str, Published]] = {
    "bank": {
        "train": Published(
            file="bank.csv.gz",
            sha256="bb45add91d4e02870fcde28ee4f913b78268a5aa6051e8fbe2c3e16010404355",
            rows=41_188,
            columns=21,
            target="y",
            positive="yes",
            positives=4_640,
            inside=("bank-additional.zip", "bank-additional/bank-additional-full.csv"),
            original_sha256="74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8",
        )
    },
    "credit": {
        "train": Published(
            file="credit.csv.gz",
            sha256="4edce6da569b2c30788a85fd98a9bafb1a983e8ca1a7aac875dd7ff853cbd0bb",
            rows=30_000,
            columns=25,
            target="default payment next month",
            positive="1",
            positives=6_636,
            inside=("default of credit card clients.xls",),
            original_sha256="30c6be3abd8dcfd3e6096c828bad8c2f011238620f5369220bd60cfc82700933",
        )
    },
    "census": {
        "train": Published(
            file="adult-train.csv.gz",
            sha256="f2c62076f19504d99a38b22badf445a7f42530ade6b827acf78dd143fbce38bb",
            rows=32_561,
            columns=15,
            target="income",
            positive=">50K",
            positives=7_841,
            inside=("adult.data",),
            original_sha256="5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        ),
        "test": Published(
            file="adult-test.csv.gz",
            sha256="74f0a89620cd80bbca64fcdbfc0144b4835506ef0429c61bc2e0fe18e81aa499",
            rows=16_281,
            columns=15,
            target="income",
            positive=">50K.",  # the full stop is the publisher's
            positives=3_846,
            inside=("adult.test",),
            original_sha256="a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
        ),
    },
}

ROW_NUMBER = "ID"  # a column of credit that is not a feature

# Cells with this text are missing.
MISSING: dict[str, tuple[str, ...]] = {"bank": ("unknown",), "credit": (), "census": ("?",)}

# Whole numbers that are category codes.
TYPES: dict[str, dict[str, str]] = {
    "bank": {},
    "credit": {"SEX": "category", "EDUCATION": "category", "MARRIAGE": "category"},
    "census": {},
}


@dataclass(frozen=True)
class Dataset:
    """One data set: `frame` has an `id` made from the row number, and the columns of the file without the target."""

    name: str
    frame: pl.DataFrame
    label: NDArray[np.bool_]


def cache_folder() -> Path:
    """The user's own copies, filled by `unpooled datasets fetch`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "unpooled" / "datasets"


def folder() -> Path:
    """The folder of the data sets: UNPOOLED_DATA if it is set, otherwise the cache."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else cache_folder()


def published(name: str, part: str = "train") -> Published:
    """The published facts about a data set's file; an unknown name or part is an error that lists the known ones."""
    parts = PUBLISHED.get(name)
    if parts is None:
        raise InputError(f"unknown data set {name!r}; known are {', '.join(PUBLISHED)}")
    if part not in parts:
        raise InputError(f"{name}: unknown part {part!r}; known are {', '.join(parts)}")
    return parts[part]


def load(name: str, part: str = "train") -> Dataset:
    """Read and check one data set (census also has a part "test")."""
    expected = published(name, part)
    path = folder() / expected.file
    if not path.is_file():
        raise InputError(
            f"{name}: {path} is missing; run `unpooled datasets fetch {name}` to fill the cache, "
            f"or set {FOLDER_VARIABLE} to a folder that has {expected.file}"
        )
    try:
        text = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as problem:
        raise InputError(f"{name}: {path} cannot be read: {problem}") from problem
    table = check(text, expected, str(path))
    label = _is_positive(table, expected).to_numpy()
    numbers = pl.int_range(1, pl.len() + 1).cast(pl.String).str.zfill(5)
    ids = pl.concat_str(pl.lit(f"{part}-"), numbers).alias("id")
    frame = table.drop(expected.target).drop(ROW_NUMBER, strict=False).select(ids, pl.all())
    return Dataset(name, frame, label)


def check(text: bytes, expected: Published, source: str) -> pl.DataFrame:
    """Parse the text of a data set and compare rows, columns, positives and sha256 with the published ones."""
    try:
        table = pl.read_csv(io.BytesIO(text), infer_schema_length=None)
    except pl.exceptions.PolarsError as problem:
        raise InputError(f"{source}: this is not a table, so not the published one") from problem
    if expected.target not in table.columns:
        raise InputError(f"{source}: the column {expected.target!r} is missing")
    compared = {
        "rows": (table.height, expected.rows),
        "columns": (table.width, expected.columns),
        "positives": (_is_positive(table, expected).sum(), expected.positives),
        "sha256": (hashlib.sha256(text).hexdigest(), expected.sha256),
    }
    differences = [f"{what} {found} instead of {right}" for what, (found, right) in compared.items() if found != right]
    if differences:
        raise InputError(f"{source}: this is not the published table: {'; '.join(differences)}")
    return table


def _is_positive(table: pl.DataFrame, expected: Published) -> pl.Series:
    return table[expected.target].cast(pl.String) == expected.positive

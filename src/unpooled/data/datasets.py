"""Three public data sets, checked against the published files, and divided into the tables of several parties.

`bank` (Bank Marketing), `credit` (Default of Credit Card Clients) and `census` (Adult) come from the UCI Machine
Learning Repository under CC BY 4.0. They are read from the folder that UNPOOLED_DATA names, else from the user's cache.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unpooled.errors import InputError

FOLDER_VARIABLE = "UNPOOLED_DATA"
SEEKER = "a"  # knows positives only; "b" lends columns and "c" drives the learning

Split = Mapping[str, Sequence[str]]

Labelling = Literal["random", "biased"]
"""Which positives the seeker knows: any, or mostly those with a high value in one column."""

BIAS = 1.5
"""How much more likely a positive is known, as a power of e, per standard deviation of its value in that column."""

BIASED_BY = {"bank": "age", "credit": "LIMIT_BAL", "census": "age"}


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

REPAYMENTS = ["PAY_0", *(f"PAY_{month}" for month in range(2, 7))]
BILLS_AND_PAYMENTS = [f"{what}{month}" for what in ("BILL_AMT", "PAY_AMT") for month in range(1, 7)]
ECONOMY = ["emp.var.rate", "cons.price.idx", "cons.conf.idx", "euribor3m", "nr.employed"]

# Who holds which columns: all of them at b and c, in file order, about half each.
SPLIT: dict[str, Split] = {
    "bank": {
        "b": ["age", "job", "marital", "education", "default", "housing", "loan", "contact", "month", "day_of_week"],
        "c": ["duration", "campaign", "pdays", "previous", "poutcome", *ECONOMY],
    },
    "credit": {
        "b": ["LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE", *REPAYMENTS],
        "c": BILLS_AND_PAYMENTS,
    },
    "census": {
        "b": ["age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"],
        "c": ["relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"],
    },
}

# The three-way split, in file order, cut where the meaning of the columns changes; what a holds goes unused.
THREE_WAY: dict[str, Split] = {
    "bank": {
        "a": ["age", "job", "marital", "education", "default", "housing", "loan"],
        "b": ["contact", "month", "day_of_week", "duration", "campaign", "pdays", "previous", "poutcome"],
        "c": ECONOMY,
    },
    "credit": {
        "a": ["LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE"],
        "b": REPAYMENTS,
        "c": BILLS_AND_PAYMENTS,
    },
    "census": {
        "a": ["age", "workclass", "fnlwgt", "education", "education-num"],
        "b": ["marital-status", "occupation", "relationship", "race", "sex"],
        "c": ["capital-gain", "capital-loss", "hours-per-week", "native-country"],
    },
}


@dataclass(frozen=True)
class Dataset:
    """One data set: `frame` has an `id` made from the row number, and the columns of the file without the target."""

    name: str
    frame: pl.DataFrame
    label: NDArray[np.bool_]


@dataclass(frozen=True)
class Scenario:
    """Tables of a look-alike search: the seeker's is a list of ids; the truths have `id` and `positive` for every row.

    The test tables hold rows that are not trained on; they may be empty, and the seeker has none.
    """

    name: str
    tables: dict[str, pl.DataFrame]
    truth: pl.DataFrame
    test_tables: dict[str, pl.DataFrame]
    test_truth: pl.DataFrame


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


def scenario(
    name: str,
    *,
    known_fraction: float = 0.1,
    labelling: Labelling = "random",
    train_fraction: float = 1.0,
    split: Split | None = None,
    without: Collection[str] = (),
    seed: int = 7,
) -> Scenario:
    """Divide a data set among a seeker and the parties of `split`, each with an `id` column and its own columns.

    The seeker knows a `known_fraction` of the training positives, drawn by `labelling`. Bank and credit hold out the
    rows outside `train_fraction`; census always holds out its own test file, and a smaller `train_fraction` only leaves
    rows unused.
    """
    for what, fraction in {"known_fraction": known_fraction, "train_fraction": train_fraction}.items():
        if not 0 < fraction <= 1:
            raise InputError(f"{name}: {what} must be above 0 and at most 1, but is {fraction}")
    if seed < 0:
        raise InputError(f"{name}: the random seed must not be negative, but is {seed}")
    data = load(name)
    split = _checked(name, SPLIT[name] if split is None else split, data.frame.columns[1:], without)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data.label))
    cut = round(train_fraction * len(order))
    train = _rows(data, np.sort(order[:cut]))
    test = load(name, "test") if "test" in PUBLISHED[name] else _rows(data, np.sort(order[cut:]))
    if not train.label.any():
        raise InputError(f"{name}: there are no positives among the {cut:,} training rows; increase train_fraction")
    known = known_positives(train, known_fraction, rng, labelling)
    return Scenario(
        name=name,
        tables={SEEKER: train.frame.select("id")[known], **_deal(train, split)},
        truth=_truth(train),
        test_tables=_deal(test, split),
        test_truth=_truth(test),
    )


def known_positives(
    data: Dataset, fraction: float, rng: np.random.Generator, labelling: Labelling = "random"
) -> NDArray[np.int64]:
    """The rows of a fraction of the positives, one at least, drawn at random or in favour of high values."""
    rows = np.flatnonzero(data.label)
    chances = None
    if labelling == "biased":
        column = data.frame[BIASED_BY[data.name]].to_numpy().astype(float)
        weights = np.exp(BIAS * (column[rows] - column.mean()) / column.std())
        chances = weights / weights.sum()
    return rng.choice(rows, max(1, round(fraction * len(rows))), replace=False, p=chances)


def _is_positive(table: pl.DataFrame, expected: Published) -> pl.Series:
    return table[expected.target].cast(pl.String) == expected.positive


def _checked(name: str, split: Split, columns: Sequence[str], without: Collection[str]) -> Split:
    """Return the split without the columns in `without`; every other column must be at exactly one party."""
    placed = [column for held in split.values() for column in held]
    problems = {
        "unknown": sorted({*placed, *without} - set(columns)),
        "repeated": sorted({column for column in placed if placed.count(column) > 1}),
        "missing": sorted(set(columns) - {*placed, *without}),
    }
    for problem, named in problems.items():
        if named:
            raise InputError(f"{name}: the split has {problem} columns: {', '.join(named)}")
    return {party: [column for column in held if column not in without] for party, held in split.items()}


def _rows(data: Dataset, rows: NDArray[np.int64]) -> Dataset:
    return Dataset(data.name, data.frame[rows], data.label[rows])


def _deal(data: Dataset, split: Split) -> dict[str, pl.DataFrame]:
    return {party: data.frame.select("id", *held) for party, held in split.items() if party != SEEKER}


def _truth(data: Dataset) -> pl.DataFrame:
    return pl.DataFrame({"id": data.frame["id"], "positive": data.label})

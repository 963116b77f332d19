"""The public data sets: found and checked."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import polars as pl
import pytest

from unpooled.data import datasets
from unpooled.errors import InputError

EVERY_PART = [(name, part) for name, parts in datasets.PUBLISHED.items() for part in parts]


def require(name: str) -> None:
    """Skip where nobody promised the data set; where UNPOOLED_DATA is set, its absence is a failure."""
    there = all((datasets.cache_folder() / part.file).is_file() for part in datasets.PUBLISHED[name].values())
    if not os.environ.get(datasets.FOLDER_VARIABLE) and not there:
        pytest.skip(f"{name}: neither in the cache nor in {datasets.FOLDER_VARIABLE}")


@pytest.mark.parametrize(("name", "part"), EVERY_PART)
def test_real_sets_load(name: str, part: str) -> None:
    require(name)
    expected = datasets.published(name, part)
    data = datasets.load(name, part)
    assert data.frame.height == len(data.label) == expected.rows
    assert data.label.sum() == expected.positives
    assert data.frame["id"].n_unique() == expected.rows
    assert expected.target not in data.frame.columns
    assert datasets.ROW_NUMBER not in data.frame.columns


@pytest.mark.parametrize("name", datasets.PUBLISHED)
def test_missing_markers_and_categories_are_those_of_the_files(name: str) -> None:
    require(name)
    frame = datasets.load(name).frame
    texts = frame.select(pl.col(pl.String)).drop("id")
    assert frame.null_count().sum_horizontal().item() == 0
    for marker in datasets.MISSING[name]:
        assert any((texts[column] == marker).any() for column in texts.columns)
    assert all(frame[column].dtype == pl.Int64 for column in datasets.TYPES[name])


def test_unknown_names_list_the_known() -> None:
    with pytest.raises(InputError, match="bank, credit, census"):
        datasets.load("iris")
    with pytest.raises(InputError, match=r"'test'.*train"):
        datasets.load("bank", "test")


def test_absent_file_says_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(datasets.FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(InputError, match=r"unpooled datasets fetch bank.*UNPOOLED_DATA") as caught:
        datasets.load("bank")
    assert str(tmp_path / "unpooled" / "datasets" / "bank.csv.gz") in str(caught.value)


def test_the_named_folder_hides_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(datasets.FOLDER_VARIABLE, str(tmp_path / "named"))
    assert datasets.folder() == tmp_path / "named"
    monkeypatch.setenv(datasets.FOLDER_VARIABLE, "")
    assert datasets.folder() == datasets.cache_folder() == tmp_path / "cache" / "unpooled" / "datasets"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"y,age\nyes,1\nno,2\n"), "rows 2 .*41188.*columns 2 .*positives 1 .*sha256"),
        (gzip.compress(b"age\n1\n"), "'y'"),
        (gzip.compress(b""), "table"),
        (gzip.compress(b"y\nyes\n")[:-9], "read"),
        (b"y\nyes\n", "read"),
    ],
    ids=["other rows", "other columns", "empty", "cut short", "not gzip"],
)
def test_wrong_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, message: str) -> None:
    monkeypatch.setenv(datasets.FOLDER_VARIABLE, str(tmp_path))
    path = tmp_path / "bank.csv.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        datasets.load("bank")
    assert str(path) in str(caught.value)


def test_one_changed_cell_is_found() -> None:
    require("bank")
    expected = datasets.published("bank")
    text = gzip.decompress((datasets.folder() / expected.file).read_bytes())
    with pytest.raises(InputError, match=r"sha256 [0-9a-f]{64}"):
        datasets.check(text.replace(b"56,housemaid", b"57,housemaid", 1), expected, "bank")

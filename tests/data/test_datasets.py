"""The public data sets: found, checked, and dealt out to the parties."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


@pytest.mark.parametrize("split", [datasets.SPLIT, datasets.THREE_WAY], ids=["two", "three"])
@pytest.mark.parametrize("name", datasets.PUBLISHED)
def test_splits_place_every_column_in_file_order(name: str, split: dict[str, datasets.Split]) -> None:
    require(name)
    placed = [column for held in split[name].values() for column in held]
    assert ["id", *placed] == datasets.load(name).frame.columns


@pytest.mark.parametrize("name", datasets.PUBLISHED)
def test_missing_markers_and_categories_are_those_of_the_files(name: str) -> None:
    require(name)
    frame = datasets.load(name).frame
    texts = frame.select(pl.col(pl.String)).drop("id")
    assert frame.null_count().sum_horizontal().item() == 0
    for marker in datasets.MISSING[name]:
        assert any((texts[column] == marker).any() for column in texts.columns)
    assert all(frame[column].dtype == pl.Int64 for column in datasets.TYPES[name])


def test_census_scenario_holds_out_its_own_test_file() -> None:
    require("census")
    dealt = datasets.scenario("census")
    assert dealt.tables["b"].height == dealt.truth.height == 32_561
    assert dealt.tables["a"].height == 784
    assert dealt.test_tables["c"].height == dealt.test_truth.height == 16_281
    assert dealt.test_truth["positive"].sum() == 3_846


def test_bank_without_duration() -> None:
    require("bank")
    dealt = datasets.scenario("bank", without=["duration"], train_fraction=0.6)
    assert "duration" not in dealt.tables["c"].columns
    assert "campaign" in dealt.tables["c"].columns
    assert (dealt.truth.height, dealt.test_truth.height) == (24_713, 16_475)


FEATURES = [column for held in datasets.SPLIT["credit"].values() for column in held]


def small(name: str, part: str = "train") -> datasets.Dataset:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({column: rng.integers(0, 9, 80) for column in FEATURES})
    ids = pl.Series("id", [f"{part}-{row}" for row in range(80)])
    return datasets.Dataset(name, frame.insert_column(0, ids), rng.random(80) < 0.4)


@pytest.fixture
def small_credit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load", small)


@settings(max_examples=40, deadline=None)
@given(
    known_fraction=st.floats(0.05, 1),
    train_fraction=st.floats(0.3, 1),
    seed=st.integers(0, 2**32),
    holders=st.lists(st.sampled_from("abcd"), min_size=len(FEATURES), max_size=len(FEATURES)),
)
def test_scenario_loses_and_invents_nothing(
    known_fraction: float, train_fraction: float, seed: int, holders: list[str]
) -> None:
    split = {party: [c for c, h in zip(FEATURES, holders, strict=True) if h == party] for party in "abcd"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "load", small)
        dealt = datasets.scenario(
            "credit", known_fraction=known_fraction, train_fraction=train_fraction, split=split, seed=seed
        )
    whole = small("credit")
    for tables, truth in [(dealt.tables, dealt.truth), (dealt.test_tables, dealt.test_truth)]:
        rows = whole.frame["id"].is_in(truth["id"].implode())
        for party in "bcd":
            assert tables[party].equals(whole.frame.filter(rows).select("id", *split[party]))
        assert (truth["positive"].to_numpy() == whole.label[rows.to_numpy()]).all()
    positives = dealt.truth.filter("positive")["id"]
    assert dealt.tables["a"].columns == ["id"]
    assert set(dealt.tables["a"]["id"]) <= set(positives)
    assert dealt.tables["a"].height == max(1, round(known_fraction * len(positives)))
    assert sorted([*dealt.truth["id"], *dealt.test_truth["id"]]) == sorted(whole.frame["id"])


@pytest.mark.usefixtures("small_credit")
def test_scenario_follows_its_seed() -> None:
    first, again, other = (datasets.scenario("credit", train_fraction=0.5, seed=seed) for seed in (1, 1, 2))
    assert first.tables["a"].equals(again.tables["a"])
    assert first.truth.equals(again.truth)
    assert not first.truth.equals(other.truth)


@pytest.mark.usefixtures("small_credit")
@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"b": FEATURES, "c": ["SHOE_SIZE"]}, "SHOE_SIZE"),
        ({"b": FEATURES, "c": ["AGE", "SEX"]}, "AGE, SEX"),
        ({"b": FEATURES[1:], "c": []}, "LIMIT_BAL"),
    ],
)
def test_bad_splits_are_named(split: datasets.Split, message: str) -> None:
    with pytest.raises(InputError, match=message):
        datasets.scenario("credit", split=split)


@pytest.mark.usefixtures("small_credit")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"known_fraction": 0.0}, "known_fraction"),
        ({"train_fraction": 1.5}, "train_fraction"),
        ({"train_fraction": 0.001}, "0 training rows"),
        ({"split": {}}, "AGE, "),
        ({"seed": -1}, "seed"),
        ({"without": ["duration"]}, "duration"),
    ],
)
def test_bad_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        datasets.scenario("credit", **options)  # type: ignore[arg-type]


@pytest.mark.usefixtures("small_credit")
def test_a_column_left_out_need_not_be_placed() -> None:
    dealt = datasets.scenario("credit", split={"b": FEATURES[1:], "c": []}, without=FEATURES[:1])
    assert dealt.tables["b"].columns == ["id", *FEATURES[1:]]


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


def test_biased_labelling_favours_high_values() -> None:
    rng = np.random.default_rng(1)
    limit, label = rng.normal(100, 20, 4000), rng.random(4000) < 0.3
    data = datasets.Dataset("credit", pl.DataFrame({"id": range(4000), "LIMIT_BAL": limit}), label)
    random, biased = (
        datasets.known_positives(data, 0.1, np.random.default_rng(2), labelling) for labelling in ("random", "biased")
    )
    for known in (random, biased):
        assert len(set(known)) == round(0.1 * label.sum())
        assert label[known].all()
    assert abs(limit[random].mean() - 100) < 6
    assert limit[biased].mean() > 120
    assert (datasets.known_positives(data, 0.1, np.random.default_rng(2), "biased") == biased).all()

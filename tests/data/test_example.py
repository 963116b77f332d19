"""The made-up population: deterministic, as messy as promised, learnable together and less so alone."""

from __future__ import annotations

import hashlib
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

from unpooled.data import example
from unpooled.errors import InputError


@pytest.fixture(scope="module")
def crowd() -> example.Example:
    return example.population(10_000)


def joined(crowd: example.Example) -> pl.DataFrame:
    telco, bank = (crowd.tables[name].unique() for name in ("telco", "bank"))
    return telco.join(bank, on="id").join(crowd.truth, on="id").sort("id")


def test_files_are_the_same_everywhere(tmp_path: Path) -> None:
    paths = example.write(tmp_path, 1_000)
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
    assert [path.name for path in paths] == ["shop.csv", "telco.csv", "bank.csv", "truth.csv"]
    assert digest == "17fe8cb32693965e2013c57c4294f5637ba98174b63249dfc828f8f891be3d50"


def test_another_seed_gives_other_people() -> None:
    assert not example.population(1_000, seed=1).truth.equals(example.population(1_000, seed=2).truth)


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1_000, 3_000), seed=st.integers(0, 2**32))
def test_tables_fit_together(rows: int, seed: int) -> None:
    crowd = example.population(rows, seed)
    people = set(crowd.truth["id"])
    buyers = set(crowd.truth.filter("would_buy")["id"])
    shop, telco, bank = (set(crowd.tables[name]["id"]) for name in ("shop", "telco", "bank"))
    assert len(people) == rows
    assert shop < buyers
    assert shop - (telco & bank), "some of the shop's buyers are unknown to telco or bank"
    assert shop & telco & bank
    assert telco < people
    assert bank < people
    assert telco - bank
    assert bank - telco


def test_ids_are_text_of_seven_digits_in_no_order(crowd: example.Example) -> None:
    ids = crowd.truth["id"]
    assert ids.str.contains(r"^\d{7}$").all()
    assert ids.str.starts_with("0").any()
    assert not ids.is_sorted()


@pytest.mark.parametrize("name", ["telco", "bank"])
def test_tables_are_messy(crowd: example.Example, name: str) -> None:
    table = crowd.tables[name]
    assert 0 < table.is_duplicated().sum() < 0.05 * table.height
    assert table.unique().height == table["id"].n_unique(), "repeated ids are whole-row repetitions"
    gaps = sum(table.null_count().row(0))
    assert 0 < gaps < 0.1 * table.height * table.width
    assert {pl.String, pl.Int64, pl.Float64, pl.Boolean, pl.Date} <= set(table.dtypes)


def test_rare_levels_exist(crowd: example.Example) -> None:
    for name, column in [("telco", "plan"), ("bank", "occupation")]:
        counts = crowd.tables[name][column].drop_nulls().value_counts()["count"]
        assert counts.min() < 0.005 * crowd.tables[name].height


def test_declared_types_name_real_columns(crowd: example.Example) -> None:
    for name, types in example.TYPES.items():
        table = crowd.tables[name]
        assert set(types) <= set(table.columns)
        for column, declared in types.items():
            if isinstance(declared, list):
                assert set(table[column].drop_nulls()) == set(declared)


def test_columns_correlate_across_parties_or_not(crowd: example.Example) -> None:
    table = joined(crowd)

    def correlation(left: str, right: str) -> float:
        return abs(table.select(pl.corr(left, right, method="spearman")).item())

    table = table.drop_nulls()
    assert correlation("data_gb", "card_payments") > 0.3
    assert correlation("call_minutes", "statement_day") < 0.05


def test_together_is_better_than_alone(crowd: example.Example) -> None:
    table = joined(crowd)
    truth = table["would_buy"].to_numpy()
    ready = table.with_columns(pl.col(pl.String).rank("dense"), pl.col(pl.Date).to_physical())

    def auc(*parties: str) -> float:
        held = [column for party in parties for column in crowd.tables[party].columns if column != "id"]
        features = ready.select(held).cast(pl.Float64).to_numpy()
        model = HistGradientBoostingClassifier(max_iter=15, random_state=0)
        scores = cross_val_predict(model, features, truth, cv=3, method="predict_proba")[:, 1]
        return float(roc_auc_score(truth, scores))

    together = auc("telco", "bank")
    assert 0.85 < together < 0.95
    assert max(auc("telco"), auc("bank")) < together - 0.05


def test_shares_are_as_stated(crowd: example.Example) -> None:
    buyers = crowd.truth["would_buy"].sum()
    assert buyers == example.BUYERS * crowd.truth.height
    assert crowd.tables["shop"].height == example.KNOWN_TO_SHOP * buyers


@pytest.mark.parametrize("rows", [0, 999, 1_000_001])
def test_sizes_have_limits(rows: int) -> None:
    with pytest.raises(InputError, match=r"1,000 .*1,000,000"):
        example.population(rows)


def test_negative_seed_is_refused() -> None:
    with pytest.raises(InputError, match="seed"):
        example.population(seed=-1)


def test_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(InputError, match="taken"):
        example.write(tmp_path / "taken", 1_000)

"""Cleaning, fitting and transforming, beside scikit-learn where it computes the same."""

import datetime
import json
import math
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from unpooled.data.prepare import PrepareSettings, clean, fit, load_preparation, save, transform
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError


def table(types: dict[str, Any] | None = None, **columns: list[Any]) -> Table:
    ids = [f"{i:03}" for i in range(len(next(iter(columns.values()))))]
    return table_from_frame(pl.DataFrame({"id": ids, **columns}), "id", "clinic", types)


def random_table(rng: np.random.Generator, rows: int = 300) -> Table:
    holes = rng.random((rows, 4)) < 0.1
    numbers = rng.normal(50, 20, (rows, 2))
    jobs = rng.choice(["clerk", "cook", "nurse", "judge", "miner"], rows, p=[0.5, 0.3, 0.17, 0.02, 0.01])
    cities = rng.choice(["Oslo", "Rome"], rows)
    return table(
        age=[None if hole else x for x, hole in zip(numbers[:, 0], holes[:, 0], strict=True)],
        debt=[None if hole else x for x, hole in zip(numbers[:, 1], holes[:, 1], strict=True)],
        job=[None if hole else str(x) for x, hole in zip(jobs, holes[:, 2], strict=True)],
        city=[None if hole else str(x) for x, hole in zip(cities, holes[:, 3], strict=True)],
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rare", [0.0, 0.05])
def test_it_computes_what_scikit_learn_computes(seed: int, rare: float) -> None:
    rng = np.random.default_rng(seed)
    whole = random_table(rng)
    training = rng.permutation(whole.frame.height)[:200]
    prepared = transform(fit(whole, PrepareSettings(rare=rare), training), whole)

    numbers = whole.frame.select("age", "debt").to_numpy()
    texts = whole.frame.select("job", "city").to_numpy()
    scaler = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    encoder = make_pipeline(
        SimpleImputer(strategy="most_frequent", missing_values=None),
        OneHotEncoder(min_frequency=rare or None, handle_unknown="infrequent_if_exist", sparse_output=False),
    )
    scaler.fit(numbers[training])
    encoder.fit(texts[training])
    expected = np.hstack([scaler.transform(numbers), encoder.transform(texts)])
    np.testing.assert_allclose(prepared.matrix, expected, rtol=1e-12, atol=1e-12)
    theirs = [name.removeprefix("x0_").removeprefix("x1_") for name in encoder[-1].get_feature_names_out()]
    ours = [name.partition("=")[2].replace("(other)", "infrequent_sklearn") for name in prepared.names[2:]]
    assert ours == theirs


def test_kept_missing_values_stay_missing_and_scaling_ignores_them() -> None:
    whole = random_table(np.random.default_rng(1))
    preparation = fit(whole, PrepareSettings(missing="keep", rare=0.05))
    prepared = transform(preparation, whole)
    numbers = whole.frame.select("age", "debt").to_numpy()
    np.testing.assert_allclose(prepared.matrix[:, :2], StandardScaler().fit_transform(numbers), rtol=1e-12)
    jobs = [name.startswith("job=") for name in prepared.names]
    missing = whole.frame["job"].is_null().to_numpy()
    assert missing.any()
    assert np.isnan(prepared.matrix[np.ix_(missing, jobs)]).all()
    assert (prepared.matrix[np.ix_(~missing, jobs)].sum(axis=1) == 1).all()
    assert prepared.unseen == {}


def test_every_kind_becomes_a_number() -> None:
    whole = table(
        {"rating": ("low", "middle", "high")},
        rating=["high", "low", None, "low"],
        since=[datetime.date(1970, 1, 3), None, datetime.date(1969, 12, 31), datetime.date(1970, 1, 6)],
        active=[True, None, True, False],
        job=["cook", "clerk", None, "cook"],
    )
    prepared = transform(fit(whole, PrepareSettings(standardise=False)), whole)
    assert prepared.names == ("rating", "since", "active", "job=clerk", "job=cook")
    expected = [[2, 2, 1, 0, 1], [0, 2, 1, 1, 0], [0, -1, 1, 0, 1], [0, 5, 0, 0, 1]]
    assert prepared.matrix.tolist() == expected
    assert prepared.ids["id"].to_list() == ["000", "001", "002", "003"]


def test_only_training_rows_are_learned_from() -> None:
    whole = table(x=[1.0, 3.0, 1000.0], job=["cook", "clerk", "spy"])
    preparation = fit(whole, PrepareSettings(), np.array([0, 1]))
    assert (preparation.numbers["x"].centre, preparation.numbers["x"].scale) == (2.0, 1.0)
    prepared = transform(preparation, whole)
    assert prepared.names == ("x", "job=clerk", "job=cook")
    assert prepared.matrix[2].tolist() == [998.0, 0.0, 0.0]
    assert prepared.unseen == {"job": 1}


def test_unseen_levels_join_the_pooled_ones_and_only_they_are_counted() -> None:
    preparation = fit(table(job=["cook"] * 9 + ["spy"]), PrepareSettings(rare=0.2))
    prepared = transform(preparation, table(job=["spy", "mole", "cook", None]))
    assert prepared.names == ("job=cook", "job=(other)")
    assert prepared.matrix.tolist() == [[0, 1], [0, 1], [1, 0], [1, 0]]
    assert prepared.unseen == {"job": 1}


def test_a_level_that_is_called_other_is_pooled() -> None:
    prepared = transform(fit(t := table(job=["cook", "(other)"]), PrepareSettings()), t)
    assert prepared.names == ("job=cook", "job=(other)")
    assert prepared.matrix.tolist() == [[1, 0], [0, 1]]


IN_ORDER = PrepareSettings(categories="in order", standardise=False)
JOBS = ["nurse"] * 3 + ["cook"] * 5 + ["spy", "mole", None]


def ranks(settings: PrepareSettings, training: list[str | None], new: list[str | None]) -> list[float]:
    prepared = transform(fit(table(job=training), settings), table(job=new))
    assert prepared.names == ("job",)
    return prepared.matrix[:, 0].tolist()


def test_categories_in_order_are_ranked_by_name_with_rare_ones_last() -> None:
    preparation = fit(table(job=JOBS, x=[1.0] * 11), IN_ORDER.model_copy(update={"rare": 0.2}))
    assert preparation.names == ("x", "job")
    assert preparation.kinds == {"x": "number", "job": "category"}
    prepared = transform(preparation, table(job=["cook", "nurse", "spy", "mole", None, "judge"], x=[1.0] * 6))
    assert prepared.matrix[:, 1].tolist() == [0, 1, 2, 2, 0, 2]
    assert prepared.unseen == {"job": 1}


def test_an_unseen_level_without_rare_ones_is_as_a_missing_cell() -> None:
    no_rare = IN_ORDER.model_copy(update={"rare": 0.0})
    new = ["cook", "mole", "nurse", "spy", None, "judge"]
    assert ranks(no_rare, JOBS, new) == [0, 1, 2, 3, 0, 0]
    assert ranks(no_rare, JOBS[:3] + JOBS[-2:], ["mole", "nurse", None, "judge"]) == [0, 1, 1, 1]
    kept = ranks(no_rare.model_copy(update={"missing": "keep"}), JOBS, new)
    np.testing.assert_array_equal(kept, [0, 1, 2, 3, math.nan, math.nan])


def test_missing_cells_stay_missing_beside_rare_levels() -> None:
    settings = IN_ORDER.model_copy(update={"missing": "keep", "rare": 0.2})
    np.testing.assert_array_equal(ranks(settings, JOBS, [None, "judge", "spy", "nurse"]), [math.nan, 2, 2, 1])


def test_when_all_levels_are_rare_there_is_one_rank() -> None:
    assert ranks(IN_ORDER.model_copy(update={"rare": 0.9}), JOBS, ["cook", None, "judge"]) == [0, 0, 0]
    assert ranks(IN_ORDER, ["(other)", "cook"], ["cook", "(other)", "zoo"]) == [0, 1, 1]


@pytest.mark.parametrize("missing", ["impute", "keep"])
def test_ranks_are_standardised_as_other_numbers_are(missing: Any) -> None:
    standardised = PrepareSettings(categories="in order", missing=missing, rare=0.2)
    plain = np.array(ranks(standardised.model_copy(update={"standardise": False}), JOBS, JOBS))
    expected = StandardScaler().fit_transform(plain[:, np.newaxis])[:, 0]
    np.testing.assert_allclose(ranks(standardised, JOBS, JOBS), expected, rtol=1e-12)
    assert ranks(standardised, ["cook"] * 3, ["cook", "cook"]) == [0, 0]


@pytest.mark.parametrize("seed", range(3))
def test_ranks_are_where_the_ones_are(seed: int) -> None:
    whole = random_table(np.random.default_rng(seed))
    one_hot = transform(fit(whole, PrepareSettings(standardise=False, rare=0.05)), whole)
    ranked = transform(fit(whole, IN_ORDER.model_copy(update={"rare": 0.05})), whole)
    assert ranked.names == ("age", "debt", "job", "city")
    for place, name in ((2, "job"), (3, "city")):
        columns = [number for number, column in enumerate(one_hot.names) if column.startswith(f"{name}=")]
        assert (one_hot.matrix[:, columns].argmax(axis=1) == ranked.matrix[:, place]).all()


def test_constant_and_empty_columns_are_reported() -> None:
    whole = table(same=[0.1] * 7, empty=[None] * 7, job=["cook"] * 7, x=[float(i) for i in range(7)])
    preparation = fit(whole, PrepareSettings())
    assert preparation.constant == ("same", "job")
    assert preparation.left_out == ("empty",)
    prepared = transform(preparation, whole)
    assert prepared.names == ("same", "x", "job=cook")
    assert (prepared.matrix[:, 0] == 0.0).all()


def test_a_table_of_ids_alone_has_a_matrix_without_columns() -> None:
    positives = table_from_frame(pl.DataFrame({"id": ["a", "b", "a"]}), "id", "shop")
    whole, _ = clean(positives, PrepareSettings(missing="drop"))
    assert transform(fit(whole, PrepareSettings()), whole).matrix.shape == (2, 0)


def test_a_column_of_another_kind_than_in_training_is_an_error() -> None:
    preparation = fit(table(x=[1.0, 2.0], job=["cook", "clerk"]), PrepareSettings())
    with pytest.raises(InputError, match="clinic: data frame: column 'job'"):
        transform(preparation, table(x=[1.0]))
    with pytest.raises(InputError, match=r"column 'x': .*number.*category"):
        transform(preparation, table(x=["a"], job=["cook"]))
    assert preparation.kinds == {"x": "number", "job": "category"}


def test_fitting_needs_rows() -> None:
    with pytest.raises(InputError, match="clinic: data frame: "):
        fit(table(x=[1.0]), PrepareSettings(), np.array([], dtype=np.intp))


def test_two_matrix_columns_of_one_name_are_an_error() -> None:
    with pytest.raises(InputError, match="column 'a=b'"):
        fit(table(**{"a=b": [1.0, 2.0], "a": ["b", "c"]}), PrepareSettings())


def test_whole_duplicates_are_removed_and_counted() -> None:
    frame = pl.DataFrame({"id": ["a", "b", "a", "a"], "x": [1.0, None, 1.0, 1.0]})
    cleaned, cleaning = clean(table_from_frame(frame, "id", "clinic"), PrepareSettings())
    assert cleaned.frame.rows() == [("a", 1.0), ("b", None)]
    assert (cleaning.rows_read, cleaning.duplicates_removed, cleaning.rows_dropped) == (4, 2, 0)
    assert cleaning.missing == {"x": 1}
    assert cleaning.impossible == {}


def test_rows_with_missing_values_can_be_dropped() -> None:
    cleaned, cleaning = clean(table(x=[1.0, None, 3.0], y=[None, None, 1.0]), PrepareSettings(missing="drop"))
    assert cleaned.frame["id"].to_list() == ["002"]
    assert cleaning.rows_dropped == 2
    assert cleaning.missing == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("ids", "values", "words"),
    [
        (["a", "", "NA", "  ", None], [1, 2, 3, 4, 5], "column 'id': rows 2, 3, 4 and 5: "),
        (["1", "01", " 1"], [1, 2, 3], "column 'id': rows 1 and 3: "),
        (["a", "b", "a", "c", "b"], [1, 2, 1, 4, 5], "column 'id': rows 2 and 5: "),
        (["a", "a", "b", "b"], [1, 2, 3, 4], "rows 1 and 2: .* 1 more"),
        ([], [], "data frame: "),
    ],
)
def test_bad_ids_are_errors_with_row_numbers(ids: list[str | None], values: list[int], words: str) -> None:
    frame = pl.DataFrame({"id": ids, "x": values}, schema={"id": pl.String, "x": pl.Float64})
    with pytest.raises(InputError, match=words):
        clean(table_from_frame(frame, "id", "clinic"), PrepareSettings())


def test_ids_of_several_columns_identify_together() -> None:
    frame = pl.DataFrame({"bank": ["a", "a", "b"], "account": ["1", "2", "1"], "x": [1.0, 2.0, 3.0]})
    whole = table_from_frame(frame, ("bank", "account"), "bank")
    assert clean(whole, PrepareSettings())[0].frame.height == 3
    with pytest.raises(InputError, match="column 'bank': rows 1 and 2: "):
        clean(table_from_frame(frame, "bank", "bank"), PrepareSettings())


def test_impossible_values_are_errors_with_column_and_row() -> None:
    whole = table(age=[31.0, -1.0, 200.0, None], debt=[0.0, math.inf, 1.0, -1e101], free=[1.0, 2.0, 3.0, 4.0])
    settings = PrepareSettings(limits={"age": (0, 120), "debt": (-math.inf, math.inf)})
    with pytest.raises(InputError, match=r"column 'age': rows 2 and 3; column 'debt': rows 2 and 4"):
        clean(whole, settings)
    cleaned, cleaning = clean(whole, settings.model_copy(update={"impossible": "missing"}))
    assert cleaning.impossible == {"age": (2, 3), "debt": (2, 4)}
    assert cleaning.missing == {"age": 3, "debt": 2}
    assert cleaned.frame["age"].to_list() == [31.0, None, None, None]


def test_row_numbers_are_those_of_the_source_after_duplicates_are_removed() -> None:
    frame = pl.DataFrame({"id": ["a", "a", "b"], "x": [1.0, 1.0, math.inf]})
    with pytest.raises(InputError, match=r"column 'x': row 3$"):
        clean(table_from_frame(frame, "id", "clinic"), PrepareSettings())


@pytest.mark.parametrize(("column", "words"), [("job", "category.*number"), ("age", "column")])
def test_limits_need_a_number_column(column: str, words: str) -> None:
    with pytest.raises(InputError, match=rf"^clinic: data frame: column '{column}': prepare.limits .*{words}"):
        clean(table(job=["cook"]), PrepareSettings(limits={column: (0, 1)}))


@pytest.mark.parametrize(
    "wrong", [{"missing": "guess"}, {"categories": "sorted"}, {"rare": 1}, {"limits": {"x": (2, 1)}}, {"colour": 1}]
)
def test_settings_that_cannot_be_meant_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PrepareSettings(**wrong)


def test_every_setting_is_described() -> None:
    assert all(field.description for field in PrepareSettings.model_fields.values())


COLUMNS = st.integers(1, 8).flatmap(
    lambda rows: st.fixed_dictionaries(
        {
            "x": st.lists(st.none() | st.floats(-1e100, 1e100), min_size=rows, max_size=rows),
            "job": st.lists(st.none() | st.text(min_size=1, max_size=3), min_size=rows, max_size=rows),
            "rating": st.lists(st.none() | st.sampled_from(["low", "high"]), min_size=rows, max_size=rows),
            "active": st.lists(st.none() | st.booleans(), min_size=rows, max_size=rows),
        }
    )
)
SETTINGS = st.builds(
    PrepareSettings,
    missing=st.sampled_from(["impute", "keep"]),
    standardise=st.booleans(),
    rare=st.floats(0, 0.9),
    categories=st.sampled_from(["one-hot", "in order"]),
    limits=st.just({"x": (-math.inf, 1e100)}),
)


@hypothesis.settings(deadline=None)  # each one waits for the disk
@given(columns=COLUMNS, settings=SETTINGS)
def test_a_saved_preparation_comes_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, columns: dict[str, list[Any]], settings: PrepareSettings
) -> None:
    frame = pl.DataFrame(columns, schema={"x": pl.Float64, "job": pl.String, "rating": pl.String, "active": pl.Boolean})
    frame = frame.with_row_index("id")
    whole = table_from_frame(frame, "id", "clinic", {"rating": ("low", "high")})
    preparation = fit(whole, settings)
    path = tmp_path_factory.getbasetemp() / "preparation.json"
    save(preparation, path)
    again = load_preparation(path)
    assert again == preparation
    before, after = transform(preparation, whole), transform(again, whole)
    assert before.names == after.names
    assert before.matrix.tobytes() == after.matrix.tobytes()
    assert before.matrix.shape == (frame.height, len(before.names))
    assert settings.missing == "keep" or np.isfinite(before.matrix).all()


def test_the_file_is_plain_json_for_its_owner_alone(tmp_path: Path) -> None:
    save(fit(table(age=[30.0, 50.0], job=["cook", "clerk"]), PrepareSettings()), tmp_path / "p.json")
    assert (tmp_path / "p.json").stat().st_mode & 0o777 == 0o600
    content = json.loads((tmp_path / "p.json").read_text())
    assert content["format"] == 1
    assert content["numbers"]["age"] == {"kind": "number", "missing_becomes": 40.0, "centre": 40.0, "scale": 10.0}
    assert content["categories"]["job"] == {"missing_becomes": "clerk", "levels": ["clerk", "cook"], "pooled": []}


def test_files_from_before_categories_could_be_in_order_are_read(tmp_path: Path) -> None:
    preparation = fit(table(age=[30.0, 50.0], job=["cook", "clerk"]), PrepareSettings())
    content = json.loads(preparation.model_dump_json())
    del content["settings"]["categories"], content["ranked"]
    (tmp_path / "p.json").write_text(json.dumps(content))
    assert load_preparation(tmp_path / "p.json") == preparation


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"format": 1', '"format": 2', "format: "),
        ('"scale": 10.0', '"scale": 0.0', "numbers.age.scale: .*greater than 0"),
        ('"centre": 40.0', '"centre": "NaN"', "numbers.age.centre: .*finite"),
        ('"centre": 40.0,', "", "numbers.age.centre: "),
        ('"cook"', '"clerk"', "categories.job: .*level"),
        ('"missing_becomes": "clerk"', '"missing_becomes": "spy"', "categories.job: .*level"),
        ('"cook"', '"(other)"', "categories.job: "),
        ('"ranked": {}', '"ranked": {"job": {"scale": 0.0}}', "ranked.job.missing_becomes: "),
        ("{", "", "Invalid JSON"),
    ],
)
def test_a_damaged_file_is_an_input_error_that_names_the_key(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = tmp_path / "p.json"
    save(fit(table(age=[30.0, 50.0], job=["cook", "clerk"]), PrepareSettings()), path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=f"p.json: {words}"):
        load_preparation(path)


def test_an_absent_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.json.*No such file"):
        load_preparation(tmp_path / "absent.json")

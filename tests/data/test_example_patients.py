"""The made-up patients: deterministic, of every column type, and related across the parties as the docstring says."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from unpooled.arrays import Floats
from unpooled.complete.association import centred_ranks, correlations, squared_sums
from unpooled.complete.federated import predict_columns
from unpooled.complete.screening import GAIN_SETTINGS, Screening, by_correlation, by_gain, gains_of
from unpooled.complete.variables import Variable, matrix_of, variables_of
from unpooled.data.example_patients import LACKING, ROWS, STAGES, TYPES, PatientTables, patient_tables, write_patients
from unpooled.data.sources import TableSettings, load
from unpooled.data.table import Table
from unpooled.errors import InputError
from unpooled.vertical.inputs import Columns
from unpooled.vertical.team import alone
from unpooled.vertical.trees.parameters import GbdtParameters

BY_MEAN = {"creatinine", "kidney_stage", "sampled_on"}
BY_RANK = BY_MEAN | {"hba1c", "diabetic"}
UNRELATED = {"ward", "hospital_days", "blood_group", "sodium", "chloride"}


@pytest.fixture(scope="module")
def patients() -> PatientTables:
    return patient_tables()


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    """The default tables as the parties read them from their files."""
    folder = tmp_path_factory.mktemp("patients")
    write_patients(folder)
    types = TYPES | {"truth": TYPES["clinic"]}
    sources = {
        name: TableSettings.model_validate({"path": folder / f"{name}.csv", "id": "id", "types": types[name]})
        for name in types
    }
    return {name: load(source, name) for name, source in sources.items()}


@pytest.fixture(scope="module")
def common(loaded: dict[str, Table]) -> tuple[list[Variable], list[Variable]]:
    """The columns of the registry and of the clinic in the rows that both have."""
    registry, clinic = (loaded[name].ids.with_row_index(name) for name in ("registry", "clinic"))
    places = registry.join(clinic, on="id")
    first, second = (loaded[name].take(places[name].to_numpy()) for name in ("registry", "clinic"))
    return variables_of(first), variables_of(second)


def rank_correlations(left: list[Variable], right: list[Variable]) -> Floats:
    one, two = (centred_ranks(matrix_of(each, len(each[0].values))) for each in (left, right))
    return correlations((one.T @ two).astype(object), squared_sums(one), squared_sums(two))


def names_of(variables: list[Variable]) -> list[str]:
    return [variable.name for variable in variables]


def strengths(screening: Screening) -> dict[str, float]:
    return {each.column: each.strength for each in screening.columns}


def test_files_are_the_same_everywhere(tmp_path: Path) -> None:
    paths = write_patients(tmp_path, 1_500)
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
    assert [path.name for path in paths] == ["registry.csv", "clinic.csv", "truth.csv"]
    assert digest == "3c0cdba78450513835947acbbe987b129557c4f9bf59fff3cb60d022ab70feb1"


def test_another_seed_gives_other_patients() -> None:
    one, other = (patient_tables(1_500, seed=seed) for seed in (1, 2))
    assert not one.registry.equals(other.registry)
    assert not one.truth.equals(other.truth)


@settings(max_examples=10, deadline=None)
@given(rows=st.integers(1_500, 4_000), seed=st.integers(0, 2**32), known=st.floats(0.02, 0.9))
def test_tables_fit_together(rows: int, seed: int, known: float) -> None:
    made = patient_tables(rows, seed, known)
    registry, clinic = set(made.registry["id"]), set(made.clinic["id"])
    assert made.registry.height == len(registry) == rows
    assert made.truth["id"].to_list() == made.registry["id"].to_list()
    assert made.clinic.height == len(clinic)
    assert len(registry & clinic) == round(known * rows)
    assert len(clinic - registry) == round(0.007 * rows)
    assert made.truth.schema == made.clinic.schema


def test_the_default_sizes(patients: PatientTables) -> None:
    assert (patients.registry.height, patients.clinic.height) == (ROWS, 321)
    assert patients.clinic.join(patients.registry, on="id").height == 300


def test_ids_are_clearly_made_up_and_in_no_order(patients: PatientTables) -> None:
    for table in (patients.registry, patients.clinic):
        assert table["id"].str.contains(r"^example-\d{7}$").all()
        assert not table["id"].is_sorted()


def test_the_truth_has_all_cells_and_those_that_the_clinic_knows(patients: PatientTables) -> None:
    assert patients.truth.null_count().sum_horizontal().item() == 0
    clinic = patients.clinic.join(patients.truth, on="id", how="semi", maintain_order="left")
    truth = clinic.select("id").join(patients.truth, on="id", maintain_order="left")
    known = truth.with_columns(pl.when(clinic[name].is_not_null()).then(pl.col(name)) for name in LACKING)
    assert_frame_equal(clinic, known)


def test_columns_have_the_types_that_are_inferred_or_declared(loaded: dict[str, Table]) -> None:
    assert loaded["registry"].kinds == {
        "age": "number",
        "sex": "category",
        "bmi": "number",
        "systolic": "number",
        "smoker": "boolean",
        "diagnosis": "category",
        "first_visit": "date",
        "prescriptions": "number",
        "visits": "number",
        "needs_care": "boolean",
        "region": "category",
    }
    assert loaded["clinic"].kinds == {
        "sampled_on": "date",
        "ward": "category",
        "hospital_days": "number",
        "blood_group": "category",
        "hba1c": "number",
        "diabetic": "boolean",
        "therapy": "category",
        "creatinine": "number",
        "kidney_stage": tuple(STAGES),
        "cholesterol": "number",
        "sodium": "number",
        "chloride": "number",
    }
    assert loaded["truth"].kinds == loaded["clinic"].kinds
    assert all(not table.notes for table in loaded.values())


def test_some_numbers_are_whole_and_every_level_occurs(patients: PatientTables) -> None:
    assert [name for name, dtype in patients.clinic.schema.items() if dtype == pl.Int64] == [
        "hospital_days",
        "cholesterol",
    ]
    assert patients.registry["diagnosis"].drop_nulls().n_unique() == 6
    for name in ("therapy", "ward", "blood_group"):
        known, true = (set(table[name].drop_nulls()) for table in (patients.clinic, patients.truth))
        assert known == true
    assert set(patients.clinic["kidney_stage"].drop_nulls()) == set(STAGES)


def test_cells_are_missing_as_stated() -> None:
    made = patient_tables(20_000, known=0.5)
    for name, fraction in LACKING.items():
        assert made.clinic[name].null_count() / made.clinic.height == pytest.approx(fraction, abs=0.015)
    assert set(LACKING) == set(made.clinic.columns) - {"id"}
    lacking = {name for name in made.registry.columns if made.registry[name].has_nulls()}
    assert lacking == {"bmi", "systolic", "smoker", "diagnosis", "region"}


def test_rank_correlations_find_some_columns(common: tuple[list[Variable], list[Variable]]) -> None:
    registry, clinic = common
    matrix, names, rows = rank_correlations(registry, clinic), names_of(clinic), len(clinic[0].values)
    largest = by_correlation(names, matrix, rows, "max")
    assert set(largest.chosen(0.5)) == BY_RANK
    assert {name for name, strength in strengths(largest).items() if strength > 0.7} == BY_RANK - {"diabetic"}
    assert set(by_correlation(names, matrix, rows, "mean").chosen(0.5)) == BY_MEAN
    assert all(strengths(largest)[name] < 0.25 for name in UNRELATED | {"therapy", "cholesterol"})


def test_gain_also_finds_what_is_not_monotone(common: tuple[list[Variable], list[Variable]]) -> None:
    registry, clinic = common
    rows, clinic = len(clinic[0].values), [variable for variable in clinic if variable.name not in BY_RANK]
    given = Columns(matrix_of(registry, rows), tuple(names_of(registry)))
    base = GbdtParameters(trees=10, depth=3, learning_rate=0.3)
    found = predict_columns(alone(), base, given, clinic, GAIN_SETTINGS, seed=1).predictions
    listed = by_gain([one.variable.name for one in found], *gains_of(found), rows)
    assert set(listed.chosen()) == {"therapy", "cholesterol"}
    assert all(strengths(listed)[name] == 0 for name in UNRELATED)


def test_unrelated_columns_go_with_each_other_or_with_nothing() -> None:
    truth = patient_tables(20_000).truth
    numbers = truth.with_columns(pl.col("ward").replace_strict({"day": 0, "surgery": 1, "internal": 2, "intensive": 3}))

    def correlation(left: str, right: str) -> float:
        return float(numbers.select(pl.corr(left, right, method="spearman").abs()).item())

    assert correlation("sodium", "chloride") > 0.85
    assert correlation("ward", "hospital_days") > 0.8
    assert correlation("sodium", "hospital_days") < 0.03
    groups = truth.group_by("blood_group").agg(pl.col("sodium", "hba1c", "hospital_days").mean())
    for name in ("sodium", "hba1c", "hospital_days"):
        assert np.ptp(groups[name].to_numpy()) < 0.25 * truth[name].to_numpy().std()


@pytest.mark.parametrize("rows", [0, 1_499, 1_000_001])
def test_sizes_have_limits(rows: int) -> None:
    with pytest.raises(InputError, match=r"1,500 .*1,000,000"):
        patient_tables(rows)


@pytest.mark.parametrize("known", [0.0, 1.0, float("nan")])
def test_the_clinic_knows_some_patients_and_not_all(known: float) -> None:
    with pytest.raises(InputError, match="known to the clinic"):
        patient_tables(known=known)


def test_negative_seed_is_refused() -> None:
    with pytest.raises(InputError, match="seed"):
        patient_tables(seed=-1)


def test_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(InputError, match="taken"):
        write_patients(tmp_path / "taken", 1_500)

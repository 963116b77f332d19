"""Made-up patients: a registry knows something about all of them, a clinic has laboratory values of a tenth.

Two hidden traits of every patient, the burden of illness and how the body handles sugar, determine most columns of the
registry and some of the clinic's. So part of the clinic's table can be predicted from the registry's, in several ways:

===========================================  =========================================================================
columns of the clinic                        how they go with the registry's, in the common rows of the default tables
===========================================  =========================================================================
creatinine, kidney_stage, sampled_on         with most columns: the mean absolute rank correlation is above 0.5
hba1c, diabetic                              with a few columns: the largest rank correlation is above 0.5
therapy, cholesterol                         with no column by rank (below 0.25), but models predict them: a category
                                             without an order, and a number that rises with age and then falls
ward and hospital_days, sodium and chloride  not at all; the two of each pair go with each other
blood_group                                  not at all; it goes with nothing
===========================================  =========================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from unpooled.arrays import Bools, Floats
from unpooled.data.made_up import dates, gaps, generator, levels, write_tables
from unpooled.errors import InputError

ROWS = 3_000
SEED = 7
SMALLEST, LARGEST = 1_500, 1_000_000

KNOWN = 0.1  # of the registry's patients, to the clinic
STRANGERS = 0.007  # patients of the clinic alone, as a fraction of the registry's
STAGES = ["normal", "mild", "moderate", "severe"]  # of kidney disease

# Column types that cannot be inferred from the cells: the order of levels.
TYPES: dict[str, dict[str, str | list[str]]] = {"registry": {}, "clinic": {"kidney_stage": STAGES}}

# The fraction of cells that the clinic lacks of the patients it has.
LACKING = {
    "sampled_on": 0.02,
    "ward": 0.03,
    "hospital_days": 0.03,
    "blood_group": 0.15,
    "hba1c": 0.1,
    "diabetic": 0.03,
    "therapy": 0.05,
    "creatinine": 0.05,
    "kidney_stage": 0.05,
    "cholesterol": 0.12,
    "sodium": 0.08,
    "chloride": 0.1,
}


@dataclass(frozen=True)
class PatientTables:
    """What the registry and the clinic have, and the truth: the clinic's columns for every patient of the registry."""

    registry: pl.DataFrame
    clinic: pl.DataFrame
    truth: pl.DataFrame


@dataclass(frozen=True)
class _Patients:
    ids: pl.Series
    male: Bools
    burden: Floats
    sugar: Floats
    diabetes: Bools
    age: Floats
    days_ill: Floats
    needs_care: Bools


def patient_tables(rows: int = ROWS, seed: int = SEED, known: float = KNOWN) -> PatientTables:
    """Make up `rows` patients of the registry, a fraction of them `known` to the clinic, and a few more of the clinic.

    The same random seed gives the same patients.
    """
    rng = generator(rows, seed, SMALLEST, LARGEST)
    if not 0 < known < 1:
        raise InputError(f"example: the fraction known to the clinic must be between 0 and 1, not {known:g}")
    patients = _patients(rng, rows + round(STRANGERS * rows))
    registry, laboratory = _registry(rng, patients), _laboratory(rng, patients)
    of_clinic = np.concatenate([rng.permutation(rows)[: round(known * rows)], np.arange(rows, len(patients.ids))])
    clinic = laboratory[rng.permutation(of_clinic)]
    clinic = clinic.with_columns(**{name: gaps(rng, clinic[name], fraction) for name, fraction in LACKING.items()})
    return PatientTables(registry[:rows], clinic, laboratory[:rows])


def write_patients(folder: Path, rows: int = ROWS, seed: int = SEED, known: float = KNOWN) -> list[Path]:
    """Write registry.csv, clinic.csv and truth.csv into `folder`, which is created if needed."""
    tables = patient_tables(rows, seed, known)
    return write_tables(folder, {"registry": tables.registry, "clinic": tables.clinic, "truth": tables.truth})


def _patients(rng: np.random.Generator, rows: int) -> _Patients:
    numbers = pl.Series("id", rng.choice(10_000_000, rows, replace=False))
    burden = rng.standard_normal(rows)
    sugar = _related(rng, burden, 0.5)
    age: Floats = np.clip(60 + 14 * _related(rng, burden, 0.9), 18, 98)
    days_ill: Floats = np.clip(2_700 + 1_100 * _related(rng, burden, 0.85), 40, 6_000)
    return _Patients(
        ids="example-" + numbers.cast(pl.String).str.zfill(7),
        male=rng.random(rows) < 0.5,
        burden=burden,
        sugar=sugar,
        diabetes=_related(rng, sugar, 0.95) > 0.7,
        age=np.rint(age),
        days_ill=np.rint(days_ill),
        needs_care=_related(rng, burden, 0.95) > 0.1,
    )


def _registry(rng: np.random.Generator, patients: _Patients) -> pl.DataFrame:
    rows, burden = len(patients.ids), patients.burden
    bmi = 27 * np.exp(0.16 * _related(rng, patients.sugar, 0.93))
    systolic = 134 + 16 * _related(rng, burden, 0.9)
    illnesses = ["check-up", "heart failure", "hypertension", "kidney disease", "stroke"]
    diagnosis = levels(_related(rng, burden, 0.95), illnesses, [0.3, 0.2, 0.25, 0.15, 0.1])
    noted = patients.diabetes & (rng.random(rows) < 0.9)
    return pl.DataFrame(
        {
            "id": patients.ids,
            "age": patients.age.astype(np.int64),
            "sex": pl.Series(["female", "male"]).gather(patients.male.astype(np.uint32)),
            "bmi": gaps(rng, np.round(bmi, 1), 0.06),
            "systolic": gaps(rng, np.round(systolic).astype(np.int64), 0.04),
            "smoker": gaps(rng, _related(rng, burden, 0.3) > 0.8, 0.03),
            "diagnosis": gaps(rng, diagnosis.set(pl.Series(noted), "diabetes"), 0.02),
            "first_visit": dates(patients.days_ill.astype(np.int64)),
            "prescriptions": rng.poisson(np.exp(2.0 + 0.6 * burden)),
            "visits": rng.poisson(np.exp(2.4 + 0.5 * burden)),
            "needs_care": patients.needs_care,
            "region": gaps(rng, _drawn(rng, rows, {"coast": 0.2, "hills": 0.2, "plains": 0.2, "town": 0.4}), 0.01),
        }
    )


def _laboratory(rng: np.random.Generator, patients: _Patients) -> pl.DataFrame:
    """The clinic's columns of all patients, without gaps."""
    rows = len(patients.ids)
    filtration = np.clip(70 - 24 * _related(rng, patients.burden, 0.97), 12, 140)
    creatinine = (64 + 14 * patients.male) * (80 / filtration) ** 0.8 * np.exp(0.05 * rng.standard_normal(rows))
    hba1c = 5.1 + 0.5 * np.exp(0.75 * _related(rng, patients.sugar, 0.95)) + 0.8 * patients.diabetes
    treated = patients.sugar + 1.2 * patients.diabetes + 0.4 * rng.standard_normal(rows)
    # It rises until the age of sixty and then falls, so that no rank correlation shows it.
    cholesterol = 225 - 0.07 * (patients.age - 60) ** 2 + 9 * rng.standard_normal(rows)
    # Those who need care are seen soon, so that some dates can be predicted far better than others.
    waited = np.where(patients.needs_care, 30.0, 450.0) * rng.gamma(2.0, 1.0, rows)
    sampled = np.clip(patients.days_ill - waited, 1, None)
    ward = _drawn(rng, rows, {"day": 0.35, "intensive": 0.1, "internal": 0.3, "surgery": 0.25})
    usual_days = ward.replace_strict({"day": 0.3, "intensive": 15.0, "internal": 6.0, "surgery": 4.0})
    sodium = 140 + 3 * rng.standard_normal(rows)
    chloride = 103 + 0.9 * (sodium - 140) + 1.2 * rng.standard_normal(rows)
    return pl.DataFrame(
        {
            "id": patients.ids,
            "sampled_on": dates(sampled.astype(np.int64)),
            "ward": ward,
            "hospital_days": rng.poisson(usual_days.to_numpy()),
            "blood_group": _drawn(rng, rows, {"A": 0.43, "AB": 0.05, "B": 0.11, "O": 0.41}),
            "hba1c": np.round(hba1c, 1),
            "diabetic": hba1c > 6.4,
            "therapy": levels(treated, ["none", "diet", "tablets", "insulin"], [0.4, 0.25, 0.2, 0.15]),
            "creatinine": np.round(creatinine, 1),
            "kidney_stage": pl.Series(STAGES).gather(np.searchsorted([-85.0, -60.0, -35.0], -filtration)),
            "cholesterol": np.round(cholesterol).astype(np.int64),
            "sodium": np.round(sodium, 1),
            "chloride": np.round(chloride, 1),
        }
    )


def _related(rng: np.random.Generator, trait: Floats, correlation: float) -> Floats:
    """A standard normal number for each patient that has this correlation with a trait."""
    related: Floats = correlation * trait + np.sqrt(1 - correlation**2) * rng.standard_normal(len(trait))
    return related


def _drawn(rng: np.random.Generator, rows: int, fractions: dict[str, float]) -> pl.Series:
    """A level for each patient that goes with nothing."""
    return pl.Series(list(fractions)).gather(rng.choice(len(fractions), rows, p=list(fractions.values())))

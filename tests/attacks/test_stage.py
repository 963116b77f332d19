"""What is simulated for the party that asks: its own rows, made-up others, and a secret that can be found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unpooled.attacks.stage import ATTACKED, FEWEST_KNOWN, Stage, stage_of
from unpooled.errors import InputError
from unpooled.jobs.checks import checked
from unpooled.jobs.examples.example_job import example_job
from unpooled.jobs.kinds import KINDS, kind_named
from unpooled.jobs.preflight import loaded
from unpooled.jobs.work import CheckedJob, cleaned
from unpooled.run.simulate import simulate_job

ROWS = 600


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Example tables of each kind of job that there are attacks on."""
    made = {}
    for kind in ATTACKED:
        made[kind] = tmp_path_factory.mktemp(kind)
        kind_named(kind).example.tables.write(made[kind], 3000, 7)
    return made


def asked(folders: dict[str, Path], kind: str, party: str, **parameters: Any) -> CheckedJob[Any]:
    job = example_job(kind)
    plan = job.plan.model_copy(update={"parameters": {**job.plan.parameters, **parameters}})
    side = loaded(checked(plan, party, job.privates[party].at(folders[kind])))
    return replace(side, table=cleaned(side)[0])


@pytest.mark.parametrize(
    ("kind", "party", "holder"),
    [
        ("lookalike", "shop", "shop"),
        ("lookalike", "telco", "shop"),
        ("lookalike", "bank", "shop"),
        ("train", "telco", "bank"),
        ("train", "bank", "bank"),
        ("complete", "clinic", "clinic"),
        ("complete", "registry", "clinic"),
    ],
)
def test_a_stage_has_the_asking_partys_rows_and_made_up_others(
    folders: dict[str, Path], kind: str, party: str, holder: str
) -> None:
    job = asked(folders, kind, party)
    stage = stage_of(job, ROWS, 1)
    assert job.table is not None
    assert stage.holder == holder
    assert stage.plan.engine == "plain"
    own = stage.tables[party].frame
    assert own.height <= ROWS
    features = [name for name in own.columns if name not in stage.tables[party].id]
    assert set(own.select(features).rows()) <= set(job.table.frame.select(features).rows())
    assert all(table.origin == "made up" for name, table in stage.tables.items() if name != party)
    assert FEWEST_KNOWN // 2 <= stage.secret.sum() < stage.people / 2
    assert len(stage.secret) == stage.people
    assert stage.notes
    _starts(stage)


def _starts(stage: Stage) -> None:
    """All parties' settings go with the plan."""
    for party in stage.plan.parties:
        assert checked(stage.plan, party, stage.privates[party], stage.tables.get(party)).party == party


def test_a_plan_with_classes_is_simulated_with_as_many(folders: dict[str, Path]) -> None:
    stage = stage_of(asked(folders, "train", "telco", model={"classes": 3, "trees": 2}), ROWS, 1)
    assert stage.tables["bank"].frame["target"].n_unique() == 3
    assert "rarest" in stage.sought
    outcome = simulate_job(stage.plan, stage.privates, stage.tables)
    assert outcome.results["bank"]["classes"] == 3


@pytest.mark.parametrize("kind", sorted({kind.name for kind in KINDS} - set(ATTACKED)))
def test_other_kinds_say_why_there_is_no_attack(kind: str, folders: dict[str, Path]) -> None:
    job = asked(folders, "lookalike", "bank")
    other = replace(job, plan=job.plan.model_copy(update={"kind": kind}))
    with pytest.raises(InputError, match=f"a job of the kind {kind}"):
        stage_of(other, ROWS, 1)

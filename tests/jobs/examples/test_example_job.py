"""The job files beside the example tables: they load, they fit the tables, and they say how to be used."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest

from unpooled.data import example
from unpooled.data.sources import load
from unpooled.errors import PlanError
from unpooled.jobs.checks import check_fits
from unpooled.jobs.examples.example_job import example_job, write_job_files
from unpooled.jobs.examples.example_tables import CUSTOMERS
from unpooled.jobs.files import load_job, load_plan, load_private
from unpooled.jobs.kinds import outline_of
from unpooled.jobs.train.kind import TARGET
from unpooled.run.join import addresses_of

ROLES = CUSTOMERS.roles


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("example")
    example.write(made, example.SMALLEST)
    write_job_files(made, "align")
    return made


def test_every_file_is_named_and_only_the_private_ones_are_closed(tmp_path: Path) -> None:
    written = write_job_files(tmp_path, "align")
    assert [path.name for path in written] == ["job.toml", "plan.toml", *(f"{party}.toml" for party in ROLES)]
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in written}
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in written}
    assert set(modes.values()) == {0o600}


def test_the_file_for_one_machine_is_the_job(folder: Path) -> None:
    job, made = load_job(folder / "job.toml"), example_job("align")
    assert job.plan == made.plan
    assert {name: party.role for name, party in job.plan.parties.items()} == ROLES
    assert job.privates == {name: private.at(folder) for name, private in made.privates.items()}


def test_the_declared_columns_are_in_the_tables(folder: Path) -> None:
    for party, private in load_job(folder / "job.toml").privates.items():
        if ROLES[party] == "coordinator":
            assert private.table is None
            continue
        assert private.table is not None
        kinds = load(private.table, party).kinds
        assert private.table.types.items() <= kinds.items()


def test_the_files_for_a_machine_each_say_the_same_with_addresses_and_certificates(folder: Path) -> None:
    job, plan = load_job(folder / "job.toml"), load_plan(folder / "plan.toml")
    without = {name: party.model_copy(update={"address": None}) for name, party in plan.parties.items()}
    assert plan.model_copy(update={"parties": without}) == job.plan
    assert len({party.address for party in plan.parties.values()}) == len(ROLES)
    for party in ROLES:
        private = load_private(folder / f"{party}.toml")
        assert private.certificates == folder / "certs" / party
        assert private.model_copy(update={"certificates": None}) == job.privates[party]
        check_fits(plan, party, private)
        addresses_of(plan, party, private)


def test_private_settings_are_not_in_the_shared_plan(folder: Path) -> None:
    assert tomllib.loads((folder / "plan.toml").read_text()).keys() == {"kind", "parties"}


def test_the_file_for_one_machine_says_how_to_use_it(folder: Path) -> None:
    heading = (folder / "job.toml").read_text().split("\n\n")[0]
    assert all(line.startswith("#") for line in heading.splitlines())
    assert "unpooled run job.toml" in heading
    assert "unpooled join plan.toml --as bank --private bank.toml" in heading


def test_the_job_without_addresses_is_for_one_machine_only(folder: Path) -> None:
    job = load_job(folder / "job.toml")
    with pytest.raises(PlanError, match=r"shop .*telco .*address"):
        addresses_of(job.plan, "shop", job.privates["shop"])


def test_to_learn_there_is_no_seeker_and_the_bank_has_a_target() -> None:
    job = example_job("train")
    assert list(job.plan.parties) == ["telco", "bank", "coordinator"]
    assert {name: private.target for name, private in job.privates.items()} == {
        "telco": None,
        "bank": TARGET,
        "coordinator": None,
    }
    assert outline_of(job.plan)


def test_to_predict_owners_have_what_they_learned(tmp_path: Path) -> None:
    job = example_job("predict", tmp_path)
    models = {name: private.model for name, private in job.privates.items()}
    assert models == {"telco": tmp_path / "telco", "bank": tmp_path / "bank", "coordinator": None}
    (tmp_path / "beside").mkdir()
    write_job_files(tmp_path / "beside", "predict", tmp_path)
    assert load_private(tmp_path / "beside" / "bank.toml").model == tmp_path / "bank"


def test_to_deliver_the_bank_has_what_it_found(tmp_path: Path) -> None:
    job = example_job("deliver", tmp_path)
    assert list(job.plan.parties) == ["shop", "telco", "bank"]
    assert {name: private.earlier for name, private in job.privates.items()} == {
        "shop": None,
        "telco": None,
        "bank": tmp_path / "bank",
    }
    assert job.privates["bank"].consent.advice == job.plan.parameters["advice"] is True


@pytest.mark.parametrize(
    ("kind", "trained", "reason"),
    [
        ("predict", None, "predict"),
        ("train", Path("run"), "train"),
        ("deliver", None, "deliver"),
        ("learn", None, "no such kind"),
    ],
)
def test_a_job_that_cannot_be_is_refused(kind: str, trained: Path | None, reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        example_job(kind, trained)

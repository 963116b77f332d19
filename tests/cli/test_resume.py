"""The command `resume`: what it goes on with, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from unpooled.cli import app, jobs, running
from unpooled.data import example
from unpooled.errors import UnpooledError
from unpooled.jobs.examples.example_job import write_job_files
from unpooled.jobs.files import load_plan, write_toml
from unpooled.run import folder as run_folder


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a bank that has joined and was interrupted."""
    example.write(tmp_path / "files", rows=1000)
    write_job_files(tmp_path / "files", "lookalike")
    monkeypatch.setattr(running, "say_done", lambda folder, results, *_: print(json.dumps(results)))
    home = run_folder.create(tmp_path / "run")
    write_toml(home / run_folder.PLAN, load_plan(tmp_path / "files" / "plan.toml"))
    (home / run_folder.STATUS).write_text(json.dumps({"party": "bank", "state": "running"}))
    run_folder.keep_private(home, tmp_path / "files" / "bank.toml")
    return home


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What `join` was called with."""
    calls: list[tuple[Any, ...]] = []

    def join(job: Any, folder: Path, watcher: Any, *, resume: bool, through: object) -> dict[str, Any]:
        calls.append((job.plan.kind, job.party, job.private, folder, resume))
        return {"listed": 3}

    monkeypatch.setattr(running, "join", join)
    return calls


def resume(*words: object) -> Any:
    return CliRunner().invoke(app, ["resume", *map(str, words)])


def fault(*words: object) -> str:
    result = resume(*words)
    assert result.exit_code != 0
    assert isinstance(result.exception, UnpooledError), result.output
    return str(result.exception)


def test_a_party_goes_on_with_the_private_file_it_began_with(begun: Path, joined: list[tuple[Any, ...]]) -> None:
    result = resume(begun, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"bank": {"listed": 3}}
    ((kind, party, private, folder, resumed),) = joined
    assert (kind, party, folder, resumed) == ("lookalike", "bank", begun, True)
    assert private.table.path == begun.parent / "files" / "bank.csv"


def test_the_private_file_may_be_elsewhere_now(begun: Path, joined: list[tuple[Any, ...]], tmp_path: Path) -> None:
    (tmp_path / "files").rename(tmp_path / "moved")
    assert "bank.toml" in fault(begun)
    result = resume(begun, "--private", tmp_path / "moved" / "bank.toml", "-q")
    assert result.exit_code == 0, result.output
    assert joined[0][2].table.path == tmp_path / "moved" / "bank.csv"
    (begun / ".working" / "private-path").unlink()
    assert "--private" in fault(begun)


def test_consent_that_was_taken_back_is_missed(begun: Path, joined: list[tuple[Any, ...]], tmp_path: Path) -> None:
    private = tmp_path / "files" / "bank.toml"
    private.write_text(private.read_text().replace("found = true", "found = false"))
    assert "bank: consent.found" in fault(begun)
    assert joined == []


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    assert "plan.toml" in fault(tmp_path)


def test_a_run_of_all_parties_goes_on_from_its_folder(
    begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_folder.create(tmp_path / "all")
    write_toml(folder / run_folder.PLAN, load_plan(begun / run_folder.PLAN))
    assert "--private" in fault(folder, "--private", tmp_path / "files" / "bank.toml")
    assert "shop" in fault(folder)
    monkeypatch.setattr(jobs, "spawn_again", lambda folder, watch: {"shop": {"listed": 5}})
    assert json.loads(resume(folder, "--json").stdout) == {"shop": {"listed": 5}}


def test_a_party_that_has_finished_takes_part_again_only_if_told_so(begun: Path, joined: list[tuple[Any, ...]]) -> None:
    (begun / run_folder.STATUS).write_text(json.dumps({"party": "bank", "state": "finished"}))
    assert "--again" in fault(begun)
    assert not joined
    assert resume(begun, "--again").exit_code == 0
    assert len(joined) == 1


def test_a_folder_has_one_process_at_a_time(begun: Path) -> None:
    with run_folder.taken(begun):
        assert f"{begun}: a process" in fault(begun)
    with run_folder.taken(begun):
        pass

"""A run's folder: its status from beginning to end, no run over another, and what `purge` takes."""

from __future__ import annotations

import errno
import json
import signal
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from unpooled.errors import InputError, Interrupted, LedgerError, PeerLost, PlanMismatch
from unpooled.jobs.files import load_plan
from unpooled.jobs.plan import Plan
from unpooled.ledger import Ledger
from unpooled.run import folder as run_folder

PLAN = Plan.model_validate({"kind": "check", "parties": {"bank": {"role": "active"}, "telco": {"role": "passive"}}})


def status(folder: Path) -> dict[str, Any]:
    return run_folder.read_json(folder / run_folder.STATUS)


def test_a_run_is_running_then_finished(tmp_path: Path) -> None:
    with run_folder.status_kept(tmp_path, "bank", PLAN):
        running = status(tmp_path)
        assert running.keys() == {"party", "role", "kind", "started", "state"}
        assert (running["party"], running["role"], running["kind"]) == ("bank", "active", "check")
        assert running["state"] == "running"
        assert load_plan(tmp_path / run_folder.PLAN) == PLAN
    finished = status(tmp_path)
    assert finished["state"] == "finished"
    assert finished["ended"] >= finished["started"] == running["started"]


@pytest.mark.parametrize(
    ("error", "origin", "text"),
    [
        (InputError("bank: people.csv: there are no rows"), "bank", "bank: people.csv: there are no rows"),
        (PeerLost("telco: the connection broke", "telco"), "telco", "telco: the connection broke"),
        (ZeroDivisionError("division by zero"), "bank", "internal error"),
        (PlanMismatch("the plans differ in: seed"), "bank", "the plans differ in: seed"),
        (KeyboardInterrupt(), "bank", "interrupted"),
        (Interrupted(signal.SIGTERM), "bank", "interrupted (SIGTERM)"),
        (PermissionError(13, "Permission denied", "runs"), "bank", "runs: Permission denied"),
    ],
)
def test_a_failed_run_says_why_and_where_it_began(error: BaseException, origin: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(type(error)), run_folder.status_kept(tmp_path, "bank", PLAN):
        raise error
    failed = status(tmp_path)
    assert failed["state"] == "failed"
    assert (failed["origin"], failed["error"]) == (origin, text)
    assert failed["resumable"] is not isinstance(error, PlanMismatch)
    command = f": unpooled resume {tmp_path}"
    assert run_folder.how_to_resume(tmp_path).endswith(command) is failed["resumable"]


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("room", [True, False], ids=["the status can be written over", "not even that"])
def test_on_a_full_disk_the_first_error_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: bool) -> None:
    """There is no room for a second file, but the status that is there has its room already."""
    named = InputError(f"bank: people.csv: {'there are no rows ' * 20}")

    def fail() -> None:
        with run_folder.status_kept(tmp_path, "bank", PLAN):
            monkeypatch.setattr(tempfile, "mkstemp", full)
            if not room:
                monkeypatch.setattr(Path, "open", full)
            raise named

    with pytest.raises(InputError) as caught:
        fail()
    assert caught.value is named
    monkeypatch.undo()
    assert status(tmp_path)["state"] == ("failed" if room else "running")
    assert status(tmp_path).get("error") == (str(named) if room else None)


@pytest.mark.parametrize("name", ["status.json", "plan.toml", "result.json"])
def test_a_file_that_has_no_room_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = tempfile.mkstemp

    def full_for_one(dir: Path, prefix: str, suffix: str) -> tuple[int, str]:
        if prefix == f".{name}.":
            full()
        return make(dir=dir, prefix=prefix, suffix=suffix)

    monkeypatch.setattr(tempfile, "mkstemp", full_for_one)
    with (
        pytest.raises(InputError, match=rf"{name}: .*No space left on device"),
        run_folder.status_kept(tmp_path, "bank", PLAN),
    ):
        run_folder.write_result(tmp_path, {})


def test_a_ledger_that_cannot_be_closed_hides_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path / run_folder.LEDGER, "bank", "abc")

    def no_more(_: str) -> None:
        raise LedgerError("cannot be written")

    monkeypatch.setattr(ledger, "_append", no_more)
    with pytest.raises(InputError, match="first"), ledger:
        raise InputError("first")
    assert ledger._file.closed


# whose the files are


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_an_empty_folder_is_closed_to_others_and_one_that_is_in_use_is_refused(tmp_path: Path) -> None:
    for name in ("empty", "used", "closed"):
        (tmp_path / name).mkdir(0o755)
    for name in ("used", "closed"):
        (tmp_path / name / "somebody's").write_text("")
    (tmp_path / "closed").chmod(0o700)
    for name in ("empty", "closed", "new"):
        assert rights(run_folder.create(tmp_path / name)) == 0o700
    with pytest.raises(InputError, match=r"chmod 700 .*used"):
        run_folder.create(tmp_path / "used")
    assert rights(tmp_path / "used") == 0o755


def test_a_run_that_goes_on_is_closed_to_others_first(tmp_path: Path) -> None:
    home = tmp_path / "bank"
    (home / ".working").mkdir(parents=True)
    for folder in (home, home / ".working"):
        folder.chmod(0o755)
    Ledger(home / run_folder.LEDGER, "bank", "abc").close()
    (home / run_folder.LEDGER).chmod(0o644)
    with run_folder.taken(home), Ledger(home / run_folder.LEDGER, "bank", "abc", resume=True):
        pass
    assert rights(home) == rights(home / ".working") == 0o700
    assert rights(home / run_folder.LEDGER) == rights(home / ".working" / "lock") == 0o600


def test_files_are_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    with run_folder.status_kept(tmp_path, "bank", PLAN):
        run_folder.write_result(tmp_path, {"rows": 3, "town": "Zürich"})
    assert {path.name for path in tmp_path.iterdir()} == {"plan.toml", "status.json", "result.json"}
    assert json.loads((tmp_path / "result.json").read_text(encoding="utf-8")) == {"rows": 3, "town": "Zürich"}


def test_what_is_not_there_or_no_json_reads_as_empty(tmp_path: Path) -> None:
    assert run_folder.read_json(tmp_path / "absent.json") == {}
    (tmp_path / "half.json").write_text('{"state": "run')
    assert run_folder.read_json(tmp_path / "half.json") == {}


@pytest.mark.parametrize("name", ["plan.toml", "ledger.jsonl"])
def test_a_folder_that_holds_a_run_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("")
    with pytest.raises(InputError, match=str(tmp_path)):
        run_folder.create(tmp_path)


def test_a_folder_is_made_or_the_reason_told(tmp_path: Path) -> None:
    assert run_folder.create(tmp_path / "runs" / "first").is_dir()
    assert run_folder.create(tmp_path / "runs" / "first").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file: .*File exists"):
        run_folder.create(tmp_path / "file")
    with pytest.raises(InputError, match="file/run: "):
        run_folder.create(tmp_path / "file" / "run")


def test_a_new_folders_name_says_what_and_when() -> None:
    kind, day, moment = run_folder.new_folder("check").name.split("-")
    assert (kind, len(day), len(moment)) == ("check", 8, 6)
    assert run_folder.new_folder("check").parent == Path("runs")


def run_with_everything(root: Path) -> set[str]:
    """Make a folder as a run of two parties leaves it; what must stay."""
    keep = {"plan.toml", "report.html", "tables/bank.csv"}
    for party in ("bank", "telco"):
        names = ("plan.toml", "ledger.jsonl", "log.txt", "status.json", "result.json")
        keep |= {f"{party}/{name}" for name in names}
    keep |= {"bank/preparation.json", "private.toml", "certificates/key.pem"}
    work = {".working/certificates/bank/key.pem", "bank/.working/private.toml", "telco/.working/private.toml"}
    for name in keep | work:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text('{"state": "finished"}' if name.endswith("status.json") else "{}")
    return keep


def files_in(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def test_purge_takes_working_files_only_and_says_which(tmp_path: Path) -> None:
    keep = run_with_everything(tmp_path)
    removed = run_folder.purge(tmp_path)
    assert {path.relative_to(tmp_path).as_posix() for path in removed} == {
        ".working",
        "bank/.working",
        "telco/.working",
    }
    assert files_in(tmp_path) == keep
    assert run_folder.purge(tmp_path) == []


def test_purge_and_going_on_take_what_a_killed_process_had_not_finished(tmp_path: Path) -> None:
    keep = run_with_everything(tmp_path / "purged")
    unfinished = tmp_path / "purged" / "bank" / ".reliable.csv.x7.unfinished"
    unfinished.write_text("id")
    run_folder.purge(tmp_path / "purged")
    assert files_in(tmp_path / "purged") == keep
    unfinished.write_text("id")
    (unfinished.parent / run_folder.LEDGER).unlink()
    with run_folder.taken(unfinished.parent):
        assert not unfinished.exists()


def test_purge_of_one_partys_folder_leaves_the_others(tmp_path: Path) -> None:
    run_with_everything(tmp_path)
    run_folder.purge(tmp_path / "bank")
    assert not (tmp_path / "bank" / ".working").exists()
    assert (tmp_path / "telco" / ".working").exists()
    assert (tmp_path / ".working").exists()


@pytest.mark.parametrize("state", ["running", "failed", None])
@pytest.mark.parametrize("within", ["", "telco"], ids=["a run", "a party"])
def test_purge_leaves_what_an_unfinished_run_goes_on_from(tmp_path: Path, state: str | None, within: str) -> None:
    keep = run_with_everything(tmp_path)
    told = tmp_path / "telco" / run_folder.STATUS
    told.write_text(json.dumps({"state": state}))
    if state is None and not within:
        told.unlink()  # it was killed before it wrote one
        keep.remove("telco/status.json")
    before = files_in(tmp_path)
    with pytest.raises(InputError, match=r"telco.*--force"):
        run_folder.purge(tmp_path / within)
    assert files_in(tmp_path) == before
    run_folder.purge(tmp_path / within, force=True)
    assert not (tmp_path / "telco" / ".working").exists()
    if not within:
        assert files_in(tmp_path) == keep


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")
@pytest.mark.parametrize("force", [False, True])
def test_purge_refuses_a_run_of_which_a_process_is_still_there(tmp_path: Path, force: bool) -> None:
    run_with_everything(tmp_path)
    (tmp_path / "telco" / run_folder.LEDGER).unlink()
    with run_folder.taken(tmp_path / "telco"):
        before = files_in(tmp_path)
        for folder in (tmp_path, tmp_path / "telco"):
            with pytest.raises(InputError, match=f"{tmp_path / 'telco'}.*running"):
                run_folder.purge(folder, force=force)
        assert files_in(tmp_path) == before
        run_folder.purge(tmp_path / "bank")
    run_folder.purge(tmp_path)
    assert not list(tmp_path.rglob(".working"))


def test_purge_touches_nothing_that_is_not_a_run(tmp_path: Path) -> None:
    for name in ("plan.toml", "private.toml", "certificates/key.pem"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    with pytest.raises(InputError, match=r"plan.toml"):
        run_folder.purge(tmp_path)
    with pytest.raises(InputError, match="absent"):
        run_folder.purge(tmp_path / "absent")
    assert files_in(tmp_path) == {"plan.toml", "private.toml", "certificates/key.pem"}


def test_purge_of_a_folder_of_runs_is_refused(tmp_path: Path) -> None:
    run_with_everything(tmp_path / "first")
    with pytest.raises(InputError, match=r"plan.toml"):
        run_folder.purge(tmp_path)
    assert (tmp_path / "first" / "certificates").exists()


@pytest.mark.parametrize("content", ["", "rubbish 12345", "-7", "\x00\x00", "1" * 5000])
def test_a_damaged_seed_is_named_and_not_shown(tmp_path: Path, content: str) -> None:
    assert run_folder.kept_seed(tmp_path, 11, resume=False) == 11
    assert run_folder.kept_seed(tmp_path, 12, resume=True) == 11
    (tmp_path / ".working" / "seed").write_text(content)
    with pytest.raises(InputError, match="seed: ") as raised:
        run_folder.kept_seed(tmp_path, 12, resume=True)
    assert content[:3] not in str(raised.value).replace(str(tmp_path), "") or not content
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_a_seed_that_cannot_be_kept_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"seed: .*No such file"):
        run_folder.kept_seed(tmp_path / "gone", 11, resume=False)


def test_whoever_takes_a_folder_mends_its_ledger(tmp_path: Path) -> None:
    path = tmp_path / run_folder.LEDGER
    ledger = Ledger(path, "bank", "abc")
    ledger.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"at": 17')
    with run_folder.taken(tmp_path):
        assert path.read_bytes() == whole
        path.write_bytes(whole + b'{"at": 17')
        with pytest.raises(InputError, match="running"), run_folder.taken(tmp_path):
            pass
        assert path.read_bytes() != whole, "it is another process's"

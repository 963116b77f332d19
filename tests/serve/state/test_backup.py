"""Backup while a service runs, restore into an empty folder, and what the restored service has forgotten on purpose."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest
from browsing import CHEAP, PASSWORD

from unpooled.errors import InputError
from unpooled.ledger import Ledger
from unpooled.serve import authority
from unpooled.serve.accounts import people, sessions, tokens
from unpooled.serve.context import Context
from unpooled.serve.example import example_choices, make_services, offer_example
from unpooled.serve.folder import StateFolder
from unpooled.serve.jobs import acts
from unpooled.serve.jobs.records import job_named
from unpooled.serve.settings import ServiceSettings, load_settings, save_settings
from unpooled.serve.state import audit_log
from unpooled.serve.state.backup import make_backup, restore
from unpooled.serve.state.database import Database, open_database
from unpooled.serve.state.verifying import verified
from unpooled.transport.trust import load_identity


@pytest.fixture
def context(folder: StateFolder, database: Database) -> Context:
    context = Context(ServiceSettings(party="bank"), folder, database)
    save_settings(folder, context.settings)
    people.add(database, CHEAP, "service", "ada", "administrator", PASSWORD)
    authority.make_authority(context, "ada", "authority")
    authority.certify_itself(context, "ada")
    with Ledger(folder.ledger, "bank", "service"):
        pass
    (folder.runs / "one").mkdir()
    (folder.runs / "one" / "list.csv").write_text("id\n1\n")
    os.link(folder.runs / "one" / "list.csv", folder.runs / "one" / "again.csv")
    return context


def test_what_is_backed_up_comes_back_for_the_owner_only(context: Context, tmp_path: Path) -> None:
    person = people.find(context.database, "ada")
    assert person
    sessions.begin(context.database, person)
    tokens.make(context.database, "ada", "nightly", "viewer", 9)
    archive, back = tmp_path / "backup.tar.gz", StateFolder(tmp_path / "back")
    size = make_backup(context.folder, archive)
    assert archive.stat().st_size == size
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    assert not list(context.folder.root.glob(".*"))
    back.root.mkdir()
    assert restore(archive, back) == "bank"
    assert load_settings(back) == context.settings
    assert load_identity(back.certificates, "bank")
    assert authority.has_authority(Context(context.settings, back, context.database))
    assert (back.runs / "one" / "list.csv").read_text() == (back.runs / "one" / "again.csv").read_text() == "id\n1\n"
    for path in back.root.rglob("*"):
        if not path.is_symlink():
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    database = open_database(back.database)
    assert people.check_password(database, CHEAP, "ada", PASSWORD)
    assert not database.rows("SELECT 1 FROM sessions UNION ALL SELECT 1 FROM tokens")
    assert audit_log.acts(database)[0].what == "was restored from a backup"
    assert [one.problem for one in verified(back)] == ["", ""]
    with pytest.raises(InputError, match="not empty"):
        restore(archive, back)


def packed(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def link(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([(tarfile.TarInfo("../evil"), b"x")], "does not belong"),
        ([(tarfile.TarInfo("/etc/evil"), b"x")], "does not belong"),
        ([(tarfile.TarInfo("runs/../../evil"), b"x")], "does not belong"),
        ([(tarfile.TarInfo("other"), b"x")], "does not belong"),
        ([(link("runs/a", "/etc"), b"")], "neither a file nor a folder"),
        ([(link("certificates/in-use", "../../evil"), b"")], "neither a file nor a folder"),
        ([(link("runs/a", "state.sqlite", tarfile.LNKTYPE), b"")], "neither a file nor a folder"),
        ([(link("runs/a", "", tarfile.FIFOTYPE), b"")], "neither a file nor a folder"),
        ([(link("certificates/in-use", ".."), b""), (tarfile.TarInfo("certificates/in-use/x"), b"x")], "neither|link"),
        ([(tarfile.TarInfo("service.toml"), b"")], "not a whole backup"),
    ],
)
def test_an_archive_that_is_no_backup_leaves_nothing(
    tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]], why: str
) -> None:
    archive = packed(tmp_path / "bad.tar.gz", *members)
    with pytest.raises(InputError, match=why):
        restore(archive, StateFolder(tmp_path / "back"))
    assert [path.name for path in tmp_path.iterdir()] == ["bad.tar.gz"]


def test_a_backup_that_is_cut_off_is_refused(context: Context, tmp_path: Path) -> None:
    archive = tmp_path / "backup.tar.gz"
    make_backup(context.folder, archive)
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    with pytest.raises(InputError, match="backup"):
        restore(archive, StateFolder(tmp_path / "back"))
    with pytest.raises(InputError, match="outside"):
        make_backup(context.folder, context.folder.root / "backup.tar.gz")
    with pytest.raises(InputError, match="holds no service"):
        make_backup(StateFolder(tmp_path / "nothing"), archive)


def test_open_jobs_are_cancelled_by_a_restore_and_the_others_are_told(tmp_path: Path) -> None:
    services = make_services(tmp_path / "services", rows=1_000)
    job = offer_example(services)
    bank = services["bank"]
    context = Context(load_settings(bank.folder), bank.folder, open_database(bank.folder.database))
    acts.approve(context, bank.name, job, example_choices("bank"))
    make_backup(bank.folder, tmp_path / "backup.tar.gz")
    before = {row["peer"]: row["epoch"] for row in context.database.rows("SELECT * FROM exchanged")}
    back = StateFolder(tmp_path / "back")
    restore(tmp_path / "backup.tar.gz", back)
    database = open_database(back.database)
    with database.reading() as connection:
        found = job_named(connection, job)
    assert found.ended == "cancelled"
    assert "restored" in found.reason
    rows = database.rows("SELECT * FROM exchanged")
    assert {row["peer"] for row in rows} == {"shop", "telco", "coordinator"} == set(before)
    assert all(row["sent"] == 1 and row["epoch"] != before[row["peer"]] for row in rows)

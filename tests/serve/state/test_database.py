"""The state of a service: upgrades, transactions, a full disk, the audit log."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from parties_in_memory import CHOICES, four_parties, offered

from unpooled.errors import InputError, LedgerError
from unpooled.serve.context import Context
from unpooled.serve.jobs import acts
from unpooled.serve.jobs.life import state_of
from unpooled.serve.state import audit_log
from unpooled.serve.state import database as module
from unpooled.serve.state.database import Database, back_up, open_database


def test_an_earlier_schema_is_upgraded_and_a_later_one_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.sqlite"
    database = open_database(path)
    with database.transaction() as connection:
        audit_log.note(connection, "ann", "did something")
    database.close()
    monkeypatch.setattr(module, "UPGRADES", (*module.UPGRADES, "ALTER TABLE jobs ADD COLUMN colour TEXT;"))
    later = open_database(path)
    assert later.rows("SELECT colour FROM jobs") == []
    assert audit_log.verify(later) == 1
    later.close()
    monkeypatch.undo()
    with pytest.raises(InputError, match="its schema has version 2, this software knows 1: upgrade unpooled"):
        open_database(path)


def test_the_audit_log_is_only_added_to(tmp_path: Path) -> None:
    database = open_database(tmp_path / "state.sqlite")
    for number in range(3):
        with database.transaction() as connection:
            audit_log.note(connection, "ann", "did something", f"number {number}", job="ab")
    for change in ("UPDATE audit_log SET line = ''", "DELETE FROM audit_log"):
        with pytest.raises(sqlite3.IntegrityError, match="audit log"), database.transaction() as connection:
            connection.execute(change)
    assert [act.about for act in audit_log.acts(database, "ab")] == ["number 2", "number 1", "number 0"]
    assert audit_log.acts(database, "other") == []
    with database.transaction() as connection:
        connection.execute("DROP TRIGGER audit_log_unchanged")
        connection.execute("UPDATE audit_log SET line = replace(line, 'ann', 'bob') WHERE number = 2")
    with pytest.raises(LedgerError, match="line 2: the chain is broken"):
        audit_log.verify(database)
    database.close()


def test_an_act_on_a_full_disk_changes_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    world = four_parties(tmp_path)
    job = offered(world)
    telco = world.contexts["telco"]
    full(telco.database)
    reason = "no contract " * 40
    with pytest.raises(InputError, match=r"state\.sqlite: cannot be written: database or disk is full"):
        _approve_often(telco, job)
    world.keepers["telco"].look()  # it goes on, and tries again later
    entries = audit_log.verify(telco.database)
    with pytest.raises(InputError, match="disk is full"):
        acts.decline(telco, "tom", job, reason)
    assert state_of(world.job("telco", job)) == "offered"
    assert audit_log.verify(telco.database) == entries
    telco.database.close()  # there is room again
    acts.decline(telco, "tom", job, reason)
    assert state_of(world.job("telco", job)) == "declined"
    world.close()


def _approve_often(context: Context, job: str) -> None:
    """Until no room is left, which pages of the file may still have."""
    for _ in range(100):
        acts.approve(context, "tom", job, CHOICES["telco"])


def full(database: Database) -> None:
    """No page more than the file has now; another connection knows nothing of this."""
    row = database.row("PRAGMA page_count")
    assert row
    database.rows(f"PRAGMA max_page_count = {row[0]}")


def test_a_backup_is_whole_while_others_write(tmp_path: Path) -> None:
    database = open_database(tmp_path / "state.sqlite")
    with database.transaction() as connection:
        audit_log.note(connection, "ann", "did something")
        audit_log.note(connection, "ann", "did more")
    back_up(database.path, tmp_path / "copy.sqlite")
    copy = open_database(tmp_path / "copy.sqlite")
    assert audit_log.verify(copy) == 2
    for each in (copy, database):
        each.close()

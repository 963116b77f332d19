"""The ledger of a service, which goes on after a full disk, and is put aside when it is long."""

from __future__ import annotations

from pathlib import Path

import pytest

from unpooled.errors import LedgerError
from unpooled.ledger import read_ledger
from unpooled.serve.peering import record
from unpooled.serve.peering.record import ServiceLedger
from unpooled.wire import Disclosure

NOTHING = Disclosure("nothing: a test", "")


def note(ledger: ServiceLedger, scope: str) -> None:
    ledger.record("sent", "bank", "JobRun", scope, 10, NOTHING)


def test_it_goes_on_after_a_line_that_could_not_be_written(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with ServiceLedger(path, "telco") as ledger:
        note(ledger, "letter 1")
        assert ledger._ledger
        ledger._ledger._file.close()
        with path.open("ab") as file:
            file.write(b'{"at": 17, "way"')  # all that a full disk had room for
        with pytest.raises(LedgerError, match="cannot be written"):
            note(ledger, "letter 2")
        note(ledger, "letter 2")
    assert [entry.scope for entry in read_ledger(path).entries] == ["letter 1", "letter 2"]


def test_a_long_one_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.jsonl"
    with ServiceLedger(path, "telco") as ledger:
        note(ledger, "letter 1")
    monkeypatch.setattr(record, "_LONG", 10)
    with ServiceLedger(path, "telco") as ledger:
        note(ledger, "letter 2")
    (earlier,) = tmp_path.glob("ledger-until-*.jsonl")
    assert [entry.scope for entry in read_ledger(earlier).entries] == ["letter 1"]
    assert [entry.scope for entry in read_ledger(path).entries] == ["letter 2"]

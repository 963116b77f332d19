from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unpooled.errors import InputError
from unpooled.jobs.check.section import CheckResult
from unpooled.jobs.run_files import RESULT, result_of
from unpooled.ledger import read_ledger, reconcile
from unpooled.report.gather import Trouble, gather
from unpooled.run.folder import LEDGER, PLAN, STATUS

WriteRun = Callable[..., Path]
STARTED = {"started": "2026-03-01T09:00:00+00:00"}
RUNNING = {"state": "running"} | STARTED


def failed(origin: str, error: str, ended: str = "10:00:00") -> dict[str, str]:
    return STARTED | {"state": "failed", "ended": f"2026-03-01T{ended}+00:00", "origin": origin, "error": error}


def test_a_real_run(real_run: Path) -> None:
    story = gather(real_run)
    assert (story.state, story.owner, story.troubles) == ("finished", None, ())
    assert list(story.parties) == ["shop", "telco", "bank", "coordinator"]
    assert all(party.ledger and party.ledger.closed for party in story.parties.values())
    assert {party.ledger.plan for party in story.parties.values() if party.ledger} == {story.plan_digest}
    assert len(story.pairs) == 6
    assert not any(pair.differences for pair in story.pairs)
    for (sender, receiver), size in story.flows.items():
        entries = read_ledger(real_run / sender / LEDGER).entries
        assert size == sum(entry.bytes for entry in entries if entry.way == "sent" and entry.peer == receiver) > 0
    assert len(story.flows) == 12


def test_one_party_of_a_real_run_knows_its_own_connections(real_run: Path) -> None:
    story, whole = gather(real_run / "bank"), gather(real_run)
    assert (story.owner, list(story.parties), story.pairs) == ("bank", ["bank"], ())
    assert story.flows == {way: size for way, size in whole.flows.items() if "bank" in way}


def test_messages_that_disclose_come_first(write_run: WriteRun) -> None:
    lab = gather(write_run()).parties["lab"]
    assert [(message.kind, bool(message.disclosure.to)) for message in lab.messages("sent")] == [
        ("RowCount", True),
        ("Probe", False),
    ]
    assert [message.kind for message in lab.messages("received")] == ["Echo"]


@pytest.mark.parametrize(
    ("lab", "clinic", "state", "first"),
    [
        (failed("lab", "disk full"), failed("lab", "lab failed", "09:30:00"), "failed", "lab"),
        (failed("clinic", "clinic failed"), failed("clinic", "bad plan"), "failed", "clinic"),
        (failed("lab", "stopped", "10:00:09"), failed("clinic", "bad plan"), "failed", "clinic"),
        (failed("clinic", "clinic is lost"), RUNNING, "failed", "clinic"),
        (failed("clinic", "clinic is lost"), {"state": "nonsense"}, "failed", "clinic"),
        (RUNNING, RUNNING, "unfinished", "lab"),
    ],
)
def test_the_original_error_comes_first(write_run: WriteRun, lab: Any, clinic: Any, state: str, first: str) -> None:
    story = gather(write_run({"lab": lab, "clinic": clinic}))
    assert story.state == state
    assert [trouble.party for trouble in story.troubles] == [first, "clinic" if first == "lab" else "lab"]


def test_a_party_that_finished_is_no_trouble(write_run: WriteRun) -> None:
    story = gather(write_run({"lab": failed("lab", "lab: disk full")}))
    assert story.troubles == (Trouble("lab", "disk full"),)


def test_when_it_began_and_ended(write_run: WriteRun) -> None:
    run = write_run({"lab": failed("lab", "disk full", "11:00:00")})
    story = gather(run)
    assert f"{story.started:%H:%M:%S}" == "09:00:00"
    assert f"{story.ended:%H:%M:%S}" == "11:00:00"
    (run / "lab" / STATUS).unlink()
    assert f"{gather(run).ended:%H:%M:%S}" == "10:02:03"


def test_nobody_knows_the_end_while_a_party_runs(write_run: WriteRun) -> None:
    assert gather(write_run({"lab": RUNNING})).ended is None


def test_a_broken_ledger_is_told_and_its_peer_speaks_for_it(write_run: WriteRun) -> None:
    run = write_run()
    ledger = run / "lab" / LEDGER
    ledger.write_text(ledger.read_text().replace("1000072", "1000073"))
    story = gather(run)
    assert story.parties["lab"].ledger is None
    assert story.parties["lab"].ledger_fault.startswith("line 3: the chain is broken")
    assert story.flows == {("lab", "clinic"): 1_000_113, ("clinic", "lab"): 43}
    assert story.pairs == ()


def test_a_missing_ledger_is_told(write_run: WriteRun) -> None:
    run = write_run()
    for party in ("lab", "clinic"):
        (run / party / LEDGER).unlink()
    story = gather(run)
    assert "missing" in story.parties["lab"].ledger_fault
    assert story.flows == {}


def test_somebody_elses_ledger_is_told(write_run: WriteRun) -> None:
    run = write_run()
    (run / "lab" / LEDGER).write_bytes((run / "clinic" / LEDGER).read_bytes())
    assert gather(run).parties["lab"].ledger_fault == "it is the ledger of clinic"


def test_an_unclosed_ledger_is_told(write_run: WriteRun) -> None:
    story = gather(write_run(closed=False))
    assert [party.ledger.closed for party in story.parties.values() if party.ledger] == [False, False]


def test_ledgers_that_differ_are_told(write_run: WriteRun) -> None:
    run = write_run(closed=False)
    ledger = run / "clinic" / LEDGER
    ledger.write_text("".join(ledger.read_text().splitlines(keepends=True)[:3]))
    records = [read_ledger(run / party / LEDGER) for party in ("lab", "clinic")]
    assert gather(run).pairs[0].differences == tuple(reconcile(*records))
    assert len(reconcile(*records)) == 1


def test_settings_are_told_with_their_defaults(write_run: WriteRun) -> None:
    settings = {setting.name: setting for setting in gather(write_run()).settings}
    values = {name: setting.value for name, setting in settings.items()}
    assert (values["kind"], values["insecure"], values["timeout"], values["round_trips"]) == (
        "check",
        "no",
        "600",
        "20",
    )
    assert all(setting.meaning for setting in settings.values())


def test_a_result_that_cannot_be_read_is_refused_and_none_is_none(write_run: WriteRun) -> None:
    run = write_run(results={"lab": {"table": {"rows": "many"}}})
    for content in ((run / "lab" / RESULT).read_text(), "{"):
        (run / "lab" / RESULT).write_text(content)
        with pytest.raises(InputError, match=re.escape(str(run / "lab" / RESULT))):
            result_of(gather(run).parties["lab"], CheckResult)
    assert result_of(gather(run).parties["clinic"], CheckResult) is None


@pytest.mark.parametrize("content", ['{"party": "stranger", "state": "running", "started": "2026-03-01T09:00Z"}', "["])
def test_a_folder_of_nobody_is_refused(write_run: WriteRun, content: str) -> None:
    home = write_run() / "lab"
    (home / STATUS).write_text(content)
    with pytest.raises(InputError, match=STATUS):
        gather(home)


def test_a_folder_that_holds_no_run_is_refused(write_run: WriteRun, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=PLAN):
        gather(tmp_path)
    (tmp_path / PLAN).write_bytes((write_run() / PLAN).read_bytes())
    with pytest.raises(InputError, match=str(tmp_path)):
        gather(tmp_path)

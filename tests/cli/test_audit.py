"""`unpooled ledger --audit`, run as a user would."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest
import typer
from typer.testing import CliRunner, Result

from unpooled.cli.jobs import purge_command
from unpooled.cli.ledger import ledger_command
from unpooled.data.table import table_from_frame
from unpooled.errors import InputError
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.run.simulate import simulate_job

app = typer.Typer()
app.command("ledger")(ledger_command)
app.command("purge")(purge_command)

ROLES = {"telco": "passive", "bank": "active", "coordinator": "coordinator"}
PLAN = {
    "kind": "train",
    "parties": {name: {"role": role} for name, role in ROLES.items()},
    "parameters": {"model": {"trees": 2, "depth": 2}},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "ours"
    numbers = list(range(200))
    columns = pl.DataFrame({"id": numbers, "a": [n * 7 % 31 for n in numbers], "b": [n * 5 % 23 for n in numbers]})
    bank = columns.with_columns(buys=pl.Series(["yes" if n * 7 % 31 > 15 else "no" for n in numbers]))
    tables = {"telco": table_from_frame(columns, "id", "telco"), "bank": table_from_frame(bank, "id", "bank")}
    simulate_job(Plan.model_validate(PLAN), {"bank": Private(target="buys")}, tables, folder)
    return folder


def call(*words: object, command: str = "ledger") -> Result:
    arguments = [command, *(str(word) for word in words)]
    return CliRunner().invoke(app, arguments, catch_exceptions=False, env={"COLUMNS": "150"})


def test_where_all_parties_are_at_hand_it_is_one_command(run: Path) -> None:
    result = call(run, "--audit")
    assert result.exit_code == 0
    assert "bank: fit 0, weights: 1 " in result.output
    verdicts = json.loads(call(run, "--audit", "--sample", 2, "--json").output)
    assert [(v["checker"], v["opener"], v["opened"], v["wrong"]) for v in verdicts] == [
        ("bank", "telco", 2, {}),
        ("telco", "bank", 2, {}),
    ]


def test_otherwise_one_asks_one_opens_and_one_checks(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = call(run / "telco", "--audit", "--of", "bank", "--sample", 1)
    request = run / "telco" / "audit-request-bank.json"
    assert f"{request} to bank" in asked.output.replace("\n", "")
    with pytest.raises(InputError, match="--yes"):
        call(run / "bank", "--audit", "--open", request)
    opened = call(run / "bank", "--audit", "--open", request, "--yes")
    assert re.search("telco.*labels and weights of 200 rows", opened.output)
    answer = run / "bank" / "audit-answer-telco.npz"
    assert (answer.stat().st_mode & 0o777, request.stat().st_mode & 0o777) == (0o600, 0o600)
    assert call(run / "telco", "--audit", "--answer", answer).exit_code == 0
    evidence = run / "telco" / "audit.jsonl"
    kept = evidence.read_text()
    evidence.write_text(kept.replace('"sha256": "', '"sha256": "00'))
    deviating = call(run / "telco", "--audit", "--answer", answer)
    evidence.write_text(kept)
    assert deviating.exit_code == 1
    assert re.search("bank: 1 product.*gradients", deviating.output)


def test_what_cannot_be_is_refused(run: Path, tmp_path: Path) -> None:
    for words, reason in (
        ((run, run, "--audit"), "one folder"),
        ((run, "--audit", "--of", "bank"), str(run)),
        ((run / "telco", "--audit"), "--of"),
        ((run / "telco", "--audit", "--of", "shop"), "shop"),
        ((run / "coordinator", "--audit", "--of", "bank"), r"audit\.jsonl: "),
        ((tmp_path, "--audit"), "audit"),
    ):
        with pytest.raises(InputError, match=reason):
            call(*words)


def test_purge_says_that_nothing_can_be_opened_any_more(run: Path) -> None:
    assert "audit" in call(run, command="purge").output.replace(str(run), "")
    assert "audit" not in call(run, command="purge").output.replace(str(run), "")
    with pytest.raises(InputError, match=r"openings\.jsonl"):
        call(run, "--audit")

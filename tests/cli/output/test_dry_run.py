"""What a dry run shows of every kind of job: on one screen of 80 columns, with names that are whole and can be used."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from unpooled.cli import app
from unpooled.cli.output.dry_run import _MOST_WARNINGS, _messages, _parties
from unpooled.cli.output.messages import of_outline, wrapped
from unpooled.data import example
from unpooled.data.sources import TableSettings, load
from unpooled.data.table import Table
from unpooled.jobs import work
from unpooled.jobs.checks import checked
from unpooled.jobs.examples.example_job import example_job, write_job_files
from unpooled.jobs.kinds import KINDS, outline_of
from unpooled.jobs.plan import Plan
from unpooled.jobs.preflight import preflight
from unpooled.jobs.private import Private
from unpooled.wire import is_declared

SCREEN_LINES, SCREEN_COLUMNS = 52, 80


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_messages_fit_a_screen_and_are_told_by_names_that_policies_take(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(SCREEN_COLUMNS))
    plan = example_job(kind, Path("runs") if kind in ("predict", "deliver") else None).plan
    exchanges = outline_of(plan)
    block = _messages(plan, exchanges)
    shown, more = wrapped(block.lines).splitlines(), wrapped(block.more).splitlines()
    assert len(shown) <= SCREEN_LINES
    assert max(map(len, [*shown, *more])) <= SCREEN_COLUMNS
    names = {line for line in more if not line.startswith(" ")}
    assert names == {exchange.kind for exchange in exchanges}
    assert all(map(is_declared, names))
    told, said = {message.told for message in of_outline(exchanges)} - {""}, " ".join(" ".join(shown).split())
    assert [sentence for sentence in told if sentence not in said] == []


def test_a_target_is_not_shown_as_a_feature(tmp_path: Path) -> None:
    example.write(tmp_path, rows=1000)
    write_job_files(tmp_path, "train")
    words = ["run", str(tmp_path / "job.toml"), "--dry-run", "--all"]
    said = CliRunner(env={"COLUMNS": "80"}).invoke(app, words).stdout
    assert "9 columns, target card_payments" in " ".join(said.split())
    assert said.count("card_payments") == 1


def test_warnings_about_tables_are_few_and_all_with_the_rest_of_the_findings(tmp_path: Path) -> None:
    rows = 40
    same = [f"same{number}" for number in range(_MOST_WARNINGS + 2)]
    lines = [",".join(["id", *same]), *(",".join([str(row), *["1"] * len(same)]) for row in [*range(rows), 0])]
    (tmp_path / "bank.csv").write_text("\n".join(lines) + "\n")
    plan = Plan.model_validate({"kind": "check", "parties": {"bank": {"role": "active"}, "telco": {"role": "passive"}}})
    private = Private.model_validate({"table": {"path": str(tmp_path / "bank.csv"), "id": "id"}})
    block = _parties(plan, [preflight(checked(plan, "bank", private))])
    assert f"{rows} rows, {len(same)} columns" in block.lines[0]
    assert [name for name in same if any(f"warning: column '{name}'" in line for line in block.lines)] == same[:-2]
    assert block.lines[-1] == "  2 more warnings"
    assert [name for name in same if any(f"warning: column '{name}'" in line for line in block.more)] == same[-2:]
    assert any("1 rows that repeat another" in line for line in block.more)


def test_a_dry_run_reads_every_table_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example.write(tmp_path, rows=1000)
    write_job_files(tmp_path, "align")
    read: list[str] = []

    def reading(settings: TableSettings, party: str, folder: Path | None = None) -> Table:
        read.append(party)
        return load(settings, party, folder)

    monkeypatch.setattr(work, "load", reading)
    said = CliRunner().invoke(app, ["run", str(tmp_path / "job.toml"), "--dry-run"], catch_exceptions=False).stdout
    assert "Forecast, with" in said
    assert sorted(read) == ["bank", "shop", "telco"]

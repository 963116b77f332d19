"""What a dry run shows of every kind of job: on one screen of 80 columns, with names that are whole and can be used."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from unpooled.cli import app
from unpooled.cli.dry_run import _messages
from unpooled.cli.messages import of_outline, wrapped
from unpooled.data import example
from unpooled.jobs.example_job import example_job, write_job_files
from unpooled.jobs.kinds import KINDS, outline_of
from unpooled.wire import is_declared

SCREEN_LINES, SCREEN_COLUMNS = 50, 80


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_messages_fit_a_screen_and_are_told_by_names_that_policies_take(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(SCREEN_COLUMNS))
    plan = example_job(kind, Path("model") if kind == "predict" else None).plan
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

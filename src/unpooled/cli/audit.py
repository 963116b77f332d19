"""`unpooled ledger --audit`: ask a party to open what it put in, open it, and check what was opened."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from itertools import permutations
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from unpooled.errors import InputError
from unpooled.run import audit
from unpooled.run.audit import Verdict
from unpooled.run.audit_files import read_request, write_answer, write_request
from unpooled.run.folder import STATUS, parties_in


def audit_run(
    run: Path,
    of: str | None,
    sample: int | None,
    request: Path | None,
    answer: Path | None,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """One step of an audit in a party's folder; all of it, at every party, in the folder of a whole run."""
    if not (run / STATUS).exists():
        if of or request or answer:
            raise InputError(f"{run}: is not a party's folder; --of, --open and --answer take the folder of one party")
        _show(
            [audit.trial(*pair, sample) for pair in permutations(parties_in(run), 2) if audit.has_sent(*pair)], as_json
        )
    elif request:
        _open(run, request, yes=yes)
    elif answer:
        _show([audit.check(run, *audit.read_both(run, answer))], as_json)
    elif of:
        path = audit.request_path(run, of)
        asked = audit.ask(run, of, sample)
        write_request(path, asked)
        typer.echo(f"{len(asked.products)} products to be opened: send {path} to {of}, which answers with")
        typer.echo(f"  unpooled ledger RUN --audit --open {path.name}")
        typer.echo("Check the answer, or have somebody check it who may see it, with")
        typer.echo(f"  unpooled ledger {run} --audit --answer FILE")
    else:
        raise InputError("--audit: name a party with --of, a request with --open, or an answer with --answer")


def _open(run: Path, request: Path, *, yes: bool) -> None:
    """Say what an answer discloses, and write it if that is agreed to."""
    asked = read_request(request)
    answered = audit.answer(run, asked)
    typer.echo(str(answered))
    if not yes:
        raise InputError("nothing was written: agree to this disclosure with --yes")
    path = audit.answer_path(run, asked)
    write_answer(path, answered)
    typer.echo(f"answered: send {path} to whoever checks it")


def _show(verdicts: list[Verdict], as_json: bool) -> None:
    """The verdicts; exit code 1 if anything deviates."""
    if not verdicts:
        raise InputError("there is nothing to audit: the parties of this run kept no evidence")
    if as_json:
        typer.echo(json.dumps([asdict(verdict) for verdict in verdicts], indent=2, ensure_ascii=False))
    else:
        console = Console(soft_wrap=True, highlight=False)
        table = Table("checked by", "put in by", "products", "opened", "agree", "deviate")
        for verdict in verdicts:
            agree, deviate = verdict.opened - len(verdict.wrong), len(verdict.wrong)
            counts = (verdict.of, verdict.opened, agree, deviate)
            table.add_row(verdict.checker, verdict.opener, *(f"{count:,}" for count in counts))
        console.print(table)
        for verdict in verdicts:
            for problem, count in Counter(verdict.wrong.values()).items():
                console.print(f"{verdict.opener}: {count} products deviate: {problem}", markup=False)
            for note in verdict.notes:
                console.print(f"{verdict.opener}: {note}", markup=False)
    if any(verdict.wrong for verdict in verdicts):
        raise typer.Exit(1)

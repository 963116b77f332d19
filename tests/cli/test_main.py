"""The command as a whole: help everywhere, and every sort of error as a line and an exit code."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from unpooled import cli
from unpooled.errors import (
    BookError,
    CertificateError,
    Deadlock,
    InputError,
    InternalError,
    JobFailed,
    LedgerError,
    PeerFailed,
    PeerLost,
    PeerSilent,
    PlanError,
    PlanMismatch,
    ProtocolError,
    RefusedError,
    ResumeError,
    ResumeRefused,
    TrackingError,
    TrainingDiverged,
    UnpooledError,
    WireError,
    WorkerLost,
)
from unpooled.version import __version__

CODES: dict[type[Exception], int] = {
    **dict.fromkeys(
        (
            InputError,
            TrainingDiverged,
            ResumeError,
            RefusedError,
            ResumeRefused,
            CertificateError,
            WireError,
            LedgerError,
            BookError,
            WorkerLost,
            TrackingError,
            InternalError,
            JobFailed,
            ProtocolError,
        ),
        1,
    ),
    **dict.fromkeys((PlanError, PlanMismatch), 2),
    **dict.fromkeys((PeerFailed, PeerLost, PeerSilent, Deadlock), 3),
}


def commands(command: Any, call: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield call, command
    for name, subcommand in getattr(command, "commands", {}).items():
        yield from commands(subcommand, (*call, name))


ALL = dict(commands(typer.main.get_command(cli.app)))


def ending(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    """The exit code of a command that fails in this way."""

    def fail() -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert isinstance(caught.value.code, int)
    return caught.value.code


def python_m_unpooled(*words: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "unpooled", *words]
    return subprocess.run(call, check=False, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("call", ALL, ids=" ".join)
def test_every_command_has_help_that_mentions_its_options(call: tuple[str, ...]) -> None:
    result = CliRunner(env={"COLUMNS": "140"}).invoke(cli.app, [*call, "--help"])
    said = re.sub(r"\x1b\[[0-9;]*m", "", result.output)
    assert result.exit_code == 0
    assert "Usage:" in said
    for parameter in ALL[call].params:
        if not getattr(parameter, "hidden", False):
            assert parameter.help, f"{call}: {parameter.name} is not explained"
            shown = parameter.opts if parameter.param_type_name == "option" else [parameter.metavar or parameter.name]
            assert all(name.lower() in said.lower() for name in shown)


def test_every_command_is_there() -> None:
    jobs = {"check", "run", "join", "resume", "job", "demo", "report", "ledger", "purge", "serve", "jobs"}
    others = {"audit", "budget", "example", "evaluate", "datasets", "certs", "experiment", "generate", "track"}
    assert {call[0] for call in ALL if call} == jobs | others


def subclasses(error: type[UnpooledError]) -> Iterator[type[UnpooledError]]:
    for child in error.__subclasses__():
        yield child
        yield from subclasses(child)


def test_every_error_has_an_exit_code() -> None:
    ours = {error for error in subclasses(UnpooledError) if error.__module__ == "unpooled.errors"}
    assert {error.__name__ for error in ours} - {error.__name__ for error in CODES} == {"PeerError"}


@pytest.mark.parametrize(("error", "code"), CODES.items())
def test_an_error_is_a_line_and_a_code(
    error: type[Exception], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = error("people.csv: row 3", "bank") if code == 3 else error("people.csv: row 3")
    assert ending(monkeypatch, made) == code
    assert capsys.readouterr() == ("", "error: people.csv: row 3\n")
    made.add_note("report: [bold].html")
    assert ending(monkeypatch, made) == code
    assert capsys.readouterr().err == "error: people.csv: row 3\nreport: [bold].html\n"


@pytest.mark.parametrize(
    "text",
    [
        "job.toml: private: each needs a [private.NAME] section",
        "column '[bold]x[/bold]': [/red] not a number :warning:",
        f"a long line {'that is not broken ' * 20}",
    ],
)
@pytest.mark.parametrize("error", [PlanError, OSError])
def test_a_text_is_printed_as_it_is(
    text: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ending(monkeypatch, error(text))
    assert capsys.readouterr().err == f"error: {text}\n"


def test_errors_of_the_system_and_interruptions_have_codes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ending(monkeypatch, PermissionError(13, "Permission denied", "runs")) == 1
    assert "runs: Permission denied" in capsys.readouterr().err
    assert ending(monkeypatch, KeyboardInterrupt()) == 130


def test_an_error_of_the_program_itself_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_the_codes_mean_the_same_in_the_help_the_code_and_the_guide() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "jobs.md").read_text(encoding="utf-8")
    meanings = dict(re.findall(r"^\| (\d+) \| ([^|:]+?) ?[|:]", guide, re.MULTILINE))
    assert meanings.keys() == {"0", "1", "2", "3", "130", "143"}
    for code, meaning in meanings.items():
        assert f"{code} {meaning}" in ALL[()].epilog
        assert f"{code} {meaning}" in " ".join((cli.__doc__ or "").split())


def test_as_a_process() -> None:
    version = python_m_unpooled("--version")
    assert (version.returncode, version.stdout, version.stderr) == (0, f"{__version__}\n", "")
    refused = python_m_unpooled("run", "absent.toml")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert re.fullmatch(r"error: absent\.toml: .*\n", refused.stderr)
    unknown = python_m_unpooled("run", "--sideways")
    assert unknown.returncode == 2
    assert "--sideways" in unknown.stderr
    assert "Traceback" not in unknown.stderr

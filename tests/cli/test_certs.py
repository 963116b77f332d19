"""The commands of `unpooled certs`, and the guide that shows them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unpooled.cli.certs import certs_app
from unpooled.errors import CertificateError
from unpooled.transport import certificates, trust

GUIDE = Path(__file__).parents[2] / "docs" / "certificates.md"
COMMANDS = ("authority", "request", "sign", "revoke", "refresh", "check", "trial")


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(command: str) -> str:
    """Run one command line that must succeed, and return what it says."""
    arguments = shlex.split(command.removeprefix("unpooled certs "))
    result = CliRunner().invoke(certs_app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def commands_of_the_guide() -> list[str]:
    fences = re.findall(r"^```console\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [line for fence in fences for line in fence.splitlines() if line.startswith("unpooled certs")]


def carry_files_between_machines() -> None:
    """Do what the guide asks of people between two commands: send requests, and put what comes back beside the key."""
    for party in ("bank", "telco"):
        request = Path("certs", party, "request.pem")
        if request.exists():
            Path(f"from-{party}").mkdir(exist_ok=True)
            shutil.copy(request, f"from-{party}")
        for returned in Path(f"for-{party}").glob("*.pem"):
            shutil.copy(returned, Path("certs", party))


def test_the_guide_works_as_written_and_shows_every_command() -> None:
    shown = commands_of_the_guide()
    assert {shlex.split(line)[2] for line in shown} == set(COMMANDS)
    for line in shown:
        run(line)
        carry_files_between_machines()
    shutil.copy("ca/revoked.pem", "certs/telco")
    shutil.copy("ca/revoked.pem", "certs/bank")
    assert trust.load_identity(Path("certs/bank"), "bank").party == "bank"
    with pytest.raises(CertificateError, match=r"telco.* revoked"):
        trust.load_identity(Path("certs/telco"), "telco")


def test_the_guide_names_the_days_that_the_code_uses() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert certificates.PARTY_DAYS == 365
    assert "valid for a year" in text
    assert f"relied on for {certificates.LIST_DAYS} days" in text


def test_fingerprints_agree_on_both_sides() -> None:
    authority = run("authority ca")
    requested = run("request bank --dir bank")
    signed = run("sign bank/request.pem --authority ca --out bank")
    checked = run("check bank")
    (authority_s,), (request_s,) = (re.findall(r"[0-9a-f]{64}", output) for output in (authority, requested))
    assert request_s in signed
    assert authority_s in checked
    assert authority_s != request_s


def test_the_next_step_is_said_and_keys_are_to_stay() -> None:
    assert "ca/authority-key.pem" in run("authority ca").replace("\\", "/")
    said = run("request bank --dir bank").replace("\\", "/")
    assert re.search(r"bank/request\.pem to the authority.*Never send key\.pem", said)
    assert "for-bank" in run("sign bank/request.pem --authority ca --out for-bank")
    assert "revoked.pem to every party" in run("revoke for-bank/certificate.pem --authority ca")
    assert "revoked.pem to every party" in run("refresh --authority ca")


def test_check_says_what_it_found() -> None:
    run("trial bank telco --dir trial --days 7")
    said = run("check trial/bank")
    end = trust.read_certificate(Path("trial/bank/certificate.pem")).not_valid_after_utc
    assert f"bank until {end:%Y-%m-%d %H:%M} UTC" in said
    assert "Revoked certificates: 0" in said
    Path("trial/bank/revoked.pem").unlink()
    assert "no revoked.pem" in run("check trial/bank")


def test_check_as_json() -> None:
    run("trial bank telco --dir trial --days 7")
    certificate = trust.read_certificate(Path("trial/bank/certificate.pem"))
    found = json.loads(run("check trial/bank --json"))
    assert (found["party"], found["until"]) == ("bank", certificate.not_valid_after_utc.isoformat())
    assert found["authority"] == certificates.fingerprint(trust.read_authority(Path("trial/bank")))
    assert found["revoked"]["certificates"] == 0
    Path("trial/bank/revoked.pem").unlink()
    assert json.loads(run("check trial/bank --json"))["revoked"] is None


def test_a_trial_says_that_it_is_one() -> None:
    assert "For trials only" in run("trial bank telco --dir trial")


def test_errors_reach_the_caller_as_they_are() -> None:
    with pytest.raises(CertificateError, match=r"nowhere.*certificate\.pem"):
        run("check nowhere")
    with pytest.raises(CertificateError, match="'Bank'"):
        run("request Bank --dir bank")


@pytest.mark.parametrize("days", ["0", "-3", "100000"])
def test_days_must_make_sense(days: str) -> None:
    result = CliRunner().invoke(certs_app, ["trial", "bank", "--dir", "trial", "--days", days])
    assert result.exit_code == 2
    assert not Path("trial").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    assert "Usage:" in run(f"{command} --help")

"""The commands that write, check, start and tidy up jobs, run as a user would."""

from __future__ import annotations

import io
import json
import logging
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from unpooled.align.ecdh import RaisedIds
from unpooled.budget.places import Places
from unpooled.cli import app, exit_code, jobs, running
from unpooled.errors import CertificateError, InputError, JobFailed, UnpooledError
from unpooled.evaluate.lookalike import Evaluation, Part
from unpooled.jobs.examples.example_tables import CUSTOMERS
from unpooled.jobs.files import load_job, load_plan, load_private, write_toml
from unpooled.jobs.kinds import KINDS, outline_of
from unpooled.jobs.lookalike import evaluation
from unpooled.jobs.lookalike.kind import LOOKALIKE
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.jobs.work import CheckedJob
from unpooled.run import folder as run_folder
from unpooled.run.progress import Progress, Watch, Watcher
from unpooled.wire import disclosure_of

ROLES = CUSTOMERS.roles
GUIDE = Path(__file__).parents[2] / "docs" / "jobs.md"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example in `example` and a run of it in `run`."""
    folder = tmp_path_factory.mktemp("jobs")
    say("example", folder / "example", "--rows", "1000")
    result = say("run", folder / "example" / "job.toml", "--run", folder / "run", "--json")
    (folder / "said.json").write_text(result.stdout)
    return folder


@pytest.fixture
def job(tmp_path: Path, shared: Path) -> Path:
    """The example's job file, in a folder of its own, to be spoiled; tables are where they were."""
    text = (shared / "example" / "job.toml").read_text()
    path = tmp_path / "job.toml"
    path.write_text(re.sub(r'path = "(.*)"', rf'path = "{shared / "example"}/\1"', text))
    return path


def invoke(*words: object) -> Result:
    return CliRunner(env={"COLUMNS": "400"}).invoke(app, [str(word) for word in words])


def say(*words: object) -> Result:
    """Run a command that must succeed."""
    result = invoke(*words)
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result


def refusal(*words: object) -> tuple[int, str]:
    """Run a command that must fail with an error of ours; its exit code and text."""
    result = invoke(*words)
    assert isinstance(result.exception, UnpooledError), result.output
    assert result.output == ""
    return exit_code(result.exception), str(result.exception)


def spoil(job: Path, old: str, new: str) -> Path:
    text = job.read_text()
    assert text.count(old) == 1
    job.write_text(text.replace(old, new))
    return job


def test_a_run_from_end_to_end(shared: Path) -> None:
    said = json.loads((shared / "said.json").read_text())
    assert said["run"] == str(shared / "run")
    assert Path(said["report"]).exists()
    assert said["figures"]["telco"] == {"common": said["results"]["telco"]["common"]}
    assert said["figures"]["coordinator"] == {}
    assert said["sent_bytes"].keys() == ROLES.keys()
    assert min(said["sent_bytes"].values()) > 0
    assert said["seconds"] >= 0
    assert said["results"].keys() == ROLES.keys()
    ids = {party: set(pl.read_csv(shared / "example" / f"{party}.csv")["id"]) for party in ("shop", "telco", "bank")}
    common = ids["telco"] & ids["bank"]
    assert said["results"]["telco"]["common"] == said["results"]["shop"]["asked_about"] == len(common)
    aligned = pl.read_csv(shared / "run" / "bank" / "aligned.csv")
    assert set(aligned["id"]) == common
    assert set(aligned.filter(pl.col("label") == 1)["id"]) == common & ids["shop"]
    for party in ROLES:
        files = {path.name for path in (shared / "run" / party).iterdir()}
        assert {"plan.toml", "ledger.jsonl", "log.txt", "status.json", "result.json"} <= files
        assert run_folder.read_json(shared / "run" / party / "status.json")["state"] == "finished"
    said_of_ledgers = say("ledger", shared / "run", "--json")
    assert all(pair["differences"] == [] for pair in json.loads(said_of_ledgers.stdout)["pairs"])


def test_a_run_is_never_overwritten(shared: Path) -> None:
    code, text = refusal("run", shared / "example" / "job.toml", "--run", shared / "run", "-q")
    assert code == 1
    assert str(shared / "run") in text


def test_purge_says_what_it_removes(shared: Path) -> None:
    said = say("purge", shared / "run").stdout
    assert f"removed {shared / 'run' / '.working'}\n" in said
    assert f"removed {shared / 'run' / 'bank' / '.working'}\n" in said
    assert not list((shared / "run").rglob("*.pem"))
    assert say("purge", shared / "run").stdout == "nothing to remove\n"
    assert json.loads(say("purge", shared / "run", "--json").stdout) == {"removed": []}
    (shared / "run" / ".working").mkdir()
    removed = {"removed": [str(shared / "run" / ".working")]}
    assert json.loads(say("purge", shared / "run", "--json").stdout) == removed
    assert refusal("purge", shared / "example")[0] == 1


def test_purge_of_an_interrupted_run_takes_an_explicit_word(shared: Path, tmp_path: Path) -> None:
    shutil.copytree(shared / "run", tmp_path / "run")
    status = tmp_path / "run" / "telco" / "status.json"
    status.write_text(json.dumps(json.loads(status.read_text()) | {"state": "failed"}))
    checkpoint = tmp_path / "run" / "telco" / ".working" / "checkpoint"
    checkpoint.mkdir(parents=True, exist_ok=True)
    code, text = refusal("purge", tmp_path / "run")
    assert code == 1
    assert "--force" in text
    assert str(status.parent) in text
    assert checkpoint.exists()
    assert str(checkpoint.parent) in say("purge", tmp_path / "run", "--force").stdout
    assert not list((tmp_path / "run").rglob(".working"))


def test_a_dry_run_in_words(shared: Path) -> None:
    said = say("run", shared / "example" / "job.toml", "--dry-run").stdout
    assert "bank (active)" in said
    assert "10 columns" in said
    assert f"bank learns from shop: {disclosure_of(RaisedIds).what}" in said
    assert re.search(r"bank: [\d,]+ messages, sends [\d.]+ kB, receives [\d.]+ kB, CPU \d+ s, memory [\d.]+ MB", said)
    common = json.loads((shared / "said.json").read_text())["results"]["bank"]["common"]
    assert f"with {common} common rows" in said
    assert "Nothing was started" in said
    assert "telco (passive)" in said
    assert "900 rows" in said
    assert "in common: " in said
    assert "RaisedIds" not in said
    everything = say("run", shared / "example" / "job.toml", "--dry-run", "--all").stdout
    assert "age (number)" in everything
    assert "\nRaisedIds\n" in everything


def test_a_dry_run_prints_names_as_they_are(tmp_path: Path, job: Path) -> None:
    strange = tmp_path / "[bold]shop.csv"
    shop = Path(re.search(r'path = "(.*/shop.csv)"', job.read_text())[1])  # type: ignore[index]
    strange.write_text(shop.read_text().replace("last_purchase,basket", "[red]basket,:bank:"))
    job.write_text(re.sub(r'path = ".*/shop.csv"', f'path = "{strange}"', job.read_text()))
    said = say("run", spoil(job, 'last_purchase = "date"', ""), "--dry-run", "--all").stdout
    assert "[bold]shop.csv" in said
    assert "[red]basket (date), :bank: (number)" in said


def test_a_dry_run_as_json(shared: Path) -> None:
    path = shared / "example" / "job.toml"
    said = json.loads(say("run", path, "--dry-run", "--json", "--common", "100").stdout)
    assert said["forecast"]["common"] == 100
    assert said["forecast"]["parties"]["bank"]["sent_bytes"] > 0
    assert [party["party"] for party in said["parties"]] == list(ROLES)
    bank = next(party for party in said["parties"] if party["party"] == "bank")
    assert bank["columns"]["risk"] == "ordered category"
    assert bank["quality"]["rows"] > said["together"]["common"] > said["together"]["known"] > 0
    foretold = outline_of(load_job(path).plan)
    assert [(e["sender"], e["receiver"], e["kind"], e["frames"]) for e in said["exchanges"]] == [
        (e.sender, e.receiver, e.kind, e.frames) for e in foretold
    ]
    assert {"discloses", "to", "bytes"} <= said["exchanges"][0].keys()


@pytest.mark.parametrize("dry", [["--dry-run"], ["--quiet"]])
@pytest.mark.parametrize(
    ("old", "new", "code", "reason"),
    [
        ('kind = "align"', 'kind = "align"\ncolour = "red"', 2, r"job\.toml: colour: "),
        ('kind = "align"', 'kind = "alien"', 2, r"job\.toml: kind: "),
        ('kind = "align"', 'kind = "align"\nkey_bits = "x"', 2, r"job\.toml: key_bits: "),
        ("risk = [", 'riks = "category"\nrisk = [', 1, r"bank: .*bank\.csv: column 'riks'"),
        ('branch = "category"', 'branch = "date"', 1, r"bank: .*bank\.csv: column 'branch': "),
        ("/telco.csv", "/telko.csv", 1, r"telco: .*telko\.csv: "),
        ("[private.coordinator]", "[private.bank.policy]\nminimum_overlap = 5000", 1, r"5,000.*minimum_overlap"),
        ("[private.coordinator]", "[private.coordinator.table]\nid='id'\npath='x.csv'", 2, "coordinator.*table"),
        (
            "[private.coordinator]",
            '[private.bank]\ncertificates = "absent"',
            2,
            "certificates",
        ),
    ],
)
def test_faults_are_found_before_anything_starts(
    old: str, new: str, code: int, reason: str, dry: list[str], job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(job.parent)
    found, text = refusal("run", spoil(job, old, new), *dry)
    assert found == code
    assert re.search(reason, text, re.DOTALL), text
    assert not (job.parent / "runs").exists()


def test_a_policy_that_forbids_the_job_is_found_before_anything_starts(job: Path) -> None:
    spoil(job, "[private.coordinator]", '[private.shop.policy]\nnever_send = ["RaisedIds"]')
    code, text = refusal("run", job, "--dry-run")
    assert code == 1
    assert re.search(r"shop .*RaisedIds .*policy\.never_send", text)


def test_a_dry_run_of_join_looks_at_one_party(shared: Path, tmp_path: Path) -> None:
    private = load_private(shared / "example" / "bank.toml")
    write_toml(tmp_path / "bank.toml", private.model_copy(update={"certificates": tmp_path / "certs" / "bank"}))
    words = ("--as", "bank", "--private", tmp_path / "bank.toml", "--dry-run", "--json", "--no-forecast")
    code, text = refusal("join", shared / "example" / "plan.toml", *words)
    assert (code, str(tmp_path / "certs" / "bank") in text) == (1, True)
    say("certs", "trial", *ROLES, "--dir", tmp_path / "certs")
    (party,) = json.loads(say("join", shared / "example" / "plan.toml", *words).stdout)["parties"]
    assert (party["party"], party["certificates"]) == ("bank", "valid")


def test_a_dry_run_of_join_finds_what_join_would_refuse(shared: Path, tmp_path: Path) -> None:
    plan, bank = shared / "example" / "plan.toml", shared / "example" / "bank.toml"
    assert refusal("join", plan, "--as", "baker", "--private", bank, "--dry-run")[0] == 2
    assert refusal("join", plan, "--as", "bank", "--private", tmp_path / "none.toml", "--dry-run")[0] == 2
    code, text = refusal("join", shared / "example" / "job.toml", "--as", "bank", "--private", bank, "--dry-run")
    assert code == 2
    assert "job.toml: private: " in text
    uncertified = tmp_path / "coordinator.toml"
    uncertified.write_text("")
    code, text = refusal("join", plan, "--as", "coordinator", "--private", uncertified, "--dry-run")
    assert code == 2
    assert "certificates" in text


def test_a_plan_without_addresses_cannot_be_joined(tmp_path: Path) -> None:
    say("certs", "trial", "bank", "helper", "--dir", tmp_path / "certs")
    (tmp_path / "plan.toml").write_text(
        'kind = "check"\n[parties]\nbank = {role = "active"}\nhelper = {role = "coordinator"}\n'
    )
    (tmp_path / "helper.toml").write_text('certificates = "certs/helper"\n')
    words = ("--as", "helper", "--private", tmp_path / "helper.toml", "--dry-run")
    code, text = refusal("join", tmp_path / "plan.toml", *words)
    assert (code, "helper" in text, "bank" in text) == (2, True, True)


@pytest.fixture
def joining(shared: Path, tmp_path: Path) -> tuple[object, ...]:
    """The words of a join as bank that fails for want of certificates; `--run` is to be added."""
    write_toml(tmp_path / "bank.toml", load_private(shared / "example" / "bank.toml"))
    return ("join", shared / "example" / "plan.toml", "--as", "bank", "--private", tmp_path / "bank.toml", "--run")


def test_a_failed_join_leaves_a_report(joining: tuple[object, ...], tmp_path: Path) -> None:
    result = invoke(*joining, tmp_path / "new")
    assert isinstance(result.exception, CertificateError)
    assert result.stderr == "align: bank\n"
    run, report, resume = result.exception.__notes__
    assert (run, report) == (f"run: {tmp_path / 'new'}", f"report: {tmp_path / 'new' / 'report.html'}")
    assert resume.endswith(f": unpooled resume {tmp_path / 'new'}")
    assert "every party" in resume
    assert {"plan.toml", "status.json", "log.txt", "report.html"} <= {p.name for p in (tmp_path / "new").iterdir()}


def test_a_join_into_an_old_run_leaves_it_alone(joining: tuple[object, ...], shared: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(shared / "run" / "bank", old)
    before = {path.name: path.stat().st_mtime_ns for path in old.iterdir()}
    code, text = refusal(*joining, old)
    assert (code, str(old) in text) == (1, True)
    assert {path.name: path.stat().st_mtime_ns for path in old.iterdir()} == before


def test_a_join_as_nobody_leaves_no_folder(joining: tuple[object, ...], tmp_path: Path) -> None:
    words = ["baker" if word == "bank" else word for word in joining]
    assert refusal(*words, tmp_path / "new")[0] == 2
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("trouble", [InputError("no plan"), OSError(28, "No space left on device")])
def test_a_report_that_cannot_be_written_does_not_hide_the_error(
    trouble: Exception, joining: tuple[object, ...], job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Path:
        raise trouble

    def end_badly(*_: object) -> dict[str, Any]:
        raise JobFailed("bank: disk full")

    monkeypatch.setattr(running, "write_report", fail)
    monkeypatch.setattr(jobs, "spawn", end_badly)
    assert isinstance(invoke(*joining, tmp_path / "new").exception, CertificateError)
    assert refusal("run", job, "--run", tmp_path / "run", "-q") == (1, "bank: disk full")


@pytest.mark.parametrize("quiet", [True, False])
def test_the_log_of_a_join_is_kept_and_quiet_is_about_the_terminal(
    quiet: bool, shared: Path, tmp_path: Path, use_free_ports: Callable[[Path], None]
) -> None:
    say("certs", "trial", *ROLES, "--dir", tmp_path / "certs")
    private = load_private(shared / "example" / "bank.toml")
    write_toml(tmp_path / "bank.toml", private.model_copy(update={"certificates": tmp_path / "certs" / "bank"}))
    plan = tmp_path / "plan.toml"
    write_toml(plan, load_plan(shared / "example" / "plan.toml").model_copy(update={"timeout": 0.5}))
    use_free_ports(plan)
    words = f"join {plan} --as bank --private {tmp_path}/bank.toml --run {tmp_path}/run {'-q' * quiet}"
    call = [sys.executable, "-m", "unpooled", *words.split()]
    ended = subprocess.run(call, check=False, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 3, ended.stderr
    log = (tmp_path / "run" / "log.txt").read_text()
    assert re.search(r"\d\d:\d\d:\d\d bank listens on 127\.0\.0\.1:\d+\n", log)
    assert (log in ended.stderr) is not quiet


def test_kinds_are_listed_and_examples_printed(tmp_path: Path) -> None:
    assert re.findall(r"^\w+", say("job").stdout, re.MULTILINE) == [kind.name for kind in KINDS]
    plan, private = tmp_path / "plan.toml", tmp_path / "bank.toml"
    plan.write_text(say("job", "--example", "check", "--part", "plan").stdout)
    private.write_text(say("job", "--example", "check", "--part", "private").stdout)
    assert load_plan(plan).kind == "check"
    assert load_private(private).table is not None
    whole = tmp_path / "job.toml"
    whole.write_text(say("job", "--example", "check").stdout)
    assert load_job(whole).plan.kind == "check"
    assert whole.read_text() == say("job", "--example", "check", "--part", "job").stdout


def test_an_unknown_kind_or_part_is_a_wrong_call() -> None:
    code, text = refusal("job", "--example", "chekc")
    assert code == 2
    assert ", ".join(kind.name for kind in KINDS) in text
    assert invoke("job", "--example", "check", "--part", "half").exit_code == 2


def test_quiet_says_nothing_and_words_name_the_folder(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = json.loads((shared / "said.json").read_text())["results"]

    def spawn(plan: Plan, privates: Mapping[str, Private], folder: Path, watch: Watch) -> dict[str, Any]:
        shutil.copytree(shared / "run", folder)
        return dict(results)

    monkeypatch.setattr(jobs, "spawn", spawn)
    monkeypatch.chdir(tmp_path)
    job = shared / "example" / "job.toml"
    assert say("run", job, "--run", "quiet", "--quiet").output == ""
    shop, telco, bank, coordinator, took, run, report = say("run", job).stdout.splitlines()
    assert telco.startswith(f"telco: {results['telco']['common']:,} people in common, ")
    assert f" {results['bank']['positives']:,} of them known to the seeker" in bank
    assert re.fullmatch(r"coordinator: [\d.]+ kB sent", coordinator)
    assert (shop.split(":")[0], took.split(":")[0]) == ("shop", "took")
    assert re.fullmatch(r"run: +runs/align-\d{8}-\d{6}", run)
    assert re.fullmatch(r"report: runs/align-\d{8}-\d{6}/report.html", report)


def test_the_demo_runs_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spawn(plan: Plan, privates: Mapping[str, Private], folder: Path, watch: Watch, books: Places) -> dict[str, Any]:
        assert folder in books.books.parents, "books of made-up tables are not in the user's folders"
        assert folder in books.anchors.parents
        assert all(p.table.path.is_file() for p in privates.values() if p.table and p.table.path)
        return {party: {"role": plan.parties[party].role} for party in privates}

    monkeypatch.setattr(jobs, "spawn", spawn)
    judged: list[Any] = []

    def evaluate(*what: object) -> Evaluation:
        judged.append(what)
        part = Part(rows=4, known=4, positive=3, precision=0.75, recall=0.5, lift=None)
        return Evaluation(positives=6, everybody=None, fraction=None, whole=part, tiers={}, iterations={})

    monkeypatch.setattr(evaluation, "evaluate_list", evaluate)
    ended: list[Any] = []
    monkeypatch.setattr(running, "say_done", lambda *what: ended.append(what))
    say("demo", "--rows", "1000", "--run", tmp_path / "demo", "--json")
    ((folder, results, _, as_json),) = ended
    assert (folder, as_json) == (tmp_path / "demo", True)
    assert judged == [(tmp_path / "demo" / "shop", "shop", tmp_path / "demo" / "tables" / "truth.csv", "would_buy")]
    assert {party: result["role"] for party, result in results.items()} == ROLES
    (said,) = LOOKALIKE.headline(results["shop"])
    assert (said.name, said.value) == ("precision", 0.75)
    assert load_job(tmp_path / "demo" / "tables" / "job.toml").plan.kind == "lookalike"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal in the place of standard error gets."""
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=100, color_system=None, _environ={})
    monkeypatch.setattr(running, "Console", lambda stderr: console)
    monkeypatch.setattr(running, "say_done", lambda *_: None)
    return written


@pytest.mark.parametrize("option", [None, "--quiet", "--json"])
def test_a_run_on_a_terminal_draws_a_bar_for_each_party(
    option: str | None, shared: Path, tmp_path: Path, terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spawn(plan: Plan, privates: Mapping[str, Private], folder: Path, watch: Watch) -> dict[str, Any]:
        watch({"shop": Progress("fit/tree 2", 2, 7), "bank": Progress("fit", 1, 7)})
        return {}

    monkeypatch.setattr(jobs, "spawn", spawn)
    say("run", shared / "example" / "job.toml", "--run", tmp_path, *filter(None, [option]))
    if option:
        assert terminal.getvalue() == ""
    else:
        assert "align: shop, telco, bank, coordinator 0:00:" in terminal.getvalue()
        assert re.search(r"\nshop fit, tree 2 [━╸╺]+ +2/7 .*\nbank fit +[━╸╺]+ +1/7 ", terminal.getvalue())


@pytest.mark.parametrize("option", [None, "--quiet", "--json"])
def test_a_join_on_a_terminal_draws_one_bar_and_its_log_above(
    option: str | None, joining: tuple[object, ...], terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logging.getLogger("unpooled.test")

    def join(job: CheckedJob[Any], folder: Path, watcher: Watcher, *, resume: bool, through: object) -> dict[str, Any]:
        assert not resume
        watcher(Progress("fit", 1, 7))
        log.info("%s is connected", job.party)
        watcher(Progress("score", 2, 8))
        return {}

    monkeypatch.setattr(running, "join", join)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    home = Path(str(joining[-2])).parent / "new"
    say(*joining, home, *filter(None, [option]))
    assert re.fullmatch(r"\d\d:\d\d:\d\d bank is connected\n", (home / "log.txt").read_text())
    assert [path.name for path in (home / ".working").iterdir()] == ["private-path"]
    if option:
        assert terminal.getvalue() == ""
    else:
        above = r"\x1b\[2K\d\d:\d\d:\d\d bank is connected\n. align: bank 0:00:\d\d\nbank fit [━╸╺]+ +1/7 "
        assert re.search(above, terminal.getvalue())
        assert re.search(r"\nbank score [━╸╺]+ +2/8 0 bytes *\n", terminal.getvalue())


def test_the_guide_names_the_files_that_a_run_leaves(shared: Path) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    learning = {"model.json", "preparation.json", "predictions.csv"}
    for name in {path.name for path in (shared / "run" / "bank").iterdir()} | {run_folder.WORKING} | learning:
        assert f"`{name}`" in text

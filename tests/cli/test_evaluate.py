"""The command `evaluate lookalike`, run as a user would."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from unpooled.cli import app
from unpooled.errors import InputError
from unpooled.jobs.files import write_toml
from unpooled.jobs.lookalike.evaluation import EVALUATION
from unpooled.jobs.plan import Plan
from unpooled.jobs.run_files import RESULT
from unpooled.run.folder import PLAN, REPORT, STATUS

ROLES = {"shop": "seeker", "telco": "passive", "bank": "active"}
LIST = """\
id,rank,score,tier,iteration
007,1,0.9,first,1
008,2,0.8,first,1
Émile,3,0.7,second,2
010,4,0.6,second,2
011,5,,third,0
"""
SALES = "id,amount\n007,3.5\n 007 ,1\nE\u0301mile,2\n999,1\n"
EVERYBODY = "id,bought\n007,true\n008,0\nÉmile,1\n010,\n999,TRUE\n998,false\n"
FOUND = {
    "rows_read": 9,
    "rows": 9,
    "asked_about": 50,
    "listed": 5,
    "iterations": [1, 2, 2],
    "scores": {"edges": [0.0, 1.0], "counts": [4]},
}


def make_run(folder: Path, kind: str = "lookalike", **parameters: Any) -> Path:
    """A run whose seeker has a list."""
    parties = {name: {"role": role} for name, role in ROLES.items()}
    if kind != "lookalike":
        parties.pop("shop")
    plan = Plan.model_validate({"kind": kind, "parties": parties, "parameters": parameters})
    for party in parties:
        home = folder / party
        home.mkdir(parents=True)
        write_toml(home / PLAN, plan)
        status = {
            "party": party,
            "state": "finished",
            "started": "2026-03-01T09:00:00Z",
            "ended": "2026-03-01T09:00:09Z",
        }
        (home / STATUS).write_text(json.dumps(status))
    write_toml(folder / PLAN, plan)
    if kind == "lookalike":
        (folder / "shop" / RESULT).write_text(json.dumps(FOUND))
        (folder / "shop" / "reliable.csv").write_text(LIST)
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run")


def outcomes(folder: Path, text: str, name: str = "sales.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def invoke(*words: object) -> Any:
    return CliRunner().invoke(app, ["evaluate", "lookalike", *map(str, words)], env={"COLUMNS": "120"})


def say(*words: object) -> str:
    result = invoke(*words)
    assert result.exit_code == 0, (result.output, result.exception)
    return str(result.stdout)


def refusal(*words: object) -> str:
    result = invoke(*words)
    assert isinstance(result.exception, InputError), result.output
    return str(result.exception)


def test_sales_alone(run: Path, tmp_path: Path) -> None:
    said = json.loads(say(run, "--outcomes", outcomes(tmp_path, SALES), "--json"))
    assert (said["run"], said["report"]) == (str(run / "shop"), str(run / "shop" / REPORT))
    assert (said["positives"], said["everybody"], said["fraction"]) == (3, None, None)
    assert said["whole"] == {
        "rows": 5,
        "known": 5,
        "positive": 2,
        "precision": 0.4,
        "recall": pytest.approx(2 / 3),
        "lift": None,
    }
    assert {tier: part["positive"] for tier, part in said["tiers"].items()} == {"first": 1, "second": 1, "third": 0}
    assert {number: part["rows"] for number, part in said["iterations"].items()} == {"0": 1, "1": 2, "2": 2}


def test_everybody_known(run: Path, tmp_path: Path) -> None:
    words = ("--outcomes", outcomes(tmp_path, EVERYBODY), "--outcome", "bought", "--json")
    said = json.loads(say(run / "shop", *words))
    assert (said["positives"], said["everybody"], said["fraction"]) == (3, 5, 0.6)
    whole = said["whole"]
    assert (whole["rows"], whole["known"], whole["positive"]) == (5, 3, 2)
    assert (whole["precision"], whole["lift"]) == pytest.approx((2 / 3, 2 / 3 / 0.6))
    assert said["tiers"]["second"]["precision"] == 1.0
    assert said["tiers"]["third"] == {
        "rows": 1,
        "known": 0,
        "positive": 0,
        "precision": None,
        "recall": 0.0,
        "lift": None,
    }


def test_an_outcome_that_is_not_named_is_asked_for(run: Path, tmp_path: Path) -> None:
    for text in (EVERYBODY, "id,year,bought\n1,2024,1\n2,2024,0\n"):
        path = outcomes(tmp_path, text)
        assert re.match(rf"shop: {path}: .*bought.*--outcome", refusal(run, "--outcomes", path))
    said = json.loads(say(run, "--outcomes", outcomes(tmp_path, "id,bought\n1,true\n2,true\n"), "--json"))
    assert said["positives"] == 2, "all of them are"


def test_figures_are_kept_and_shown_in_the_report(run: Path, tmp_path: Path) -> None:
    said = json.loads(say(run, "--outcomes", outcomes(tmp_path, SALES), "--json"))
    kept = json.loads((run / "shop" / EVALUATION).read_text())
    assert kept == {key: value for key, value in said.items() if key not in ("run", "report")}
    assert "3 people " in " ".join((run / "shop" / REPORT).read_text().split())
    assert not (run / "bank" / REPORT).exists()


def test_words_on_the_terminal(run: Path, tmp_path: Path) -> None:
    words = ("--outcomes", outcomes(tmp_path, EVERYBODY), "--outcome", "bought")
    first, *table, last = say(run, *words).splitlines()
    assert first.startswith("3 of 5 people")
    assert last == f"report: {run / 'shop' / REPORT}"
    lines = [[cell.strip() for cell in line.strip("│").split("│")] for line in table if line.startswith("│")]
    assert [line[0] for line in lines] == [
        "first tier",
        "second tier",
        "third tier",
        "not promoted",
        "iteration 1",
        "iteration 2",
        "in all",
    ]
    assert lines[0] == ["first tier", "2", "2", "1", "0.500", "0.333", "0.83"]
    assert lines[2] == ["third tier", "1", "0", "0", "", "0.000", ""]
    assert say(run, "--outcomes", outcomes(tmp_path, SALES)).startswith("3 people ")


def test_ids_may_be_called_otherwise_and_have_several_columns(run: Path, tmp_path: Path) -> None:
    renamed = outcomes(tmp_path, SALES.replace("id,", "customer,"))
    assert json.loads(say(run, "--outcomes", renamed, "--id", "customer", "--json"))["whole"]["positive"] == 2
    double = LIST.replace("id,", "name,born,").replace("007,", "Ada,1815,").replace("008,", "Ada,1816,")
    double = double.replace("Émile,", "Émile,1,").replace("010,", "B,1,").replace("011,", "C,1,")
    (run / "shop" / "reliable.csv").write_text(double)
    sales = outcomes(tmp_path, "year,who\n1816,Ada\n", "double.csv")
    words = ("--outcomes", sales, "--id", "who", "--id", "year", "--json")
    assert json.loads(say(run, *words))["tiers"]["first"]["positive"] == 1
    assert re.match(r"--id: .*\b2 columns", refusal(run, "--outcomes", sales, "--id", "who"))


@pytest.mark.parametrize(("rule", "positive"), [("case", 1), ("exact", 0)])
def test_case_counts_as_in_the_plan(rule: str, positive: int, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", normalise=rule)
    said = json.loads(say(run, "--outcomes", outcomes(tmp_path, "id\nÉMILE\n"), "--json"))
    assert said["whole"]["positive"] == positive


def test_a_list_of_hashes_is_compared_with_ids_or_with_hashes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", normalise="email", hash="sha256")
    hashed = hashlib.sha256(b"ann@x.org").hexdigest()
    (run / "shop" / "reliable.csv").write_text(f"id,rank,score,tier,iteration\n{hashed},1,0.9,first,1\n")
    for text, words in (("Ann@X.org", ()), (hashed.upper(), ("--hashed",))):
        said = json.loads(say(run, "--outcomes", outcomes(tmp_path, f"id\n{text}\n"), *words, "--json"))
        assert said["whole"]["positive"] == 1


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("id,bought\n007,true\n008,maybe\n", "column 'bought': row 2: "),
        ("id,bought\n007,true\n008,1\n007,0\n", "column 'bought': rows 1 and 3: "),
        ("id,bought\n007,\n", "column 'bought': "),
        ("id,bought\n,true\n007,true\n,false\n", "column 'id': rows 1 and 3: "),
        ("id,bought\n", ""),
        ("id,sold\n007,true\n", "column 'bought': .*id, sold"),
        ("person,bought\n007,true\n", "column 'id': .*person, bought"),
    ],
)
def test_a_fault_in_the_outcomes_is_named(text: str, fault: str, run: Path, tmp_path: Path) -> None:
    path = outcomes(tmp_path, text)
    assert re.match(f"shop: {path}: {fault}", refusal(run, "--outcomes", path, "--outcome", "bought"))
    assert not (run / "shop" / EVALUATION).exists()


def test_a_file_that_is_not_there_or_of_another_sort_is_refused(run: Path, tmp_path: Path) -> None:
    absent = tmp_path / "absent.csv"
    assert refusal(run, "--outcomes", absent).startswith(f"shop: {absent}: ")
    text = outcomes(tmp_path, SALES, "sales.txt")
    assert refusal(run, "--outcomes", text).startswith(f"{text}: path: ")


def test_an_outcome_that_is_the_id_is_refused(run: Path, tmp_path: Path) -> None:
    path = outcomes(tmp_path, SALES)
    assert "twice" in refusal(run, "--outcomes", path, "--outcome", "id")


def test_only_the_seekers_folder_will_do(run: Path, tmp_path: Path) -> None:
    path = outcomes(tmp_path, SALES)
    assert re.match(f"{run / 'bank'} .*shop", refusal(run / "bank", "--outcomes", path))
    assert re.match(f"{tmp_path} .*{PLAN}", refusal(tmp_path, "--outcomes", path))
    other = make_run(tmp_path / "other", "align")
    assert re.match(f"{other} .*align", refusal(other, "--outcomes", path))


def test_a_run_without_a_list_is_refused(run: Path, tmp_path: Path) -> None:
    (run / "shop" / "reliable.csv").unlink()
    said = refusal(run, "--outcomes", outcomes(tmp_path, SALES))
    assert said.startswith(f"{run / 'shop' / 'reliable.csv'}: ")


def test_outcomes_must_be_named(run: Path) -> None:
    assert invoke(run).exit_code == 2

"""The command `unpooled ledger`, run as a user would."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from unpooled.cli.ledger import DIFFERENCES_SHOWN, ledger_command
from unpooled.errors import LedgerError
from unpooled.jobs.files import write_toml
from unpooled.jobs.plan import Party, Plan
from unpooled.ledger import Ledger
from unpooled.wire import Disclosure

app = typer.Typer()
app.command()(ledger_command)

SUM = Disclosure("the sum", "the active party")
MASKED = Disclosure("nothing: masked", "")


def write_ledger(folder: Path, party: str, *frames: tuple[Any, ...], plan: str = "abc", closed: bool = True) -> Path:
    (folder / party).mkdir(parents=True, exist_ok=True)
    ledger = Ledger(folder / party / "ledger.jsonl", party, plan)
    for frame in frames:
        ledger.record(*frame)
    if closed:
        ledger.close()
    ledger._file.close()
    return ledger.path


TO_BANK = ("bank", "demo.Sum", "fit", 700, SUM)
TO_TELCO = ("telco", "demo.Masked", "fit", 2_500_000, MASKED)


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A run of three parties, of which two talked."""
    write_ledger(tmp_path, "bank", ("received", "telco", *TO_BANK[1:]), ("sent", *TO_TELCO))
    write_ledger(tmp_path, "shop")
    write_ledger(tmp_path, "telco", ("sent", *TO_BANK), ("received", "bank", *TO_TELCO[1:]))
    return tmp_path


def call(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False, env={"COLUMNS": "150"})


def as_json(*words: object) -> tuple[int, dict[str, Any]]:
    result = call("--json", *words)
    content: dict[str, Any] = json.loads(result.output)
    return result.exit_code, content


def test_a_run_that_is_in_order(run_folder: Path) -> None:
    result = call(run_folder)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[:3] == [
        "bank: closed in order; sent 1 message, 2.5 MB to telco",
        "shop: closed in order; sent nothing",
        "telco: closed in order; sent 1 message, 700 bytes to bank",
    ]
    assert "bank learnt from telco: the sum" in lines
    assert "agree: bank and shop, bank and telco, shop and telco" in lines
    assert "demo.Sum" not in result.output
    detailed = call("--all", run_folder).output.splitlines()
    start = detailed.index("demo.Sum")
    assert detailed[start : start + 3] == [
        "demo.Sum",
        "  telco to bank: 1 message, 700 bytes",
        "  discloses the sum, to the active party",
    ]
    assert "  discloses nothing: masked" in detailed
    assert "missing" not in result.output
    assert "not compared" not in result.output


def test_the_same_as_json(run_folder: Path) -> None:
    code, content = as_json(run_folder)
    assert code == 0
    assert [party["party"] for party in content["parties"]] == ["bank", "shop", "telco"]
    assert content["parties"][0]["closed"] is True
    assert content["parties"][0]["plan"] == "abc"
    assert content["parties"][0]["messages"][1] == {
        "way": "sent",
        "peer": "telco",
        "kind": "demo.Masked",
        "frames": 1,
        "bytes": 2_500_000,
        "discloses": "nothing: masked",
        "to": "",
    }
    assert [content[name] for name in ("broken", "missing", "uncompared")] == [[], [], []]
    assert content["pairs"] == [
        {"parties": pair, "differences": []} for pair in (["bank", "shop"], ["bank", "telco"], ["shop", "telco"])
    ]


def test_frames_of_a_kind_are_counted_together(tmp_path: Path) -> None:
    write_ledger(tmp_path, "bank", *[("sent", *TO_TELCO)] * 1500)
    assert " 1,500 " in call(tmp_path).output
    assert as_json(tmp_path)[1]["parties"][0]["messages"][0]["bytes"] == 1500 * 2_500_000


@pytest.mark.parametrize(
    "words",
    [
        ["."],
        ["bank", "telco", "shop"],
        ["bank/ledger.jsonl", "telco/ledger.jsonl", "shop"],
        [".", "./bank", "telco/ledger.jsonl"],
    ],
)
def test_a_run_may_be_named_by_its_folder_its_parties_folders_or_their_ledgers(
    run_folder: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run_folder)
    code, content = as_json(*words)
    assert code == 0
    assert {party["party"] for party in content["parties"]} == {"bank", "shop", "telco"}
    assert len(content["pairs"]) == 3


def test_one_ledger_alone_is_compared_with_none_and_says_whose_are_elsewhere(run_folder: Path) -> None:
    (run_folder / "bank" / "plan.toml").touch()
    (run_folder / "bank" / "status.json").touch()
    code, content = as_json(run_folder / "bank")
    assert code == 0
    assert (content["pairs"], content["missing"], content["uncompared"]) == ([], [], ["telco"])
    result = call(run_folder / "bank")
    assert result.exit_code == 0
    uncompared, hint = result.output.splitlines()[-2:]
    assert uncompared.endswith(": telco")
    assert "unpooled ledger MINE THEIRS" in hint


def write_plan(run_folder: Path) -> None:
    roles = {"bank": Party(role="active"), "shop": Party(role="seeker"), "telco": Party(role="passive")}
    write_toml(run_folder / "plan.toml", Plan(kind="check", parties=roles))


@pytest.mark.parametrize("party", ["shop", "telco"])
def test_a_ledger_missing_from_a_whole_run_is_an_error(run_folder: Path, tmp_path: Path, party: str) -> None:
    write_plan(run_folder)
    assert call(run_folder).exit_code == 0
    elsewhere = (run_folder / party / "ledger.jsonl").rename(tmp_path / "moved.jsonl")
    result = call(run_folder)
    assert result.exit_code == 1
    assert any("missing" in line and party in line for line in result.output.splitlines())
    assert "not compared" not in result.output
    code, content = as_json(run_folder, run_folder)
    assert (code, content["missing"], content["uncompared"]) == (1, [party], [])
    assert as_json(run_folder, elsewhere)[0] == 0


def test_a_broken_ledger_is_not_missing(run_folder: Path) -> None:
    write_plan(run_folder)
    path = run_folder / "telco" / "ledger.jsonl"
    path.write_text(path.read_text().replace("demo.Sum", "demo.Row"))
    code, content = as_json(run_folder)
    assert (code, content["missing"], content["uncompared"]) == (1, [], ["telco"])


def test_a_ledger_that_was_not_closed_is_said_to_be_so(tmp_path: Path) -> None:
    write_ledger(tmp_path, "bank", closed=False)
    result = call(tmp_path)
    assert result.exit_code == 0
    assert "bank: not closed" in result.output
    assert as_json(tmp_path)[1]["parties"][0]["closed"] is False


def test_every_difference_is_told_and_is_an_error(tmp_path: Path) -> None:
    write_ledger(tmp_path, "bank", ("sent", *TO_TELCO), plan="xyz")
    write_ledger(tmp_path, "telco", ("received", "bank", "demo.Masked", "fit", 9, MASKED), ("sent", *TO_BANK))
    code, content = as_json(tmp_path)
    assert code == 1
    (pair,) = content["pairs"]
    assert pair["parties"] == ["bank", "telco"]
    plans, sizes, unknown = pair["differences"]
    assert re.search("bank and telco .*plans", plans)
    assert re.search("1 from bank to telco: bytes .*2500000 at bank, 9 at telco", sizes)
    assert re.search(r"1 from telco to bank: .*demo\.Sum", unknown)
    result = call(tmp_path)
    assert result.exit_code == 1
    assert [line.strip() for line in result.output.splitlines()[-3:]] == pair["differences"]


def test_of_many_differences_the_first_are_shown_and_json_has_all(tmp_path: Path) -> None:
    write_ledger(tmp_path, "bank", *[("sent", *TO_TELCO)] * 100)
    write_ledger(tmp_path, "telco")
    output = call(tmp_path).output
    assert output.count("from bank to telco: ") == DIFFERENCES_SHOWN
    assert re.search(rf"\b{100 - DIFFERENCES_SHOWN} more.*--json", output)
    assert len(as_json(tmp_path)[1]["pairs"][0]["differences"]) == 100


def test_a_broken_chain_is_an_error_and_the_others_are_still_shown(run_folder: Path) -> None:
    path = run_folder / "telco" / "ledger.jsonl"
    path.write_text(path.read_text().replace("demo.Sum", "demo.Row"))
    code, content = as_json(run_folder)
    assert code == 1
    (broken,) = content["broken"]
    assert broken.startswith(f"{path} line 2: ")
    result = call(run_folder)
    assert result.exit_code == 1
    for line in (f"damaged: {broken}", "bank: closed", "agree: bank and shop"):
        assert any(said.startswith(line) for said in result.output.splitlines())
    assert [party["party"] for party in content["parties"]] == ["bank", "shop"]


def test_markup_in_a_ledger_is_shown_as_it_is(tmp_path: Path) -> None:
    write_ledger(tmp_path, "bank", ("sent", "[red]telco", "demo.Sum", "", 1, SUM))
    assert "[red]telco" in call(tmp_path).output


def test_where_there_is_no_ledger_the_path_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(LedgerError, match=rf"{path} .*ledger\.jsonl"):
            call(path)


def test_ledgers_of_two_runs_are_not_mixed(tmp_path: Path) -> None:
    first, second = (write_ledger(tmp_path / run, "bank") for run in ("monday", "tuesday"))
    with pytest.raises(LedgerError) as caught:
        call(first, second)
    assert re.match(f"{first} and {second} .*bank", str(caught.value))

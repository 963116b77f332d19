"""The guide for several machines, carried out in a folder for each: real processes, a lost party, and resuming."""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import polars as pl
import pytest

from unpooled.data import example
from unpooled.run import folder as run_folder
from unpooled.transport.certificates import make_trial

GUIDE = Path(__file__).parents[2] / "docs" / "two_machines.md"
PATIENCE = 600
CONSENTS = {"shop": "positives", "telco": "found", "bank": "found"}


def fences(language: str) -> list[str]:
    text = GUIDE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def command(name: str, *having: str) -> list[str]:
    """The guide's command of this name with these words, as the bank runs it."""
    lines = [shlex.split(line)[1:] for fence in fences("console") for line in fence.splitlines()]
    (found,) = (words for words in lines if words[0] == name and set(having) <= set(words))
    return found


def of(party: str, words: list[str]) -> list[str]:
    """The same command at another party."""
    return [re.sub(r"\bbank\b", party, word) for word in words]


def local(plan: str, address: str) -> str:
    """The guide's plan with this machine's ports for host names that do not exist."""
    for host in re.findall(r'address = "(.*?)"', plan):
        with socket.create_server(("127.0.0.1", 0)) as free:
            plan = plan.replace(host, f"{address}:{free.getsockname()[1]}")
    return plan


@pytest.fixture
def machines(tmp_path: Path) -> dict[str, Path]:
    """A folder for each party, with what the guide puts on its machine."""
    plan, *privates = fences("toml")
    plan = local(plan, "127.0.0.1")
    written = {re.search(r'certificates = "certs/(\w+)"', text)[1]: text for text in privates}  # type: ignore[index]
    example.write(tmp_path / "tables", rows=2000)
    parties = tomllib.loads(plan)["parties"]
    make_trial(tmp_path / "certs", list(parties))
    folders = {}
    for party in parties:
        folders[party] = tmp_path / f"machine-{party}"
        (folders[party] / "certs").mkdir(parents=True)
        shutil.copytree(tmp_path / "certs" / party, folders[party] / "certs" / party)
        (folders[party] / "plan.toml").write_text(plan)
        text = written.get(party, f'certificates = "certs/{party}"\n')
        if party in CONSENTS:
            table = pl.read_csv(tmp_path / "tables" / f"{party}.csv", infer_schema=False)
            table.rename({"id": "customer"}).write_csv(folders[party] / f"{party}.csv")
            if party not in written:
                text += f"consent = {{{CONSENTS[party]} = true}}\n"
                text += f'table = {{path = "{party}.csv", id = "customer"}}\n'
        # The port that the guide's bank listens on may be taken here; it listens where the plan says.
        (folders[party] / f"{party}.toml").write_text(re.sub(r"^listen = .*\n", "", text, flags=re.MULTILINE))
    return folders


def start(folder: Path, words: list[str]) -> subprocess.Popen[str]:
    call = [sys.executable, "-m", "unpooled", *words]
    return subprocess.Popen(call, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(processes: dict[str, subprocess.Popen[str]]) -> tuple[dict[str, int], dict[str, str]]:
    said = {party: process.communicate(timeout=PATIENCE)[0] for party, process in processes.items()}
    return {party: process.returncode for party, process in processes.items()}, said


def test_the_guide_leads_to_a_list_also_after_a_party_was_lost(machines: dict[str, Path]) -> None:
    joining = command("join", "--run")
    folder = Path(joining[joining.index("--run") + 1])
    looked = {"check": command("certs"), "dry run": command("join", "--dry-run")}
    for words in looked.values():
        code, said = ended({"bank": start(machines["bank"], words)})
        assert code == {"bank": 0}, said
    processes = {party: start(home, of(party, joining)) for party, home in machines.items()}
    ledger, deadline = machines["bank"] / folder / "ledger.jsonl", time.monotonic() + PATIENCE
    while not (ledger.exists() and '"kind": "SplitSidesForAll"' in ledger.read_text()):
        assert time.monotonic() < deadline
        assert all(process.poll() is None for process in processes.values())
        time.sleep(0.05)
    processes["telco"].kill()
    codes, said = ended(processes)
    others = machines.keys() - {"telco"}
    assert {party: codes[party] for party in others} == dict.fromkeys(others, 3), said
    resuming = command("resume")
    for party in others:
        assert f"unpooled {shlex.join(resuming)}" in said[party]
        assert run_folder.read_json(machines[party] / folder / "status.json")["origin"] == "telco"
    codes, said = ended({party: start(home, resuming) for party, home in machines.items()})
    assert codes == dict.fromkeys(machines, 0), said
    top = tomllib.loads(fences("toml")[0])["parameters"]["top"]
    assert len(pl.read_csv(machines["shop"] / folder / "reliable.csv")) == top
    assert f"{top} look-alikes" in said["shop"]
    compared = ["ledger", *(str(machines[party] / folder) for party in ("bank", "telco"))]
    for words in (compared, command("purge")):
        codes, said = ended({"bank": start(machines["bank"], words)})
        assert codes == {"bank": 0}, said
    assert not (machines["bank"] / folder / ".working").exists()

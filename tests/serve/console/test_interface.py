"""The JSON interface: a job's life by programs with tokens, and the command that uses it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from browsing import CHEAP, HERE, PASSWORD, Browser
from fastapi import FastAPI
from parties_in_memory import CHOICES, ROLES, World, approve_all, four_parties, offered, plan_text
from starlette.testclient import TestClient
from typer.testing import CliRunner

from unpooled.cli import app as command
from unpooled.serve.accounts import people, tokens
from unpooled.serve.accounts.people import Role
from unpooled.serve.background import Background
from unpooled.serve.console.app import make_app
from unpooled.serve.console.console import Console
from unpooled.serve.jobs.life import state_of
from unpooled.serve.reviewing.review import Reviewer

Asking = Callable[..., Any]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = four_parties(tmp_path)
    yield made
    made.close()


@pytest.fixture
def bank(world: World) -> Iterator[FastAPI]:
    """The console of the bank, whose runs are make-believe."""
    context = world.contexts["bank"]
    background = Background(context.folder)
    reviewer = Reviewer(context, background)
    console = Console(context.settings, context.folder, context.database, CHEAP)
    console.running = SimpleNamespace(context=context, reviewer=reviewer, wake=lambda: None)  # type: ignore[assignment]
    people.add(context.database, CHEAP, "service", "ben", "administrator", PASSWORD)
    yield make_app(console)
    background.close()


@pytest.fixture
def ask(world: World, bank: FastAPI) -> Asking:
    """Asks the bank's interface with a token of a role."""

    def asked(method: str, path: str, content: Any = None, role: Role = "administrator") -> Any:
        token = tokens.make(world.contexts["bank"].database, "ben", "test", role, 1)
        client = TestClient(bank, base_url=HERE, headers={"authorization": f"Bearer {token}"})
        return client.request(method, f"/api{path}", json=content)

    return asked


def test_a_jobs_life(world: World, ask: Asking) -> None:
    drafted = ask("POST", "/jobs", {"purpose": "a list", "plan": plan_text()})
    assert (drafted.status_code, drafted.json()["state"]) == (201, "draft")
    job = drafted.json()["id"]
    assert ask("POST", f"/jobs/{job}/offer").json()["state"] == "offered"
    world.deliver()
    approve_all(world, job, set(ROLES) - {"bank"})
    chosen = {"choices": CHOICES["bank"].model_dump(mode="json", exclude_defaults=True)}
    assert ask("POST", f"/jobs/{job}/approve", chosen).json()["state"] == "waiting"
    world.settle(3)
    assert ask("POST", f"/jobs/{job}/pause").json()["state"] == "paused"
    assert ask("POST", f"/jobs/{job}/continue").json()["state"] == "waiting"
    world.settle(20)
    shown = ask("GET", f"/jobs/{job}").json()
    assert (shown["state"], len(shown["decisions"]), len(shown["runs"])) == ("finished", 4, 4)
    assert [one["id"] for one in ask("GET", "/jobs?state=finished").json()] == [job]
    assert ask("GET", "/jobs?state=running").json() == []
    assert ask("GET", f"/jobs/{job}/files").json() == {"files": []}
    acts = ask("GET", f"/audit-log?job={job}").json()
    assert {"ben", "service", "peer shop"} <= {act["who"] for act in acts}


def test_errors_are_json_in_plain_words(world: World, ask: Asking) -> None:
    job = offered(world)
    refused = ask("POST", f"/jobs/{job}/approve", {"choices": {"table": "people"}})
    assert refused.status_code == 400
    assert "consent.found" in refused.json()["error"]
    assert ask("GET", "/jobs/unknown").json() == {"error": "there is no job unknown."}
    assert ask("POST", "/jobs", {"purpose": "x", "plan": "kind = 7"}).json()["error"].startswith("kind:")
    assert ask("POST", "/jobs", {"purpose": "x"}).status_code == 422
    assert ask("POST", f"/jobs/{job}/decline", {"reason": " "}).status_code == 400


def test_roles_and_own_jobs(world: World, ask: Asking) -> None:
    job = offered(world)
    assert ask("GET", f"/jobs/{job}", role="viewer").status_code == 200
    assert ask("POST", "/jobs", {"purpose": "x", "plan": plan_text()}, role="viewer").status_code == 403
    assert ask("POST", f"/jobs/{job}/approve", {"choices": {}}, role="analyst").status_code == 403
    refused = ask("POST", f"/jobs/{job}/cancel", {"reason": "x"}, role="analyst")
    assert (refused.status_code, "ask an approver" in refused.text) == (403, True)
    own = ask("POST", "/jobs", {"purpose": "x", "plan": plan_text()}, role="analyst").json()["id"]
    ask("POST", f"/jobs/{own}/offer", role="analyst")
    assert ask("POST", f"/jobs/{own}/cancel", {"reason": "x"}, role="analyst").json()["state"] == "cancelled"
    assert ask("DELETE", f"/jobs/{own}").status_code == 400


def test_only_result_files_are_handed_out(world: World, ask: Asking) -> None:
    job = offered(world)
    approve_all(world, job)
    world.settle(20)
    home = world.contexts["bank"].folder.runs / f"{job}-1" / "bank"
    (home / "ranking.csv").write_text("id,score\n1,0.5\n")
    (home / ".working" / "private.toml").write_text("seed = 7")
    (home / "ledger.jsonl").write_text("{}\n")
    assert ask("GET", f"/jobs/{job}/files").json() == {"files": ["ranking.csv", "ledger.jsonl"]}
    assert ask("GET", f"/jobs/{job}/files/ranking.csv").text == "id,score\n1,0.5\n"
    for name in ("status.json", ".working", "..%2Fplan.toml", "%2Fetc%2Fpasswd", ".working%2Fprivate.toml"):
        assert ask("GET", f"/jobs/{job}/files/{name}").status_code in (400, 404)


def test_the_interface_describes_itself(bank: FastAPI) -> None:
    browser = Browser(bank).sign_in("ben")
    described = browser.get("/interface/openapi.json").json()
    assert described["paths"]["/api/jobs/{job}/approve"]["post"]["x-role"] == "approver"
    assert all(path.startswith("/api/") for path in described["paths"])
    assert "/api/jobs/{job}/approve" in browser.get("/interface").text


@pytest.fixture
def address(bank: FastAPI) -> Iterator[str]:
    """The bank's console, served for real."""
    server = uvicorn.Server(uvicorn.Config(bank, "127.0.0.1", 0, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


def test_the_command(world: World, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = world.contexts["bank"].database
    monkeypatch.setenv("UNPOOLED_CONSOLE", address)
    monkeypatch.setenv("UNPOOLED_TOKEN", tokens.make(database, "ben", "test", "approver", 1))
    (tmp_path / "plan.toml").write_text(plan_text())
    (tmp_path / "choices.toml").write_text('table = "people"\n[consent]\nfound = true\n')

    def run(*words: str) -> str:
        result = CliRunner().invoke(command, ["jobs", *words], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    drafted = json.loads(run("draft", str(tmp_path / "plan.toml"), "--purpose", "a list", "--offer", "--json"))
    assert drafted["state"] == "offered"
    assert "approved by ben" in run("approve", drafted["id"], "--choices", str(tmp_path / "choices.toml"))
    world.deliver()
    approve_all(world, drafted["id"], set(ROLES) - {"bank"})
    world.settle(20)
    assert state_of(world.job("bank", drafted["id"])) == "finished"
    (world.contexts["bank"].folder.runs / f"{drafted['id']}-1" / "bank" / "ranking.csv").write_text("id\n")
    assert drafted["id"] in run("list")
    assert "finished" in run("show", drafted["id"])
    run("fetch", drafted["id"], "--to", str(tmp_path / "got"))
    assert (tmp_path / "got" / "ranking.csv").read_text() == "id\n"
    monkeypatch.setenv("UNPOOLED_TOKEN", "wrong")
    with pytest.raises(Exception, match="A valid token is needed"):
        run("list")

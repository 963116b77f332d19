"""Jobs in pages: drafted, offered, reviewed, decided, followed, and what they leave, between four parties."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from browsing import CHEAP, PASSWORD, Browser
from fastapi import FastAPI
from parties_in_memory import ROLES, World, approve_all, four_parties, offered

from unpooled.jobs.kinds import outline_of
from unpooled.ledger import Ledger
from unpooled.serve.accounts import people
from unpooled.serve.accounts.people import ROLES as PEOPLE
from unpooled.serve.console.app import make_app
from unpooled.serve.console.console import Console
from unpooled.serve.context import Context
from unpooled.serve.jobs import acts
from unpooled.serve.jobs.life import state_of
from unpooled.serve.jobs.records import Job
from unpooled.serve.reviewing.review import Review
from unpooled.serve.running.process import folder_of
from unpooled.serve.running.watching import Tail
from unpooled.serve.state.audit_log import acts as acts_in
from unpooled.serve.tables import Choices
from unpooled.wire import Disclosure

SCRIPT = "<script>alert(1)</script>"


@dataclass
class FakeReviewer:
    """A reviewer that finds at once what it is told to find."""

    found: dict[str, Review] = field(default_factory=dict)
    asked: list[tuple[str, Choices]] = field(default_factory=list)
    attacks: Path = Path("nothing")

    def request(self, _job: Job, choices: Choices, what: str, *, again: bool = False) -> None:
        self.asked.append((what, choices))

    def review(self, _job: Job, _choices: Choices, what: str) -> Review:
        return self.found.get(what, Review("none"))

    def page(self, _job: Job, _choices: Choices) -> Path:
        return self.attacks


@dataclass
class FakeService:
    """What the console asks of a service."""

    context: Context
    reviewer: FakeReviewer = field(default_factory=FakeReviewer)

    def wake(self) -> None:
        pass


@dataclass
class Consoles:
    """The consoles of four parties, with a person of each role at each."""

    world: World
    of: dict[str, Console]
    apps: dict[str, FastAPI]

    def browser(self, party: str, role: str) -> Browser:
        return Browser(self.apps[party]).sign_in(f"the {role}")

    def state(self, party: str, job: str) -> str:
        return state_of(self.world.job(party, job))


@pytest.fixture
def consoles(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Consoles]:
    world = four_parties(tmp_path, **getattr(request, "param", {}))
    made = {}
    for party, context in world.contexts.items():
        for role in reversed(PEOPLE):
            people.add(context.database, CHEAP, "service", f"the {role}", role, PASSWORD)
        made[party] = Console(context.settings, context.folder, context.database, CHEAP)
        made[party].running = FakeService(context)  # type: ignore[assignment]
    yield Consoles(world, made, {party: make_app(console) for party, console in made.items()})
    world.close()


def dry_run(job: Job, party: str) -> dict[str, Any]:
    """What a dry run could have found."""
    exchanges = [
        {name: getattr(one, name) for name in ("sender", "receiver", "kind", "frames", "bytes", "only_if")}
        | {"discloses": one.disclosure.what, "to": one.disclosure.to}
        for one in outline_of(job.plan)
    ]
    note = {"column": "age", "text": f"looks odd {SCRIPT}", "level": "warning", "rows": []}
    used = {"used": 3.0, "most": 50.0}
    return {
        "parties": [
            {
                "party": party,
                "origin": "people.csv",
                "columns": {"age": "number"},
                "quality": {"rows": 1200, "notes": [note]},
            }
        ],
        "together": None,
        "exchanges": exchanges,
        "answers": {party: {"active": "bank", "rows": 1000, "bits": 5000, "table_bits": 90_000}},
        "choices": ["the plan costs something"],
        "budget": {
            party: {
                "book": "people",
                "runs": 2,
                "alignments": {"bank": used},
                "ids": {"bank": 900},
                "fits": {"bank": {"used": 0.0, "most": None}},
                "amounts": {"questions": used},
                "results": {},
            }
        },
        "forecast": {
            "common": 700,
            "others": 0,
            "guesses": ["how many rows are in common"],
            "parties": {
                party: {
                    "messages": 10,
                    "sent_bytes": 20_000,
                    "received_bytes": 30_000,
                    "cpu_seconds": 42.0,
                    "peak_memory_mb": 300.0,
                }
            },
        },
        "beyond_memory": [],
    }


FORM = {
    "purpose": f"Find more buyers {SCRIPT}",
    "role-shop": "seeker",
    "role-bank": "active",
    "role-telco": "passive",
    "role-dealer": "coordinator",
    "engine": "shares",
    "settings": "timeout = 300\n[parameters]\n",
    "days": "7",
}


def drafted(browser: Browser, **changed: str) -> str:
    response = browser.submit("/jobs/new/lookalike", **(FORM | changed))
    assert response.status_code == 303, response.text
    return str(response.headers["location"].split("/")[2].split("?")[0])


def test_a_job_from_draft_to_result(consoles: Consoles) -> None:
    analyst = consoles.browser("shop", "analyst")
    assert "lookalike" in analyst.get("/jobs/new").text
    form = analyst.get("/jobs/new/lookalike").text
    assert 'name="role-telco"' in form
    assert "[parameters" in form
    job = drafted(analyst)
    page = analyst.get(f"/jobs/{job}").text
    assert "This is a draft" in page
    assert "offer it, or remove the draft" in analyst.get("/").text
    changed = analyst.submit(f"/jobs/{job}/change", **(FORM | {"days": "9"}))
    assert changed.status_code == 303
    form = analyst.get(f"/jobs/{job}/change").text
    assert 'value="9"' in form
    assert "\ntimeout = 300" in form
    assert analyst.submit(f"/jobs/{job}/offer").status_code == 303
    consoles.world.deliver()
    for party in ROLES:
        approver = consoles.browser(party, "approver")
        assert f"/jobs/{job}" in approver.get("/inbox").text
        assert "These wait for you" in approver.get("/").text
        reviewer = consoles.of[party].service.reviewer
        choices = {"table": "people"} if party != "dealer" else {}
        asked = approver.submit(f"/jobs/{job}/review", **choices)
        assert asked.status_code == 303
        assert len(reviewer.asked) == 1  # type: ignore[attr-defined]
        found = dry_run(consoles.world.job(party, job), party)
        reviewer.found["dry-run"] = Review("done", found)  # type: ignore[attr-defined]
        shown = approver.get(asked.headers["location"]).text
        for text in (f"What would leave {party}", "looks odd", "half or twice", "47", "Approve for"):
            assert text in shown, text
        agreed = dict.fromkeys(re.findall(r'name="(agree-\w+)"', shown), "1")
        missing = approver.submit(f"/jobs/{job}/approve", **choices)
        if agreed:
            assert (missing.status_code, "cannot start unless you agree" in missing.text) == (400, True)
            approved = approver.submit(f"/jobs/{job}/approve", **choices, **agreed)
            assert approved.status_code == 303, approved.text
        else:
            assert missing.status_code == 303
        assert f"/jobs/{job}" not in approver.get("/inbox").text
    consoles.world.deliver()
    for _ in range(6):
        consoles.world.look()
        consoles.world.deliver()
    assert consoles.state("shop", job) == "running"
    page = analyst.get(f"/jobs/{job}").text
    assert "data-events=" in page
    assert "Progress" in page
    consoles.world.settle(5)
    page = consoles.browser("telco", "viewer").get(f"/jobs/{job}").text
    assert "All parties have finished" in page
    assert "data-events=" not in page
    assert SCRIPT not in page


def test_what_is_wrong_with_a_draft_stands_beside_what_was_typed(consoles: Consoles) -> None:
    analyst = consoles.browser("shop", "analyst")
    for wrong, said in (
        ({"purpose": " "}, "say what the job is for"),
        ({"settings": "timeout = "}, "not TOML"),
        ({"settings": "[parameters]\nnothing = 1"}, "nothing"),
        ({"settings": "kind = 'check'"}, "kind: this is not among the settings"),
        ({"role-bank": ""}, "exactly one must be active"),
        ({"role-shop": ""}, "choose a role for shop itself"),
        ({"role-telco": ""}, "needs a party with the role passive"),
        ({"role-bank": "king"}, "no role of this kind"),
        ({"role-x": "passive"}, "not among the peers"),
        ({"days": "many"}, "whole number"),
        ({"every": "week"}, "date until when"),
        ({"engine": "plain"}, "without protection"),
    ):
        response = analyst.submit("/jobs/new/lookalike", **(FORM | {"purpose": "typed"} | wrong))
        assert (response.status_code, said in response.text) == (400, True), (wrong, response.text[-3000:])
        if "purpose" not in wrong:
            assert "typed</textarea>" in response.text
    assert analyst.get("/jobs/new/unheard").status_code == 404
    monthly = drafted(analyst, every="month", until="2027-06-30")
    assert "every month" in analyst.get(f"/jobs/{monthly}").text
    assert analyst.submit(f"/jobs/{monthly}/remove").headers["location"] == "/?done=removed"
    assert analyst.get(f"/jobs/{monthly}").status_code == 404


def test_texts_of_others_are_only_texts(consoles: Consoles) -> None:
    world = consoles.world
    job = drafted(consoles.browser("bank", "analyst"))
    acts.offer(world.contexts["bank"], SCRIPT, job)
    world.deliver()
    acts.decline(world.contexts["telco"], SCRIPT, job, f"no {SCRIPT}")
    world.deliver()
    viewer = consoles.browser("shop", "approver")
    for path in ("/", "/inbox", f"/jobs/{job}", f"/audit-log?job={job}"):
        text = viewer.get(path).text
        assert SCRIPT not in text, path
    assert "&lt;script&gt;" in viewer.get(f"/jobs/{job}").text


@pytest.mark.parametrize("consoles", [{"approvals": 2}], indirect=True)
def test_two_people_must_approve(consoles: Consoles) -> None:
    job = offered(consoles.world)
    first, second = consoles.browser("bank", "approver"), consoles.browser("bank", "administrator")
    agreed = {"table": "people", "agree-found": "1"}
    assert first.submit(f"/jobs/{job}/approve", **agreed).headers["location"].endswith("done=more")
    page = first.get(f"/jobs/{job}").text
    assert "another person is needed" in page
    assert "You have approved it" in page
    assert "the approver" in second.get(f"/jobs/{job}").text
    assert second.submit(f"/jobs/{job}/approve", **agreed).headers["location"].endswith("done=approved")
    assert consoles.world.job("bank", job).decisions["bank"].choice == "approved"


def test_pausing_cancelling_and_who_may(consoles: Consoles) -> None:
    world = consoles.world
    job = offered(world)
    approve_all(world, job)
    analyst = consoles.browser("bank", "analyst")
    assert analyst.submit(f"/jobs/{job}/pause").status_code == 303
    assert consoles.state("bank", job) == "paused"
    assert analyst.submit(f"/jobs/{job}/proceed").status_code == 303
    refused = analyst.submit(f"/jobs/{job}/cancel", reason="no")
    assert (refused.status_code, "only jobs that they have drafted" in refused.text) == (400, True)
    approver = consoles.browser("bank", "approver")
    empty = approver.submit(f"/jobs/{job}/cancel", reason=" ")
    assert (empty.status_code, "a reason is needed" in empty.text) == (400, True)
    assert approver.submit(f"/jobs/{job}/cancel", reason="enough").status_code == 303
    assert "cancelled" in approver.get("/?state=cancelled").text
    again = approver.submit(f"/jobs/{job}/decline", reason="late")
    assert (again.status_code, "cancelled cannot be declined" in again.text) == (400, True)


def test_report_and_files_are_served_safely(consoles: Consoles) -> None:
    world = consoles.world
    job = offered(world)
    approve_all(world, job)
    world.settle(6)
    home = folder_of(world.contexts["shop"].folder, job, 1) / "shop"
    (home / "report.html").write_text("<style>p {}</style><p>report")
    (home / "reliable.csv").write_text("id\n1\n")
    (home / "private.toml").write_text("secret")
    (home / ".working" / "seed").write_text("secret")
    viewer = consoles.browser("shop", "viewer")
    report = viewer.get(f"/jobs/{job}/report")
    policy = report.headers["content-security-policy"]
    assert ("sandbox" in policy, "script-src" in policy, "'unsafe-inline'" in policy) == (True, False, True)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; sandbox;")
    file = viewer.get(f"/jobs/{job}/files/reliable.csv")
    assert (file.text, "attachment" in file.headers["content-disposition"]) == ("id\n1\n", True)
    assert acts_in(world.contexts["shop"].database, job)[0].what == "saved a file of a run"
    for name in (
        "private.toml",
        ".working",
        ".working%2Fseed",
        "..%2Fplan.toml",
        "%2e%2e%2f%2e%2e%2fstate.sqlite",
        "nothing",
    ):
        response = viewer.get(f"/jobs/{job}/files/{name}")
        assert response.status_code == 404, name
        assert "secret" not in response.text
    assert "reliable.csv" in viewer.get(f"/jobs/{job}").text


def test_events_tell_what_changes_and_end(consoles: Consoles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unpooled.serve.console.live.LOOK_SECONDS", 0.01)
    world, job = consoles.world, offered(consoles.world)
    approve_all(world, job)
    viewer, console = consoles.browser("shop", "viewer"), consoles.of["shop"]
    page = viewer.get(f"/jobs/{job}").text
    address = re.search(r'data-events="([^"]+)"', page)
    assert address
    console.ending = True
    assert viewer.get(address[1]).text == "retry: 2000\n\n"
    console.ending = False
    stale = viewer.get(f"/jobs/{job}/events?version=other").text
    assert "event: changed" in stale
    console.streams.most = 0
    full = viewer.get(address[1]).text
    (line,) = [line for line in full.splitlines() if line.startswith("data: ")]
    assert set(json.loads(line[6:])) == {"state", "progress", "picture", "parties", "log"}


def test_a_ledger_is_read_on_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    silent = Disclosure("nothing", "")
    tail = Tail(path, "bank")
    tail.look()
    assert tail.flows == {}
    with Ledger(path, "bank", "digest") as ledger:
        ledger.record("sent", "shop", "Kind", "scope", 10, silent)
        ledger.record("received", "shop", "Kind", "scope", 7, silent)
        tail.look()
        ledger.record("sent", "shop", "Kind", "scope", 5, silent)
        with path.open("ab") as file:
            file.write(b'{"at": 1.0, "way": "sent", "pe')
        tail.look()
        tail.look()
    assert tail.flows == {("bank", "shop"): 15, ("shop", "bank"): 7}

"""Four organisations in a real browser: from nothing to a look-alike list, without a terminal."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from unpooled.data import example
from unpooled.serve.example import free_port, stop

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
ROLES = {"coordinator": "coordinator", "shop": "seeker", "telco": "passive", "bank": "active"}
PASSWORD = "a long enough password"
PATIENCE = 120_000  # milliseconds: a busy machine takes long to start processes
SMALL = """
[parameters]
top = 40
estimate = false
[parameters.method]
iterations = 1
[parameters.model]
learner = "gbdt"
trees = 5
"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on PATH")


@dataclass(frozen=True)
class Organisation:
    """A service that was just started, and a browser window at its console."""

    party: str
    address: str
    page: Page

    def open(self, path: str) -> Page:
        self.page.goto(path)
        return self.page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)


@pytest.fixture
def organisations(tmp_path: Path, browser: Browser) -> Iterator[dict[str, Organisation]]:
    """Four new services, each with the page on which it is set up."""
    example.write(tmp_path / "tables", 1_000, 7)
    with ExitStack() as held:
        ports = [free_port(held) for _ in range(2 * len(ROLES))]
    with ExitStack() as ended:
        made = {}
        for number, party in enumerate(ROLES):
            console = f"127.0.0.1:{ports[2 * number]}"
            words = ["serve", "--state", str(tmp_path / party), "--console", console, "--attached"]
            process = subprocess.Popen(
                [sys.executable, "-m", "unpooled", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            ended.callback(stop, process)
            assert process.stdout
            ended.enter_context(process.stdout)
            said = process.stdout.readline()
            context = browser.new_context(base_url=f"http://{console}")
            ended.callback(context.close)
            context.set_default_timeout(PATIENCE)
            page = context.new_page()
            found = re.search(r"/setup\?key=\S+", said)
            assert found, said
            page.goto(found[0])
            made[party] = Organisation(party, f"127.0.0.1:{ports[2 * number + 1]}", page)
        yield made


def set_up(one: Organisation) -> None:
    page = one.page
    page.get_by_label("Party name").fill(one.party)
    page.get_by_label("Address for other parties").fill(one.address)
    page.get_by_label("Name", exact=True).fill(f"{one.party}'s administrator")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("The password again").fill(PASSWORD)
    page.get_by_role("button", name="Set up").click()
    page.wait_for_url("**/")


def trust_each_other(organisations: dict[str, Organisation]) -> None:
    """The coordinator signs everybody's certificate."""
    authority = organisations["coordinator"].open("/certificates")
    authority.get_by_text("Make the authority here", exact=True).click()
    authority.get_by_label("Name of the authority").fill("the four of us")
    authority.get_by_role("button", name="Make the authority").click()
    authority.get_by_role("button", name="Give coordinator a certificate").click()
    for party, one in organisations.items():
        if party == "coordinator":
            continue
        page = one.open("/certificates")
        page.get_by_role("button", name="Make a request").click()
        fingerprint = page.locator("pre.fingerprint").first.inner_text()
        with page.expect_download() as request:
            page.get_by_role("link", name=re.compile("Download request")).click()
        authority.goto("/certificates")
        authority.get_by_text("Sign a party’s request", exact=True).click()
        authority.get_by_label("The party’s request.pem").set_input_files(request.value.path())
        authority.get_by_role("button", name="Look at the request").click()
        assert authority.locator(".card pre.fingerprint").inner_text() == fingerprint
        authority.get_by_role("button", name="The fingerprints are the same: sign").click()
        with authority.expect_download() as signed:
            authority.get_by_role("link", name=f"Download signed-{party}.pem").first.click()
        page.get_by_label("The file that the authority sent").set_input_files(signed.value.path())
        page.get_by_role("button", name="Install", exact=True).click()
        page.get_by_text("Fingerprint of the authority", exact=True).wait_for()


def add_peers_and_table(one: Organisation, organisations: dict[str, Organisation], tables: Path) -> None:
    for other in organisations.values():
        if other is not one:
            page = one.open("/peers")
            page.get_by_label("Party name").fill(other.party)
            page.locator("#add ~ form input[name=address]").fill(other.address)
            page.get_by_role("button", name="Add the party").click()
    if one.party != "coordinator":
        page = one.open("/tables/new")
        page.get_by_label("Name", exact=True).fill("customers")
        page.get_by_label("Path").fill(str(tables / f"{one.party}.csv"))
        page.get_by_label("Id column").fill("id")
        page.get_by_role("button", name="Add the table").click()


def offer(bank: Organisation) -> str:
    page = bank.open("/jobs/new/lookalike")
    page.get_by_label("Purpose").fill("Find more people like the shop's buyers <script>alert(1)</script>")
    for party, role in ROLES.items():
        page.locator(f"select[name=role-{party}]").select_option(role)
    page.get_by_label("Settings").fill(SMALL)
    page.get_by_role("button", name="Save the draft").click()
    button = page.get_by_role("button", name="Offer it to the others")
    button.click()
    button.wait_for(state="detached")
    return page.url.partition("?")[0].rpartition("/")[2]


def approve(one: Organisation, job: str) -> None:
    page = one.page
    while True:  # until the offer has arrived
        page.goto("/inbox")
        if page.get_by_role("link", name="Review and decide").count():
            break
        page.wait_for_timeout(500)
    page.goto(f"/jobs/{job}")
    page.get_by_role("button", name=f"Show what would leave {one.party}").click()
    button = page.get_by_role("button", name=f"Approve for {one.party}")
    button.wait_for()
    assert page.get_by_text("What would leave").count()
    for box in page.locator("form[action$=approve] input[type=checkbox]").all():
        box.check()
    button.click()
    button.wait_for(state="detached")  # the page may have gone on by itself since


def test_from_certificates_to_a_list(organisations: dict[str, Organisation], tmp_path: Path) -> None:
    dialogs: list[str] = []
    for one in organisations.values():
        one.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        set_up(one)
    trust_each_other(organisations)
    for one in organisations.values():
        add_peers_and_table(one, organisations, tmp_path / "tables")
    job = offer(organisations["bank"])
    for one in organisations.values():
        approve(one, job)
    shop = organisations["shop"].page
    shop.goto(f"/jobs/{job}")
    shop.get_by_role("link", name="Open the report of shop").wait_for()  # the page follows the run by itself
    with shop.expect_download() as found:
        shop.get_by_role("link", name="reliable.csv").click()
    lines = Path(found.value.path()).read_text().splitlines()
    people = (tmp_path / "tables" / "bank.csv").read_text().splitlines()
    known = {line.split(",")[0] for line in (tmp_path / "tables" / "shop.csv").read_text().splitlines()[1:]}
    ids = {line.split(",")[0] for line in lines[1:]}
    assert len(ids) == 40
    assert ids <= {line.split(",")[0] for line in people} - known
    for one in organisations.values():
        one.page.set_viewport_size({"width": 380, "height": 800})
        for path in ("/", "/inbox", f"/jobs/{job}", "/account", "/interface", "/tables", "/peers", "/certificates"):
            one.open(path)
            assert one.page.evaluate("document.documentElement.scrollWidth") == 380, (one.party, path)
    assert not dialogs

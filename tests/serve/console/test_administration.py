"""What administrators do in the console: tables, budget, peers, certificates, settings."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from browsing import CHEAP, PASSWORD, Browser

from unpooled.budget.book import Book
from unpooled.serve import live_settings
from unpooled.serve.accounts import people
from unpooled.serve.background import Background
from unpooled.serve.console.app import make_app
from unpooled.serve.console.console import Console
from unpooled.serve.folder import StateFolder
from unpooled.serve.peers import peers_in
from unpooled.serve.settings import ServiceSettings, load_settings, save_settings
from unpooled.serve.state.audit_log import acts
from unpooled.serve.state.database import open_database
from unpooled.serve.table_check import Checker
from unpooled.serve.tables import tables_in
from unpooled.transport.trust import load_identity

Browsing = Callable[..., Any]


@pytest.fixture
def person(browser: Browsing, console: Console) -> Browser:
    assert console.settings
    save_settings(console.folder, console.settings)
    opened: Browser = browser("administrator")
    return opened


def text_of(response: Any) -> str:
    return html.unescape(response.text)


def test_a_table_is_added_changed_and_removed(person: Browser, console: Console) -> None:
    assert "There is no table yet" in text_of(person.get("/tables"))
    form = {"name": "my people", "source": "file", "path": "people.csv", "id": "id", "minimum_rows": "50"}
    relative = person.submit("/tables/new", **form)
    assert (relative.status_code, "whole path" in relative.text) == (400, True)
    assert 'value="people.csv"' in relative.text, "what was typed is kept"
    wrong = person.submit("/tables/new", **form | {"path": "/srv/people.csv", "minimum_rows": "many"})
    assert (wrong.status_code, "policy.minimum_rows: must be a valid integer" in wrong.text) == (400, True)
    added = person.submit("/tables/new", **form | {"path": "/srv/people.csv"})
    assert added.headers["location"] == "/tables/my%20people?done=added"
    again = person.submit("/tables/new", **form | {"path": "/srv/other.csv"})
    assert (again.status_code, "already" in again.text) == (400, True)
    (table,) = tables_in(console.database)
    assert (table.entry.policy.minimum_rows, str(table.entry.table.path)) == (50, "/srv/people.csv")
    page = text_of(person.get("/tables/my%20people"))
    settings = page.split("<textarea")[1].split(">\n", 1)[1].split("</textarea>")[0]
    changed = settings.replace("minimum_rows = 50", "minimum_rows = 60")
    assert person.submit("/tables/my%20people", settings=changed).status_code == 303
    assert tables_in(console.database)[0].entry.policy.minimum_rows == 60
    bad = person.submit("/tables/my%20people", settings=changed + "\nnonsense = 1\n")
    assert (bad.status_code, "unknown key" in bad.text, "nonsense = 1" in bad.text) == (400, True, True)
    assert person.submit("/tables/my%20people/remove").status_code == 303
    assert tables_in(console.database) == []
    assert [act.what for act in acts(console.database, most=3)] == ["removed a table", "set a table", "set a table"]


def test_a_query_in_postgres_needs_no_password_here(person: Browser, console: Console) -> None:
    form = {"name": "people", "source": "query", "postgres": "host=db password=secret", "query": "select 1", "id": "id"}
    refused = person.submit("/tables/new", **form)
    assert (refused.status_code, "leave the password out" in refused.text) == (400, True)
    assert person.submit("/tables/new", **form | {"postgres": "host=db", "path": "/ignored.csv"}).status_code == 303
    assert tables_in(console.database)[0].entry.table.path is None


def test_a_table_is_read_in_the_background(person: Browser, console: Console, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,age\n" + "".join(f"p{n},{n % 50}\n" for n in range(60)))
    background = Background(console.folder)
    checker = Checker(console.context, background)
    console.running = SimpleNamespace(context=console.context, checker=checker, wake=lambda: None)  # type: ignore[assignment]
    form = {"name": "people", "source": "file", "path": str(tmp_path / "people.csv"), "id": "id"}
    assert person.submit("/tables/new", **form).status_code == 303
    assert person.submit("/tables/new", **form | {"name": "other", "id": "nobody"}).status_code == 303
    background._pool.shutdown()
    page = text_of(person.get("/tables/people"))
    assert "60 rows ready for a job" in page
    assert "0 to 49" in page
    assert "60 rows, 1 columns" in " ".join(text_of(person.get("/tables")).split())
    assert "nobody" in text_of(person.get("/tables/other"))
    assert "cannot be read" in text_of(person.get("/tables/other"))


def test_the_budget_of_a_table_and_a_book_that_is_not_in_order(person: Browser, console: Console) -> None:
    assert "There is no table yet" in person.get("/budget").text
    form = {"name": "people", "source": "file", "path": "/srv/people.csv", "id": "id", "book": "clients"}
    person.submit("/tables/new", **form, maximum_total_bits_per_row="12")
    book = Book("clients", console.folder.books)
    with book.writing() as writer:
        writer.add(run="r1", begins="train")
    page = text_of(person.get("/budget"))
    assert "1 run so far" in page
    assert "0 of 12" in page
    book.path.unlink()
    assert "Not in order" in person.get("/budget").text
    assert person.submit("/budget/accept", book="clients", reason=" ").status_code == 400
    assert person.submit("/budget/accept", book="../x", reason="why").status_code == 400
    assert person.submit("/budget/accept", book="clients", reason="the disk failed").status_code == 303
    assert "the disk failed" in person.get("/budget").text
    assert acts(console.database)[0].what == "accepted a book that was not what it was"


def test_peers_are_added_moved_and_removed(person: Browser, console: Console) -> None:
    assert "There is nobody yet" in person.get("/peers").text
    for name, address, why in (("bank", "", "itself"), ("Telco", "", "small"), ("telco", "nowhere", "HOST:PORT")):
        response = person.submit("/peers", name=name, address=address)
        assert (response.status_code, why in response.text) == (400, True), response.text
    assert person.submit("/peers", name="telco", address="telco.example.org:7433").status_code == 303
    assert person.submit("/peers/address", name="shop", address="").status_code == 400
    assert person.submit("/peers/address", name="telco", address="").status_code == 303
    assert peers_in(console.database)[0].address is None
    with console.database.transaction() as connection:
        connection.execute("UPDATE peers SET certificate_ends = '2020-01-01T00:00:00+00:00', problem = '<b>no</b>'")
    page = person.get("/peers").text
    assert "expired" in page
    assert "&lt;b&gt;no&lt;/b&gt;" in page
    assert person.submit("/peers/remove", name="telco").status_code == 303
    assert person.submit("/peers/remove", name="telco").status_code == 400


def test_two_parties_trust_each_other_with_pages_alone(person: Browser, console: Console, tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "telco")
    folder.make()
    other = Console(ServiceSettings(party="telco"), folder, open_database(folder.database), CHEAP)
    people.add(other.database, CHEAP, "service", "tom", "administrator", PASSWORD)
    telco = Browser(make_app(other)).sign_in("tom")
    assert telco.get("/certificates/request.pem").status_code == 400
    assert person.submit("/certificates/authority", name="joint project").status_code == 303
    assert person.submit("/certificates/authority", name="another").status_code == 400
    assert person.submit("/certificates/own").status_code == 303
    assert telco.submit("/certificates/request").status_code == 303
    request = telco.get("/certificates/request.pem").text
    looked = person.post(
        "/certificates/look", data={"csrf": person.csrf}, files={"file": ("request.pem", request.encode())}
    )
    (print_there,) = re.findall(r"<code>([0-9a-f]{64})</code></pre></li>", telco.get("/certificates").text)
    assert print_there in looked.text
    assert person.submit("/certificates/look", text="nonsense").status_code == 400
    assert person.submit("/certificates/sign", text=request.replace("\n", "\r\n")).status_code == 303
    listed = person.get("/certificates").text
    (link,) = re.findall(r'href="(/certificates/issued/\w+)" download>Download signed-telco', listed)
    signed = person.get(link)
    assert signed.headers["content-disposition"] == 'attachment; filename="signed-telco.pem"'
    assert telco.submit("/certificates/install", text="nonsense").status_code == 400
    assert telco.submit("/certificates/install", text=signed.text).status_code == 303
    assert load_identity(folder.certificates, "telco")
    assert load_identity(console.folder.certificates, "bank")
    assert person.submit("/certificates/revoke", number=link.rsplit("/", 1)[1]).status_code == 303
    assert "revoked" in person.get("/certificates").text
    assert person.submit("/certificates/list").status_code == 303
    refused = telco.submit("/certificates/install", text=person.get("/certificates/revoked.pem").text)
    assert (refused.status_code, "revoked" in refused.text) == (400, True)


def test_settings_hold_at_once_and_what_is_in_the_file_stays(person: Browser, console: Console) -> None:
    assert console.settings
    by_hand = console.settings.model_copy(update={"console_names": ("proxy.example.org",)})
    save_settings(console.folder, by_hand)
    assert "Restart the service" in person.get("/settings").text
    wanted = {"approvals": "2", "runs_at_once": "3", "automatic_resumes": "0", "purge_after_days": "0"}
    for key, value in (("approvals", "3"), ("runs_at_once", "0"), ("purge_after_days", "never")):
        response = person.submit("/settings", **wanted | {key: value})
        assert (response.status_code, key in response.text) == (400, True)
    assert person.submit("/settings", **wanted).status_code == 303
    assert console.settings.approvals == 2
    assert console.settings.console_names == (), "until the restart"
    kept = load_settings(console.folder)
    assert (kept.approvals, kept.purge_after_days, kept.console_names) == (2, 0, ("proxy.example.org",))
    about = acts(console.database)[0].about
    assert about == "approvals: 1 → 2, runs_at_once: 2 → 3, automatic_resumes: 5 → 0, purge_after_days: 90 → 0"
    with pytest.raises(Exception, match="by hand"):
        live_settings.change_settings(console.context, "ada", {"party": "shop"})

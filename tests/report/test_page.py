from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from unpooled.errors import InputError
from unpooled.jobs.run_files import RESULT
from unpooled.ledger import Ledger, Way, read_ledger, summarise
from unpooled.report.page import write_report
from unpooled.run.folder import LEDGER, PLAN, REPORT, STATUS

WriteRun = Callable[..., Path]
Element = ElementTree.Element


def parsed(page: Path) -> Element:
    """The page as a tree: it is written so that it is well-formed XML too."""
    return ElementTree.fromstring(page.read_text(encoding="utf-8"))  # noqa: S314


def words(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def table(tree: Element, caption: str) -> Element:
    return next(found for found in tree.iter("table") if words(found[0]) == caption)


def rows(element: Element) -> Iterator[list[str]]:
    for row in element.iter("tr"):
        yield [words(cell) for cell in row]


def messages_in(element: Element) -> dict[tuple[str, str], tuple[int, int]]:
    """A table of messages as numbers: frames and bytes by kind and peer."""
    found = {}
    for body in element.iter("tbody"):
        (heading,), *lines = rows(body)
        for peer, frames, size in lines:
            found[heading.split()[0], peer] = int(frames.replace(",", "")), int(size.replace(",", ""))
    return found


def messages_of(ledger: Path, way: Way) -> dict[tuple[str, str], tuple[int, int]]:
    lines = [line for line in summarise(read_ledger(ledger)) if line.way == way]
    return {(line.kind.split(".")[-1], line.peer): (line.frames, line.bytes) for line in lines}


def test_the_numbers_are_those_in_the_ledgers(real_run: Path) -> None:
    tree = parsed(write_report(real_run))
    for party in ("shop", "telco", "bank", "coordinator"):
        sent = messages_of(real_run / party / LEDGER, "sent")
        shown = table(tree, f"What {party} sent")
        assert messages_in(shown) == sent
        total = [f"{sum(column):,}" for column in zip(*sent.values(), strict=True)]
        assert list(rows(shown))[-1] == ["In all", *total]
    ledgers = [read_ledger(path) for path in real_run.glob(f"*/{LEDGER}")]
    sent_by_all = [entry for ledger in ledgers for entry in ledger.entries if entry.way == "sent"]
    figures = {words(figure[0]): words(figure[1]) for figure in next(tree.iter("dl"))}
    assert figures["Messages sent"] == str(len(sent_by_all))
    assert figures["of which disclose something"] == str(sum(bool(entry.to) for entry in sent_by_all)) == "14"
    assert figures["Pairs of ledgers that agree"] == "6 of 6"
    assert "in each of 6 pairs, what one party recorded as sent is what the other recorded as received" in words(tree)


def test_a_partys_page_shows_what_reached_it(real_run: Path) -> None:
    home = real_run / "telco"
    tree = parsed(write_report(home))
    assert messages_in(table(tree, "What telco sent")) == messages_of(home / LEDGER, "sent")
    assert messages_in(table(tree, "What reached telco")) == messages_of(home / LEDGER, "received")


def test_the_tables_are_those_in_the_results(real_run: Path) -> None:
    tree = parsed(write_report(real_run))
    shown = {row[0]: row[1:] for row in rows(table(tree, "Rows, before and after cleaning"))}
    for party in ("shop", "telco", "bank"):
        result = json.loads((real_run / party / RESULT).read_text())["table"]
        counts = [result[name] for name in ("rows_read", "duplicates_removed", "rows_dropped", "rows")]
        assert shown[party] == [f"{n:,}" for n in (*counts, len(result["columns"]), result["prepared_columns"])]
        columns = list(rows(table(tree, f"Columns of {party}")))[1:]
        assert columns == [[c["name"], c["kind"], str(c["missing"]), str(c["impossible"])] for c in result["columns"]]
    assert shown["coordinator"] == ["has no table"]
    assert len(list(rows(table(tree, "Connections measured")))) == 1 + 6


def test_a_partys_page_keeps_to_what_it_knows(real_run: Path) -> None:
    whole, own = words(parsed(write_report(real_run))), words(parsed(write_report(real_run / "bank")))
    assert "one machine with the files of all parties" in whole
    assert "made from the files of bank alone" in own
    columns = json.loads((real_run / "telco" / RESULT).read_text())["table"]["columns"]
    foreign = [column["name"] for column in columns if len(column["name"]) > 4]
    assert foreign
    assert all(name in whole and name not in own for name in foreign)


def test_the_page_needs_nothing_else_and_has_no_script(real_run: Path) -> None:
    page = write_report(real_run)
    tree = parsed(page)
    assert tree.get("lang") == "en"
    assert not [element.tag for element in tree.iter() if element.tag in ("script", "link", "img", "iframe")]
    assert not [name for element in tree.iter() for name in element.keys() if name in ("src", "style")]  # noqa: SIM118
    links = {element.get("href"): element.tag for element in tree.iter() if element.get("href")}
    assert links == dict.fromkeys((f"{party}/{REPORT}" for party in ("shop", "telco", "bank", "coordinator")), "a")
    style = words(next(tree.iter("style")))
    assert "url(" not in style
    assert "@import" not in style
    assert all(cell.get("scope") for cell in tree.iter("th"))
    assert all(found[0].tag == "caption" for found in tree.iter("table"))


def test_what_comes_from_files_is_escaped(write_run: WriteRun) -> None:
    error = {"state": "failed", "origin": "clinic", "error": '</p><script>alert("x")</script> & <b>bold</b>'}
    times = {"started": "2026-03-01T09:00:00+00:00", "ended": "2026-03-01T09:00:01+00:00"}
    page = write_report(write_run({"clinic": error | times}))
    tree = parsed(page)
    assert not list(tree.iter("script"))
    assert not list(tree.iter("b"))
    assert "<script" not in page.read_text(encoding="utf-8")
    assert error["error"] in words(tree)
    assert list(rows(table(tree, "Columns of lab")))[1][0] == '<script>alert("x")</script>'
    assert "how many rows <b>this</b> party has" in words(table(tree, "What lab sent"))


def test_columns_that_say_nothing_are_marked(write_run: WriteRun) -> None:
    _, _, constant, left_out = rows(table(parsed(write_report(write_run())), "Columns of lab"))
    assert constant == ["site", "number constant", "7", "3"]
    assert left_out == ["old", "number left out: no values", "7", "3"]


def test_the_headline_says_what_happened(write_run: WriteRun) -> None:
    run = write_run()
    tree = parsed(write_report(run))
    assert words(next(tree.iter("h1"))) == "The check job finished"
    assert "1 March 2026, 09:00:00 UTC; took 1 h 2 min 3 s." in words(tree)
    assert words(next(parsed(write_report(run / "lab")).iter("h1"))) == "The check job finished at lab"


def test_a_run_cut_short_still_gives_a_page(write_run: WriteRun) -> None:
    running = {"state": "running", "started": "2026-03-01T09:00:00+00:00"}
    lost = running | {"state": "failed", "ended": "2026-03-01T09:01:00+00:00", "origin": "lab", "error": "lab is lost"}
    run = write_run({"lab": running, "clinic": lost}, results={"clinic": None}, closed=False)
    ledger = run / "lab" / LEDGER
    ledger.write_text(ledger.read_text()[:-5])
    tree = parsed(write_report(run))
    assert words(next(tree.iter("h1"))) == "The check job failed"
    troubles = next(section for section in tree.iter("section") if section.get("class") == "troubles")
    assert [words(trouble).split()[0] for trouble in troubles] == ["lab", "clinic"]
    assert "Not known. Its ledger: line 4: unfinished: the run was cut short" in words(table(tree, "What lab sent"))
    assert list(rows(table(tree, "Ledgers")))[2][1:3] == ["intact", "not closed"]
    assert ["lab", "no result: it did not get that far"] in list(rows(table(tree, "Rows, before and after cleaning")))
    own = parsed(write_report(run / "lab"))
    assert words(next(own.iter("h1"))) == "The check job did not finish at lab"


def test_a_run_whose_parties_never_began_gives_a_page(write_run: WriteRun) -> None:
    run = write_run()
    for party in ("lab", "clinic"):
        for name in (STATUS, LEDGER, RESULT):
            (run / party / name).unlink()
    tree = parsed(write_report(run))
    assert words(next(tree.iter("h1"))) == "The check job did not finish"
    assert "There are not two ledgers to compare." in words(tree)


def test_a_ledger_of_another_plan_is_told(write_run: WriteRun) -> None:
    run = write_run()
    plan = run / "plan.toml"
    plan.write_text("timeout = 5\n" + plan.read_text())
    assert list(rows(table(parsed(write_report(run)), "Ledgers")))[1][3] == "not as below"


def test_differences_between_ledgers_are_listed_up_to_a_limit(
    write_run: WriteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run()
    assert "They agree" in words(parsed(write_report(run)))
    ledger = run / "clinic" / LEDGER
    ledger.write_text(ledger.read_text().splitlines(keepends=True)[0])
    first, second, _ = (words(item) for item in parsed(write_report(run)).iter("li"))
    assert first == "frame 1 from lab to clinic: lab sent RowCount, clinic has no record of it"
    monkeypatch.setattr("unpooled.report.page.DIFFERENCES_SHOWN", 2)
    listed = [words(item) for item in parsed(write_report(run)).iter("li")]
    assert listed == [first, second, "and 1 more; unpooled ledger --json shows them all"]


def test_the_page_appears_whole_and_replaces_the_last(write_run: WriteRun) -> None:
    run = write_run()
    before = set(run.iterdir())
    (run / REPORT).write_text("old")
    assert write_report(run) == run / REPORT
    assert set(run.iterdir()) - before == {run / REPORT}
    assert (run / REPORT).read_text(encoding="utf-8") != "old"


def test_every_party_of_a_run_gets_its_own_page(write_run: WriteRun) -> None:
    run = write_run()
    index = parsed(write_report(run))
    assert [link.get("href") for link in next(index.iter("nav")).iter("a")] == ["lab/report.html", "clinic/report.html"]
    for party in ("lab", "clinic"):
        page = run / party / REPORT
        assert f"made from the files of {party} alone" in words(parsed(page))
        assert not list(parsed(page).iter("a"))
        assert stat.S_IMODE(page.stat().st_mode) == 0o600


def test_a_party_without_a_page_has_no_link(write_run: WriteRun) -> None:
    run = write_run()
    (run / "lab" / STATUS).unlink()
    assert {link.get("href") for link in parsed(write_report(run)).iter("a")} == {"clinic/report.html"}
    assert not (run / "lab" / REPORT).exists()
    (run / "clinic" / PLAN).unlink()
    assert not list(parsed(write_report(run)).iter("a"))


def test_a_folder_that_is_no_run_gets_no_pages(write_run: WriteRun) -> None:
    run = write_run()
    (run / PLAN).unlink()
    with pytest.raises(InputError, match=PLAN):
        write_report(run)
    assert not list(run.glob(f"**/{REPORT}"))


def test_what_a_party_took_is_told(write_run: WriteRun) -> None:
    ended = {"state": "finished", "started": "2026-03-01T09:00:00Z", "ended": "2026-03-01T09:30:00Z"}
    run = write_run({"lab": ended | {"cpu_seconds": 1234.56, "peak_memory_mb": 210.04}})
    _, lab, clinic = rows(table(parsed(write_report(run)), "The parties, in the plan’s order"))
    assert (lab[-2:], clinic[-2:]) == (["1,234.6", "210.0"], ["not known", "not known"])
    figures = {words(figure[0]): words(figure[1]) for figure in next(parsed(run / "lab" / REPORT).iter("dl"))}
    assert (figures["CPU time"], figures["Most memory at once"]) == ("1,234.6 s", "210.0 MB")
    assert "CPU" not in words(parsed(run / "clinic" / REPORT))


@pytest.mark.parametrize(("resumptions", "often"), [(1, "once"), (3, "3 times")])
def test_a_run_that_was_resumed_says_so(resumptions: int, often: str, write_run: WriteRun) -> None:
    run = write_run()
    assert "resumed" not in words(next(parsed(write_report(run)).iter("main")))
    digest = read_ledger(run / "lab" / LEDGER).plan
    for _ in range(resumptions):
        Ledger(run / "lab" / LEDGER, "lab", digest, resume=True).close()
    index, own = parsed(write_report(run)), parsed(run / "lab" / REPORT)
    for tree in (index, own):
        assert f"counted from when it was last resumed. It was interrupted and resumed {often}." in words(tree)
    assert "what is compared is what passed since then" in words(index)
    assert "resumed" not in words(next(parsed(run / "clinic" / REPORT).iter("main")))

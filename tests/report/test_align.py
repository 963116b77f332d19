"""An alignment's section of the report: the numbers are those of the run, and a party's page keeps to what it knows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from unpooled.data import example
from unpooled.jobs.align.funnel import Bar, Funnel, Tally, funnel_of
from unpooled.jobs.align.job import Parameters
from unpooled.jobs.align.section import AlignSection, alignment
from unpooled.jobs.examples.example_job import example_job
from unpooled.jobs.examples.example_tables import CUSTOMERS
from unpooled.jobs.files import write_toml
from unpooled.jobs.plan import Plan
from unpooled.jobs.run_files import RESULT
from unpooled.report.gather import gather
from unpooled.report.page import write_report
from unpooled.run.folder import PLAN, STATUS
from unpooled.run.simulate import simulate_job

LETTER_WIDTH, LETTER_HEIGHT = 12.5, 22
"""Of a number where it is written largest, on a telephone."""

OWNER = {"rows_read": 1010, "rows": 1000, "common": 600, "digest": "ab" * 32, "file": "aligned.csv"}
ACTIVE = OWNER | {"positives": 45}
SEEKER = {"rows_read": 91, "rows": 90, "asked_about": 600}
PAIR = {"telco": "passive", "bank": "active"}
THREE = {"power": "passive", **PAIR}
HELPER = {"helper": "coordinator"}
SHOP = {"shop": "seeker"}
RESULTS = {"passive": OWNER, "active": ACTIVE, "seeker": SEEKER, "coordinator": {}}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    example.write(folder)
    return folder


@pytest.fixture(scope="module")
def run(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real alignment of the example's parties."""
    folder = tmp_path_factory.mktemp("align") / "run"
    job = example_job("align")
    simulate_job(job.plan, {name: private.at(tables) for name, private in job.privates.items()}, folder=folder)
    return folder


@pytest.fixture(scope="module")
def expected() -> dict[str, int]:
    """What the pooled tables say."""
    frames = example.population().tables
    ids = {name: set(frame["id"]) for name, frame in frames.items()}
    common = ids["telco"] & ids["bank"]
    counts = {f"{name} read": frame.height for name, frame in frames.items()}
    counts |= {f"{name} cleaned": len(found) for name, found in ids.items()}
    return counts | {"common": len(common), "positives": len(common & ids["shop"])}


def write_run(
    folder: Path, roles: Mapping[str, str], results: Mapping[str, Any] | None = None, **settings: Any
) -> Path:
    """A run whose parties ended well, each with the result of its role unless another is given."""
    parties = {name: {"role": role} for name, role in roles.items()}
    plan = Plan.model_validate({"kind": "align", "parties": parties} | settings)
    for name, role in roles.items():
        home = folder / name
        home.mkdir()
        write_toml(home / PLAN, plan)
        status = {"party": name, "state": "finished", "started": "2026-03-01T09:00:00+00:00"}
        (home / STATUS).write_text(json.dumps(status))
        (home / RESULT).write_text(json.dumps((results or {}).get(name, RESULTS[role])))
    write_toml(folder / PLAN, plan)
    return folder


def section_of(run: Path) -> AlignSection:
    files = gather(run)
    section = alignment(files, Parameters.model_validate(files.plan.parameters))
    assert section is not None
    return section


def parsed(page: Path) -> ElementTree.Element:
    """The page as a tree: it is written so that it is well-formed XML too."""
    return ElementTree.fromstring(page.read_text(encoding="utf-8"))  # noqa: S314


def words(element: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def shown(tree: ElementTree.Element) -> ElementTree.Element:
    """The section of the page that is about what was found."""
    headed = {words(section[0]): section for section in tree.iter("section") if len(section)}
    return headed["People that all parties know"]


def numbers_in_picture(tree: ElementTree.Element) -> list[int]:
    texts = [text for text in shown(tree).iter("text") if text.get("class") == "count"]
    return [int(words(text).replace(",", "")) for text in texts]


def test_the_funnel_of_a_whole_run_has_every_partys_numbers(run: Path, expected: dict[str, int]) -> None:
    tree = parsed(write_report(run))
    left = expected["common"] - expected["positives"]
    rows = [expected[f"{name} {step}"] for name in ("telco", "bank", "shop") for step in ("read", "cleaned")]
    assert numbers_in_picture(tree) == [*rows, expected["common"], left, expected["positives"]]
    figures = {words(figure[0]): words(figure[1]) for figure in next(shown(tree).iter("dl"))}
    assert figures == {
        "In common": f"{expected['common']:,}",
        "of which shop has, label 1": f"{expected['positives']:,}",
        "and has not, label −1": f"{left:,}",
    }
    names = [words(text) for text in shown(tree).iter("text") if text.get("class") == "name"]
    assert names == ["telco", "bank", "shop"]


def test_a_party_is_shown_its_own_numbers_and_no_others(run: Path, expected: dict[str, int]) -> None:
    known = {
        "telco": ["telco read", "telco cleaned", "common"],
        "bank": ["bank read", "bank cleaned", "common", "left", "positives"],
        "shop": ["shop read", "shop cleaned"],
        "coordinator": [],
    }
    counts = expected | {"left": expected["common"] - expected["positives"]}
    for party, names in known.items():
        tree = parsed(write_report(run / party))
        assert numbers_in_picture(tree) == [counts[name] for name in names]
        told = {counts[name] for name in names}
        if party == "shop":
            told.add(expected["common"])  # it was asked about so many
            assert words(next(shown(tree).iter("dd"))) == f"{expected['common']:,}"
        written = {int(number.replace(",", "")) for number in re.findall(r"\b\d[\d,]*\b", words(shown(tree)))}
        assert not written & (set(counts.values()) - told), party
    assert "There are no counts to show in the files of coordinator." in words(shown(tree))


def test_no_id_is_on_any_page(run: Path) -> None:
    ids = set(example.population().truth["id"])
    for folder in (run, *(run / party for party in CUSTOMERS.roles)):
        page = write_report(folder).read_text(encoding="utf-8")
        assert not ids & set(re.findall(r"\b\d{7}\b", page))
    assert ids & set(re.findall(r"\b\d{7}\b", (run / "bank" / "aligned.csv").read_text()))


def test_the_files_with_ids_are_named_and_the_digest_shortened(run: Path) -> None:
    digest = json.loads((run / "telco" / RESULT).read_text())["digest"]
    whole = words(shown(parsed(write_report(run))))
    assert "in telco/aligned.csv and bank/aligned.csv, with the labels at bank, readable by the owner alone" in whole
    assert f"Digest of the rows: {digest[:12]}…, the same at each." in whole
    assert digest not in whole
    telco = words(shown(parsed(write_report(run / "telco"))))
    assert "The aligned ids are in aligned.csv, readable by the owner alone" in telco
    assert "in aligned.csv, with the labels, readable" in words(shown(parsed(write_report(run / "bank"))))
    assert "aligned.csv" not in words(shown(parsed(write_report(run / "shop"))))
    assert (run / "telco" / "aligned.csv").exists()


def test_the_page_needs_no_style_of_its_own_and_no_script(run: Path) -> None:
    tree = parsed(write_report(run))
    assert not [element.tag for element in tree.iter() if element.tag in ("script", "link", "img", "iframe")]
    assert not [name for element in tree.iter() for name in element.keys() if name in ("src", "style")]  # noqa: SIM118
    assert all(cell.get("scope") for cell in shown(tree).iter("th"))


@pytest.mark.parametrize(
    ("roles", "settings", "party", "told"),
    [
        (
            SHOP | PAIR | HELPER,
            {},
            "bank",
            "which 600 of its rows are common to telco and bank; how many rows telco brought; "
            "which 45 of these 600 are shop's too; how many ids shop brought",
        ),
        (
            SHOP | PAIR | HELPER,
            {},
            "telco",
            "which 600 of its rows are common to telco and bank; how many rows bank brought",
        ),
        (
            SHOP | PAIR | HELPER,
            {},
            "shop",
            "that bank asked about 600 rows, and that enough of its own ids are among them; "
            "neither which rows, nor which of its ids",
        ),
        (
            SHOP | PAIR | HELPER,
            {},
            "helper",
            "how many rows each of telco and bank brought, and how many any of them have in common; no ids",
        ),
        (
            THREE | HELPER,
            {},
            "power",
            "which 600 of its rows are common to the 3 owners of columns; how many rows telco and bank brought",
        ),
        (
            THREE | HELPER,
            {},
            "bank",
            "which 600 of its rows are common to the 3 owners of columns; how many rows power and telco brought",
        ),
        (
            THREE | HELPER,
            {},
            "helper",
            "how many rows each of the 3 owners of columns brought, and how many any of them have in common; no ids",
        ),
        (
            THREE | HELPER,
            {"parameters": {"psi": "blind-rsa"}},
            "bank",
            "which of its rows each of power and telco has; which 600 of its rows are common to the 3 owners of "
            "columns; how many rows power and telco brought",
        ),
        (
            THREE | HELPER,
            {"parameters": {"psi": "blind-rsa"}},
            "power",
            "which 600 of its rows are common to the 3 owners of columns; how many rows bank brought",
        ),
        (
            THREE | HELPER,
            {"parameters": {"psi": "blind-rsa"}},
            "helper",
            "nothing: this way of comparing ids does without it",
        ),
        (
            SHOP | PAIR | HELPER,
            {"parameters": {"psi": "aided"}},
            "helper",
            "how many rows each of telco and bank brought, and how many any of them have in common; how many ids shop "
            "brought, and how many of the common rows are its own; no ids",
        ),
        (
            THREE | HELPER,
            {"parameters": {"psi": "aided"}},
            "power",
            "which 600 of its rows are common to the 3 owners of columns; how many rows telco and bank brought",
        ),
        (PAIR, {}, "bank", "which 600 of its rows are common to telco and bank; how many rows telco brought"),
        (PAIR, {}, "telco", "which 600 of its rows are common to telco and bank; how many rows bank brought"),
        (
            SHOP | {"bank": "active"},
            {},
            "bank",
            "which 45 of these 600 are shop's too; how many ids shop brought",
        ),
    ],
)
def test_who_learnt_what(
    roles: dict[str, str], settings: dict[str, Any], party: str, told: str, tmp_path: Path
) -> None:
    run = write_run(tmp_path, roles, **settings)
    assert section_of(run).learnt[party] == told
    assert section_of(run / party).learnt == {party: told}
    assert f"Learnt {told}." in words(shown(parsed(write_report(run))))


@pytest.mark.parametrize(
    ("settings", "method"),
    [
        ({}, "ECDH on ristretto255"),
        ({"parameters": {"psi": "blind-rsa"}, "key_bits": 3072}, "blind RSA, 3072 bits"),
        (
            {"parameters": {"psi": "aided"}},
            "tags under a key that helper does not have; if it colluded with a party that has it, the two could test "
            "guesses of the others' ids",
        ),
    ],
)
def test_the_method_is_named(settings: dict[str, Any], method: str, tmp_path: Path) -> None:
    tree = parsed(write_report(write_run(tmp_path, PAIR | HELPER, **settings)))
    assert f"Ids were compared by {method}." in words(shown(tree))


def test_a_run_without_results_says_so(tmp_path: Path) -> None:
    run = write_run(tmp_path, SHOP | PAIR | HELPER)
    for name in ("shop", "telco", "bank"):
        (run / name / RESULT).unlink()
    status = json.loads((run / "helper" / STATUS).read_text())
    (run / "helper" / STATUS).write_text(json.dumps(status | {"state": "running"}))
    told = words(shown(parsed(write_report(run))))
    assert "There are no counts to show." in told
    assert told.count("No result; what reached it before it ended is in its ledger.") == 4
    assert "Learnt" not in told
    assert "Ids were compared" not in told
    assert "Digest" not in told


@pytest.mark.parametrize("broken", [{}, OWNER | {"common": -1}, OWNER | {"rows": "many"}, {"rows": 10}])
def test_a_result_that_cannot_be_read_is_named(broken: dict[str, Any], tmp_path: Path) -> None:
    run = write_run(tmp_path, SHOP | PAIR, {"telco": broken})
    assert f"{run / 'telco' / RESULT}: " in words(parsed(write_report(run)))


def test_a_party_without_a_result_is_left_out(tmp_path: Path) -> None:
    run = write_run(tmp_path, SHOP | PAIR)
    (run / "telco" / RESULT).unlink()
    section = section_of(run)
    assert section.results["telco"] is None
    assert section.funnel is not None
    assert [column.name for column in section.funnel.columns] == ["bank", "shop"]
    assert "telco No result;" in words(shown(parsed(write_report(run))))


def test_rows_that_differ_are_told(tmp_path: Path) -> None:
    run = write_run(tmp_path, PAIR, {"telco": OWNER | {"digest": "cd" * 32}})
    told = words(shown(parsed(write_report(run))))
    assert "The digests of the rows differ, so these parties do not hold the same rows: align again." in told


def test_a_plan_that_cannot_be_aligned_still_gives_a_page(tmp_path: Path) -> None:
    run = write_run(tmp_path, THREE)
    assert alignment(gather(run), Parameters()) is None
    assert words(next(parsed(write_report(run)).iter("h1"))).startswith("The align job")


def funnel(owners: int, most: int = 1_000_000) -> Funnel:
    tallies = {f"party-{number}": Tally(most - number, most - 10 * number) for number in range(owners)}
    drawn = funnel_of(tallies, {"seeker": Tally(most // 10, most // 20)}, most // 2, most // 40, most // 8)
    assert drawn
    return drawn


@pytest.mark.parametrize("owners", range(1, 13))
def test_the_picture_holds_everything_and_no_two_numbers_touch(owners: int) -> None:
    drawn = funnel(owners)
    for bar in drawn.bars:
        assert 0 < bar.left < bar.left + bar.width < drawn.width
        assert 0 < bar.number_at - LETTER_HEIGHT / 2 < bar.top < bar.top + bar.height < drawn.height
        assert bar.word_at + LETTER_HEIGHT / 2 < drawn.height or not bar.word
        numbers_below = [other.number_at for other in drawn.bars if other.top > bar.top]
        assert all(bar.word_at + LETTER_HEIGHT <= height for height in numbers_below)

    def box(bar: Bar) -> tuple[float, float, float]:
        return bar.middle, bar.number_at, LETTER_WIDTH * len(f"{bar.count:,}")

    for one, other in combinations(map(box, drawn.bars), 2):
        assert abs(one[0] - other[0]) >= (one[2] + other[2]) / 2 or abs(one[1] - other[1]) >= LETTER_HEIGHT
    first = min(bar.middle - LETTER_WIDTH * len(f"{bar.count:,}") / 2 for bar in drawn.bars)
    assert all(LETTER_WIDTH * len(word) <= first for word, _ in drawn.stages)


def test_bars_are_as_wide_as_they_are_many() -> None:
    bars = funnel(3).bars
    ratios = [bar.width / bar.count for bar in bars]
    assert max(ratios) == pytest.approx(min(ratios), rel=0.05)
    assert len({bar.width for bar in bars}) > 3


def test_one_row_among_millions_is_still_to_be_seen() -> None:
    drawn = funnel_of({"bank": Tally(4_000_000, 4_000_000)}, {"shop": None}, 3_000_000, 1)
    assert drawn
    assert min(bar.width for bar in drawn.bars) == 2
    assert [bar.count for bar in drawn.bars] == [4_000_000, 4_000_000, 3_000_000, 2_999_999, 1]

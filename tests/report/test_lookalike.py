"""The section of a search for look-alikes: every party reads what its own files know, and nobody else's."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from unpooled.jobs.lookalike.evaluation import EVALUATION
from unpooled.jobs.lookalike.list_section import TOP_SHOWN
from unpooled.jobs.run_files import RESULT
from unpooled.report.page import write_report
from unpooled.run.folder import REPORT
from unpooled.vertical.trees.messages import Sides
from unpooled.wire import disclosure_of

WriteJob = Callable[..., Path]
Element = ElementTree.Element

ROLES = {"shop": "seeker", "telco": "passive", "bank": "active", "helper": "coordinator"}
SCORES = {"edges": [0.0, 0.5, 1.0], "counts": [450, 90]}
OWNER: dict[str, Any] = {
    "rows_read": 1010,
    "rows": 1000,
    "common": 600,
    "digest": "ab" * 32,
    "columns": 3,
    "importance": [{"name": "tariff", "splits": 5, "rows": 700}, {"name": "region", "splits": 0, "rows": 0}],
    "thresholds": 4,
    "questions": 12,
}
ADVICE: dict[str, Any] = {
    "rows": 540,
    "fewest": 60,
    "positives": 135,
    "most": 270,
    "doubtful": False,
    "lengths": [20, 24, 135, 540],
    "precision": [0.75, 0.75, 0.5, 0.25],
    "low": [0.5, 0.5, 0.25, 0.125],
    "high": [1.0, 1.0, 0.75, 0.5],
}
ESTIMATES: dict[str, Any] = {"warning": ""}
FOUND: dict[str, Any] = OWNER | {
    "method": "vfpu",
    "learner": "gbdt",
    "positives": 60,
    "unlabelled": 540,
    "listed": 24,
    "scores": SCORES,
    "promotions": [
        {"rows": 16, "lowest": 0.75, "highest": 0.875},
        {"rows": 8, "lowest": 0.625, "highest": 0.8125},
    ],
    "estimates": ESTIMATES,
    "advice": ADVICE,
    "importance": [{"name": "overdraft", "splits": 7, "rows": 900}],
    "questions": 0,
    "file": "ranking.csv",
}
JUDGED: dict[str, Any] = {
    "fraction": 0.125,
    "listed": {"precision": 0.5, "recall": 0.25, "f": 1 / 3},
    "at": [
        {"rows": 10, "by_bagging": 0.625, "precision": 0.75, "recall": 0.125, "f": 0.2},
        {"rows": 20, "precision": 0.5, "recall": 0.25, "f": 0.3},
    ],
    "curve": [[0.5, 1.0], [0.75, 0.125]],
    "bagging_curve": [[0.25, 1.0], [0.5, 0.125]],
}
SOUGHT: dict[str, Any] = {
    "rows_read": 91,
    "rows": 90,
    "asked_about": 600,
    "listed": 24,
    "iterations": [2, 14, 8],
    "scores": {"edges": [0.0, 0.5, 1.0], "counts": [0, 24]},
    "file": "reliable.csv",
}
RESULTS = {"shop": SOUGHT, "telco": OWNER, "bank": FOUND, "helper": {}}
PART = {"rows": 8, "known": 8, "positive": 6, "precision": 0.75, "recall": 0.5, "lift": 3.0}
EVALUATED: dict[str, Any] = {
    "positives": 12,
    "everybody": 48,
    "fraction": 0.25,
    "whole": PART | {"rows": 24, "known": 20},
    "tiers": {"first": PART, "second": PART | {"precision": None, "lift": None}},
    "iterations": {"0": PART, "1": PART},
}


def parsed(page: Path) -> Element:
    return ElementTree.fromstring(page.read_text(encoding="utf-8"))  # noqa: S314


def words(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def lead(tree: Element) -> str:
    return next(words(found) for found in tree.iter("p") if found.get("class") == "lead")


def table(tree: Element, caption: str) -> list[list[str]]:
    found = next(found for found in tree.iter("table") if words(found[0]) == caption)
    return [[words(cell) for cell in row] for row in found.iter("tr")][1:]


def figures(tree: Element) -> dict[str, str]:
    return {words(line[0]): words(line[1]) for found in tree.iter("dl") for line in found}


def headings(tree: Element) -> list[str]:
    return [words(heading) for heading in tree.iter("h2")]


def charts(tree: Element) -> list[tuple[Element, str]]:
    return [(figure[0], words(figure[1])) for figure in tree.iter("figure") if figure[0].get("class") == "chart"]


def write_list(folder: Path, rows: int = 24, names: tuple[str, ...] = ("id",)) -> Path:
    """A list of people p1, p2, ..., the last of whom has no score."""
    lines = [",".join((*names, "rank_" if "rank" in names else "rank", "score", "tier", "iteration"))]
    for rank in range(1, rows + 1):
        ids = [f"{'p' * (place + 1)}{rank}" for place in range(len(names))]
        score = "" if rank == rows else f"{1 - rank / 100}"
        lines.append(",".join((*ids, str(rank), score, ("first", "second", "third")[(rank - 1) * 3 // rows], "1")))
    (folder / "reliable.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_the_active_party_reads_how_the_list_came_about(write_job: WriteJob) -> None:
    tree = parsed(write_report(write_job("lookalike", ROLES, RESULTS) / "bank"))
    assert lead(tree) == "bank found 24 look-alikes among 540 people whom shop does not know."
    assert table(tree, "Promotions") == [["1", "16", "0.750", "0.875"], ["2", "8", "0.625", "0.812"]]
    (picture, caption), (expected, _) = charts(tree)
    assert caption.startswith("Scores of the 540 rows that shop does not know")
    first, second = (float(column.get("height") or 0) for column in picture.iter("rect"))
    assert first == pytest.approx(5 * second, abs=0.3)
    shown = figures(tree)
    assert shown["Suggested length of a list"] == "135"
    assert shown["Positives among all 540 unknown people"] == "about 135"
    assert {path.get("class") for path in expected.iter("path")} >= {"curve", "area", "reference"}
    assert "shop was told none of this" in words(tree)
    assert "How good the list is" not in headings(tree)
    assert "Your list" not in headings(tree)


def test_the_funnel_goes_from_rows_to_look_alikes(write_job: WriteJob) -> None:
    tree = parsed(write_report(write_job("lookalike", ROLES, RESULTS) / "bank"))
    funnel = next(found for found in tree.iter("svg") if found.get("class") == "funnel")
    numbers = [words(text) for text in funnel.iter("text") if text.get("class") == "count"]
    assert numbers == ["1,010", "1,000", "600", "540", "60", "24"]
    assert [words(text) for text in funnel.iter("text") if text.get("class") == "stage"][-2:] == ["labels", "listed"]
    assert figures(tree)["of which are listed as look-alikes"] == "24"


def test_a_warning_stands_in_a_box(write_job: WriteJob) -> None:
    result = FOUND | {"estimates": ESTIMATES | {"warning": "known rows are <unlike> the others"}}
    tree = parsed(write_report(write_job("lookalike", ROLES, RESULTS | {"bank": result}) / "bank"))
    (box,) = (found for found in tree.iter("p") if found.get("class") == "warning")
    assert words(box) == "Be careful: known rows are <unlike> the others."


def test_without_a_warning_there_is_no_box(write_job: WriteJob) -> None:
    tree = parsed(write_report(write_job("lookalike", ROLES, RESULTS) / "bank"))
    assert not [found for found in tree.iter("p") if found.get("class") == "warning"]


@pytest.mark.parametrize(
    ("estimates", "there"),
    [({}, False), ({"spies": 12, "spies_promoted": 0.5}, True)],
)
def test_what_was_not_estimated_is_not_shown(estimates: dict[str, Any], there: bool, write_job: WriteJob) -> None:
    result = FOUND | {"estimates": estimates, "advice": None}
    tree = parsed(write_report(write_job("lookalike", ROLES, RESULTS | {"bank": result}) / "bank"))
    assert ("How many look-alikes there may be" in headings(tree)) == there
    assert "Suggested length of a list" not in figures(tree)
    assert ("of 12, 50.0 % were promoted" in words(tree)) == there


def test_a_list_is_judged_where_the_truth_is_known(write_job: WriteJob) -> None:
    run = write_job("lookalike", ROLES, RESULTS | {"bank": FOUND | {"judged": JUDGED}})
    tree = parsed(write_report(run / "bank"))
    assert lead(tree).endswith("50.0 % of them are positive, against 12.5 % of all.")
    assert table(tree, "Lists of other lengths") == [
        ["10", "75.0 %", "62.5 %", "12.5 %", "0.200", "6.00"],
        ["20", "50.0 %", "not known", "25.0 %", "0.300", "4.00"],
    ]
    shown = figures(tree)
    assert (shown["Precision"], shown["Recall"], shown["F"]) == ("50.0 %", "25.0 %", "0.333")
    assert shown["Precision over that of a random list"] == "4.00"
    *_, (picture, caption) = charts(tree)
    assert {path.get("class") for path in picture.iter("path")} >= {"curve", "second", "reference"}
    assert "bagging alone" in caption
    assert "a list drawn at random" in caption


@pytest.mark.parametrize(
    ("method", "judged", "pictures"),
    [
        ("bagging", JUDGED, 3),
        ("naive", {key: value for key, value in JUDGED.items() if key != "bagging_curve"}, 3),
        ("vfpu", JUDGED | {"curve": []}, 2),
    ],
)
def test_bagging_is_compared_with_others_alone(
    method: str, judged: dict[str, Any], pictures: int, write_job: WriteJob
) -> None:
    result = FOUND | {"method": method, "judged": judged}
    drawn = charts(parsed(write_report(write_job("lookalike", ROLES, RESULTS | {"bank": result}) / "bank")))
    assert len(drawn) == pictures
    assert not any("bagging alone" in caption for _, caption in drawn)
    assert not any(path.get("class") == "second" for picture, _ in drawn for path in picture.iter("path"))


def test_the_seeker_reads_the_top_of_its_list(write_job: WriteJob) -> None:
    run = write_job("lookalike", ROLES, RESULTS)
    page = write_report(write_list(run / "shop"))
    tree = parsed(page)
    assert lead(tree) == "shop has 24 look-alikes. They were found among the people that telco and bank have in common."
    assert headings(tree)[:4] == ["Your list", "How good the list probably is", "What to do next", "Who took part"]
    assert "24 look-alikes for shop" in words(next(tree.iter("h1")))
    top = table(tree, "The top of the list")
    assert len(top) == TOP_SHOWN
    assert top[0] == ["1", "p1", "0.990", "first", "1"]
    assert top[-1] == ["10", "p10", "0.900", "second", "1"]
    assert table(tree, "When they were promoted") == [["1", "14"], ["2", "8"], ["not promoted", "2"]]
    assert "keep both secret" in words(tree)
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert figures(tree)["Asked about by bank"] == "600"


def test_the_seeker_reads_what_to_expect(write_job: WriteJob) -> None:
    advised = SOUGHT | {"advice": ADVICE, "excluded": 3}
    run = write_job("lookalike", ROLES, RESULTS | {"shop": advised}, parameters={"advice": True})
    tree = parsed(write_report(write_list(run / "shop")))
    assert "about 18 are expected to be positive" in words(tree)
    assert "probably between 12 and 24" in words(tree)
    assert "3 more had been sent" in words(tree)
    assert figures(tree)["Suggested length of a list"] == "135"
    assert table(tree, "What to expect of other lengths")[2] == ["135", "68", "34", "101", "50 %"]
    assert not [found for found in tree.iter("p") if found.get("class") == "warning"]
    (picture, caption), (_, scores) = charts(tree)
    assert caption.startswith("Expected precision")
    assert scores.startswith("Scores of the 24")
    assert len(list(picture.iter("circle"))) == 1
    doubtful = advised | {"advice": ADVICE | {"doubtful": True}}
    (run / "shop" / RESULT).write_text(json.dumps(doubtful))
    (box,) = (p for p in parsed(write_report(run / "shop")).iter("p") if p.get("class") == "warning")
    assert words(box).startswith("Be careful: shop’s people score higher")


def test_the_seeker_reads_what_look_alikes_have_in_common(write_job: WriteJob) -> None:
    mean = {"column": "calls", "measure": "mean", "level": "", "listed": 40.0, "others": 1234.5}
    level = {"column": "risk", "measure": "level", "level": "low", "listed": 0.75, "others": 0.5}
    by_bank = SOUGHT | {"in_common": [level | {"party": "bank"}]}
    run = write_job("lookalike", ROLES, RESULTS | {"shop": by_bank}, parameters={"describe": ["bank"]})
    tree = parsed(write_report(write_list(run / "shop")))
    assert table(tree, "Look-alikes and others") == [["bank", "risk", "low", "75 %", "50 %"]]
    assert "approximate" not in words(tree)
    by_both = {"in_common": [mean | {"party": "telco"}, level | {"party": "bank"}]}
    (run / "shop" / RESULT).write_text(json.dumps(SOUGHT | by_both))
    tree = parsed(write_report(run / "shop"))
    assert table(tree, "Look-alikes and others")[0] == ["telco", "calls", "mean", "40", "1,234.5"]
    assert "telco counted in ranges of values" in words(tree)
    assert "so its means and medians are approximate" in words(tree)


def test_a_delivery(write_job: WriteJob) -> None:
    roles = {name: role for name, role in ROLES.items() if role != "coordinator"}
    received = {key: SOUGHT[key] for key in ("listed", "iterations", "scores")} | {"advice": ADVICE}
    results = {"shop": received, "telco": {}, "bank": {"ranked": 540, "listed": 24, "excluded": 2}}
    run = write_job("deliver", roles, results, parameters={"top": 24, "advice": True})
    write_list(run / "shop")
    index = parsed(write_report(run))
    sent = "bank sent shop the first 24 of 540 people whom it had ranked. 2 of them were left out by its own file."
    assert lead(index) == lead(parsed(run / "bank" / REPORT)) == sent
    shop = parsed(run / "shop" / REPORT)
    assert headings(shop)[0] == "Your list"
    assert table(shop, "The top of the list")[0][1] == "p1"
    assert lead(parsed(run / "telco" / REPORT)).startswith("telco agreed")
    assert not re.search(r"\bp1\b", words(parsed(run / "bank" / REPORT)))


def test_an_id_of_several_columns_and_a_row_without_a_score(write_job: WriteJob) -> None:
    run = write_job("lookalike", ROLES, RESULTS)
    tree = parsed(write_report(write_list(run / "shop", 3, ("<name>", "rank"))))
    assert table(tree, "The top of the list")[-1] == ["3", "p3", "pp3", "none", "third", "1"]


@pytest.mark.parametrize(("order", "shown"), [("score", "higher the score"), ("promotion", "promoted earlier")])
def test_the_seeker_is_told_what_orders_the_list(write_job: WriteJob, order: str, shown: str) -> None:
    run = write_job("lookalike", ROLES, RESULTS, parameters={"method": {"order": order}})
    told = re.findall("higher the score|promoted earlier", words(parsed(write_report(write_list(run / "shop")))))
    assert told == [shown]


def test_nobody_else_reads_the_list(write_job: WriteJob) -> None:
    run = write_job("lookalike", ROLES, RESULTS)
    write_list(run / "shop")
    (run / "shop" / EVALUATION).write_text(json.dumps(EVALUATED))
    index = parsed(write_report(run))
    assert lead(index) == "bank found 24 look-alikes among 540 people whom shop does not know."
    assert not {"How many look-alikes there may be", "Your list", "How good the list was"} & set(headings(index))
    for folder in (run, run / "bank", run / "telco", run / "helper"):
        assert not re.search(r"\bp1\b", words(parsed(folder / REPORT)))
        assert not re.search("The top of the list|turned out positive", words(parsed(folder / REPORT)))


def test_the_seeker_knows_no_share_and_no_ranking(write_job: WriteJob) -> None:
    run = write_job("lookalike", ROLES, RESULTS | {"bank": FOUND | {"judged": JUDGED}})
    shown = words(parsed(write_report(write_list(run / "shop"))))
    assert not re.search("Elkan|best bin|overdraft|tariff|\\b540\\b|ranking.csv|12.5 %", shown)


def test_a_passive_party_sees_neither_list_nor_scores(write_job: WriteJob) -> None:
    run = write_job("lookalike", ROLES, RESULTS, [(Sides, 4)])
    tree = parsed(write_report(run / "telco"))
    assert lead(tree) == "telco lent 3 columns of 600 rows to the search."
    assert not charts(tree)
    assert table(tree, "Columns of telco") == [["tariff", "5", "700"]]
    assert table(tree, "Columns that were used") == [["telco", "600", "3", "4", "12"]]
    assert table(tree, "What bank learnt from telco") == [[disclosure_of(Sides).what, "4"]]
    assert not re.search("Promotions|Elkan|overdraft|\\b540\\b|reliable.csv|ranking.csv", words(tree))


def test_the_coordinator_has_nothing_to_show(write_job: WriteJob) -> None:
    tree = parsed(write_report(write_job("lookalike", ROLES, RESULTS) / "helper"))
    assert "There is nothing to show in the files of helper." in words(tree)


def test_columns_of_a_linear_model(write_job: WriteJob) -> None:
    owner = {key: value for key, value in OWNER.items() if key not in ("importance", "thresholds")}
    owner["importance"] = [{"name": "tariff", "weight": 0.5}]
    parameters = {"model": {"learner": "linear"}}
    run = write_job("lookalike", ROLES, RESULTS | {"telco": owner}, parameters=parameters)
    assert table(parsed(write_report(run / "telco")), "Columns of telco") == [["tariff", "0.500"]]


def test_outcomes_are_shown_to_the_seeker(write_job: WriteJob) -> None:
    home = write_list(write_job("lookalike", ROLES, RESULTS) / "shop")
    (home / EVALUATION).write_text(json.dumps(EVALUATED))
    tree = parsed(write_report(home))
    assert "12 of 48 people turned out positive" in words(tree)
    assert table(tree, "Outcomes by part of the list") == [
        ["first tier", "8", "8", "6", "75.0 %", "50.0 %", "3.00"],
        ["second tier", "8", "8", "6", "not known", "50.0 %", "not known"],
        ["not promoted", "8", "8", "6", "75.0 %", "50.0 %", "3.00"],
        ["iteration 1", "8", "8", "6", "75.0 %", "50.0 %", "3.00"],
        ["in all", "24", "20", "6", "75.0 %", "50.0 %", "3.00"],
    ]
    (home / EVALUATION).write_text(json.dumps(EVALUATED | {"everybody": None, "fraction": None}))
    tree = parsed(write_report(home))
    assert "12 people who turned out positive" in words(tree)
    assert {len(line) for line in table(tree, "Outcomes by part of the list")} == {6}


@pytest.mark.parametrize(
    ("party", "file", "content", "fault"),
    [
        ("bank", RESULT, json.dumps(FOUND | {"unlabelled": -1}), "unlabelled: "),
        ("bank", RESULT, json.dumps(FOUND | {"judged": JUDGED | {"fraction": 0}}), "judged.fraction: "),
        ("bank", RESULT, json.dumps(FOUND | {"scores": {"edges": [1, 0], "counts": [1]}}), "scores: "),
        ("bank", RESULT, json.dumps(FOUND | {"advice": ADVICE | {"most": 541}}), "advice: "),
        ("bank", RESULT, "{", "JSON"),
        ("telco", RESULT, json.dumps(OWNER | {"thresholds": "many"}), "thresholds: "),
        ("shop", RESULT, json.dumps(SOUGHT | {"iterations": None}), "iterations: "),
        ("shop", "reliable.csv", "id,rank,score\n", "columns"),
        ("shop", "reliable.csv", "", ""),
        ("shop", "reliable.csv", "id,rank,score,tier,iteration\np1,1,x,first,1\n", "column 'score': row 1"),
        ("shop", "reliable.csv", "id,rank,score,tier,iteration\np1,1,1,best,1\n", "column 'tier': row 1"),
        ("shop", "reliable.csv", "id,rank,score,tier,iteration\np1,1,1,first,-1\n", "column 'iteration': row 1"),
        ("shop", EVALUATION, json.dumps(EVALUATED | {"whole": None}), "whole: "),
    ],
)
def test_a_damaged_file_is_named_and_the_rest_is_shown(
    party: str, file: str, content: str, fault: str, write_job: WriteJob
) -> None:
    run = write_job("lookalike", ROLES, RESULTS)
    write_list(run / "shop")
    (run / party / file).write_text(content)
    tree = parsed(write_report(run / party))
    (box,) = (found for found in tree.iter("section") if found.get("class") == "troubles")
    assert f"{run / party / file}: " in words(box)
    assert fault in words(box)
    assert f"What {party} sent" in words(tree)
    assert write_report(run).exists()


def test_a_missing_list_is_told(write_job: WriteJob) -> None:
    home = write_job("lookalike", ROLES, RESULTS) / "shop"
    tree = parsed(write_report(home))
    assert f"{home / 'reliable.csv'}: " in words(tree)
    assert "The top of the list" not in words(tree)


def test_a_run_without_results_has_pages(write_job: WriteJob) -> None:
    run = write_job("lookalike", ROLES, {})
    write_report(run)
    for party in ROLES:
        assert f"There is nothing to show in the files of {party}." in words(parsed(run / party / REPORT))


def test_a_real_run(searched: Path) -> None:
    write_report(searched)
    result = json.loads((searched / "bank" / RESULT).read_text())
    bank, shop = (parsed(searched / party / REPORT) for party in ("bank", "shop"))
    assert f"bank found {result['listed']} look-alikes among {result['unlabelled']} people" in lead(bank)
    assert [int(line[1]) for line in table(bank, "Promotions")] == [one["rows"] for one in result["promotions"]]
    assert len(table(bank, "Lists of other lengths")) == len(result["judged"]["at"])
    ids = (searched / "shop" / "reliable.csv").read_text().splitlines()[1 : TOP_SHOWN + 1]
    assert [line[1] for line in table(shop, "The top of the list")] == [line.split(",")[0] for line in ids]
    assert "troubles" not in {section.get("class") for tree in (bank, shop) for section in tree.iter("section")}
    index = parsed(searched / REPORT)
    pages = {link.get("href") for link in index.iter("a")}
    assert pages == {f"{party}/report.html" for party in ("shop", "telco", "bank", "coordinator")}
    assert all((searched / str(page)).is_file() for page in pages)

"""The section of a job that computes information values: each column has a bar and a word, by name where known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from unpooled.information.messages import InformationShares
from unpooled.report.page import write_report

WriteJob = Callable[..., Path]

ROLES = {"telco": "passive", "bank": "active", "helper": "coordinator"}
ALIGNED = {"rows_read": 1010, "rows": 1000, "common": 600, "digest": "ab" * 32}
TELCO: dict[str, Any] = ALIGNED | {
    "columns": [
        {"name": "tariff", "iv": 0.01, "bins": 2, "number": 1},
        {"name": "calls", "iv": 0.4, "bins": 5, "number": 2},
    ]
}
BANK: dict[str, Any] = ALIGNED | {
    "columns": [{"name": "age", "iv": 0.15, "bins": 5}],
    "lent": {"telco": [0.01, 0.4]},
    "positive": "yes",
    "negative": "no",
    "positives": 150,
    "by_chance": 0.036,
    "rows_without_label": 7,
}
RESULTS = {"telco": TELCO, "bank": BANK, "helper": {}}


def parsed(page: Path) -> ElementTree.Element:
    return ElementTree.fromstring(page.read_text(encoding="utf-8"))  # noqa: S314


def words(element: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def table(tree: ElementTree.Element, caption: str) -> list[list[str]]:
    found = next(found for found in tree.iter("table") if words(found[0]) == caption)
    return [[words(cell) for cell in row] for body in found.iter("tbody") for row in body]


def test_the_active_party_sees_columns_by_number(write_job: WriteJob) -> None:
    run = write_job("information", ROLES, RESULTS, [(InformationShares, 1)])
    (run / "bank" / "woe.csv").write_text("column,bin,above,up_to,rows,woe\n")
    tree = parsed(write_report(run / "bank"))
    assert table(tree, "Columns of telco") == [["column 2", "strong", "0.400"], ["column 1", "none", "0.010"]]
    assert table(tree, "Columns of bank") == [["age", "medium", "0.150"]]
    said = words(tree)
    assert "Positives are the 150 rows with yes, the others have no." in said
    assert "that says nothing has about 0.036." in said
    assert "7 people of bank without a label did not take part." in said
    assert "The highest is that of column 2 of telco, 0.40: strong." in said
    assert "is in woe.csv of bank, readable" in said
    assert "What bank learnt from the others" in said


def test_an_owner_sees_its_columns_by_name_and_by_the_others_number(write_job: WriteJob) -> None:
    tree = parsed(write_report(write_job("information", ROLES, RESULTS) / "telco"))
    assert table(tree, "Columns of telco")[0] == ["calls", "column 2", "strong", "0.400"]
    assert "Columns of bank" not in words(tree)


def test_a_run_without_results_says_so(write_job: WriteJob) -> None:
    tree = parsed(write_report(write_job("information", ROLES, {})))
    assert "There is nothing to show" in words(tree)

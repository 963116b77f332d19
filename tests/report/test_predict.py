"""The section of a job that predicts: the scores of all rows together, and what the active party learnt."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from unpooled.jobs.run_files import RESULT
from unpooled.report.page import write_report
from unpooled.vertical.trees.messages import Sides
from unpooled.wire import disclosure_of

WriteJob = Callable[..., Path]
Element = ElementTree.Element

ROLES = {"telco": "passive", "bank": "active", "helper": "coordinator"}
HELPER = {"rows_read": 1010, "rows": 1000, "common": 600, "digest": "ab" * 32, "unseen": {}}
PREDICTED: dict[str, Any] = HELPER | {
    "learner": "xgb",
    "classes": 2,
    "class_names": ["stays", "departs"],
    "scores": {"histogram": {"edges": [0.0, 0.5, 1.0], "counts": [450, 150]}},
    "file": "predictions.csv",
}
RESULTS = {"telco": HELPER, "bank": PREDICTED, "helper": {}}


def parsed(page: Path) -> Element:
    return ElementTree.fromstring(page.read_text(encoding="utf-8"))  # noqa: S314


def words(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def lead(tree: Element) -> str:
    return next(words(found) for found in tree.iter("p") if found.get("class") == "lead")


def table(tree: Element, caption: str) -> list[list[str]]:
    found = next(found for found in tree.iter("table") if words(found[0]) == caption)
    return [[words(cell) for cell in row] for body in found.iter("tbody") for row in body]


def chart(tree: Element) -> tuple[Element, str]:
    """The one picture with axes, and what stands below it."""
    (figure,) = (figure for figure in tree.iter("figure") if figure[0].get("class") == "chart")
    return figure[0], words(figure[1])


def test_the_active_party_sees_the_scores_of_all_rows_together(write_job: WriteJob) -> None:
    tree = parsed(write_report(write_job("predict", ROLES, RESULTS) / "bank"))
    assert lead(tree) == "bank has predictions for 600 rows that telco and bank have in common."
    picture, caption = chart(tree)
    assert caption.startswith("Probability of the second class, 600 rows.")
    first, second = (float(column.get("height") or 0) for column in picture.iter("rect"))
    assert first == pytest.approx(3 * second, abs=0.2)
    assert "The classes, in this order, are stays and departs." in words(tree)
    assert "Compared with the truth" not in words(tree)
    assert "Values that are new to the model" not in words(tree)


def test_predictions_are_judged_if_the_truth_is_known(write_job: WriteJob) -> None:
    judged = PREDICTED | {"metrics": {"new": {"auc": 0.75, "accuracy": 0.5}}, "unknown_labels": 2}
    tree = parsed(write_report(write_job("predict", ROLES, RESULTS | {"bank": judged})))
    assert lead(tree).endswith("Compared with the truth, they have an AUC of 0.750.")
    assert [line[1:] for line in table(tree, "Compared with the truth")] == [["0.750"], ["0.500"]]
    assert "2 rows have labels that the model does not know, and were not counted." in words(tree)


@pytest.mark.parametrize(
    ("classes", "title", "caption"),
    [
        (0, "prediction", "Predictions, 600 rows."),
        (3, "highest probability", "Probability of the class that was taken, 600 rows."),
    ],
)
def test_the_picture_says_what_it_shows(classes: int, title: str, caption: str, write_job: WriteJob) -> None:
    result = PREDICTED | {"classes": classes, "class_names": [f"class {n}" for n in range(classes)]}
    tree = parsed(write_report(write_job("predict", ROLES, RESULTS | {"bank": result}) / "bank"))
    picture, below = chart(tree)
    assert title in [words(text) for text in picture.iter("text")]
    assert below.startswith(caption)


def test_a_passive_party_reads_what_it_helped_with(write_job: WriteJob) -> None:
    run = write_job("predict", ROLES, RESULTS, [(Sides, 4)])
    tree = parsed(write_report(run / "telco"))
    assert lead(tree) == "telco helped bank to predict for 600 rows."
    assert table(tree, "What bank learnt from telco") == [[disclosure_of(Sides).what, "4"]]
    assert not re.search("stays|departs|The predictions", words(tree))
    helper = words(parsed(write_report(run / "helper")))
    assert "There is nothing to show in the files of helper." in helper
    assert "There is nothing to show" not in words(tree)


def test_levels_that_the_model_had_not_seen_are_counted(write_job: WriteJob) -> None:
    results = {"telco": HELPER | {"unseen": {"<plan> & co": 12}}, "bank": PREDICTED | {"unseen": {"branch": 1_000}}}
    run = write_job("predict", ROLES, results)
    tree = parsed(write_report(run))
    assert table(tree, "Columns of telco") == [["<plan> & co", "12"]]
    assert table(tree, "Columns of bank") == [["branch", "1,000"]]
    assert "plan> & co" not in words(parsed(write_report(run / "bank")))


def test_a_run_without_results_says_so(write_job: WriteJob) -> None:
    tree = parsed(write_report(write_job("predict", ROLES, {})))
    assert "There is nothing to show: no party got that far." in words(tree)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"common": None}, "common"),
        ({"scores": {"histogram": {"edges": [0, 1], "counts": [1, 2]}}}, "scores.histogram"),
        ({"scores": {"histogram": {"edges": [0], "counts": []}}}, "scores.histogram"),
        ({"scores": {"histogram": {"edges": [1, 0], "counts": [1]}}}, "scores.histogram"),
        ({"scores": {"histogram": {"edges": [0, float("inf")], "counts": [1]}}}, "scores.histogram.edges.1"),
        ({"unseen": {"branch": -1}}, "unseen.branch"),
    ],
)
def test_a_damaged_result_is_named(changes: dict[str, Any], key: str, write_job: WriteJob) -> None:
    run = write_job("predict", ROLES, RESULTS | {"bank": PREDICTED | changes})
    assert f"{run / 'bank' / RESULT}: {key}: " in words(parsed(write_report(run)))


def test_a_real_run(trained: Path) -> None:
    run = trained / "predict"
    result = json.loads((run / "bank" / RESULT).read_text())
    tree = parsed(write_report(run))
    assert f"bank has predictions for {result['common']:,} rows that telco and bank have in common." in lead(tree)
    assert lead(tree).endswith(f"they have an AUC of {result['metrics']['new']['auc']:.3f}.")
    picture, _ = chart(tree)
    heights = [float(column.get("height") or 0) for column in picture.iter("rect")]
    counts = result["scores"]["histogram"]["counts"]
    assert sum(counts) == result["common"]
    assert [height / max(heights) for height in heights] == pytest.approx([n / max(counts) for n in counts], abs=0.01)
    told = table(tree, "What bank learnt from telco")
    assert disclosure_of(Sides).what in [what for what, _ in told]

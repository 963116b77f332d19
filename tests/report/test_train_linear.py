"""The section of a job that learns a linear model: weights instead of splits, and how the loss fell."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from unpooled.jobs.run_files import RESULT
from unpooled.jobs.train import columns
from unpooled.report.page import write_report
from unpooled.secure.product import Contribution
from unpooled.vertical.linear.messages import LastShare, PartialScores
from unpooled.wire import disclosure_of

WriteJob = Callable[..., Path]
Element = ElementTree.Element

ROLES = {"telco": "passive", "bank": "active", "helper": "coordinator"}
LINEAR = {"model": {"learner": "linear"}}
OWNER: dict[str, Any] = {
    "rows_read": 1010,
    "rows": 1000,
    "common": 600,
    "digest": "ab" * 32,
    "columns": 3,
    "importance": [{"name": "usage", "weight": 0.5}, {"name": "calls", "weight": 0.125}, {"name": "age", "weight": 0}],
    "questions": 1_234,
}
MODEL: dict[str, Any] = OWNER | {
    "columns": 1,
    "importance": [{"name": "balance", "weight": 0.75}],
    "learner": "linear",
    "title": "Logistic regression",
    "classes": 2,
    "class_names": ["stays", "departs"],
    "epochs": 4,
    "losses": [0.3, 0.25, 0.21, 0.205],
    "train_rows": 480,
    "test_rows": 110,
    "unlabelled_rows": 10,
    "metrics": {"test": {"auc": 0.8125}, "train": {"auc": 0.9}},
    "curves": {"roc": [[0, 0.5, 1], [0, 0.875, 1]]},
    "notes": ["All parties know which rows were set aside."],
}
RESULTS = {"telco": OWNER, "bank": MODEL, "helper": {}}


def written(write_job: WriteJob, bank: dict[str, Any] | None = None, **more: Any) -> Path:
    return write_job("train", ROLES, RESULTS | {"bank": MODEL | (bank or {})}, parameters=LINEAR, **more)


def parsed(page: Path) -> Element:
    """The page as a tree: it is written so that it is well-formed XML too."""
    return ElementTree.fromstring(page.read_text(encoding="utf-8"))  # noqa: S314


def words(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def lead(tree: Element) -> str:
    return next(words(found) for found in tree.iter("p") if found.get("class") == "lead")


def table(tree: Element, caption: str) -> list[list[str]]:
    found = next(found for found in tree.iter("table") if words(found[0]) == caption)
    return [[words(cell) for cell in row] for body in found.iter("tbody") for row in body]


def charts(tree: Element) -> Iterator[str]:
    """What stands below the pictures with axes."""
    return (words(figure[1]) for figure in tree.iter("figure") if figure[0].get("class") == "chart")


def test_the_active_party_sees_weights_and_losses(write_job: WriteJob) -> None:
    tree = parsed(write_report(written(write_job) / "bank"))
    assert lead(tree) == (
        "Logistic regression: 4 epochs over 480 rows of telco and bank. "
        "On 110 rows set aside as a test it has an AUC of 0.812."
    )
    assert table(tree, "Columns of bank") == [["balance", "0.750"]]
    assert [caption.split()[0] for caption in charts(tree)] == ["ROC", "Loss"]
    figures = {words(figure[0]): words(figure[1]) for found in tree.iter("dl") for figure in found}
    assert figures["Epochs"] == "4"
    assert figures["Rows without a label"] == "10"
    text = words(tree)
    assert "All parties know which rows were set aside." in text
    assert not re.search(
        r"\b(trees?|splits?|gain|Thresholds|usage)\b", text.split("Settings that all parties share")[0]
    )


def test_a_number_is_learned_by_linear_regression_and_may_have_no_loss(write_job: WriteJob) -> None:
    run = written(
        write_job,
        {
            "title": "Linear regression",
            "classes": 0,
            "class_names": [],
            "losses": [],
            "curves": {},
            "metrics": {},
            "test_rows": 0,
        },
    )
    tree = parsed(write_report(run / "bank"))
    assert lead(tree) == "Linear regression: 4 epochs over 480 rows of telco and bank."
    assert not list(charts(tree))


def test_a_passive_party_reads_what_its_own_columns_weigh(write_job: WriteJob) -> None:
    run = written(write_job, sent=[(Contribution, 8), (PartialScores, 1)])
    tree = parsed(write_report(run / "telco"))
    assert lead(tree) == "telco lent 3 columns of 600 rows to a linear model."
    assert table(tree, "Columns of telco") == [["usage", "0.500"], ["calls", "0.125"], ["age", "0"]]
    bars = [bar.get("width") for svg in tree.iter("svg") if svg.get("class") == "bar" for bar in svg]
    assert bars == ["100.0", "25.0", "0.0"]
    assert table(tree, "Columns that were used") == [["telco", "600", "3", "1,234"]]
    told = [[disclosure_of(Contribution).what, "8"], [disclosure_of(PartialScores).what, "1"]]
    assert table(tree, "What bank learnt from telco") == told
    assert not re.search(r"\b(balance|AUC|departs|Loss)\b", words(tree))
    whole = parsed(write_report(run))
    assert table(whole, "Columns of telco") == table(tree, "Columns of telco")
    assert table(whole, "Columns of bank") == [["balance", "0.750"]]


def test_no_more_columns_are_shown_than_anybody_reads(write_job: WriteJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "COLUMNS_SHOWN", 2)
    tree = parsed(write_report(written(write_job) / "telco"))
    assert table(tree, "Columns of telco") == [["usage", "0.500"], ["calls", "0.125"]]
    assert "1 more weighs less." in words(tree)


def test_parties_without_columns_have_a_page(write_job: WriteJob) -> None:
    tree = parsed(write_report(written(write_job, {"columns": 0, "importance": []}) / "bank"))
    assert table(tree, "Columns of bank") == [["There are none."]]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"epochs": None}, "epochs"),
        ({"losses": [float("nan")]}, "losses.0"),
        ({"importance": [{"name": "a", "splits": 1, "rows": 2}]}, "importance"),
        ({"importance": [{"name": "a", "weight": -1}]}, "importance.0.weight"),
    ],
)
def test_a_damaged_result_is_named(changes: dict[str, Any], key: str, write_job: WriteJob) -> None:
    run = written(write_job, changes)
    text = words(parsed(write_report(run / "bank")))
    assert key in text[text.index(f"{run / 'bank' / RESULT}: ") :]


def test_names_are_escaped(write_job: WriteJob) -> None:
    nasty = '<b onclick="x">&amp;</b>'
    page = write_report(written(write_job, {"importance": [{"name": nasty, "weight": 1.0}]}))
    assert "<b " not in page.read_text(encoding="utf-8")
    assert table(parsed(page), "Columns of bank")[0][0] == nasty


def test_a_real_run(trained_linear: Path) -> None:
    run = trained_linear / "train"
    bank, telco = (json.loads((run / name / RESULT).read_text()) for name in ("bank", "telco"))
    tree = parsed(write_report(run))
    assert f"Logistic regression: {bank['epochs']} epochs over {bank['train_rows']:,} rows" in lead(tree)
    assert lead(tree).endswith(f"it has an AUC of {bank['metrics']['test']['auc']:.3f}.")
    assert len(list(charts(tree))) == 3, "no loss is known"
    assert "no gradient and no loss" in words(tree)
    for name, result in (("bank", bank), ("telco", telco)):
        shown = table(tree, f"Columns of {name}")
        assert [line[0] for line in shown] == [column["name"] for column in result["importance"]][
            : columns.COLUMNS_SHOWN
        ]
    pages = {name: words(parsed(write_report(run / name))) for name in ("bank", "telco", "coordinator")}
    heaviest = telco["importance"][0]["name"]
    assert heaviest in pages["telco"]
    assert not any(heaviest in pages[name] for name in ("bank", "coordinator"))
    assert not any("AUC" in pages[name] for name in ("telco", "coordinator"))
    told = [what for what, _ in table(tree, "What bank learnt from telco")]
    assert {disclosure_of(LastShare).what, disclosure_of(PartialScores).what} <= set(told)
    assert disclosure_of(Contribution).what not in told


def test_a_real_prediction(trained_linear: Path) -> None:
    run = trained_linear / "predict"
    result = json.loads((run / "bank" / RESULT).read_text())
    tree = parsed(write_report(run))
    assert f"bank has predictions for {result['common']:,} rows that telco and bank have in common." in lead(tree)
    assert disclosure_of(PartialScores).what in [what for what, _ in table(tree, "What bank learnt from telco")]

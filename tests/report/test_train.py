"""The section of a job that learns: what is shown is what the results say, at each party what it knows itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from unpooled.control import PlanOffer
from unpooled.jobs.run_files import RESULT, learnt, result_of
from unpooled.jobs.train import columns as train_columns
from unpooled.report.gather import gather
from unpooled.report.page import write_report
from unpooled.run.folder import LEDGER, REPORT
from unpooled.secure.product import Contribution
from unpooled.secure.shares.opening import Hidden
from unpooled.vertical.trees.messages import LentColumns, SplitSides
from unpooled.wire import disclosure_of

WriteJob = Callable[..., Path]
Element = ElementTree.Element

ROLES = {"telco": "passive", "bank": "active", "helper": "coordinator"}
SENT = [(PlanOffer, 1), (LentColumns, 1), (Hidden, 7), (Contribution, 12), (SplitSides, 11)]
NASTY = '<b onclick="x">net & "gross"</b>'


def importance(**columns: tuple[int, int]) -> list[dict[str, Any]]:
    return [{"name": name, "splits": splits, "rows": rows} for name, (splits, rows) in columns.items()]


OWNER = {
    "rows_read": 1010,
    "rows": 1000,
    "common": 600,
    "digest": "ab" * 32,
    "columns": 4,
    "importance": importance(usage=(30, 9_000), age_of_phone=(12, 4_500), region=(0, 0), calls=(0, 0)),
    "thresholds": 23,
    "questions": 1_234,
}
MODEL: dict[str, Any] = OWNER | {
    "columns": 2,
    "importance": importance(balance=(40, 12_000), branch=(1, 60)),
    "learner": "xgb",
    "title": "Gradient boosting of second order (xgb)",
    "classes": 2,
    "class_names": ["stays", "departs"],
    "trees": 50,
    "train_rows": 450,
    "test_rows": 110,
    "unlabelled_rows": 40,
    "metrics": {"test": {"auc": 0.8125, "log_loss": 0.41}, "train": {"auc": 0.9, "log_loss": 0.3, "f1": 0.7}},
    "curves": {"roc": [[0, 0.5, 1], [0, 0.875, 1]], "precision_recall": [[0.5, 1], [1, 0.25]]},
    "calibration": [{"prediction": 0.1, "truth": 0.05}, {"prediction": 0.9, "truth": 0.8}],
    "gain_by_party": {"telco": 25.0, "bank": 75.0},
    "own_gains": [{"name": "balance", "gain": 74.99}, {"name": "branch", "gain": 0.01}],
    "notes": ["min_rows has no force here."],
}
RESULTS = {"telco": OWNER, "bank": MODEL, "helper": {}}


def parsed(page: Path) -> Element:
    """The page as a tree: it is written so that it is well-formed XML too."""
    return ElementTree.fromstring(page.read_text(encoding="utf-8"))  # noqa: S314


def words(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def table(tree: Element, caption: str) -> list[list[str]]:
    """The cells of a table's rows, its head left out."""
    found = next(found for found in tree.iter("table") if words(found[0]) == caption)
    return [[words(cell) for cell in row] for body in found.iter("tbody") for row in body]


def headings(tree: Element) -> list[str]:
    return [words(heading) for heading in tree.iter("h2")]


def lead(tree: Element) -> str:
    return next(words(found) for found in tree.iter("p") if found.get("class") == "lead")


def charts(tree: Element) -> Iterator[tuple[Element, str]]:
    """Every picture with axes, and what stands below it."""
    for figure in tree.iter("figure"):
        picture = figure[0]
        if picture.get("class") == "chart":
            assert picture.get("aria-labelledby") == figure[1].get("id")
            yield picture, words(figure[1])


def test_the_active_party_is_told_how_good_the_model_is(write_job: WriteJob) -> None:
    tree = parsed(write_report(write_job("train", ROLES, RESULTS, SENT) / "bank"))
    assert lead(tree) == (
        "Gradient boosting of second order (xgb): 50 trees from 450 rows of telco and bank. "
        "On 110 rows set aside as a test it has an AUC of 0.812."
    )
    lines = table(tree, "Measures")
    assert [line[1:] for line in lines] == [["0.812", "0.900"], ["none", "0.700"], ["0.410", "0.300"]]
    assert [line[0].split()[0] for line in lines] == ["AUC", "F1", "Log"]
    figures = {words(figure[0]): words(figure[1]) for found in tree.iter("dl") for figure in found}
    assert figures["Rows learnt from"] == "450"
    assert figures["Rows set aside as a test"] == "110"
    assert figures["Rows without a label"] == "40"
    assert figures["Trees"] == "50"
    assert "The classes, in this order, are stays and departs." in words(tree)
    assert "min_rows has no force here." in [words(item) for item in tree.iter("li")]


def test_pictures_of_two_classes(write_job: WriteJob) -> None:
    tree = parsed(write_report(write_job("train", ROLES, RESULTS) / "bank"))
    pictures = {caption.split(",")[0]: picture for picture, caption in charts(tree)}
    assert list(pictures) == ["ROC curve", "Precision and recall", "Calibration"]
    for picture in pictures.values():
        drawn = {path.get("class") for path in picture.iter("path")}
        assert {"grid", "curve", "reference"} <= drawn
    assert len(list(pictures["Calibration"].iter("circle"))) == 2
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))


def test_numbers_have_a_calibration_alone(write_job: WriteJob) -> None:
    numbers = {name: value for name, value in MODEL.items() if name not in ("curves", "class_names")}
    numbers |= {
        "classes": 0,
        "learner": "rf",
        "title": "A random forest (rf)",
        "metrics": {"test": {"r2": 0.7, "rmse": 1234.56, "mae": 987.6}},
    }
    numbers["calibration"] = [{"prediction": -5_000.0, "truth": -4_000.0}, {"prediction": 20_000.0, "truth": 19_000.0}]
    tree = parsed(write_report(write_job("train", ROLES, RESULTS | {"bank": numbers}) / "bank"))
    assert lead(tree).startswith("A random forest (rf): 50 trees")
    assert lead(tree).endswith("it has an R² of 0.700.")
    assert [line[1:] for line in table(tree, "Measures")] == [["0.700", "none"], ["1,235", "none"], ["987.6", "none"]]
    ((picture, caption),) = charts(tree)
    assert caption.startswith("Calibration")
    assert "a group’s mean prediction" in caption
    assert "-10,000" in [words(text) for text in picture.iter("text")]
    assert "The classes" not in words(tree)


def test_several_classes(write_job: WriteJob) -> None:
    several = {name: value for name, value in MODEL.items() if name not in ("curves", "calibration")}
    several |= {"classes": 25, "class_names": [f"class {n}" for n in range(25)]}
    several["metrics"] = {"test": {"macro_auc": 0.75, "accuracy": 0.5}, "train": {}}
    tree = parsed(write_report(write_job("train", ROLES, RESULTS | {"bank": several}) / "bank"))
    assert lead(tree).endswith("it has a macro AUC of 0.750.")
    assert "class 18, class 19 and 5 more." in words(tree)
    assert not list(charts(tree))


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        (
            {"test_rows": 0, "metrics": {"train": {"auc": 0.9}}},
            "None were set aside as a test; on those it learnt from, which flatters it, it has an AUC of 0.900.",
        ),
        (
            {"test_rows": 1, "metrics": {"test": {"log_loss": 0.2}, "train": {"auc": 0.9}}},
            "The 1 row set aside as a test are too few, or too alike, to judge it.",
        ),
        ({"test_rows": 0, "metrics": {}}, "50 trees from 450 rows of telco and bank."),
    ],
)
def test_a_model_that_can_hardly_be_judged(changes: dict[str, Any], end: str, write_job: WriteJob) -> None:
    poor = {name: value for name, value in MODEL.items() if name not in ("curves", "calibration")} | changes
    tree = parsed(write_report(write_job("train", ROLES, RESULTS | {"bank": poor}) / "bank"))
    assert lead(tree).endswith(end)
    assert ("There are no rows to evaluate it with." in words(tree)) == (not poor["metrics"])


def test_columns_are_shown_with_what_they_gain(write_job: WriteJob) -> None:
    run = write_job("train", ROLES, RESULTS)
    tree = parsed(write_report(run / "bank"))
    assert table(tree, "Fraction of the gain, by party") == [["telco", "25.0 %"], ["bank", "75.0 %"]]
    assert table(tree, "Columns of bank") == [["balance", "40", "12,000", "75.0 %"], ["branch", "1", "60", "< 0.1 %"]]
    bars = {bar.get("width") for svg in tree.iter("svg") if svg.get("class") == "bar" for bar in svg}
    assert bars == {"25.0", "75.0", "100.0", "0.5", "0.0"}
    assert "usage" not in words(tree)
    own = parsed(write_report(run / "telco"))
    assert table(own, "Columns of telco") == [["usage", "30", "9,000"], ["age_of_phone", "12", "4,500"]]
    assert "2 were not used." in words(own)
    whole = parsed(write_report(run))
    assert table(whole, "Columns of telco") == table(own, "Columns of telco")
    assert table(whole, "Columns of bank") == table(tree, "Columns of bank")


def test_a_party_from_whom_nodes_are_hidden_counts_its_splits(write_job: WriteJob) -> None:
    owner = OWNER | {"importance": importance(calls=(2, 0), usage=(8, 0), region=(0, 0))}
    run = write_job("train", ROLES, RESULTS | {"telco": owner})
    tree = parsed(write_report(run))
    assert table(tree, "Columns of telco") == [["usage", "8"], ["calls", "2"]]
    assert "A party from which nodes are hidden can count only its splits." in words(tree)
    result = result_of(gather(run).parties["telco"], train_columns.OwnerResult)
    assert result is not None
    assert train_columns.ranked(result).most == 8


def test_no_more_columns_are_shown_than_anybody_reads(write_job: WriteJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_columns, "COLUMNS_SHOWN", 1)
    tree = parsed(write_report(write_job("train", ROLES, RESULTS) / "telco"))
    assert table(tree, "Columns of telco") == [["usage", "30", "9,000"]]
    assert "1 more was used less. 2 were not used." in words(tree)


TUNED: dict[str, Any] = {"candidates": 2, "models": 6, "chosen": 2, "settings": {"balanced": True, "depth": 4}}
TRIED = [
    {"settings": {"balanced": True, "depth": 6}, "mean": 0.45, "spread": 0.02, "folds": [0.43, 0.45, 0.47]},
    {"settings": {"balanced": True, "depth": 4}, "mean": 0.41, "spread": 0.0, "folds": [0.41, 0.41, 0.41]},
]


def test_candidates_that_were_tried_are_a_table_for_the_active_party_alone(write_job: WriteJob) -> None:
    tried = MODEL | {"tuning": TUNED | {"measure": "log_loss", "tried": TRIED}}
    run = write_job("train", ROLES, {"telco": OWNER | {"tuning": TUNED}, "bank": tried, "helper": {}})
    tree = parsed(write_report(run / "bank"))
    assert table(tree, "Log loss on rows left out, 3 times for each candidate; less is better") == [
        ["1", "true", "6", "0.450", "0.0200"],
        ["2 chosen", "true", "4", "0.410", "0"],
    ]
    text = words(parsed(write_report(run / "telco")))
    assert "Of 2 candidates number 2 was chosen: balanced = true, depth = 4." in text
    assert not re.search("0.4[15]0|Log loss", text)


def test_a_passive_party_reads_what_the_active_one_learnt(write_job: WriteJob) -> None:
    run = write_job("train", ROLES, RESULTS, SENT)
    tree = parsed(write_report(run / "telco"))
    assert lead(tree) == "telco lent 4 columns of 600 rows; the trees go by 2 of them."
    assert "What bank learnt from telco" in headings(tree)
    assert "How good the model is" not in headings(tree)
    assert table(tree, "Columns that were used") == [["telco", "600", "4", "23", "1,234"]]
    told = [[disclosure_of(kind).what, str(times)] for kind, times in SENT if kind not in (PlanOffer, Hidden)]
    assert table(tree, "What bank learnt from telco") == told
    text = words(tree)
    assert "from the ledger of telco" in text
    assert not re.search(r"\b(balance|AUC|departs)\b", text)
    for teller in (run, run / "bank"):
        assert table(parsed(write_report(teller)), "What bank learnt from telco") == told


def test_what_was_learnt_is_told_by_whoevers_ledger_is_here(write_job: WriteJob) -> None:
    run = write_job("train", ROLES, RESULTS, SENT)
    (run / "telco" / LEDGER).unlink()
    assert {name: len(told) for name, told in learnt(gather(run), "bank", ["telco"]).items()} == {"telco": 3}
    (run / "bank" / LEDGER).unlink()
    assert learnt(gather(run), "bank", ["telco"]) == {}
    assert "What bank learnt from the others" in headings(parsed(write_report(run)))


def test_the_coordinator_has_nothing_to_show(write_job: WriteJob) -> None:
    tree = parsed(write_report(write_job("train", ROLES, RESULTS, SENT) / "helper"))
    assert "There is nothing to show in the files of helper." in words(tree)
    assert not re.search(r"\b(balance|usage|0\.812)\b", words(tree))


def test_a_run_without_results_says_so(write_job: WriteJob) -> None:
    tree = parsed(write_report(write_job("train", ROLES, {})))
    assert "There is nothing to show: no party got that far." in words(tree)
    assert "How good the model is" not in headings(tree)


def test_one_party_without_a_result_does_not_hide_the_others(write_job: WriteJob) -> None:
    run = write_job("train", ROLES, {"telco": OWNER})
    tree = parsed(write_report(run))
    assert "How good the model is" not in headings(tree)
    assert table(tree, "Columns that were used") == [["telco", "600", "4", "23", "1,234"]]


def test_the_rows_in_common_are_shown_too(write_job: WriteJob) -> None:
    run = write_job("train", ROLES, RESULTS)
    (run / "telco" / "aligned.csv").write_text("id\n1\n")
    tree = parsed(write_report(run))
    assert "People that all parties know" in headings(tree)
    text = words(tree)
    assert "The aligned ids are in telco/aligned.csv, readable by the owner alone" in text
    assert "Digest of the rows: abababababab…, the same at each." in text
    counts = [words(found) for found in tree.iter("text") if found.get("class") == "count"]
    assert counts == ["1,010", "1,000", "1,010", "1,000", "600"]


def test_everything_is_escaped(write_job: WriteJob) -> None:
    model = MODEL | {
        "class_names": [NASTY, "departs"],
        "notes": [NASTY],
        "importance": importance(**{NASTY: (2, 10)}),
        "own_gains": [{"name": NASTY, "gain": 1.0}],
        "metrics": {"test": {NASTY: 0.5}},
        "learner": NASTY,
        "title": NASTY,
    }
    owner = OWNER | {"importance": importance(**{NASTY: (2, 10)})}
    page = write_report(write_job("train", ROLES, {"telco": owner, "bank": model}, SENT))
    assert "<b " not in page.read_text(encoding="utf-8")
    tree = parsed(page)
    assert words(tree).count(NASTY) == 6
    assert table(tree, "Columns of telco")[0][0] == NASTY
    assert not [element.tag for element in tree.iter() if element.tag in ("script", "link", "img", "iframe")]
    assert not [name for element in tree.iter() for name in element.keys() if name in ("src", "style")]  # noqa: SIM118


@pytest.mark.parametrize(
    "key", ["common", "columns", "importance", "thresholds", "learner", "metrics", "gain_by_party"]
)
def test_a_result_with_a_key_missing_is_named(key: str, write_job: WriteJob) -> None:
    broken = {name: value for name, value in MODEL.items() if name != key}
    run = write_job("train", ROLES, RESULTS | {"bank": broken})
    fault = re.search(
        rf"{re.escape(str(run / 'bank' / RESULT))}: (.*?)What each party sent", words(parsed(write_report(run)))
    )
    assert fault is not None
    assert key in fault[1]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"common": -1}, "common"),
        ({"metrics": {"test": {"auc": float("nan")}}}, "metrics.test.auc"),
        ({"curves": {"roc": [[0, 1], [0]]}}, "curves.roc"),
        ({"curves": {"roc": [[], []]}}, "curves.roc"),
        ({"curves": {"precision_recall": [[0, 1], [0, 1.5]]}}, "curves.precision_recall.1.1"),
        ({"calibration": [{"prediction": 1e300, "truth": 1.0}]}, "calibration.0.prediction"),
        ({"gain_by_party": {"telco": -1}}, "gain_by_party.telco"),
        ({"importance": [{"name": "a", "splits": 1}]}, "importance.0.rows"),
    ],
)
def test_a_damaged_result_is_named(changes: dict[str, Any], key: str, write_job: WriteJob) -> None:
    run = write_job("train", ROLES, RESULTS | {"bank": MODEL | changes})
    tree = parsed(write_report(run / "bank"))
    assert f"{run / 'bank' / RESULT}: {key}: " in words(tree)
    assert "How good the model is" not in headings(tree)


@pytest.mark.parametrize("content", ["{", "[]", ""])
def test_a_result_that_is_no_json_is_named(content: str, write_job: WriteJob) -> None:
    run = write_job("train", ROLES, RESULTS)
    (run / "telco" / RESULT).write_text(content)
    assert f"{run / 'telco' / RESULT}: " in words(parsed(write_report(run)))
    assert "How good the model is" in headings(parsed(write_report(run / "bank")))


def test_a_party_that_saw_no_split_has_a_page(write_job: WriteJob) -> None:
    bare = {"columns": 0, "importance": [], "thresholds": 0, "questions": 0}
    model = MODEL | bare | {"gain_by_party": {"telco": 0.0, "bank": 0.0}, "own_gains": [], "trees": 0, "notes": []}
    tree = parsed(write_report(write_job("train", ROLES, {"telco": OWNER | bare, "bank": model})))
    assert table(tree, "Columns of bank") == table(tree, "Columns of telco") == [["None was used."]]
    assert "Fraction of the gain, by party" not in words(tree)


def test_settings_of_the_model_are_in_the_plan(write_job: WriteJob) -> None:
    tree = parsed(write_report(write_job("train", ROLES, RESULTS)))
    settings = {line[0]: line[1] for line in table(tree, "Settings that all parties share")}
    assert settings["model.trees"] == "50"
    assert settings["model.patience"] == "not set"
    assert settings["psi"] == "ecdh"
    assert json.loads(settings["test_fraction"]) == 0.2


def test_a_real_run(trained: Path) -> None:
    run = trained / "train"
    bank, telco = (json.loads((run / name / RESULT).read_text()) for name in ("bank", "telco"))
    tree = parsed(write_report(run))
    assert f"{bank['trees']} trees from {bank['train_rows']:,} rows of telco and bank." in lead(tree)
    assert lead(tree).endswith(f"it has an AUC of {bank['metrics']['test']['auc']:.3f}.")
    assert len(list(charts(tree))) == 3
    for name, result in (("bank", bank), ("telco", telco)):
        used = [column for column in result["importance"] if column["splits"]]
        shown = table(tree, f"Columns of {name}")
        assert [line[0] for line in shown] == [column["name"] for column in used[: train_columns.COLUMNS_SHOWN]]
        assert [line[2] for line in shown] == [f"{column['rows']:,}" for column in used[: train_columns.COLUMNS_SHOWN]]
    counts = [f"{telco[key]:,}" for key in ("common", "columns", "questions")]
    bits, most, whole = (telco[key] / telco["common"] for key in ("bits", "most_bits", "table_bits"))
    used = f"{telco['thresholds']:,} of {telco['all_thresholds']:,}", f"{bits:,.0f} of {most:,.0f}"
    assert table(tree, "Columns that were used") == [["telco", *counts[:2], *used, counts[2]]]
    assert f"In bins telco’s columns have {whole:,.0f} bits for each row." in words(tree)


def test_the_share_of_thresholds_and_bits_is_shown(write_job: WriteJob) -> None:
    counted = {"all_thresholds": 46, "bits": 12_000, "most_bits": 48_000, "table_bits": 6_000}
    run = write_job("train", ROLES, RESULTS | {"telco": OWNER | counted})
    tree = parsed(write_report(run))
    assert table(tree, "Columns that were used") == [["telco", "600", "4", "23 of 46", "20 of 80", "1,234"]]
    (used,) = [each for each in tree.iter("table") if words(each).startswith("Columns that were used")]
    assert [bar.get("width") for bar in used.iter("rect")] == ["50.0", "25.0"]
    assert "In bins telco’s columns have 10 bits for each row." in words(tree)
    (run / "telco" / RESULT).write_text(json.dumps(OWNER | counted | {"all_thresholds": 22}))
    assert "thresholds: more were revealed than there are" in words(parsed(write_report(run / "telco")))


def test_a_real_partys_page_keeps_to_what_it_knows(trained: Path) -> None:
    run = trained / "train"
    pages = {name: words(parsed(write_report(run / name))) for name in ("bank", "telco", "coordinator")}
    for name, columns in (("telco", ["data_gb", "call_minutes"]), ("bank", ["card_payments", "income"])):
        assert any(column in pages[name] for column in columns)
        others = [page for other, page in pages.items() if other != name]
        assert not any(column in page for column in columns for page in others)
    assert "AUC" in pages["bank"]
    assert not any("AUC" in pages[name] for name in ("telco", "coordinator"))
    by_bank, by_telco = (
        table(parsed(run / name / REPORT), "What bank learnt from telco") for name in ("bank", "telco")
    )
    assert by_bank == by_telco
    assert len(by_bank) > 3


def test_no_id_is_on_any_page(trained: Path) -> None:
    ids = set((trained / "train" / "bank" / "aligned.csv").read_text().split()[1:])
    assert all(re.fullmatch(r"\d{7}", one) for one in ids)
    for kind in ("train", "predict"):
        for folder in (trained / kind, *(trained / kind / name for name in ("telco", "bank", "coordinator"))):
            page = write_report(folder).read_text(encoding="utf-8")
            assert not ids & set(re.findall(r"\b\d{7}\b", page))

"""The section of a completed table: every party reads what its own files know, and nobody else's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from unpooled.complete.federated import NextRound, NoMoreRounds
from unpooled.jobs.complete.evaluation import EVALUATION
from unpooled.jobs.run_files import RESULT
from unpooled.report.page import write_report
from unpooled.run.folder import REPORT
from unpooled.vertical.trees.messages import Sides
from unpooled.wire import disclosure_of

WriteJob = Callable[..., Path]
Element = ElementTree.Element

ROLES = {"registry": "passive", "clinic": "active", "helper": "coordinator"}
NONE = {"real": 0, "predicted": 0, "generated": 0, "not filled": 0}


def accuracy(value: float, guess: float) -> dict[str, Any]:
    return {"measure": "accuracy", "value": value, "low": value - 0.1, "high": value + 0.1, "cells": 80, "guess": guess}


def column(name: str, way: str, why: str, **more: Any) -> dict[str, Any]:
    filled = {way: 900} if way != "not filled" else {"not filled": 900}
    return {
        "name": name,
        "type": "number",
        "way": way,
        "why": why,
        "completer": "copula" if way == "generated" else "",
        "strength": None,
        "significant": None,
        "cells": NONE | {"real": 100} | filled,
        "in_common": NONE | {"real": 100},
        "unsure": 0,
        "confidence": 0.75,
        "errors": [],
        "distribution": None,
    } | more


HB = column(
    "hb<b>",
    "predicted",
    "above",
    strength=0.625,
    unsure=90,
    cells=NONE | {"real": 80, "predicted": 920},
    in_common=NONE | {"real": 80, "predicted": 20},
    errors=[
        {"measure": "r2", "value": 0.75, "low": 0.5, "high": 0.875, "cells": 80, "guess": 0.0},
        {"measure": "mae", "value": 1.5, "low": 1.25, "high": 1.75, "cells": 80, "guess": 3.0},
    ],
    distribution={"edges": [0.0, 1.0, 2.0], "real": [0.25, 0.75], "filled": [0.5, 0.5], "apart": 0.25},
)
STAGE = column(
    "stage",
    "generated",
    "below",
    type="category",
    strength=0.125,
    errors=[accuracy(0.5, 0.625)],
    distribution={"levels": ["early", "late"], "real": [0.5, 0.5], "filled": [0.25, 0.75], "apart": 0.25},
)
WARD = column("ward", "not filled", "too few", strength=0.0, confidence=None)
COMPLETED: dict[str, Any] = {
    "rows_read": 141,
    "rows": 140,
    "common": 100,
    "others": 900,
    "digest": "ab" * 32,
    "measure": "max",
    "threshold": 0.5,
    "alpha": 0.8,
    "least_confidence": 0.0,
    "cells": {"real": 280, "predicted": 920, "generated": 900, "not filled": 900},
    "completed": [STAGE, HB, WARD],
    "unsure_rows": {"some": 90, "all": 10},
    "weight": "sure",
    "draws": 2,
    "warning": "threshold 0.9 is high: few columns pass it",
    "associations": {
        "what": "rank correlation",
        "columns": ["stage", "hb<b>", "ward"],
        "values": [[0.125, 0.0], [-0.625, 0.25], [0.0, 0.0]],
        "line": 0.5,
        "by": "threshold",
    },
    "file": "completed.csv",
    "files": ["completed.csv", "provenance.csv", "confidence.csv", "draws.csv"],
}
LENT: dict[str, Any] = {
    "rows_read": 1000,
    "rows": 1000,
    "common": 100,
    "others": 900,
    "digest": "ab" * 32,
    "columns": 3,
    "importance": [{"name": "age", "splits": 5, "rows": 700}, {"name": "sex", "splits": 0, "rows": 0}],
    "limits": {"splits": 5000},
    "file": "handles.csv",
    "questions": 1200,
    "bits": 64000,
    "splits": 40,
    "thresholds": 21,
    "all_thresholds": 60,
    "table_bits": 8000,
    "most_bits": 96000,
}
RESULTS: dict[str, Any] = {"registry": LENT, "clinic": COMPLETED, "helper": {}}
TRUTH: dict[str, Any] = {
    "rows": 900,
    "columns": {
        "hb<b>": {
            "kind": "number",
            "cells": 900,
            "missing": 0,
            "errors": {"r2": 0.6875, "mae": 1.625},
            "distribution": {"ks": 0.125},
            "moments": {},
        },
        "stage": {
            "kind": "category",
            "cells": 850,
            "missing": 0,
            "errors": {"accuracy": 0.5},
            "distribution": {"total_variation": 0.25},
            "moments": {},
        },
    },
    "pairs": [{"columns": ["hb<b>", "stage"], "truth": 0.5, "completed": 0.25}],
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


def headings(tree: Element) -> list[str]:
    return [words(heading) for heading in tree.iter("h2")]


def picture(tree: Element, caption: str) -> Element:
    return next(figure[0] for figure in tree.iter("figure") if words(figure[1]).startswith(caption))


def sorts(drawn: Element) -> list[str]:
    boxes = (found for found in drawn.iter() if found.tag in ("rect", "path"))
    return [box.get("class") or "" for box in boxes if box.get("class") != "ink"]


@pytest.fixture
def run(write_job: WriteJob) -> Path:
    folder = write_job("complete", ROLES, RESULTS, [(Sides, 3)])
    (folder / "clinic" / "handles.csv").write_text("id,handle\n")
    return folder


def test_the_clinic_reads_first_what_its_table_is_and_what_to_do_with_it(run: Path) -> None:
    tree = parsed(write_report(run / "clinic"))
    assert words(next(tree.iter("h1"))) == "A table of 1,000 people for clinic"
    assert lead(tree) == (
        "clinic has a table of 1,000 people of registry, 100 of whom it knew. "
        "Cells: 9.3 % real, 30.7 % predicted, 30.0 % generated and 30.0 % not filled."
    )
    assert headings(tree)[:3] == ["Your table", "What to do next", "Who took part"]
    assert [row[1] for row in table(tree, "Where the cells are from")] == ["280", "920", "900", "900"]
    files = [row[0] for row in table(tree, "The files, in the same folder as this page")]
    assert files == ["completed.csv", "provenance.csv", "confidence.csv", "draws.csv", "handles.csv"]
    snippets = ["".join(found.itertext()) for found in tree.iter("pre")]
    assert snippets == ['[table]\npath = "completed.csv"\nid = "handle"', '[table]\nhandles = "…/handles.csv"']
    said = words(tree)
    assert 'weight = "sure"' in said
    assert "Be careful: threshold 0.9 is high: few columns pass it." in said
    assert "no better for a single person" not in said


def test_the_clinic_reads_which_way_each_column_went_and_why(run: Path) -> None:
    tree = parsed(write_report(run / "clinic"))
    assert table(tree, "Columns, the strongest first") == [
        ["hb<b> number", "predicted strength 0.62, above the threshold 0.5", "80", "920", "0"],
        ["stage category", "generated by copula strength 0.12, not above the threshold 0.5", "100", "900", "0"],
        [
            "ward number",
            "not filled strength 0.00, but too few different values among the people in common",
            "100",
            "0",
            "900",
        ],
    ]
    assert table(tree, "Expected errors") == [
        ["hb<b> predicted", "R² 0.75 0.50 to 0.88", "R² 0.00", "1.500", "80"],
        ["stage generated", "50.0 % 40.0 % to 60.0 %", "62.5 %", "", "80"],
    ]
    assert table(tree, "Predicted cells") == [["hb<b>", "0.75", "920", "90"]]
    assert "90 of 1,000 rows have predicted cells that are less sure, and in 10 of them no predicted" in words(tree)


def test_the_pictures_show_what_was_missing_and_what_is_beyond_the_threshold(run: Path) -> None:
    tree = parsed(write_report(run / "clinic"))
    blocks = picture(tree, "Columns and people.")
    assert sorts(blocks) == [
        *("lent", "lent"),
        *("outside", "real", "generated"),
        *("outside", "real", "predicted", "predicted"),
        *("outside", "real", "unfilled"),
    ]
    assert [words(text) for text in blocks.iter("text")][:6] == [
        *("40", "yours only"),
        *("100", "in common"),
        *("900", "theirs only"),
    ]
    matrix = sorts(picture(tree, "Associations"))
    assert (matrix.count("beyond"), matrix.count("strength"), matrix.count("strength hollow")) == (1, 1, 2)
    charts = [found for found in tree.iter("svg") if found.get("class") == "chart pair"]
    low, high = (float(rect.get("height") or 0) for rect in charts[0].iter("rect"))
    assert (len(charts), high) == (1, pytest.approx(3 * low, abs=0.3))


def test_the_clinic_reads_what_left_the_house(write_job: WriteJob) -> None:
    run = write_job("complete", ROLES, RESULTS, [(Sides, 3), (NextRound, 1), (NoMoreRounds, 1)])
    tree = parsed(write_report(run / "clinic"))
    told = dict(table(tree, "What clinic learnt from registry"))
    assert told[disclosure_of(Sides).what] == "3"
    assert table(tree, "What registry learnt from clinic") == [["Nothing."]]


def test_both_sides_read_which_activations_were_sent_and_what_epsilon_means(write_job: WriteJob) -> None:
    sent = {"activations": {"epsilon": 2.0, "delta": 1e-5, "units": 1, "rows": 1000}}
    results = RESULTS | {"clinic": COMPLETED | sent, "registry": LENT | sent}
    run = write_job("complete", ROLES, results, [(Sides, 3)])
    said = (
        "registry sent clinic activations, once: 1 number with noise for each of 1,000 people, which change the odds "
        "of a guess about a person by a factor of e^2 = 7 at the most (ε = 2), and with a chance of δ = 1e-05 by more."
    )
    for party in ("clinic", "registry"):
        assert said in words(parsed(write_report(run / party)))
    assert "with activations of registry beside its own columns" in words(parsed(run / "clinic" / REPORT))


def test_a_page_without_associations_and_strengths_has_no_matrix(write_job: WriteJob) -> None:
    columns = [each | {"strength": None, "why": "named"} for each in (STAGE, HB)]
    result = {key: value for key, value in COMPLETED.items() if key != "associations"}
    result |= {"measure": "", "threshold": None, "completed": columns, "weight": "", "draws": 0}
    tree = parsed(write_report(write_job("complete", ROLES, RESULTS | {"clinic": result}) / "clinic"))
    assert table(tree, "Columns, the strongest first")[0][1] == "generated by copula named in the plan"
    captions = [words(figure[1]) for figure in tree.iter("figure")]
    assert not any(caption.startswith(("Associations", "Strength")) for caption in captions)


def test_predictions_that_are_no_better_than_one_value_are_named(write_job: WriteJob) -> None:
    worse = HB | {"errors": [HB["errors"][0] | {"low": -0.1}]}
    result = COMPLETED | {"completed": [STAGE, worse, WARD]}
    page = write_report(write_job("complete", ROLES, RESULTS | {"clinic": result}) / "clinic")
    assert "Be careful: filled cells of hb<b> are no better" in words(parsed(page))


def test_columns_filled_by_few_cells_are_named(write_job: WriteJob) -> None:
    few = HB | {"cells": HB["cells"] | {"real": 6}}
    result = COMPLETED | {"completed": [STAGE, few, WARD | {"cells": WARD["cells"] | {"real": 2}}]}
    said = words(parsed(write_report(write_job("complete", ROLES, RESULTS | {"clinic": result}) / "clinic")))
    assert "Be careful: hb<b> (6 real cells): these columns were filled by very few known values" in said


def test_a_table_is_shown_beside_the_truth_once_that_is_known(run: Path) -> None:
    (run / "clinic" / EVALUATION).write_text(json.dumps(TRUTH))
    tree = parsed(write_report(run / "clinic"))
    assert table(tree, "Filled cells and true ones") == [
        ["stage generated", "50.0 %", "50.0 % 40.0 % to 60.0 %", "", "25.0 %", "850"],
        ["hb<b> predicted", "R² 0.69", "R² 0.75 0.50 to 0.88", "1.625", "12.5 %", "900"],
    ]
    assert "differs from the truth by 0.250 on average, over 1 pairs" in words(tree)


def test_the_registry_reads_what_it_lent_and_where_its_handles_are(run: Path) -> None:
    tree = parsed(write_report(run / "registry"))
    assert lead(tree) == "registry lent 3 columns of 1,000 people to clinic’s table."
    assert [row[1:] for row in table(tree, "What registry answered")] == [
        ["1,200", "no limit of its own"],
        ["64", "96"],
        ["40", "5,000"],
        ["21", "60"],
    ]
    assert "In bins the columns have 8" in words(tree)
    assert table(tree, "Columns of registry") == [["age", "5", "700"]]
    said = words(tree)
    assert "The file handles.csv" in said
    assert "hb<b>" not in said
    assert dict(table(tree, "What clinic learnt from registry")) == {disclosure_of(Sides).what: "3"}


def test_the_page_of_the_whole_run_has_a_headline_only(run: Path) -> None:
    page = parsed(write_report(run))
    assert lead(page).startswith("clinic has a table of 1,000 people of registry")
    assert not {"Your table", "What was missing", "Handles"} & set(headings(page))
    assert "hb<b>" not in words(page)
    helper = parsed(run / "helper" / REPORT)
    assert "The completed table" not in headings(helper)


def test_a_party_that_did_not_get_far_has_nothing_to_show(write_job: WriteJob) -> None:
    run = write_job("complete", ROLES, {})
    for party in ("clinic", "registry"):
        assert "The completed table" in headings(parsed(write_report(run / party)))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"cells": {"real": 1}}, "there must be a count for each of real, predicted, generated, not filled"),
        ({"completed": [HB | {"why": "because"}]}, "completed.0.why"),
        ({"completed": [HB | {"distribution": {"real": [1.0], "filled": [1.0], "apart": 0}}]}, "a fraction for every"),
        ({"completed": [HB]}, "they must be those of the completed columns"),
        ({"alpha": 2}, "alpha"),
    ],
)
def test_a_damaged_result_is_named(change: dict[str, Any], fault: str, write_job: WriteJob) -> None:
    run = write_job("complete", ROLES, RESULTS | {"clinic": COMPLETED | change})
    said = words(parsed(write_report(run / "clinic")))
    assert "What came out cannot be shown:" in said
    assert RESULT in said
    assert fault in said

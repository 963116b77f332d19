"""What Python hands back of a job: all that a party's run folder has, whether there is a folder or not."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from every_kind import OWNERS

from unpooled import InputError, Outcome, load_model, read_ledger, simulate
from unpooled.jobs.kind import Kind
from unpooled.jobs.kinds import KINDS
from unpooled.jobs.work import WORKING
from unpooled.run.folder import parties_in

KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)

HANDED_BACK = {"result.json": "result", "ledger.jsonl": "ledger", "plan.toml": "plan"}
MODEL = {"model.json", "preparation.json"}
LEFT_OUT = {
    "status.json": "whether and when the run ended: whoever called it knows",
    "audit.jsonl": "evidence for an audit by another party, which simulations have none of",
    "check/preparation.json": "how a table would become numbers; the result says what was found of each column",
}
"""What Python does not hand back as an object, and why; with `folder` it is there as a file."""


@KIND
def test_all_that_a_kind_of_job_writes_is_handed_back(
    kind: Kind[Any], run: Callable[[str, Path], Outcome], tmp_path: Path
) -> None:
    outcome = run(kind.name, tmp_path / "run")
    assert {home.name for home in parties_in(tmp_path / "run")} == set(outcome.parties)
    for party, one in outcome.parties.items():
        written = {path.name for path in (tmp_path / "run" / party).iterdir()} - {WORKING}
        sources: dict[str, Any] = dict(kind.tables)
        tables = {name: {f for f in written if source.name in (f, Path(f).stem)} for name, source in sources.items()}
        assert one.tables.keys() == {name for name, files in tables.items() if files}
        handed = set().union(*tables.values()) | HANDED_BACK.keys() | (MODEL if one.model else set())
        left_out = {name for name in written if {name, f"{kind.name}/{name}"} & LEFT_OUT.keys()}
        assert written - handed - left_out == set(), "hand it back, or name it in LEFT_OUT"
        assert all(getattr(one, name) for name in HANDED_BACK.values() if name != "result")


@KIND
def test_without_a_folder_everything_is_there_all_the_same(
    kind: Kind[Any], outcomes: Callable[[str], Outcome], run: Callable[[str, Path], Outcome], tmp_path: Path
) -> None:
    without, kept = outcomes(kind.name), run(kind.name, tmp_path)
    assert without.tables.keys() == kept.tables.keys()
    for party, tables in without.tables.items():
        assert {name: frame.schema for name, frame in tables.items()} == {
            name: frame.schema for name, frame in kept.tables[party].items()
        }
        page, other = without.reports[party].html, kept.reports[party].html
        assert re.findall("<h[1-3].*?>.*?<", page) == re.findall("<h[1-3].*?>.*?<", other) != []
    assert without.models.keys() == kept.models.keys()
    assert without.metrics.keys() == kept.metrics.keys()
    assert json.loads((tmp_path / "bank" / "result.json").read_text()) == json.loads(json.dumps(kept.results["bank"]))
    assert read_ledger(tmp_path / "bank" / "ledger.jsonl") == kept.ledgers["bank"]


def test_one_party_and_all_are_two_ways_to_the_same(outcomes: Callable[[str], Outcome]) -> None:
    outcome = outcomes("train")
    bank = outcome["bank"]
    assert bank.model is outcome.models["bank"]
    assert bank.tables is outcome.tables["bank"]
    assert (bank.result, bank.ledger) == (outcome.results["bank"], outcome.ledgers["bank"])
    assert (bank.metrics, bank.report) == (outcome.metrics["bank"], outcome.reports["bank"])
    assert re.search(r"bank, train: .*AUC 0\.8.*tables: predictions, aligned", repr(bank))
    assert repr(outcome).count("\n") + 1 == len(outcome.parties)


def test_metrics_are_the_figures_of_the_result(outcomes: Callable[[str], Outcome]) -> None:
    trained, found = outcomes("train"), outcomes("lookalike")
    measured = trained.results["bank"]["metrics"]
    assert trained.metrics["bank"]["auc"] == trained.metrics["bank"]["test_auc"] == measured["test"]["auc"]
    assert trained.metrics["bank"]["train_accuracy"] == measured["train"]["accuracy"]
    assert trained.metrics["telco"] == {"common": trained.results["telco"]["common"]}
    assert found.metrics["shop"]["expected_precision"] == found.results["shop"]["expected"]["precision"]
    assert found.metrics["bank"]["listed_precision"] == found.results["bank"]["judged"]["listed"]["precision"]
    everything = [one.metrics for kind in KINDS for one in outcomes(kind.name).parties.values()]
    assert all(isinstance(value, int | float) for metrics in everything for value in metrics.values())


# Models


def test_a_part_of_a_model_says_what_it_is(outcomes: Callable[[str], Outcome]) -> None:
    telco, bank = outcomes("train").models["telco"], outcomes("train").models["bank"]
    assert (telco.party, telco.learner, telco.is_active) == ("telco", "trees", False)
    assert set(telco.columns) == {"calls", "tariff=basic", "tariff=plus"}
    assert telco.kinds == {"calls": "number", "tariff": "category"}
    assert (telco.owners, telco.classes, telco.parameters) == ((), (), {})
    assert (bank.owners, bank.classes) == (("telco", "bank"), ("no", "yes"))
    assert (bank.parameters["learner"], bank.parameters["trees"]) == ("gbdt", 2)
    assert bank.importance.columns == ["name", "splits", "rows"]
    assert bank.importance["name"].to_list() == ["balance"]
    assert repr(telco) == "<ModelPart of telco: trees, 3 columns>"


@pytest.mark.parametrize("learner", ["trees", "linear"])
def test_a_part_of_a_model_is_saved_and_read_again(
    learner: str, outcomes: Callable[[str], Outcome], tmp_path: Path
) -> None:
    linear = {"learner": "linear", "epochs": 1}
    outcome = simulate("train", OWNERS, engine="plain", model=linear) if learner == "linear" else outcomes("train")
    assert {part.learner for part in outcome.models.values()} == {learner}
    for party, part in outcome.models.items():
        assert part.importance.height == len(part.columns)
        again = load_model(part.save(tmp_path / party))
        assert (again.kept, again.preparation) == (part.kept, part.preparation)
        assert again.is_active == part.is_active
        assert stat.S_IMODE((tmp_path / party / "model.json").stat().st_mode) == 0o600
    (tmp_path / "bank" / "model.json").write_text("{}")
    with pytest.raises(InputError, match=r"bank/model\.json: is no part of a model"):
        load_model(tmp_path / "bank")


# Reports


class _Frame(HTMLParser):
    """The attributes of the one element of a text."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found = tag, dict(attrs)


def test_a_report_shows_itself_in_a_frame_that_nothing_leaves(
    outcomes: Callable[[str], Outcome], tmp_path: Path
) -> None:
    report = outcomes("lookalike").reports["shop"]
    parser = _Frame()
    parser.feed(report._repr_html_())
    tag, attributes = parser.found
    assert (tag, attributes["sandbox"]) == ("iframe", "")
    assert attributes["srcdoc"] == report.html
    assert "look-alikes" in report.html
    path = report.save(tmp_path / "page.html")
    assert path.read_text(encoding="utf-8") == report.html
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(InputError, match="nowhere"):
        report.save(tmp_path / "nowhere" / "page.html")


def test_the_whole_run_has_a_page_too(
    outcomes: Callable[[str], Outcome], run: Callable[[str, Path], Outcome], tmp_path: Path
) -> None:
    for outcome in (outcomes("align"), run("align", tmp_path)):
        assert all(f">{party}<" in outcome.report.html for party in outcome.parties)


def test_a_folder_that_is_gone_is_named(run: Callable[[str, Path], Outcome], tmp_path: Path) -> None:
    outcome = run("check", tmp_path / "run")
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"bank: .*run/bank: the folder of this run is gone"):
        _ = outcome.reports["bank"].html

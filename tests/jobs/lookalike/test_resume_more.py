"""Searches of several passive parties, by linear models and after a power cut go on too; nobody is asked for ever."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.data.table import table_from_frame
from unpooled.errors import ProtocolError, RefusedError
from unpooled.run.simulate import Outcome
from unpooled.vertical import resume
from unpooled.vertical.linear.messages import BeginLinear
from unpooled.vertical.trees.messages import Begin, Grown, HiddenLevel

CHECKPOINT = Path(".working") / "checkpoint"
TREES = {"trees": 3, "depth": 2}
LINEAR = {"learner": "linear", "reveal": "gradients", "epochs": 2, "insecure_batch": True, "hide_bags": False}


@pytest.fixture
def begin(seeking: Any, search: Any) -> Callable[..., Any]:
    def begin(name: str, passive: Sequence[str] = ("telco",), without: str = "", **settings: Any) -> Any:
        """The gym has a column that is otherwise the telco's."""
        three = seeking.plan(("shop", "telco", "bank", "railway", "coordinator"), **settings)
        places = dict(three.parties) | {"gym": three.parties["railway"]}
        parties = {party: places[party] for party in ("shop", "bank", *passive, "coordinator")}
        plan, frames = three.model_copy(update={"parties": parties}), dict(seeking.frames)
        frames["bank"] = frames["bank"].select("id", "age", "income")
        if "gym" in passive:
            frames["gym"], frames["telco"] = frames["telco"].select("id", "tariff"), frames["telco"].drop("tariff")
        if without:
            frames[without] = frames[without].select("id")
        tables = {party: table_from_frame(frames[party], "id", party) for party in parties if party in frames}
        return search(plan, tables, seeking.root / name)

    return begin


def sent(outcome: Outcome[Any], party: str) -> int:
    return sum(entry.way == "sent" for entry in outcome.ledgers[party].entries)


# More parties, other learners


WAYS: dict[str, dict[str, Any]] = {
    "three passive parties": {"passive": ("telco", "railway", "gym"), "model": TREES},
    "one without columns": {"passive": ("telco", "railway"), "without": "telco", "model": TREES},
    "none with columns": {"without": "telco", "model": TREES},
    "linear, bags shown": {"model": LINEAR},
    "linear, two passive parties": {"passive": ("telco", "railway"), "model": LINEAR | {"show_weights": True}},
}


@pytest.mark.parametrize("way", WAYS)
def test_whoever_was_stopped_the_list_is_the_same(begin: Callable[..., Any], way: str) -> None:
    whole, run = begin("whole", **WAYS[way]), begin("run", **WAYS[way])
    outcome = whole.go()
    owners = [party for party in run.plan.parties if party not in ("shop", "coordinator")]
    for number, party in enumerate(owners, start=1):
        fraction = number / (len(owners) + 1) if run.begun == 0 else 0.5
        run.stop(party, int(fraction * sent(outcome, party)))
    run.go()
    assert run.found == whole.found


def test_weights_that_nobody_saw_give_the_same_list_but_for_the_last_digits(begin: Callable[..., Any]) -> None:
    settings: dict[str, Any] = {"model": LINEAR | {"reveal": "final", "show_weights": True}, "top": 20}
    whole, run = begin("whole", **settings), begin("run", **settings)
    run.stop("bank", int(0.7 * sent(whole.go(), "bank")))
    run.go()
    one, other = (pl.read_csv(each.root / "shop" / "reliable.csv") for each in (whole, run))
    assert one["id"].to_list() == other["id"].to_list()
    np.testing.assert_allclose(one["score"].to_numpy(), other["score"].to_numpy(), atol=1e-3)


def test_a_party_without_columns_takes_nobody_back_to_the_beginning_of_a_group(begin: Callable[..., Any]) -> None:
    settings: dict[str, Any] = {"passive": ("telco", "railway"), "without": "telco", "model": TREES, "engine": "plain"}
    run = begin("run", estimate=False, **settings)
    run.stop("bank", 6, kind=HiddenLevel)  # of the second trees, the first half
    assert len(list((run.root / "bank" / CHECKPOINT / "pages-0").iterdir())) == 2
    kinds = [entry.kind for entry in run.go().ledgers["railway"].entries if entry.way == "received"]
    grown = sum(kind.endswith("Grown") for kind in kinds)
    assert grown == 2 * 2 * TREES["trees"] - 2, "two were kept"


# After a power cut


def test_a_torn_last_page_is_as_if_it_had_not_been_written(begin: Callable[..., Any]) -> None:
    settings: dict[str, Any] = {"model": TREES, "engine": "plain", "estimate": False}
    settings["method"] = {"bags": 2, "iterations": 3}
    whole, stopped = (begin(name, **settings) for name in ("whole", "stopped"))
    whole.go()
    # two iterations are whole, and two pages of the third
    stopped.stop("bank", 2 * TREES["trees"] * 2 * 2 + 6, kind=HiddenLevel)
    for party, torn in (("telco", ["groups"]), ("telco", ["pages-2"]), ("bank", ["groups", "pages-2"])):
        run = replace(stopped, root=stopped.root.with_name("-".join([party, *torn])))
        shutil.copytree(stopped.root, run.root)
        home = run.root / party / CHECKPOINT
        assert [len(list((home / name).iterdir())) for name in ("groups", "pages-2")] == [2, 2]
        for name in torn:
            page = home / name / "page-00001.npz"
            page.write_bytes(page.read_bytes()[: page.stat().st_size // 2])
        run.go()
        assert run.found == whole.found, (party, torn)


# Not for ever


def test_an_honest_run_is_interrupted_again_and_again(begin: Callable[..., Any]) -> None:
    settings: dict[str, Any] = {"model": {"trees": 5, "depth": 2}, "engine": "plain"}
    whole, run = begin("whole", **settings), begin("run", **settings)
    questions = whole.go().results["telco"]["questions"]
    for _ in range(4):
        run.stop("bank", 9, kind=HiddenLevel)  # one group of trees further, and others in vain
    again = run.go().results["telco"]["questions"]
    assert run.found == whole.found
    assert again == run.asked()["answered"][""] > questions, "what was asked in vain counts"


def test_linear_models_are_interrupted_again_and_again(begin: Callable[..., Any]) -> None:
    settings: dict[str, Any] = {"model": LINEAR, "engine": "plain", "estimate": False}
    whole, run = begin("whole", **settings), begin("run", **settings)
    messages = sent(whole.go(), "bank")
    for _ in range(3):
        run.stop("bank", messages // 2)
    run.go()
    assert run.found == whole.found
    assert run.asked()["begun"] > 2 + 2


@pytest.mark.parametrize(("model", "kind"), [(TREES, Begin), (LINEAR, BeginLinear)], ids=["trees", "linear"])
def test_no_more_models_are_begun_than_interruptions_explain(
    begin: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, model: dict[str, Any], kind: type
) -> None:
    monkeypatch.setattr(resume, "AGAIN", 2)
    run = begin("run", model=model, engine="plain", estimate=False)
    for begun in (2, 4, 6, 8):
        run.stop("bank", 0, kind=kind)
        assert run.asked()["begun"] == begun
    with pytest.raises(RefusedError, match=r"telco .*\b8 models"):
        run.go()
    assert run.asked()["begun"] == 8


@pytest.mark.parametrize(("hidden", "refusal"), [(True, ProtocolError), (False, RefusedError)])
def test_an_active_party_that_asks_for_more_gets_nothing_by_resuming(
    begin: Callable[..., Any], hidden: bool, refusal: type[Exception]
) -> None:
    """The bank grows deeper trees than the plan says, and resumes whenever it is refused."""
    settings: dict[str, Any] = {"engine": "plain", "estimate": False}
    model = TREES | {"lockstep": 2, "hide_nodes": hidden}
    run = begin("run", model=model, **settings)
    run.banks_plan = begin("other", model=model | {"depth": 5, "min_rows": 2}, **settings).plan
    planned, kept = 4 * 3 * 2 * 2, []  # models, trees, nodes, sums
    for _ in range(3):
        with pytest.raises(refusal, match=r"telco .*(nodes|splits)|HiddenLevel from bank: more nodes"):
            run.go()
        kept.append(run.asked())
    assert kept[-1]["answered"][""] <= planned
    for name in ("answered", "bits"):
        counts = [asked[name][""] for asked in kept]
        assert counts == sorted(counts)
        assert counts[0] < counts[-1], "what was asked again counts"


@pytest.mark.parametrize("limit", ["maximum_bits_per_row", "maximum_splits"])
def test_bits_and_splits_are_counted_over_interruptions(begin: Callable[..., Any], limit: str) -> None:
    settings: dict[str, Any] = {"model": TREES, "engine": "plain"}
    whole, run = (begin(name, **settings) for name in ("whole", "run"))
    found = whole.go().results["telco"]
    most = found["splits"] if limit == "maximum_splits" else found["bits"] / found["common"]
    run.privates = {"telco": {"policy": {limit: most}}}
    run.stop("bank", 0, kind=Grown)  # all that the first group asked was answered in vain
    with pytest.raises(RefusedError, match=r"telco .*(bits|splits)"):
        run.go()


def test_a_partys_own_limit_holds_however_often_a_run_is_resumed(begin: Callable[..., Any]) -> None:
    settings: dict[str, Any] = {"model": TREES, "engine": "plain"}
    whole, enough, run = (begin(name, **settings) for name in ("whole", "enough", "run"))
    limit = whole.go().results["telco"]["questions"]
    enough.privates = run.privates = {"telco": {"policy": {"maximum_questions": limit}}}
    enough.go()
    run.stop("bank", 5, kind=HiddenLevel)  # four groups have asked about their roots, all in vain
    with pytest.raises(RefusedError, match=rf"telco .*\b{limit} columns"):
        run.go()
    assert run.asked()["answered"][""] <= limit

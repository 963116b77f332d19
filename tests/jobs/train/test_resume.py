"""Training that was interrupted goes on, and leaves what it would have left."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from unpooled.errors import InputError, RefusedError
from unpooled.run.simulate import Outcome
from unpooled.secure.product import Contribution
from unpooled.vertical import resume
from unpooled.vertical.trees.messages import Grown
from unpooled.wire import kind_of

CHECKPOINT = Path(".working") / "checkpoint"
LINEAR = {"learner": "linear", "reveal": "gradients", "epochs": 3, "insecure_batch": True}
NAMES = re.compile(r'"name":"[0-9a-f]{32}"')


@pytest.fixture
def begin(learning: Any, search: Any) -> Callable[..., Any]:
    def begin(name: str, **settings: Any) -> Any:
        plan = learning.plan(**settings)
        return search(plan, learning.tables(plan), learning.root / name, {"bank": {"target": "buys"}})

    return begin


def sent(outcome: Outcome[Any], party: str) -> list[str]:
    """The kinds of message that a party has sent, in order."""
    return [entry.kind for entry in outcome.ledgers[party].entries if entry.way == "sent"]


def left(run: Any, outcome: Outcome[dict[str, Any]]) -> dict[str, Any]:
    """What a run leaves at the owners; names of models and digests are new each time, and questions count on."""
    counted = ("digest", "questions", "bits", "splits", "most_bits")
    found: dict[str, Any] = {"predictions": (run.root / "bank" / "predictions.csv").read_text()}
    for party in ("telco", "bank"):
        found[party] = {key: value for key, value in outcome.results[party].items() if key not in counted}
        found[f"{party}'s model"] = NAMES.sub("", (run.root / party / "model.json").read_text())
    return found


WAYS: dict[str, dict[str, Any]] = {
    "shares": {"model": {"trees": 4}},
    "open bags": {"model": {"hide_bags": False}, "engine": "plain"},
    "forest": {"model": {"learner": "rf", "trees": 4, "lockstep": 2}, "engine": "plain"},
    "patience": {"model": {"patience": 1, "validation_fraction": 0.3}, "engine": "plain"},
    "linear": {"model": LINEAR, "engine": "plain"},
    "tuning": {"tuning": {"settings": {"trees": [1, 2]}, "folds": 2}, "engine": "plain"},
}


@pytest.mark.parametrize("way", WAYS)
def test_wherever_a_party_was_stopped_the_result_is_the_same(begin: Callable[..., Any], way: str) -> None:
    rng = random.Random(way)
    whole = begin("whole", **WAYS[way])
    outcome = whole.go(resume=False)
    for party in ("telco", "bank"):
        run = begin(party, **WAYS[way])
        run.stop(party, rng.randrange(len(sent(outcome, party))))
        assert left(run, run.go()) == left(whole, outcome), (way, party)


def test_trees_that_have_grown_are_not_grown_again(begin: Callable[..., Any]) -> None:
    whole, run = (begin(name, model={"trees": 6}, engine="plain") for name in ("whole", "run"))
    kinds = sent(whole.go(resume=False), "bank")
    grown = [place for place, kind in enumerate(kinds) if kind == kind_of(Grown)]
    run.stop("bank", grown[8])
    assert sent(run.go(), "bank").count(kind_of(Grown)) == 2 * 2, "four were kept, in the fifth it was stopped"


def test_a_model_that_is_whole_is_not_fitted_again(begin: Callable[..., Any]) -> None:
    settings: dict[str, Any] = {"model": {"hide_bags": False}, "engine": "plain"}
    whole, run = (begin(name, **settings) for name in ("whole", "run"))
    outcome = whole.go(resume=False)
    run.stop("bank", sent(outcome, "bank").index("Sort"))
    again = run.go()
    assert "Trees" not in sent(again, "bank")
    assert left(run, again) == left(whole, outcome)


def test_candidates_that_were_tried_are_not_tried_again(begin: Callable[..., Any]) -> None:
    whole, run = (begin(name, **WAYS["tuning"]) for name in ("whole", "run"))
    outcome = whole.go(resume=False)
    begun = [place for place, kind in enumerate(sent(outcome, "bank")) if kind == "Begin"]
    run.stop("bank", begun[4])
    again = run.go()
    assert (len(begun), sent(again, "bank").count("Begin"), sent(again, "bank").count("Chosen")) == (6, 2, 2)
    assert left(run, again) == left(whole, outcome)


def test_a_party_that_lost_its_checkpoint_takes_the_others_back(begin: Callable[..., Any]) -> None:
    whole, run = (begin(name, engine="plain") for name in ("whole", "run"))
    outcome = whole.go(resume=False)
    run.stop("bank", len(sent(outcome, "bank")) - 3)
    shutil.rmtree(run.root / "telco" / CHECKPOINT)
    assert left(run, run.go()) == left(whole, outcome)


def test_another_table_is_refused(begin: Callable[..., Any]) -> None:
    run = begin("run", engine="plain")
    run.stop("telco", 1, Contribution)
    bank = run.tables["bank"]
    run.tables["bank"] = replace(bank, frame=bank.frame.with_columns(pl.col("age") + 0.001))
    with pytest.raises(InputError, match=r"^bank: the run cannot be resumed: the table changed"):
        run.go()


@pytest.mark.parametrize("model", [{"trees": 2}, LINEAR], ids=["trees", "linear"])
def test_a_run_is_not_resumed_for_ever(
    begin: Callable[..., Any], model: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume, "AGAIN", 2)
    run = begin("run", engine="plain", model=model)
    for _ in range(3):
        run.stop("telco", 1, Contribution)
    with pytest.raises(RefusedError, match="telco begins at most 3 models in a run, however often that is resumed"):
        run.go()

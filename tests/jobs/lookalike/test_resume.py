"""A search for look-alikes that was interrupted goes on, and finds whom it would have found."""

from __future__ import annotations

import json
import random
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.errors import InputError
from unpooled.jobs.lookalike.list_files import Lookalikes
from unpooled.run.simulate import Outcome
from unpooled.secure import randomness
from unpooled.vertical.trees.messages import Grown
from unpooled.wire import kind_of

FIRST, LAST = "find/estimates and iteration 1 of 2, trees of 7 bags", "find/iteration 2 of 2, trees of 2 bags"
CHECKPOINT = Path(".working") / "checkpoint"
LINEAR = {"learner": "linear", "reveal": "gradients", "epochs": 2, "insecure_batch": True}
PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True}


@pytest.fixture
def begin(seeking: Any, search: Any) -> Callable[..., Any]:
    def begin(name: str, **settings: Any) -> Any:
        plan = seeking.plan(**settings)
        return search(plan, seeking.tables(plan), seeking.root / name)

    return begin


def sent(outcome: Outcome[Any], party: str) -> list[str]:
    """The scopes of what a party has sent, in order."""
    return [entry.scope for entry in outcome.ledgers[party].entries if entry.way == "sent"]


def told(outcome: Outcome[dict[str, Any]]) -> dict[str, Any]:
    """What the bank has to tell in the end; the digest of rows is another each time, and what is asked again counts."""
    counted = ("digest", "questions", "bits", "splits")
    return {key: value for key, value in outcome.results["bank"].items() if key not in counted}


# Stopped anywhere


WAYS: dict[str, dict[str, Any]] = {
    "shares": {"model": {"trees": 4}},
    "open bags": {"model": {"hide_bags": False}},
    "nodes shown": {"model": {"hide_nodes": False}},
    "forest": {"model": {"learner": "rf", "trees": 4, "lockstep": 2}},
    "lgb": {"model": {"learner": "lgb", "leaves": 3, "row_fraction": 0.7}},
    "linear": {"model": LINEAR},
    "spies": {"stop": True, "engine": "plain"},
    "two steps": {"method": {"name": "two-step", "folds": 2}, "engine": "plain"},
    "patience": {"model": {"patience": 1, "validation_fraction": 0.3}, "engine": "plain"},
    "reliable negatives": {"method": {"negatives": "reliable", "iterations": 2, "bags": 2}, "engine": "plain"},
    "tuning": {"tuning": {"settings": {"depth": [1, 2]}, "folds": 2, "bags": 1}, "engine": "plain"},
    "paillier": {"method": {"name": "bagging", "bags": 1}, "estimate": False, "top": 9} | PAILLIER,
}


@pytest.mark.parametrize("way", WAYS)
def test_wherever_a_party_was_stopped_the_list_is_the_same(begin: Callable[..., Any], way: str) -> None:
    """One party for each way of searching; `tests/run/test_faults.py` stops everybody."""
    rng = random.Random(way)
    whole, run = begin("whole", **WAYS[way]), begin("run", **WAYS[way])
    outcome = whole.go(resume=False)
    party = rng.choice(list(whole.plan.parties))
    run.stop(party, rng.randrange(len(sent(outcome, party))))
    again = run.go()
    assert run.found == whole.found, party
    assert told(again) == told(outcome)


def test_a_run_may_be_stopped_again_and_again(begin: Callable[..., Any]) -> None:
    settings: dict[str, Any] = {"model": {"trees": 6}, "method": {"iterations": 3, "bags": 2}, "engine": "plain"}
    whole, run = begin("whole", **settings), begin("run", **settings)
    messages = len(sent(whole.go(resume=False), "bank"))
    run.stop("bank", messages // 3)
    for fraction in (3, 4):
        run.stop("telco", messages // fraction // 2)
    run.go()
    assert run.found == whole.found


def test_what_was_learned_is_not_learned_again(begin: Callable[..., Any]) -> None:
    whole, run = begin("whole"), begin("run")
    scopes = sent(whole.go(resume=False), "bank")
    run.stop("bank", scopes.index(LAST) + 1)
    again = sent(run.go(), "bank")
    assert FIRST in scopes
    assert {scope.split("/")[1] for scope in again if " bags" in scope} == {"iteration 2 of 2, trees of 2 bags"}
    assert len(again) < len(scopes)


def test_trees_of_a_group_that_was_interrupted_are_not_grown_again(begin: Callable[..., Any]) -> None:
    whole, run = (begin(name, model={"trees": 8}, estimate=False) for name in ("whole", "run"))
    kinds = [e.kind for e in whole.go(resume=False).ledgers["bank"].entries if e.way == "sent"]
    grown = [place for place, kind in enumerate(kinds) if kind == kind_of(Grown)]
    run.stop("bank", grown[5])
    entries = run.go().ledgers["bank"].entries
    again = [
        e
        for e in entries
        if e.scope == "find/iteration 1 of 2, trees of 2 bags" and e.way == "sent" and e.kind == kind_of(Grown)
    ]
    assert len(again) == 2 * 8 - 5, "five groups were kept, in the sixth it was stopped"
    assert run.found == whole.found


def test_a_party_that_lost_its_checkpoint_takes_the_others_back(begin: Callable[..., Any]) -> None:
    whole, run = begin("whole"), begin("run")
    scopes = sent(whole.go(resume=False), "bank")
    run.stop("bank", scopes.index(LAST) + 1)
    shutil.rmtree(run.root / "telco" / CHECKPOINT)
    again = sent(run.go(), "bank")
    assert FIRST in again
    assert run.found == whole.found


def test_questions_are_counted_on(begin: Callable[..., Any]) -> None:
    whole, run = begin("whole"), begin("run")
    outcome = whole.go(resume=False)
    run.stop("bank", sent(outcome, "bank").index(LAST) + 1)
    again = run.go().results["telco"]["questions"]
    assert again == outcome.results["telco"]["questions"]


# Refused


@pytest.fixture(scope="module")
def stopped_once(
    tmp_path_factory: pytest.TempPathFactory, seeking_in: Callable[[Path], Any], search: Callable[..., Any]
) -> Any:
    """Before the list was sent; nobody goes on with it."""
    seeking = seeking_in(tmp_path_factory.mktemp("stopped"))
    plan = seeking.plan(engine="plain")
    run = search(plan, seeking.tables(plan), seeking.root / "run")
    run.stop("bank", 0, kind=Lookalikes)
    return run


@pytest.fixture
def stopped(stopped_once: Any, tmp_path: Path) -> Any:
    """A copy."""
    shutil.copytree(stopped_once.root, tmp_path / "stopped")
    return replace(stopped_once, root=tmp_path / "stopped")


@pytest.mark.parametrize("party", ["telco", "bank"])
def test_another_table_is_refused(stopped: Any, party: str) -> None:
    tables = dict(stopped.tables)
    column = {"telco": "calls", "bank": "age"}[party]
    frame = tables[party].frame.with_columns(pl.col(column) + 0.001)
    tables[party] = type(tables[party])(**vars(tables[party]) | {"frame": frame})
    stopped.tables = tables
    with pytest.raises(InputError, match=f"^{party}: .*table"):
        stopped.go()
    assert not list(stopped.root.rglob("reliable.csv"))


def test_other_people_of_the_seekers_are_another_table(stopped: Any) -> None:
    shop = stopped.tables["shop"]
    fewer = type(shop)(**vars(shop) | {"frame": shop.frame.slice(8)})
    stopped.tables = dict(stopped.tables) | {"shop": fewer}
    with pytest.raises(InputError, match=r"^bank: .*table"):
        stopped.go()


@pytest.mark.parametrize(
    "changed", [{"policy": {"maximum_thresholds": 6}}, {"prepare": {"categories": "in order"}}], ids=str
)
def test_another_private_setting_that_decides_is_refused(stopped: Any, changed: dict[str, Any]) -> None:
    stopped.privates = dict.fromkeys(stopped.plan.parties, changed)
    with pytest.raises(InputError, match="private setting"):
        stopped.go()


def test_another_plan_is_refused(stopped: Any) -> None:
    changed = dict(stopped.plan.parameters) | {"top": 3}
    stopped.plan = stopped.plan.model_copy(update={"parameters": changed})
    with pytest.raises(InputError, match="plan"):
        stopped.go()


@pytest.mark.parametrize("name", ["software", "format"])
def test_another_version_is_refused(stopped: Any, name: str) -> None:
    header = stopped.root / "telco" / CHECKPOINT / "header.json"
    header.write_text(json.dumps(json.loads(header.read_text()) | {name: "0"}))
    with pytest.raises(InputError, match=f"^telco: .*{name}"):
        stopped.go()


def test_a_damaged_page_is_named(stopped: Any) -> None:
    page = stopped.root / "bank" / CHECKPOINT / "groups" / "page-00000.npz"
    page.write_bytes(page.read_bytes()[:100])
    with pytest.raises(InputError, match=r"bank.*page-00000\.npz"):
        stopped.go()


def test_a_new_run_in_the_place_of_an_old_one_goes_on_from_nothing(stopped: Any) -> None:
    stopped.plan = stopped.plan.model_copy(update={"parameters": dict(stopped.plan.parameters) | {"top": 3}})
    stopped.go(resume=False)
    assert len(stopped.found.splitlines()) == 1 + 3


# What is kept


def kept(root: Path) -> Iterator[tuple[str, bytes]]:
    for path in root.glob(f"*/{CHECKPOINT}/**/*"):
        if path.is_file():
            yield path.relative_to(root).parts[0], path.read_bytes()


@pytest.mark.parametrize("way", ["shares", "linear", "paillier"])
def test_no_secret_is_in_a_checkpoint(begin: Callable[..., Any], way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    secret: list[bytes] = []

    def noted(length: int) -> bytes:
        secret.append(random.randbytes(length))
        return secret[-1]

    monkeypatch.setattr(randomness.secrets, "token_bytes", noted)
    run = begin("run", **WAYS[way])
    run.go(resume=False)
    assert secret or way == "paillier"
    secret = [each[start : start + 16] for each in secret for start in range(0, len(each) - 15, 16)]
    for party in run.plan.parties:
        drawn = int(np.random.default_rng([run.seeds[party], zlib.crc32(party.encode())]).integers(2**63))
        secret += [drawn.to_bytes(8, order) for order in ("little", "big")] + [str(drawn).encode()]
    pages = list(kept(run.root))
    assert {party for party, _ in pages} == {"telco", "bank"}, "others have nothing to go on from"
    assert len(pages) >= 2 * 2
    for party, content in pages:
        assert not any(each in content for each in secret), party
    assert {path.stat().st_mode & 0o077 for path in run.root.glob(f"*/{CHECKPOINT}/**/*")} == {0}


def test_no_id_is_in_a_checkpoint(begin: Callable[..., Any]) -> None:
    run = begin("run", engine="plain")
    run.go(resume=False)
    assert not [party for party, content in kept(run.root) if b"person-" in content]

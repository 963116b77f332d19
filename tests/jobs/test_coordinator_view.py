"""The coordinator cannot tell two jobs apart whose data are different but of the same shape.

Both jobs are run, and all that reaches the coordinator is compared: message types, order, sizes, words; and what should
be random is. Only where trees have as many nodes as the data make them, or a shown loss ends a descent, numbers differ,
and a test says which. Chance alone passes the limits less than once in a billion runs of all these tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from coordinator_view import View, apart_from_counts, differences, oddities, view_of, with_other_values

from unpooled.secure.paillier import engine as paillier
from unpooled.secure.shares import blocks, permuting, supply
from unpooled.secure.shares import engine as shares

PAILLIER: dict[str, Any] = {"engine": "paillier", "key_bits": 512, "insecure": True}
BLIND_RSA: dict[str, Any] = {"psi": "blind-rsa", "key_bits": 1024, "insecure": True}
TWO = ("telco", "bank", "coordinator")
LINEAR = {"learner": "linear", "epochs": 2, "insecure_batch": True}
SHOWN = LINEAR | {"reveal": "gradients"}
ONE_TREE = {"trees": 1, "depth": 2, "hide_nodes": False}
ONE_BAG: dict[str, Any] = {"method": {"name": "bagging", "bags": 2}, "estimate": False, "top": 5}

Make = Callable[..., Any]


@pytest.fixture(autouse=True)
def few_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")  # so little is not worth worker processes


def trained(learning: Any, name: str, frames: Mapping[str, pl.DataFrame], **settings: Any) -> View:
    scene = replace(learning, frames=frames)
    return view_of(lambda: scene.run(scene.plan(**settings), name))


def both(learning: Any, **settings: Any) -> tuple[View, View]:
    """What the coordinator sees of a training, and of one with other values."""
    other = with_other_values(learning.frames, 1)
    one, two = (trained(learning, str(n), f, **dict(settings)) for n, f in enumerate((learning.frames, other)))
    return one, two


TRAINED: dict[str, dict[str, Any]] = {
    "linear": {"model": LINEAR},
    "linear, gradients": {"model": SHOWN, "parties": TWO},
    "linear, gradients, paillier": {"model": SHOWN | {"epochs": 1}, "parties": TWO} | PAILLIER,
    "linear, blind-rsa": {"model": LINEAR, "parties": TWO} | BLIND_RSA,
    "linear, aided": {"model": LINEAR, "psi": "aided"},
    "nodes shown": {"model": ONE_TREE},
    "nodes shown, rows not counted": {"model": ONE_TREE, "parties": TWO, "count_rows": False},
    "nodes hidden": {"model": ONE_TREE | {"hide_nodes": True}},
    "nodes hidden, blind-rsa": {"model": ONE_TREE | {"hide_nodes": True}, "parties": TWO} | BLIND_RSA,
    "nodes shown, paillier": {"model": ONE_TREE, "parties": TWO} | PAILLIER,
    "nodes hidden, paillier": {"model": ONE_TREE | {"hide_nodes": True}, "parties": TWO} | PAILLIER,
}


@pytest.mark.parametrize("settings", TRAINED.values(), ids=TRAINED)
def test_two_trainings_look_the_same(learning: Any, settings: dict[str, Any]) -> None:
    one, other = both(learning, **settings)
    assert differences(one, other) == []
    from_bank = [kind for kind, *_ in one.lines["bank"]]
    assert "Stop" in from_bank
    assert any(kind in from_bank for kind in ("Deal", "Decrypt"))
    assert ("Tags" in from_bank) == ("psi" not in settings), "blind signatures need no coordinator"
    assert ("KeyedTags" in from_bank) == (settings.get("psi") == "aided")


def test_so_do_trainings_with_large_products(learning: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "block_bytes", 64)
    assert differences(*both(learning, model=ONE_TREE)) == []


SEARCHED: dict[str, dict[str, Any]] = {
    "linear": {"model": LINEAR},
    "linear, gradients": {"model": SHOWN},
    "trees": {"model": ONE_TREE},
    "trees, hidden nodes": {"model": ONE_TREE | {"hide_nodes": True}},
    "trees, paillier": {"model": ONE_TREE} | PAILLIER,
    "linear, aided": {"model": LINEAR, "psi": "aided"},
}


@pytest.mark.parametrize("settings", SEARCHED.values(), ids=SEARCHED)
def test_two_searches_look_the_same(seeking: Any, settings: dict[str, Any]) -> None:
    """The shop knows as many people, others, and as many of them are common."""
    other = with_other_values({name: seeking.frames[name] for name in ("telco", "bank")}, 2)
    strangers = seeking.frames["shop"]["id"].str.starts_with("stranger").to_list()
    bank, telco = other["bank"]["id"], other["telco"]["id"]
    common = bank.filter(bank.is_in(telco.implode())).sort()
    known = seeking.frames["shop"]["id"].is_in(seeking.frames["telco"]["id"].implode()).to_list()
    ids = [
        f"someone else {n}" if s or not k else common[n] for n, (s, k) in enumerate(zip(strangers, known, strict=True))
    ]
    views = []
    for name, frames in (("one", seeking.frames), ("other", other | {"shop": pl.DataFrame({"id": ids})})):
        scene = replace(seeking, frames=frames)
        views.append(view_of(lambda s=scene, n=name: s.run(s.plan(**ONE_BAG | settings), n)))
    assert differences(*views) == []


# What depends on data


def by_one_column(frames: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The bank's own age says who buys: one split is enough, and nobody else's columns say more."""
    buys = pl.when(pl.col("age") > 0).then(pl.lit("yes")).otherwise(pl.lit("no"))
    return {**frames, "bank": frames["bank"].with_columns(buys=buys)}


@pytest.mark.parametrize("hide_nodes", [False, True], ids=["nodes shown", "nodes hidden"])
@pytest.mark.parametrize("engine", [{}, PAILLIER], ids=["shares", "paillier"])
def test_how_many_nodes_trees_have_shows_and_nothing_else(
    learning: Any, engine: dict[str, Any], hide_nodes: bool
) -> None:
    """With `shares` and shown nodes rows are moved into an order: what that takes does not depend on the nodes.

    Gradients that are rounded at random give nodes of a single class some gain, though little.
    """
    model = {"trees": 1, "depth": 3, "hide_nodes": hide_nodes, "minimum_gain": float(hide_nodes)}
    one, other = (
        trained(learning, name, frames, parties=TWO, model=model, **engine)
        for name, frames in (("many", learning.frames), ("few", by_one_column(learning.frames)))
    )
    assert (one.lines != other.lines) == (hide_nodes or bool(engine))
    assert apart_from_counts(one) == apart_from_counts(other)
    assert [*oddities(one), *oddities(other)] == []


def test_when_a_shown_loss_ends_a_descent_shows_and_nothing_else(learning: Any) -> None:
    model = SHOWN | {"epochs": 50, "tolerance": 0.03}
    one, other = both(learning, parties=TWO, model=model)
    assert len(one.lines["bank"]) != len(other.lines["bank"])
    assert apart_from_counts(one) == apart_from_counts(other)


def test_without_gradients_a_descent_is_as_long_as_the_plan_says(learning: Any) -> None:
    one, other = both(learning, parties=TWO, model=LINEAR | {"epochs": 12, "tolerance": 0.01})
    assert differences(one, other) == []


@pytest.mark.parametrize("model", [LINEAR, SHOWN, ONE_TREE], ids=["linear", "linear, gradients", "trees"])
def test_how_many_rows_have_a_label_shows_only_where_the_others_are_left_out(
    learning: Any, model: dict[str, Any]
) -> None:
    frames = {}
    for missing in (20, 50):
        labels = pl.when(pl.int_range(pl.len()) < missing).then(None).otherwise(pl.col("buys"))
        frames[missing] = {**learning.frames, "bank": learning.frames["bank"].with_columns(buys=labels)}
    for hide_bags in (True, False):
        settings = {"parties": TWO, "model": model | {"hide_bags": hide_bags}}
        one, other = (trained(learning, f"{name} {hide_bags}", f, **dict(settings)) for name, f in frames.items())
        found = differences(one, other)
        assert hide_bags == (found == []), found
        assert hide_bags or "'rows': " in found[0]


# Engines that are broken on purpose


def one_seed_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supply, "new_seed", lambda: bytes(32))
    for module in (shares, permuting):
        monkeypatch.setattr(module, "new_to", lambda engine, seed: seed)  # parties would notice


def no_mask_under_encryption(monkeypatch: pytest.MonkeyPatch) -> None:
    class Secrets:
        randbelow = staticmethod(lambda n: 0)

    monkeypatch.setattr(paillier, "secrets", Secrets)


BROKEN: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], dict[str, Any], str]] = {
    "mask reused": (one_seed_for_all, {"model": LINEAR, "parties": TWO}, "a seed comes twice"),
    "mask left out": (
        no_mask_under_encryption,
        {"model": {"trees": 2, "depth": 3}, "parties": TWO} | PAILLIER,
        "what it decrypts: bytes are not uniform",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_found_out(learning: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The parties still compute what they should: nothing but what reaches the coordinator tells."""
    break_it, settings, seen = BROKEN[name]
    break_it(monkeypatch)
    found = differences(*both(learning, **settings))
    assert any(seen in odd for odd in found), found[:5]

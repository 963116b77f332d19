"""An audit tries all attacks from every seat, and says in plain sentences what came of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from unpooled.attacks.audit import findings_of, known_to_attacker
from unpooled.attacks.findings import (
    ATTACKS,
    BAGS,
    LEAF_SIZES,
    RECONSTRUCTION,
    TWO_RUNS,
    named_people,
    ranked,
    read_cells,
)
from unpooled.attacks.simulation import View
from unpooled.attacks.stage import Stage
from unpooled.errors import InputError

TRUTH = np.arange(1000) < 200
Search = Callable[..., tuple[Stage, View]]


def finding(scores: np.ndarray) -> str:
    return ranked(LEAF_SIZES, "passive", "telco", "shop", "the people of shop", TRUTH, scores, None).sentence


def test_sentences_say_what_a_score_means() -> None:
    rng = np.random.default_rng(1)
    exact = finding(TRUTH.astype(float))
    assert "Shown one of the people of shop and somebody else, it says in 100 of 100 cases which is which" in exact
    assert "no better than by guessing" in finding(rng.normal(size=1000))
    assert "turned round says it in 100" in finding(-TRUTH.astype(float))


@pytest.mark.parametrize(("shift", "level"), [(0.0, "nothing"), (0.5, "something"), (2.0, "much"), (-2.0, "much")])
def test_levels_follow_from_scores(shift: float, level: str) -> None:
    scores = np.random.default_rng(2).normal(size=1000) + shift * TRUTH
    assert ranked(BAGS, "passive", "telco", "shop", "them", TRUTH, scores, None).level == level


def test_cells_and_people_are_fractions() -> None:
    assert read_cells(RECONSTRUCTION, "active", "bank", "telco", 0.842).level == "much"
    assert "84.2 % of the cells of telco" in read_cells(RECONSTRUCTION, "active", "bank", "telco", 0.842).sentence
    assert "names none of them" in named_people(TWO_RUNS, "seeker", "shop", "bank", 0, 10).sentence
    assert named_people(TWO_RUNS, "passive", "telco", "bank", 10, 10).score == 1.0


def test_every_attack_says_what_makes_it_harder() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) == 7
    assert all(attack.remedy and attack.does and attack.title for attack in ATTACKS)


def test_findings_of_a_search_are_about_the_seeker(search: Search) -> None:
    found = findings_of(*search(hide_nodes=False), 1)
    assert [one.attack for one in found] == ["bags", "leaf_sizes", "few_known", "id2graph"]
    assert {(one.party, one.about, one.seat) for one in found} == {("telco", "shop", "passive")}
    assert [one.level for one in found] == ["nothing", "much", "much", "much"]


def test_too_few_people_to_find_are_an_error() -> None:
    with pytest.raises(InputError, match="only 9 people are sought"):
        known_to_attacker(np.arange(100) < 9, 1)

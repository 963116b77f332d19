"""What completing a table sends was told before: the outline of every step against the ledgers of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from outlines import check_outline, said

from unpooled import control
from unpooled.align.opening import Limits
from unpooled.align.other_rows import help_keep_other_rows, keep_other_rows, learn_other_rows
from unpooled.align.outline import alignment_outline, other_rows_outline
from unpooled.align.rows import Method, Places, find_common, help_find_common
from unpooled.complete.association import contingency, help_contingency, help_spearman, spearman
from unpooled.complete.federated import (
    Columns,
    SelfTrainingSettings,
    Variable,
    help_predict_columns,
    help_predict_new,
    predict_columns,
    predict_new,
)
from unpooled.complete.outline import completing_outline, new_rows_outline
from unpooled.complete.variables import binned, variables_of
from unpooled.data.table import table_from_frame
from unpooled.ledger import Record
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Rules, open_engine
from unpooled.secure.outline import Exchange, Setup
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.learners import learner_of
from unpooled.vertical.linear.parameters import LinearParameters
from unpooled.vertical.resume import Checkpoint
from unpooled.vertical.team import Team
from unpooled.vertical.trees.parameters import ForestParameters, GbdtParameters

COMMON, OTHERS, EXTRA = 130, 30, 5
METHOD, LIMITS = Method("ecdh", 1024), Limits(0, 0)
ONCE = SelfTrainingSettings(rounds=1, folds=2)
SMALL = GbdtParameters(trees=2, depth=1)
ONE, TWO = ("registry",), ("registry", "insurer")
COLUMNS = {"clinic": (0, 1), "registry": (0, 3), "insurer": (1, 2)}


def matrix() -> np.ndarray:
    return np.random.default_rng(4).normal(size=(COMMON + OTHERS, 4))


def clinic_columns(rows: int) -> list[Variable]:
    """A number and a class of the rows that the clinic has."""
    x = matrix()[:COMMON]
    frame = pl.DataFrame({"id": range(COMMON), "dose": x[:, 0], "late": np.where(x[:, 2] > 0, "yes", "no")})
    return variables_of(table_from_frame(frame, "id", "clinic"), rows)


def table_of(party: str) -> Any:
    people = {"clinic": range(COMMON), "registry": range(COMMON + OTHERS), "insurer": range(COMMON + OTHERS + EXTRA)}
    return table_from_frame(pl.DataFrame({"id": [f"p{number}" for number in people[party]]}), "id", party)


def associated(team: Team, measure: str, x: np.ndarray) -> None:
    """The association of the common rows, at either side."""
    active = team.session.party == team.active
    if measure == "cramer":
        columns = clinic_columns(COMMON) if active else [one for one in clinic_columns(COMMON) if not one.classes]
        codes, counts = zip(*map(binned, columns), strict=True)
        (contingency if active else help_contingency)(team, np.column_stack(codes), counts)
    else:
        (spearman if active else help_spearman)(team, x[:COMMON])


def run(
    passive: Sequence[str], engine: str, base: LearnerParameters, measure: str | None, folder: Path
) -> Mapping[str, Record]:
    """All steps from the alignment on; then the clinic and the others score the same rows as new ones."""
    owners = ("clinic", *passive)
    places = Places("clinic", tuple(passive), None, "coordinator")
    settings, questions = ONCE, learner_of(base).questions(base, 100)

    def opened(session: Session) -> Any:
        rules = Rules(engine, key_bits=512, insecure=True, questions=questions)  # type: ignore[arg-type]
        return open_engine(session, rules, owners, "clinic", "coordinator")

    def owner(session: Session) -> None:
        table, me = table_of(session.party), session.party
        aligned = find_common(session, places, table, METHOD, LIMITS)
        if me == "clinic":
            extended = learn_other_rows(session, places, aligned)
        else:
            extended = keep_other_rows(session, places, table, aligned, METHOD, LIMITS)
        team = Team("clinic", owners, opened(session), extended.digest)
        x = matrix()[:, COLUMNS[me]]
        if measure:
            associated(team, measure, x)
        kept, rows = Checkpoint(folder / me), extended.common + extended.others
        none, columns = Columns(np.empty((rows, 0)), ()), Columns(x, tuple(f"{me} {i}" for i in range(x.shape[1])))
        if me == "clinic":
            found = predict_columns(team, base, none, clinic_columns(rows), settings, 1, checkpoint=kept)
            assert len(found.predictions) == 2
        else:
            help_predict_columns(team, base, columns, settings, checkpoint=kept)
        finish(team.products)

    def coordinator(session: Session) -> None:
        help_find_common(session, places, METHOD, LIMITS)
        help_keep_other_rows(session, places, METHOD, LIMITS)
        serve(opened(session))

    roles: dict[str, Callable[[Session], None]] = dict.fromkeys(owners, owner)
    return simulate_roles(roles | {"coordinator": coordinator}, timeout=240).ledgers


def setup_of(passive: Sequence[str], engine: str) -> Setup:
    rules = Rules(engine, key_bits=512, insecure=True)  # type: ignore[arg-type]
    return Setup(("clinic", *passive), "clinic", "coordinator", rules)


def outline(passive: Sequence[str], engine: str, base: LearnerParameters, measure: Any) -> list[Exchange]:
    places = Places("clinic", tuple(passive), None, "coordinator")
    return completing_outline(places, "ecdh", setup_of(passive, engine), base, measure)


@pytest.mark.parametrize(
    ("passive", "engine", "base", "measure"),
    [
        pytest.param(ONE, "shares", SMALL, "mean", id="shares"),
        pytest.param(TWO, "shares", SMALL, "cramer", id="shares, two passive parties, counts"),
        pytest.param(ONE, "shares", SMALL.model_copy(update={"hide_nodes": True}), None, id="shares, hidden nodes"),
        pytest.param(ONE, "shares", ForestParameters(trees=1, depth=1, hide_bags=False), None, id="shares, open bags"),
        pytest.param(TWO, "shares", LinearParameters(epochs=2, insecure_batch=True), None, id="shares, linear"),
        pytest.param(ONE, "paillier", SMALL, "max", id="paillier"),
        pytest.param(TWO, "paillier", SMALL, "cramer", id="paillier, two passive parties, counts"),
        pytest.param(ONE, "plain", SMALL, "cramer", id="plain, counts"),
        pytest.param(TWO, "plain", SMALL, "mean", id="plain, two passive parties"),
    ],
)
def test_the_outline_is_what_is_sent(
    passive: Sequence[str], engine: str, base: LearnerParameters, measure: str | None, tmp_path: Path
) -> None:
    check_outline(outline(passive, engine, base, measure), run(passive, engine, base, measure, tmp_path), control.KINDS)


@pytest.mark.parametrize("hide_nodes", [False, True])
def test_new_rows_send_what_was_told(hide_nodes: bool) -> None:
    base = SMALL.model_copy(update={"hide_nodes": hide_nodes})
    owners, x = ("clinic", "registry"), Columns(matrix()[:, :2], ("a", "b"))
    none, settings = Columns(np.empty((COMMON + OTHERS, 0)), ()), ONCE
    kept: dict[str, Any] = {}

    def role(learning: bool) -> Callable[[Session], None]:
        def owner(session: Session) -> None:
            team = Team(
                "clinic", owners, open_engine(session, Rules("plain", questions=100), owners, "clinic", None), "rows"
            )
            me = session.party
            if learning and me == "clinic":
                kept[me] = predict_columns(team, base, none, clinic_columns(COMMON + OTHERS)[:1], settings, 1)
            elif learning:
                kept[me] = help_predict_columns(team, base, x, settings)
            elif me == "clinic":
                learned = [one.column for one in kept[me].predictions]
                predict_new(team, kept[me].models, learned, settings.folds, none)
            else:
                help_predict_new(team, kept[me], x)

        return owner

    simulate_roles(dict.fromkeys(owners, role(True)), timeout=60)
    ledgers = simulate_roles(dict.fromkeys(owners, role(False)), timeout=60).ledgers
    besides = {"MaskSeed", *control.KINDS}
    told = new_rows_outline(setup_of(ONE, "plain"), base)
    condition = "that hide nodes" if hide_nodes else "that hide no nodes"
    expected = {(e.sender, e.receiver, e.kind) for e in told if e.only_if in ("", condition)}
    assert {one for one in said(ledgers) if one[2] not in besides} == expected


def test_handles_take_an_alignment_of_the_passive_parties_if_there_are_several() -> None:
    one, two = (other_rows_outline(Places("clinic", passive, None, "coordinator"), "ecdh") for passive in (ONE, TWO))
    assert [(e.sender, e.receiver, e.kind) for e in one] == [("registry", "clinic", "OtherRows")]
    aligned = alignment_outline(Places("registry", ("insurer",), None, "coordinator"), "ecdh")
    again = [e for e in aligned if e.kind in ("HiddenDigest", "SameRows")]
    assert [e for e in two if e.kind not in ("OtherRows", "RowSeeds")] == [*aligned, *again]
    assert ("registry", "insurer", "RowSeeds") in {(e.sender, e.receiver, e.kind) for e in two}
    assert not [e for e in two if "clinic" in (e.sender, e.receiver) and e.kind != "OtherRows"]


def test_a_gain_takes_a_prediction_and_no_association() -> None:
    kinds = {e.kind for e in outline(ONE, "shares", SMALL, "gain")}
    assert kinds == {e.kind for e in outline(ONE, "shares", SMALL, None)}
    assert not kinds & {"AssociationRequest", "RankNorms", "BinCounts"}


def test_who_waits_is_told_how_far_it_is() -> None:
    places = Places("clinic", ONE, None, "coordinator")
    waiting = completing_outline(places, "ecdh", setup_of(ONE, "shares"), SMALL, None, waiting=("coordinator",))
    told = {(e.sender, e.receiver) for e in waiting if e.kind.endswith("HowFar")}
    assert told == {("clinic", "coordinator")}

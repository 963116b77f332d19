"""The kind `information`: values are those of pooled columns with every engine, and the active party sees no counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.data.table import table_from_frame
from unpooled.errors import InputError, PlanError, ProtocolError, RefusedError
from unpooled.information.bins import columns_in_bins
from unpooled.information.messages import ColumnCount, EvidenceShares, InformationShares, InformationValues
from unpooled.information.values import as_fraction, counts_of, information_value, weights_of_evidence
from unpooled.jobs.checks import checked
from unpooled.jobs.kinds import kind_named
from unpooled.jobs.private import Private
from unpooled.secure.lookup import Masked
from unpooled.session import Session

PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True}
ENGINES: dict[str, dict[str, Any]] = {"plain": {"engine": "plain"}, "shares": {}, "paillier": PAILLIER}
BINS = {"most": 5, "min_rows": 20}


def pooled(frames: dict[str, pl.DataFrame]) -> dict[str, tuple[float, list[float], list[int]]]:
    """The values of all columns on one table of the people whom all have and of whom it is known whether they buy:
    information value, WoE and size of each bin.
    """
    rows = frames["bank"].drop_nulls("buys").join(frames["telco"], on="id").join(frames["railway"], on="id").sort("id")
    labels = (rows["buys"] == "yes").to_numpy().astype(np.int64)
    found = {}
    for column in columns_in_bins(table_from_frame(rows.drop("buys"), "id", "pooled"), **BINS):
        counts = counts_of(column.bins, labels, len(column.meanings))
        woe = (weights_of_evidence(*counts, 2) / 100).tolist()
        found[column.name] = as_fraction(information_value(*counts)), woe, (counts[0] + counts[1]).tolist()
    return found


def in_floats(frames: dict[str, pl.DataFrame], column: str) -> float:
    """The information value of a category, straight from the definition."""
    rows = frames["bank"].drop_nulls("buys").join(frames["telco"], on="id").join(frames["railway"], on="id")
    counts = rows.group_by(column).agg(
        (pl.col("buys") == "yes").sum().alias("p"), (pl.col("buys") == "no").sum().alias("n")
    )
    p, n = counts["p"].to_numpy(), counts["n"].to_numpy()
    woe = np.log((p + 0.5) / p.sum()) - np.log((n + 0.5) / n.sum())
    return float(((p / p.sum() - n / n.sum()) * woe).sum())


@pytest.mark.parametrize("engine", ENGINES)
def test_values_are_those_of_pooled_columns(informing: Any, frames: dict[str, pl.DataFrame], engine: str) -> None:
    outcome = informing.run(informing.plan(show="woe", **ENGINES[engine]))
    expected, results = pooled(frames), outcome.results
    for party in ("telco", "railway", "bank"):
        ivs = {one["name"]: one["iv"] for one in results[party]["columns"]}
        assert ivs == {name: expected[name][0] for name in ivs}
        woe = outcome.tables[party]["woe"]
        for name in ivs:
            of_column = woe.filter(pl.col("column") == name)
            assert (of_column["woe"].to_list(), of_column["rows"].to_list()) == expected[name][1:]
    for party in ("telco", "railway"):
        numbered = {one["number"]: one["iv"] for one in results[party]["columns"]}
        assert results["bank"]["lent"][party] == [numbered[number] for number in range(1, len(numbered) + 1)]
    assert abs(expected["tariff"][0] - in_floats(frames, "tariff")) < 1e-4
    assert results["bank"]["rows_without_label"] == frames["bank"]["buys"].null_count()


def test_nothing_about_bins_is_shown_by_default(informing: Any) -> None:
    """What the active party receives that says something are alignments, how many columns there are, and the values."""
    said: list[tuple[str, Any]] = []
    outcome = informing.run(
        informing.plan(), woe=False, observers={"bank": lambda peer, what: said.append((peer, what))}
    )
    telling = {
        entry.kind
        for entry in outcome.ledgers["bank"].entries
        if entry.way == "received" and entry.peer != "coordinator" and not entry.discloses.startswith("nothing")
    }
    ours = {"ColumnCount", "InformationShares"}
    assert {kind for kind in telling if kind.startswith(("Column", "Information", "Evidence"))} == ours
    assert telling - ours <= {"PlanOffer", "Goodbye", "Opening", "SameRows"}
    assert outcome.tables["telco"].keys() == {"information", "aligned"}
    assert all("woe" not in column for column in outcome.results["telco"]["columns"])
    shares = [what.values for peer, what in said if isinstance(what, InformationShares)]
    assert all((each < 2**21).all() for each in shares), "no bit more than is shown"
    assert outcome.results["telco"]["bits"] == 2 * 21


def test_what_is_exchanged_about_counts_is_drawn_anew_in_each_run(informing: Any) -> None:
    """The same tables: positions and what is looked up are hidden by other random numbers."""
    sent: dict[str, list[Any]] = {"one": [], "two": []}
    for name, seen in sent.items():

        def watch(_peer: str, what: Any, seen: list[Any] = seen) -> None:
            if isinstance(what, Masked):
                seen.append(what.values.ravel())

        informing.run(informing.plan(), name, observers={"telco": watch})
    offsets, *_ = zip(*sent.values(), strict=True)
    assert (offsets[0] != offsets[1]).any()
    words = np.concatenate([each for seen in sent.values() for each in seen if each.max() >= 2**12])
    assert len(np.unique(words)) == len(words) > 100


@pytest.mark.parametrize(
    ("kind", "by", "change"),
    [
        (ColumnCount, "telco", lambda m: replace(m, columns=0)),
        (InformationShares, "telco", lambda m: replace(m, values=m.values[:1])),
        (InformationShares, "telco", lambda m: replace(m, values=m.values + np.uint64(2**19 + 2**16))),
        (InformationValues, "bank", lambda m: replace(m, values=m.values[:0])),
        (EvidenceShares, "bank", lambda m: replace(m, values=m.values[:, :-1])),
        (Masked, "bank", lambda m: replace(m, values=m.values[:-1])),
    ],
)
def test_what_is_malformed_is_refused_by_name(
    informing: Any, monkeypatch: pytest.MonkeyPatch, kind: type, by: str, change: Callable[[Any], Any]
) -> None:
    send = Session.send

    def tampered(self: Session, peer: str, message: Any, **how: Any) -> None:
        send(self, peer, change(message) if isinstance(message, kind) and self.party == by else message, **how)

    monkeypatch.setattr(Session, "send", tampered)
    with pytest.raises(ProtocolError, match=f"invalid {kind.__name__} from {by}"):
        informing.run(informing.plan(parties=("telco", "bank", "coordinator"), engine="plain", show="woe"))


def test_what_cannot_be_is_refused_before_the_start(informing: Any, frames: dict[str, pl.DataFrame]) -> None:
    plan = informing.plan(show="woe")
    table = table_from_frame(frames["bank"], "id", "bank")
    with pytest.raises(PlanError, match=r"bank: consent.woe: telco, railway may learn the weight of evidence"):
        checked(plan, "bank", Private(target="buys"), table)
    checked(informing.plan(), "bank", Private(target="buys"), table)
    with pytest.raises(InputError, match=r"'age'.*two labels; there are"):
        informing.run(informing.plan(), target="age")
    weighted = checked(informing.plan(), "bank", Private(target="buys", weight="age"), table)
    with pytest.raises(PlanError, match="every row counts the same"):
        kind_named("information").check_files(weighted)


def test_a_passive_party_without_columns_is_refused(informing: Any, frames: dict[str, pl.DataFrame]) -> None:
    bare = replace(informing, frames=frames | {"telco": frames["telco"].select("id")})
    with pytest.raises(InputError, match=r"telco.*no columns besides the ids"):
        bare.run(bare.plan(engine="plain"))


def test_limits_of_what_is_answered_hold(informing: Any) -> None:
    with pytest.raises(RefusedError, match=r"bank answers at most 10 columns .* would have been asked 12"):
        informing.run(informing.plan(show="woe"), policy={"maximum_questions": 10})
    results = informing.run(informing.plan(show="woe"), "again", policy={"maximum_questions": 18}).results
    assert (results["bank"]["questions"], results["telco"]["questions"]) == (18, 2)

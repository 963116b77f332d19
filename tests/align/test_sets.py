"""An alignment finds what plain sets have in common, whichever way it is done and however ids are written."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from unpooled.align import ring
from unpooled.align.opening import Intersection, Limits
from unpooled.data.columns import MISSING_TEXTS
from unpooled.data.prepare import PrepareSettings, clean
from unpooled.data.table import Table
from unpooled.run.simulate import simulate_roles
from unpooled.session import Session

MakeTable = Callable[..., Table]
Align = Callable[..., Any]

WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
WHITE_SPACE += "\u202f\u205f\u3000"

WAYS: dict[str, Callable[[str], list[str]]] = {
    "not at all": lambda id: [],
    "plainly": lambda id: [id],
    "in pieces": lambda id: [unicodedata.normalize("NFD", id)],
    "with space": lambda id: [f" {id}\t"],
    "twice": lambda id: [id, f"{unicodedata.normalize('NFD', id)}\u3000"],
}
"""How a party may have an id in its table."""

PARTIES, METHODS = ("bank", "telco", "shop"), ("ecdh", "blind-rsa", "aided")
UNUSUAL = [
    "ﬁ",
    "ß",
    "İ",
    "\u2126",
    "\u212b",
    "\u1100\u1161",
    "ᾳ\u0301",
    "007",
    "7",
    "日本",
    "🙂🏽",
    "x" * 256,
]


def plain(id: str) -> str:
    return unicodedata.normalize("NFC", id).strip(WHITE_SPACE)


ids = st.one_of(
    st.sampled_from(UNUSUAL),
    st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=5),
    st.integers(-(10**20), 10**20).map(str),
).filter(lambda id: plain(id) not in MISSING_TEXTS)
ways = st.tuples(*[st.sampled_from(sorted(WAYS))] * len(PARTIES))
people = st.lists(st.tuples(ids, ways), max_size=12, unique_by=lambda person: plain(person[0]))
People = list[tuple[str, tuple[str, ...]]]

NOBODY: People = []
NONE_IN_COMMON: People = [("a", ("plainly", "not at all", "plainly")), ("b", ("not at all", "twice", "not at all"))]
ALL_IN_COMMON: People = [(id, ("plainly", "in pieces", "twice")) for id in UNUSUAL]
ONLY_AT_ONE: People = [("a", ("plainly", "not at all", "not at all"))]


def cases(test: Callable[..., None]) -> Callable[..., None]:
    for case in (NOBODY, NONE_IN_COMMON, ALL_IN_COMMON, ONLY_AT_ONE):
        test = example(case)(test)
    return settings(max_examples=20, deadline=None)(given(people)(test))


def tables_of(table: MakeTable, people: People) -> dict[str, Table]:
    """Each party's table, cleaned as a job cleans it: rows that are there twice are one row. Jobs take no empty one."""
    written = {p: [text for id, ways in people for text in WAYS[ways[n]](id)] for n, p in enumerate(PARTIES)}
    tables = {party: table(party, texts) for party, texts in written.items()}
    return {party: clean(made, PrepareSettings())[0] if written[party] else made for party, made in tables.items()}


def sets_of(people: People) -> dict[str, set[tuple[str, ...]]]:
    return {p: {(plain(id),) for id, ways in people if ways[n] != "not at all"} for n, p in enumerate(PARTIES)}


def align_all(align: Align, tables: dict[str, Table], **settings: Any) -> Any:
    owners = {party: tables[party] for party in ("bank", "telco")}
    return align(owners, seeker=tables["shop"], **settings)


def check(ran: Any, sets: dict[str, set[tuple[str, ...]]]) -> None:
    common = sets["bank"] & sets["telco"]
    assert ran.ids["bank"] == ran.ids["telco"]
    assert set(ran.ids["bank"]) == common
    assert len(ran.ids["bank"]) == len(common)
    assert ran.labels == {id: 1 if id in sets["shop"] else -1 for id in common}
    assert ran.digests["bank"] == ran.digests["telco"]
    assert ran.asked_about == len(common)


@cases
def test_pairs_find_what_sets_have_in_common(table: MakeTable, align: Align, people: People) -> None:
    check(align_all(align, tables_of(table, people)), sets_of(people))


@cases
def test_blind_signatures_find_what_sets_have_in_common(table: MakeTable, align: Align, people: People) -> None:
    check(align_all(align, tables_of(table, people), psi="blind-rsa"), sets_of(people))


@cases
def test_a_ring_finds_what_sets_have_in_common(table: MakeTable, align: Align, people: People) -> None:
    sets = sets_of(people)
    assume(sets["bank"] and sets["telco"])  # a ring takes no empty lists
    check(align_all(align, tables_of(table, people), coordinator=True), sets)


@cases
def test_tags_find_what_sets_have_in_common(table: MakeTable, align: Align, people: People) -> None:
    check(align_all(align, tables_of(table, people), coordinator=True, psi="aided"), sets_of(people))


@settings(max_examples=5, deadline=None)
@given(people)
def test_all_methods_find_the_same(table: MakeTable, align: Align, people: People) -> None:
    tables = tables_of(table, people)
    curve, *others = (align_all(align, tables, coordinator=psi == "aided", psi=psi) for psi in METHODS)
    for other in others:
        assert sorted(curve.ids["telco"]) == sorted(other.ids["telco"])
        assert curve.labels == other.labels


names = st.lists(st.sampled_from(["Anna", "ANNA", "anna", "STRASSE", "straße", "É", "e\u0301", "ς", "Σ", "carl"]))


@settings(max_examples=30, deadline=None)
@given(names, names)
def test_without_case_what_casefolds_alike_is_the_same(
    table: MakeTable, align: Align, mine: list[str], theirs: list[str]
) -> None:
    def folded(id: str) -> str:
        return unicodedata.normalize("NFC", unicodedata.normalize("NFC", id).casefold())

    one_each = [list({folded(id): id for id in ids}.values()) for ids in (mine, theirs)]
    ran = align(dict(zip(("bank", "telco"), one_each, strict=True)), normalise="case")
    found = [sorted(folded(id) for (id,) in ran.ids[party]) for party in ("bank", "telco")]
    assert found == [sorted(set(map(folded, mine)) & set(map(folded, theirs)))] * 2


@pytest.mark.parametrize("sizes", [(0, 0), (0, 5), (5, 0), (3, 0, 4), (0, 0, 0)])
def test_a_ring_with_empty_lists_finds_nothing_and_ends(sizes: Sequence[int]) -> None:
    members = [f"member-{number}" for number in range(len(sizes))]
    exchange = Intersection(b"name", dict(zip(members, sizes, strict=True)), 0)

    def member(session: Session) -> object:
        keys = [bytes([number]) for number in range(exchange.ids[session.party])]
        return ring.member(session, members, "coordinator", keys, exchange)

    def coordinator(session: Session) -> object:
        return ring.compare(session, members, exchange)

    roles = dict.fromkeys(members, member) | {"coordinator": coordinator}
    results: dict[str, Any] = simulate_roles(roles, timeout=120).results
    assert results["coordinator"] == 0
    assert [results[name].rows.tolist() for name in members] == [[]] * len(members)


def test_even_nothing_is_found_only_if_all_agree_to_it(align: Align) -> None:
    ran = align({"bank": ["a"], "telco": ["b"]}, limits=dict.fromkeys(("bank", "telco"), Limits(1, 0)))
    assert ran.ids == {"bank": [], "telco": []}

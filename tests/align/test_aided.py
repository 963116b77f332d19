"""Tags under a key that owners share: the same is found, nobody sees more than it must, wrong answers are found."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unpooled.align import aided, lists, same
from unpooled.align.aided import DUMMIES, CommonTags, KeyedTags, KeyPart
from unpooled.align.ids import IdLooks
from unpooled.align.lists import marked_in_all
from unpooled.align.opening import Limits, Opening, TooFew
from unpooled.align.rows import CommonCount, Enough
from unpooled.errors import InputError, ProtocolError, RefusedError
from unpooled.session import Session
from unpooled.wire import kind_of

Run = Callable[..., Any]

AIDED: dict[str, Any] = {"psi": "aided", "coordinator": True}
BANK = [f"c{n:02}" for n in range(40)]
TELCO = [f"c{n:02}" for n in range(10, 60)]
SHOP = [f"c{n:02}" for n in range(25)]
OWNERS = {"bank": BANK, "telco": TELCO}
COMMON = {(id,) for id in set(BANK) & set(TELCO)}
SAME = {kind_of(same.HiddenDigest), kind_of(same.SameRows)}


def kinds(*messages: type) -> set[str]:
    return {kind_of(message) for message in messages}


def tags_to(ran: Any, *peers: str) -> set[bytes]:
    """The tags that came to the coordinator."""
    return {
        row.tobytes()
        for peer, message in ran.received["coordinator"]
        if isinstance(message, KeyedTags) and (not peers or peer in peers)
        for row in message.values
    }


# what is found


@pytest.mark.parametrize("owners", [2, 3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_it_finds_what_sets_have_in_common(align: Run, owners: int, seed: int) -> None:
    draws = random.Random(seed)
    people = [f"{draws.randrange(10**9)} é" for _ in range(70)]
    names = ["bank", "telco", "railway", "water"][:owners]
    held = {name: draws.sample(people, draws.randint(30, 70)) for name in names}
    shop = draws.sample(people, 35)
    ran = align(held, seeker=shop, **AIDED)
    common = {(id,) for id in set.intersection(*map(set, held.values()))}
    assert set(ran.ids["bank"]) == common
    assert all(ids == ran.ids["bank"] for ids in ran.ids.values())
    assert len(ran.ids) == owners
    assert len(set(ran.digests.values())) == 1
    assert ran.labels == {id: 1 if id[0] in shop else -1 for id in common}
    assert ran.asked_about == len(common)


@pytest.mark.parametrize("psi", ["ecdh", "blind-rsa"])
def test_it_finds_the_same_as_the_other_methods(align: Run, psi: str) -> None:
    one, other = align(OWNERS, seeker=SHOP, **AIDED), align(OWNERS, seeker=SHOP, psi=psi)
    assert sorted(one.ids["telco"]) == sorted(other.ids["telco"])
    assert one.labels == other.labels


def test_ids_of_several_columns_and_rules(align: Run) -> None:
    bank = {"country": ["de", "de", "fr", "it"], "mail": ["A@x", "b@x", "A@x", "c@x"]}
    telco = {"land": ["DE", "fr", "d", "IT"], "post": ["a@X", "a@x", "ea@x", "d@x"]}
    ran = align({"bank": bank, "telco": telco}, normalise="case", **AIDED)
    assert set(ran.ids["bank"]) == {("de", "A@x"), ("fr", "A@x")}
    assert set(ran.ids["telco"]) == {("DE", "a@X"), ("fr", "a@x")}


@pytest.mark.parametrize("sizes", [(0, 0), (5, 0), (0, 5, 5)])
def test_empty_lists_have_nothing_in_common(align: Run, sizes: tuple[int, ...]) -> None:
    held = {name: BANK[:size] for name, size in zip(["bank", "telco", "railway"], sizes, strict=False)}
    ran = align(held, **AIDED)
    assert all(ids == [] for ids in ran.ids.values())


def test_without_a_passive_party_labels_are_found(align: Run) -> None:
    ran = align({"bank": BANK}, seeker=SHOP, **AIDED)
    assert ran.labels == {(id,): 1 if id in SHOP else -1 for id in BANK}
    assert ran.kinds("coordinator", "received") == kinds(Opening, KeyedTags)


def test_the_order_is_another_one_each_time_and_not_that_of_a_table(align: Run) -> None:
    orders = {tuple(align(OWNERS, **AIDED).ids["bank"]) for _ in range(3)}
    assert len(orders | {tuple(sorted(COMMON))}) == 4


def test_many_small_pieces(align: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aided, "CHUNK", 7)
    monkeypatch.setattr(aided, "DUMMIES", 16)
    ran = align({**OWNERS, "railway": BANK[5:]}, seeker=SHOP, **AIDED)
    assert set(ran.ids["bank"]) == COMMON
    assert len([m for _, m in ran.received["coordinator"] if isinstance(m, KeyedTags)]) > 40


@pytest.mark.parametrize("seed", range(20))
def test_lists_are_compared_piece_by_piece(seed: int) -> None:
    draws = random.Random(seed)
    held = {name: sorted(draws.sample(range(60), draws.randint(0, 60))) for name in "abc"[: draws.randint(1, 3)]}

    def pieces(values: list[int]) -> Any:
        rows = np.array(values, ">u2").reshape(-1, 1).view(np.uint8)
        size = draws.randint(1, 9)
        return iter([rows[start : start + size] for start in range(0, len(rows), size)])

    marks = marked_in_all({name: pieces(values) for name, values in held.items()}, KeyedTags)
    common = set.intersection(*map(set, held.values()))
    assert {name: found.tolist() for name, found in marks.items()} == {
        name: [value in common for value in values] for name, values in held.items()
    }


def test_a_repeated_id_is_refused_before_anything_is_sent(fail: Run) -> None:
    ran = fail({"bank": ["Anna", "anna", "ben"], "telco": BANK}, normalise="case", **AIDED)
    assert isinstance(ran.error, InputError)
    assert re.search(r"bank.*the same id.*rows 1, 2|bank.*rows 1 and 2|bank.*same id", str(ran.error))
    assert ran.kinds("bank", "sent") == set()


# who sees what


def test_nobody_receives_more_than_it_must(align: Run) -> None:
    ran = align({**OWNERS, "railway": BANK}, seeker=SHOP, **AIDED)
    assert ran.kinds("coordinator", "received") == kinds(Opening, KeyedTags)
    assert ran.kinds("coordinator", "sent") == kinds(Opening, CommonTags)
    assert ran.kinds("bank", "received") == kinds(Opening, KeyPart, CommonTags) | SAME
    assert ran.kinds("telco", "received") == kinds(Opening, KeyPart, CommonTags) | SAME
    assert ran.kinds("shop", "received") == kinds(CommonCount, Opening, KeyPart, Enough)


def test_the_key_never_reaches_the_coordinator(align: Run) -> None:
    ran = align(OWNERS, seeker=SHOP, **AIDED)
    parts = {message.part for party in ("bank", "telco", "shop") for message in ran.given(party, KeyPart)}
    assert len(parts) == 4, "a part of each in either step"
    for party in ("bank", "telco", "shop"):
        sent = [e for e in ran.ledgers[party].entries if e.way == "sent" and e.kind == kind_of(KeyPart)]
        assert sent
        assert all(entry.peer != "coordinator" for entry in sent)
    seen = b"".join(tags_to(ran)) + b"".join(m.nonce for m in ran.given("coordinator", Opening))
    assert not any(part in seen for part in parts)


def test_keys_and_tags_are_fresh(align: Run) -> None:
    """In another run, and in the labels of the same one, nothing is as before."""
    runs = [align(OWNERS, seeker=BANK, **AIDED) for _ in range(2)]
    tags = [tags_to(ran) for ran in runs]
    assert not tags[0] & tags[1]
    asked = len(COMMON | {(id,) for id in BANK})
    assert len(tags[0]) == 2 * (len(set(BANK) | set(TELCO)) + asked + 2 * 3 * DUMMIES)
    parts = [{m.part for party in ("bank", "telco", "shop") for m in ran.given(party, KeyPart)} for ran in runs]
    assert not parts[0] & parts[1]


def test_tags_come_in_increasing_order(align: Run) -> None:
    """So their order says nothing of a table's."""
    ran = align(OWNERS, **AIDED)
    for party in OWNERS:
        values = [
            row.tobytes()
            for peer, message in ran.received["coordinator"]
            if peer == party and isinstance(message, KeyedTags)
            for row in message.values
        ]
        assert values == sorted(set(values))


def test_frames_depend_on_sizes_and_not_on_ids(align: Run) -> None:
    def frames(ran: Any, party: str) -> list[tuple[str, str, str, str, int]]:
        entries = ran.ledgers[party].entries
        return sorted((e.way, e.peer, e.kind, e.scope, e.bytes) for e in entries if e.kind in kinds_seen)

    kinds_seen = kinds(Opening, KeyPart, KeyedTags, CommonTags, CommonCount, Enough)
    before = align(OWNERS, seeker=SHOP, **AIDED)
    bank = [f"another customer with a long id {n}" for n in range(10)] + TELCO[-30:]
    after = align({"bank": bank, "telco": TELCO}, seeker=["ü" * (n + 1) for n in range(25)], **AIDED)
    for party in ("telco", "shop", "coordinator"):
        assert frames(before, party) == frames(after, party)


def test_nobody_alone_decides_the_key(align: Run) -> None:
    """The bank always sends the same part, and keys differ all the same."""
    ran = [align(OWNERS, meddle={"bank": lambda s: setattr(s.secret, "randbytes", bytes)}, **AIDED) for _ in range(2)]
    assert not tags_to(ran[0]) & tags_to(ran[1])


# limits


def test_too_few_in_common_end_it_and_nobody_learns_which(fail: Run) -> None:
    ran = fail(OWNERS, seeker=SHOP, limits={"telco": Limits(1, 31)}, **AIDED)
    assert isinstance(ran.error, RefusedError)
    assert re.search(r"fewer than 31 ids .*policy\.minimum_overlap", str(ran.error))
    assert ran.kinds("coordinator", "sent") == kinds(Opening, TooFew)
    assert kind_of(IdLooks) in ran.kinds("bank", "received")
    assert ran.ids == {}


def test_too_few_positives_end_it_and_nobody_learns_which(fail: Run) -> None:
    """The coordinator sees to it; with the other methods the active party's own software does."""
    ran = fail(OWNERS, seeker=SHOP, limits={"shop": Limits(1, 16, setting="minimum_positives")}, **AIDED)
    assert re.search("fewer than 16 ids", str(ran.error))
    assert ran.labels == {}
    assert len(ran.given("bank", CommonTags)) == 1, "that of the owners"
    assert ran.given("bank", TooFew)
    assert ran.given("shop", TooFew)


def test_as_many_as_demanded_are_enough(align: Run) -> None:
    limits = {"shop": Limits(30, 15), "bank": Limits(25, 15), "telco": Limits(40, 30)}
    ran = align(OWNERS, seeker=SHOP, limits=limits, **AIDED)
    assert sum(value == 1 for value in ran.labels.values()) == 15


@pytest.mark.parametrize(("limits", "word"), [(Limits(51, 1), "minimum_peer_rows"), (Limits(1, 1, 45), "maximum_peer")])
def test_lists_of_another_size_than_allowed_are_refused_before_a_tag_leaves(
    fail: Run, limits: Limits, word: str
) -> None:
    ran = fail(OWNERS, limits={"bank": limits}, **AIDED)
    assert isinstance(ran.error, RefusedError)
    assert word in str(ran.error)
    assert ran.kinds("bank", "sent") == kinds(Opening)


def test_the_coordinator_limits_lists_too(fail: Run) -> None:
    ran = fail(OWNERS, limits={"coordinator": Limits(1, 1, 45)}, **AIDED)
    assert re.search(r"coordinator .*at most 45 ids .*telco", str(ran.error))


def test_the_seeker_is_asked_about_no_more_than_are_common(fail: Run, changing: Run) -> None:
    more = changing(CommonCount, lambda message, number: replace(message, count=message.count - 1))
    ran = fail(OWNERS, seeker=SHOP, meddle={"telco": more}, **AIDED)
    assert "bank asks shop about a different number of ids" in str(ran.error)
    assert kind_of(KeyedTags) not in ran.kinds("shop", "sent")


# a coordinator that answers wrongly


def flipped(message: CommonTags, places: Any) -> CommonTags:
    bits = np.unpackbits(message.bits)
    bits[places] ^= 1
    return replace(message, bits=np.packbits(bits))


def marked(message: CommonTags) -> Any:
    return np.flatnonzero(np.unpackbits(message.bits))


def unmarked(message: CommonTags, total: int) -> Any:
    return np.flatnonzero(np.unpackbits(message.bits, count=total) == 0)


def list_length(ids: list[str]) -> int:
    return 2 * (len(ids) + 2 * DUMMIES)


@pytest.mark.parametrize("to", ["bank", "telco", None])
@pytest.mark.parametrize(
    "change",
    [
        lambda m: flipped(m, marked(m)[:1]),
        lambda m: flipped(m, marked(m)[:2]),
        lambda m: flipped(m, marked(m)[::2]),
        lambda m: flipped(m, marked(m)),
        lambda m: flipped(m, unmarked(m, list_length(BANK))[:1]),
        lambda m: flipped(m, unmarked(m, list_length(BANK))[::3]),
        lambda m: flipped(m, np.arange(list_length(BANK))),
        lambda m: replace(m, bits=np.roll(m.bits, 1)),
        lambda m: replace(m, bits=np.full_like(m.bits, 255)),
    ],
    ids=["leaves out", "leaves out two", "half", "all", "adds", "adds many", "the opposite", "moved", "everything"],
)
def test_wrong_answers_are_found(fail: Run, changing: Run, change: Callable[[Any], Any], to: str | None) -> None:
    """Two tags that it leaves out are twins with a chance of 1 in hundreds of thousands, with as few ids as here."""
    wrong = changing(CommonTags, lambda message, number: change(message), to=to)
    ran = fail(OWNERS, meddle={"coordinator": wrong}, **AIDED)
    assert isinstance(ran.error, ProtocolError)
    assert re.search("invalid CommonTags from coordinator", str(ran.error))
    assert ran.ids == {}


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch) -> Mapping[int, Any]:
    """What no coordinator knows, for one that guesses right: by the length of a list the places of an id's two tags."""
    known: dict[int, Any] = {}
    make = aided.in_order_of_value

    def noting(tags: Any) -> Any:
        order = make(tags)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        known[len(order)] = place.reshape(2, -1).T
        return order

    monkeypatch.setattr(aided, "in_order_of_value", noting)
    return known


def test_a_coordinator_that_guessed_twins_would_leave_out_an_id_unnoticed(
    align: Run, changing: Run, twins: Mapping[int, Any]
) -> None:
    """Why the chance of that is stated: with dummies and twins it is small, not nothing."""

    def without_c20(message: CommonTags, number: int) -> CommonTags:
        rows = {len(ids): ids.index("c20") for ids in (BANK, TELCO)}
        length = next(length for length in map(list_length, (BANK, TELCO)) if (length + 7) // 8 == len(message.bits))
        return flipped(message, twins[length][rows[length // 2 - 2 * DUMMIES]])

    ran = align(OWNERS, meddle={"coordinator": changing(CommonTags, without_c20)}, **AIDED)
    assert set(ran.ids["bank"]) == COMMON - {("c20",)}


def test_dummies_tell_of_an_answer_with_whole_twins(fail: Run, changing: Run, twins: Mapping[int, Any]) -> None:
    """All ids are left out, or all added, each with both its tags."""
    for first, word in ((len(BANK), "not to be common"), (len(BANK) + DUMMIES, "nobody else has")):
        change = changing(
            CommonTags, lambda m, n, first=first: flipped(m, twins[list_length(BANK)][first + 5]), to="bank"
        )
        ran = fail(OWNERS, meddle={"coordinator": change}, **AIDED)
        assert word in str(ran.error)


def test_other_rows_at_one_owner_are_found_by_the_digest(fail: Run, changing: Run, twins: Mapping[int, Any]) -> None:
    """It knows twins, and tells the bank of an id that is not common in place of one that is."""
    change = changing(
        CommonTags, lambda m, n: flipped(m, twins[list_length(BANK)][[0, BANK.index("c20")]].ravel()), to="bank"
    )
    ran = fail(OWNERS, meddle={"coordinator": change}, **AIDED)
    assert "do not hold the same rows" in str(ran.error)


def test_wrong_labels_are_found(fail: Run, changing: Run) -> None:
    """There no digest is compared."""
    for places in (marked, lambda m: unmarked(m, 2 * (30 + 2 * DUMMIES))):
        change = changing(CommonTags, lambda m, n, p=places: flipped(m, p(m)[:2]) if n == 3 else m)
        ran = fail(OWNERS, seeker=SHOP, meddle={"coordinator": change}, **AIDED)
        assert "invalid CommonTags from coordinator" in str(ran.error)
        assert ran.labels == {}


def test_fewer_than_demanded_cannot_be_claimed(fail: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator whose software does not end the job."""
    opened = aided.compare

    def careless(session: Session, members: Any, exchange: Any, told: Any) -> Any:
        return opened(session, members, replace(exchange, overlap=0), told)

    monkeypatch.setattr(aided, "compare", careless)
    ran = fail(OWNERS, limits={"telco": Limits(1, 31)}, **AIDED)
    assert "invalid CommonTags from coordinator: fewer than 31 ids" in str(ran.error)


# messages that cannot be


@pytest.mark.parametrize(
    ("sender", "kind", "change", "words"),
    [
        ("telco", KeyPart, lambda m: replace(m, exchange=b"x" * 32), "invalid KeyPart from telco: .*another exchange"),
        ("telco", KeyPart, lambda m: replace(m, part=b"short"), "invalid KeyPart from telco: 5 bytes, expected 32"),
        ("telco", KeyedTags, lambda m: replace(m, exchange=b"x" * 32), "invalid KeyedTags from telco: .*exchange"),
        ("telco", KeyedTags, lambda m: replace(m, start=5), "invalid KeyedTags from telco: .*position 5"),
        ("telco", KeyedTags, lambda m: replace(m, values=m.values[:, :8].copy()), "invalid KeyedTags from telco: .*8"),
        (
            "telco",
            KeyedTags,
            lambda m: replace(m, values=m.values[::-1].copy()),
            "invalid KeyedTags from telco: .*inc",
        ),
        (
            "telco",
            KeyedTags,
            lambda m: replace(m, values=np.vstack([m.values[:1], m.values[:-1]])),
            "invalid KeyedTags from telco: .*increase",
        ),
        ("bank", KeyedTags, lambda m: replace(m, values=m.values | 1), "invalid KeyedTags from bank"),
        ("coordinator", CommonTags, lambda m: replace(m, exchange=b"x" * 32), "invalid CommonTags from coordinator"),
        ("coordinator", CommonTags, lambda m: replace(m, bits=m.bits[:-1]), "invalid CommonTags from coordinator"),
        ("coordinator", CommonTags, lambda m: replace(m, bits=m.bits[None]), "invalid CommonTags from coordinator"),
        ("coordinator", CommonTags, lambda m: replace(m, bits=np.zeros(10**6, np.uint8)), "CommonTags .*at most"),
    ],
)
def test_malformed_messages_are_refused(
    fail: Run, changing: Run, sender: str, kind: type, change: Callable[[Any], Any], words: str
) -> None:
    ran = fail(OWNERS, meddle={sender: changing(kind, lambda message, number: change(message))}, **AIDED)
    assert isinstance(ran.error, ProtocolError)
    assert re.search(words, str(ran.error))
    assert ran.ids == {}


def test_pieces_increase_over_their_borders_too() -> None:
    rows = np.array([[1], [4], [3], [5]], np.uint8)
    with pytest.raises(ProtocolError, match="KeyedTags from telco"):
        marked_in_all({"telco": iter([rows[:2], rows[2:]])}, KeyedTags)
    assert lists.marked_in_all({"telco": iter([rows[:2], rows[3:]])}, KeyedTags)["telco"].all()


def test_owners_with_different_keys_are_found(fail: Run, changing: Run) -> None:
    """The railway tells the telco another part than the bank, so all make different tags."""
    other = changing(KeyPart, lambda message, number: replace(message, part=bytes(32)), to="telco")
    ran = fail({**OWNERS, "railway": BANK}, meddle={"railway": other}, **AIDED)
    assert re.search("invalid KeyedTags from bank or telco or railway: the dummies", str(ran.error))


def test_an_owner_without_the_dummies_is_found(fail: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    make = aided._with_dummies

    def without(session: Session, key: bytes, ids: Any) -> Any:
        return make(session, bytes(32) if session.party == "telco" else key, ids)

    monkeypatch.setattr(aided, "_with_dummies", without)
    assert "the dummies that all should have" in str(fail(OWNERS, **AIDED).error)

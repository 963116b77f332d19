"""Products under encryption: the right integers with any key, rows that are encrypted once, what is wrong refused."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unpooled import compiled
from unpooled.errors import PlanError, ProtocolError
from unpooled.run.simulate import simulate_roles
from unpooled.secure.calls import LARGEST, Call, Dense, OneHot
from unpooled.secure.engine import Engine, MaskSeed, open_engine
from unpooled.secure.paillier import key_holder, keys, limbs, noise
from unpooled.secure.paillier import sums as paillier_sums
from unpooled.secure.paillier.engine import EncryptedRows
from unpooled.secure.paillier.key_holder import Decrypt, Decrypted, MaskedSums, SharedKey
from unpooled.secure.paillier.layout import Layout
from unpooled.secure.paillier.noise import NoiseStock
from unpooled.secure.product import Contribution, finish, forget, product, serve
from unpooled.secure.shares.dealer import Stop

PAIR = (("telco", "bank"),)
ALL = ("telco", "shop", "bank")
DENSE = Call(PAIR, "bank", 40, Dense(3, 100), 2, 1000)
HOT = Call(PAIR, "bank", 40, OneHot((4, 2, 5), 6), 2, 1000)
HIDDEN = replace(HOT, left=replace(HOT.left, hidden=True))

Make = Callable[..., Any]


def equal(run: Any, batches: list[list[Any]], expected: Make) -> bool:
    """Whether the receiver of each call was shown the right integers."""
    return all(
        np.array_equal(run.shown[problem[0].receiver][round_][place], expected(problem))
        for round_, batch in enumerate(batches)
        for place, problem in enumerate(batch)
    )


def messages(run: Any, party: str, kind: type) -> list[Any]:
    """What a party received of one kind."""
    return [message for _, message in run.received[party] if isinstance(message, kind)]


# the right integers


CALLS = {
    "dense": DENSE,
    "dense, private terms": replace(DENSE, added=(("telco", 2**40), ("bank", 5))),
    "dense, shown to X": replace(DENSE, receiver="telco"),
    "dense, large": Call(PAIR, "bank", 3, Dense(2, 2**30), 3, LARGEST // (3 * 2**30)),
    "dense, one row": Call(PAIR, "telco", 1, Dense(2, LARGEST), 1, 1),
    "dense, no rows": Call(PAIR, "bank", 0, Dense(3, 100), 2, 1000),
    "dense, no rows and no bound": Call(PAIR, "bank", 0, Dense(3, 2**70), 2, 1000),
    "dense, zeros": Call(PAIR, "bank", 5, Dense(3, 0), 2, 1000),
    "one hot": HOT,
    "one hot, private terms": replace(HOT, added=(("telco", 50), ("bank", 2**40))),
    "one hot, shown to X": replace(HOT, receiver="telco"),
    "one bin": Call(PAIR, "bank", 9, OneHot((1,)), 1, 3),
    "more nodes than rows": Call(PAIR, "bank", 4, OneHot((3, 2), 50), 2, 1000),
    "one hot, no rows": Call(PAIR, "bank", 0, OneHot((3, 2), 4), 2, 1000),
    "one hot, large": Call(PAIR, "bank", 5, OneHot((3,), 2), 2, LARGEST // 5),
    "many columns": Call(PAIR, "bank", 6, OneHot((3, 2), 2), 70, 10**6),
    "hidden nodes": HIDDEN,
    "hidden nodes, private terms": replace(HIDDEN, added=(("telco", 50), ("bank", 50))),
    "many hidden nodes": Call(PAIR, "bank", 20, OneHot((3, 2), 40, True), 2, 1000),
    "hidden nodes, no rows": Call(PAIR, "telco", 0, OneHot((3, 2), 4, True), 2, 1000),
}


def kept_rows(engine: Engine) -> set[str]:
    """The names of the matrices of which something is kept."""
    state = engine.paillier
    return {*state.digests, *(rows.name for _, rows in [*state.sent, *state.received, *state.limbs])}


@pytest.fixture(scope="module")
def loops() -> None:
    """Compile all loops, which on a busy machine takes longer than a party waits for another."""
    key, bins, nodes = keys.make_key(256, insecure=True).public, np.zeros((2, 1), np.int64), np.zeros(2, np.int32)
    rows = limbs.rows_of(key, keys.to_bytes(key, limbs.noises(key, bytes(32), 2))[:, np.newaxis])
    sums = limbs.bin_sums(key, rows, bins, [1], nodes, 1, lambda *_: None)
    limbs.packed(key, sums, Layout(1, 1, bits=1, beside=1, deep=1), lambda *_: None)


@pytest.fixture(params=[False, True], ids=["gmpy2", "compiled"])
def either_way(request: pytest.FixtureRequest, loops: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "worthwhile", lambda _: request.param)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("key_bits", [256, 512, 1024])
def test_results_are_right_whatever_the_shape(
    rules_for: Make, multiply: Make, made: Make, expected: Make, key_bits: int
) -> None:
    extreme = [made(call, number, extreme=True) for number, call in enumerate(CALLS.values()) if call.rows]
    usual = [made(call, number) for number, call in enumerate(CALLS.values()) if max(call.bound, call.rows) < 2**40]
    batches = [extreme, usual]
    assert equal(multiply(rules_for("paillier", key_bits=key_bits), batches), batches, expected)


@pytest.mark.usefixtures("either_way")
def test_results_are_right_at_full_size(rules_for: Make, multiply: Make, made: Make, expected: Make) -> None:
    batches = [[made(DENSE, 1), made(HOT, 2), made(HIDDEN, 3)], [made(replace(DENSE, receiver="telco"), 4)]]
    run = multiply(rules_for("paillier", key_bits=2048, insecure=False), batches)
    assert equal(run, batches, expected)
    assert messages(run, "bank", SharedKey)[0].n.bit_length() == 2048


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("left", [Dense(2, 10), OneHot((3, 2), 4), OneHot((3, 2), 2, True)])
def test_products_with_several_peers_are_summed(
    rules_for: Make, multiply: Make, made: Make, expected: Make, left: Dense | OneHot
) -> None:
    around = Call((("telco", "bank"), ("bank", "shop"), ("shop", "telco")), "shop", 20, left, 2, 100)
    batch = [
        made(replace(around, terms=(("telco", "bank"), ("shop", "bank")), receiver="bank"), 1),
        made(replace(around, terms=(("bank", "telco"), ("bank", "shop")), receiver="bank", added=(("shop", 9),)), 2),
        made(around, 3),
    ]
    assert equal(multiply(rules_for("paillier"), [batch], ALL), [batch], expected)


def test_worker_processes_give_the_same(
    rules_for: Make, roles_of: Make, new_run: Make, made: Make, expected: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "2")
    for module, name in (
        (paillier_sums, "_ADDITIONS"),
        (paillier_sums, "_BLOCK"),
        (noise, "_SMALL"),
        (noise, "_LARGE"),
    ):
        monkeypatch.setattr(module, name, 7)
    monkeypatch.setattr(paillier_sums, "_STACKS", 1)
    monkeypatch.setattr(key_holder, "_CHUNK", 2)
    batches = [[made(replace(DENSE, columns=30), 1), made(HOT, 2), made(HIDDEN, 3)], [made(HOT, 4)]]
    run = new_run()
    simulate_roles(roles_of(run, rules_for("paillier"), batches, announced=[[HOT]]), timeout=120)
    assert equal(run, batches, expected)


# what is kept, and what is said


@pytest.mark.usefixtures("either_way")
def test_rows_under_a_name_are_encrypted_once(rules_for: Make, multiply: Make, made: Make, expected: Make) -> None:
    named = replace(HOT, y="gradients")
    _, held = made(named)
    calls = [named, replace(named, left=OneHot((4, 2, 5), 9)), named, replace(named, receiver="telco")]
    batches = [[(call, held)] for call in calls] + [[(call, held) for call in calls]]
    run = multiply(rules_for("paillier"), batches)
    assert equal(run, batches, expected)
    assert [message.rows[0].shape for message in messages(run, "telco", EncryptedRows)] == [(40, 128)]


@pytest.mark.usefixtures("either_way")
def test_rows_without_a_name_are_encrypted_anew_and_not_kept(rules_for: Make, multiply: Make, made: Make) -> None:
    run = multiply(rules_for("paillier"), [[made(HOT)], [made(HOT)]])
    first, second = messages(run, "telco", EncryptedRows)
    assert first.rows[0].shape == second.rows[0].shape
    assert not (first.rows[0] == second.rows[0]).all(axis=1).any()
    for engine in (run.engines["telco"], run.engines["bank"]):
        assert kept_rows(engine) == set()


def test_several_peers_are_sent_the_same_ciphertexts(rules_for: Make, multiply: Make, made: Make) -> None:
    call = replace(HOT, terms=(("telco", "bank"), ("shop", "bank")))
    run = multiply(rules_for("paillier"), [[made(call)]], ALL)
    (one,), (other,) = messages(run, "telco", EncryptedRows), messages(run, "shop", EncryptedRows)
    assert (one.rows[0] == other.rows[0]).all()


def test_other_bounds_take_other_slots_and_rows_are_sent_again(
    rules_for: Make, multiply: Make, made: Make, expected: Make
) -> None:
    _, held = made(replace(HOT, y="gradients", added=(("telco", 2**30),)))
    batches = [
        [(replace(HOT, y="gradients"), held)],
        [(replace(HOT, y="gradients", added=(("telco", 2**30),)), held)],
    ]
    run = multiply(rules_for("paillier"), batches)
    assert equal(run, batches, expected)
    assert len(messages(run, "telco", EncryptedRows)) == 2


@pytest.mark.parametrize("left", [HOT.left, HIDDEN.left, DENSE.left])
def test_another_matrix_under_the_same_name_is_refused(
    rules_for: Make, multiply: Make, made: Make, left: Dense | OneHot
) -> None:
    call = replace(HOT, left=left, y="gradients")
    with pytest.raises(ProtocolError, match=r"bank.*name"):
        multiply(rules_for("paillier"), [[made(call, 1)], [made(call, 2)]])
    with pytest.raises(ProtocolError, match=r"bank.*name"):
        multiply(rules_for("paillier"), [[made(call, 1), made(call, 2)]])


def test_a_forgotten_name_may_stand_for_another_matrix(rules_for: Make, made: Make, expected: Make) -> None:
    named = replace(HOT, y="gradients")
    problems = [made(named, 1), made(named, 2)]

    def party(session: Any) -> list[Any]:
        engine = open_engine(session, rules_for("paillier"), ("telco", "bank"), "bank", "coordinator")
        shown = []
        for call, held in problems:
            shown += product(engine, [(call, held[session.party])])
            assert "gradients" in kept_rows(engine)
            forget(engine, ["gradients", "others"])
            assert kept_rows(engine) == set()
        finish(engine)
        return shown

    def coordinator(session: Any) -> list[Any]:
        serve(open_engine(session, rules_for("paillier"), ("telco", "bank"), "bank", "coordinator"))
        return []

    shown = simulate_roles({"telco": party, "bank": party, "coordinator": coordinator}).results["bank"]
    assert all((result == expected(problem)).all() for result, problem in zip(shown, problems, strict=True))


def test_what_was_announced_has_its_noise_made_ahead(
    rules_for: Make, multiply: Make, made: Make, expected: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordered: Counter[bool] = Counter()
    order = NoiseStock.order

    def counted(stock: NoiseStock, count: int) -> None:
        if count > 0:  # either sort by one party only, so the threads do not get in each other's way
            ordered[stock._cover] += count
        order(stock, count)

    monkeypatch.setattr(NoiseStock, "order", counted)
    named = replace(HOT, y="gradients")
    _, held = made(named)
    batches = [[made(DENSE, 1), (named, held)], [(named, held)], [made(HIDDEN, 2)]]
    calls = [[call for call, _ in batch] for batch in batches]
    apart = multiply(rules_for("paillier"), batches)
    wanted = ordered.copy()
    ordered.clear()
    ahead = multiply(rules_for("paillier"), batches, announced=calls)
    assert ordered == wanted
    assert wanted[False] == 40 + 40 + 40
    assert equal(apart, batches, expected)
    assert equal(ahead, batches, expected)
    for party, engine in ahead.engines.items():
        if party != "coordinator":
            assert [stock._ordered for stock in engine.paillier.noise.values()] == [0, 0]


def test_many_products_take_one_message_each_way(rules_for: Make, multiply: Make, made: Make) -> None:
    batch = [made(call, number) for number, call in enumerate([DENSE, HOT, HIDDEN, replace(HOT, receiver="telco")])]
    run = multiply(rules_for("paillier"), [batch])
    kinds = {party: [type(message) for _, message in messages] for party, messages in run.received.items()}
    assert kinds["coordinator"] == [Decrypt, MaskedSums, Stop]
    assert Counter(kinds["telco"]) == Counter([SharedKey, EncryptedRows, Contribution])
    assert Counter(kinds["bank"]) == Counter([MaskSeed, SharedKey, Decrypted, Contribution])


def test_a_key_that_nobody_needed_does_no_harm(rules_for: Make) -> None:
    def party(session: Any) -> None:
        finish(open_engine(session, rules_for("paillier"), ("telco", "bank"), "bank", "coordinator"))

    def coordinator(session: Any) -> None:
        serve(open_engine(session, rules_for("paillier"), ("telco", "bank"), "bank", "coordinator"))

    ledgers = simulate_roles({"telco": party, "bank": party, "coordinator": coordinator}).ledgers
    assert [entry.peer for entry in ledgers["telco"].entries if entry.kind.endswith("SharedKey")] == ["coordinator"]


@pytest.mark.parametrize("key_bits", [1024, 2047, 0])
def test_keys_that_do_not_protect_are_refused_beforehand(
    rules_for: Make, multiply: Make, made: Make, new_run: Make, key_bits: int
) -> None:
    run = new_run()
    with pytest.raises(PlanError, match="key_bits"):
        multiply(rules_for("paillier", key_bits=key_bits, insecure=False), [[made(HOT)]], into=run)
    assert not [message for party in run.received.values() for _, message in party if not isinstance(message, MaskSeed)]


# what is wrong


def changed(kind: type, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Send messages of one kind changed."""
    return lambda message: change(message) if isinstance(message, kind) else message


def put(field: str, values: Callable[[Any], np.ndarray]) -> Callable[[Any], Any]:
    """A message with the first of its arrays changed."""

    def change(message: Any) -> Any:
        first, *rest = getattr(message, field)
        return replace(message, **{field: (values(first), *rest)})

    return change


def with_row(number: int, row: Any) -> Callable[[np.ndarray], np.ndarray]:
    """An array with one row replaced."""

    def values(array: np.ndarray) -> np.ndarray:
        copy = array.copy()
        copy[number] = row
        return copy

    return values


def other_tags(message: Any) -> Any:
    return replace(message, tags=tuple(bytes(16) for _ in message.tags))


WRONG = {
    "key of another size": (
        "coordinator",
        changed(SharedKey, lambda key: replace(key, n=key.n >> 16)),
        "coordinator.*key",
    ),
    "key that is not made of two primes": (
        "coordinator",
        changed(SharedKey, lambda key: replace(key, n=key.n - key.n % 21)),
        "coordinator.*key",
    ),
    "noise that hides nothing": (
        "coordinator",
        changed(SharedKey, lambda key: replace(key, noise_base=1)),
        "coordinator.*noise base",
    ),
    "row out of range": (
        "bank",
        changed(EncryptedRows, put("rows", with_row(3, 255))),
        "bank.*ciphertext 3",
    ),
    "row that is zero": (
        "bank",
        changed(EncryptedRows, put("rows", with_row(0, 0))),
        "bank.*ciphertext 0",
    ),
    "rows of another size": (
        "bank",
        changed(EncryptedRows, put("rows", lambda rows: rows[:, :-1].copy())),
        "bank",
    ),
    "rows with one more axis": (
        "bank",
        changed(EncryptedRows, put("rows", lambda rows: rows[None])),
        "bank",
    ),
    "a row too few": (
        "bank",
        changed(EncryptedRows, put("rows", lambda rows: rows[1:].copy())),
        "bank.*39.*40",
    ),
    "rows for another product": (
        "bank",
        changed(EncryptedRows, other_tags),
        "bank.*EncryptedRows|EncryptedRows.*bank",
    ),
    "no rows": (
        "bank",
        changed(EncryptedRows, lambda message: replace(message, rows=())),
        "bank.*EncryptedRows|EncryptedRows.*bank",
    ),
    "masked sum out of range": (
        "telco",
        changed(MaskedSums, put("sums", with_row(2, 255))),
        "telco.*ciphertext 2",
    ),
    "a masked sum too many": (
        "telco",
        changed(MaskedSums, put("sums", lambda sums: np.concatenate([sums, sums[:1]]))),
        "telco.*ciphertexts",
    ),
    "masked sums for another product": (
        "telco",
        changed(MaskedSums, other_tags),
        "telco.*MaskedSums|MaskedSums.*telco",
    ),
    "decrypted sum out of range": (
        "coordinator",
        changed(Decrypted, put("sums", with_row(1, 255))),
        "coordinator.*number 1",
    ),
    "a decrypted sum too few": (
        "coordinator",
        changed(Decrypted, put("sums", lambda sums: sums[1:].copy())),
        "coordinator.*share",
    ),
    "decrypted sums for another product": (
        "coordinator",
        changed(Decrypted, other_tags),
        "coordinator.*Decrypted|Decrypted.*coordinator",
    ),
    "decrypted sum that is random": (
        "coordinator",
        changed(
            Decrypted,
            put("sums", lambda sums: np.frombuffer(secrets.token_bytes(sums.size), np.uint8).reshape(sums.shape) >> 1),
        ),
        "share",
    ),
    "share out of range": (
        "telco",
        changed(Contribution, put("values", with_row(1, 255))),
        "telco.*number 1",
    ),
    "share of another size": (
        "telco",
        changed(Contribution, put("values", lambda values: values[:, 1:].copy())),
        "telco.*64",
    ),
    "share of too few numbers": (
        "telco",
        changed(Contribution, put("values", lambda values: values[1:].copy())),
        "telco.*share",
    ),
    "decryption for a stranger": (
        "bank",
        changed(Decrypt, lambda message: replace(message, items=(replace(message.items[0], left="isp"),))),
        "Decrypt from bank",
    ),
    "less than nothing to decrypt": (
        "bank",
        changed(Decrypt, lambda message: replace(message, items=(replace(message.items[0], plaintexts=-1),))),
        "Decrypt from bank",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_refused_and_named(
    rules_for: Make, multiply: Make, made: Make, new_run: Make, case: str
) -> None:
    culprit, tamper, text = WRONG[case]
    run = new_run()
    with pytest.raises(ProtocolError, match=text):
        multiply(rules_for("paillier"), [[made(HOT)]], into=run, tamper={culprit: tamper})
    assert run.rounds("bank") == 0

"""What a party receives looks like any random numbers, and is as long, whatever the others hold.

The same looks find out engines that were broken on purpose, though these still give the right integers. A look at
numbers can show that they are not random, never that they are. Chance alone passes the limits less than once in a
billion runs of all these tests.
"""

from __future__ import annotations

import re
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from unpooled.errors import ProtocolError
from unpooled.secure import mod64, randomness
from unpooled.secure.calls import Call, Dense, Inputs, OneHot
from unpooled.secure.engine import MaskSeed, Rules
from unpooled.secure.paillier import engine as paillier
from unpooled.secure.product import Contribution
from unpooled.secure.randomness import expand, expansions, shuffles
from unpooled.secure.shares import blocks, dealer, opening, permutation, permuting, state
from unpooled.secure.shares import engine as shares

PAIR = ("telco", "bank")
ALL = ("telco", "shop", "bank")
CHI_SQUARE = 480.0
"""With 255 degrees of freedom, as bytes have, chance comes to it less than once in 10^15 times."""
ENOUGH = 2500
DEVIATIONS = 9.0
"""Of a normal distribution: less than once in 10^18 times."""
LARGE = 2**48
"""So large a bound that a word holds one number."""

Make = Callable[..., Any]
Rings = dict[str, np.ndarray]


def oddities(numbers: np.ndarray) -> Iterator[str]:
    """What is odd about numbers that should be any 64 bits each."""
    flat = np.ascontiguousarray(numbers).reshape(-1)
    assert flat.dtype == np.uint64
    if len(flat) < ENOUGH:
        yield "too few numbers to judge"
        return
    if len(np.unique(flat)) < len(flat):
        yield "a number comes twice"
    for place, column in enumerate(flat.view(np.uint8).reshape(-1, 8).T):
        due = len(flat) / 256
        if ((np.bincount(column, minlength=256) - due) ** 2 / due).sum() > CHI_SQUARE:
            yield f"byte {place} is not uniform"
    for bit in range(64):
        ones = int((flat >> np.uint64(bit) & np.uint64(1)).sum())
        if abs(2 * ones - len(flat)) > DEVIATIONS * len(flat) ** 0.5:
            yield f"bit {bit} is not even"


def suspicions(view: Rings, others: list[np.ndarray]) -> list[str]:
    """What is odd about a party's numbers: each by itself, two of a kind, and beside what it must not know."""
    found = [f"{name}: {odd}" for name, numbers in view.items() for odd in oddities(numbers)]
    for (one, first), (other, second) in combinations(view.items(), 2):
        if first.shape == second.shape and one.split()[0] == other.split()[0]:
            found += [f"{one} - {other}: {odd}" for odd in oddities(first - second)]
    for name, numbers in view.items():
        for secret in others:
            if secret.size == numbers.size and secret.std() > 0:
                likeness = np.corrcoef(numbers.reshape(-1).view(np.int64), secret.reshape(-1))[0, 1]
                if abs(likeness) * secret.size**0.5 > DEVIATIONS:
                    found.append(f"{name}: goes along with an input")
    return found


def order_oddities(places: np.ndarray) -> list[str]:
    """A random order goes up as often as down; rows that were only sorted mostly go up."""
    rows = places.shape[1]
    ups = (np.diff(places.astype(np.int64), axis=1) > 0).sum(axis=1)
    if (abs(ups - (rows - 1) / 2) > DEVIATIONS * ((rows + 1) / 12) ** 0.5).any():
        return ["order: goes up too often or too seldom"]
    return []


# what a party has


def view_of(run: Any, party: str) -> Rings:
    """All numbers that came to a party, and what it can make of them with what else it has."""
    messages = defaultdict(list)
    for sender, message in run.received[party]:
        messages[type(message)].append((sender, message))
    if party == "coordinator":  # it has what it sends
        everybodys = [entry for received in run.received.values() for entry in received]
        messages[paillier.Decrypted] = [entry for entry in everybodys if isinstance(entry[1], paillier.Decrypted)]
    n = next((int(message.n) for _, message in run.received["bank"] if isinstance(message, paillier.SharedKey)), 0)
    view: Rings = {}
    for sender, message in messages[Contribution]:
        for values in message.values:
            numbers = _limbs(values, n) if values.ndim == 2 else np.frombuffer(values.tobytes(), np.uint64)
            view[f"contribution {len(view)} of {sender}"] = numbers
    for sender, message in messages[opening.Hidden]:
        for values in message.values:
            view[f"hidden {len(view)} of {sender}"] = _words(values)
    for _, message in messages[dealer.Dealt]:
        for part in message.parts:
            if part.values.size:
                view[f"dealt {len(view)}"] = _words(part.values)
    for kind, field in ((paillier.EncryptedRows, "rows"), (paillier.MaskedSums, "sums")):
        for sender, message in messages[kind]:
            for values in getattr(message, field):
                view[f"ciphertexts {len(view)} of {sender}"] = _limbs(values, n**2)
    for _, message in messages[paillier.Decrypted]:
        for values in message.sums:
            view[f"decrypted {len(view)}"] = _limbs(values, n)
    return view | _made_of(messages, _chosen(run) if party == "bank" else [])


def _words(values: np.ndarray) -> np.ndarray:
    """Numbers that came as bytes; the bounds here are so large that none of these is left out."""
    return mod64.from_bytes(values, values.shape[1:], "")


def _limbs(values: np.ndarray, modulus: int) -> np.ndarray:
    """Numbers below a modulus as fractions of it, 64 bits at a time; the last 64 bits, which are rough, left out."""
    width = modulus.bit_length() // 64 * 8 - 8
    scaled = (int.from_bytes(row.tobytes(), "little") * 2 ** (8 * width) // modulus for row in values)
    return np.frombuffer(b"".join(number.to_bytes(width, "little") for number in scaled), np.uint64)


def _chosen(run: Any) -> list[bytes]:
    """The seeds of masks that the driver chose ahead and told the coordinator."""
    asked = [message for _, message in run.received["coordinator"] if isinstance(message, dealer.Deal)]
    each = [
        (deal.seed, *entry) for deal in asked for entry in enumerate(i for i in deal.items for _ in range(i.copies))
    ]
    return [dealer.chosen_seeds(seed, number)[0] for seed, number, item in each if item.method == "seeds"]


def _made_of(messages: dict[type, Any], chosen: list[bytes]) -> Rings:
    """What the holder of X has in the dealt order (Y less numbers that serve once), the holder of Y for a triple."""
    made: Rings = {}
    seed, ahead = b"", iter(chosen)
    opened = [_words(values) for _, message in messages[opening.Hidden] for values in message.values]
    parts = [part for _, message in messages[dealer.Dealt] for part in message.parts if part.values.size]
    for number, part in enumerate(parts):
        hidden = opened[min(number, len(opened) - 1)] if opened else None
        if hidden is None:
            continue
        dealt = _words(part.values)
        if dealt.ndim == 3:
            columns, rows, _ = dealt.shape
            moved = hidden[next(shuffles(part.once, b"order", [(columns, rows)]))] + dealt
            made |= {f"moved {number}.{column}": values for column, values in enumerate(moved)}
        else:
            seed = part.mask or next(ahead, seed)
            mask = expand(seed, b"mask", (len(hidden), dealt.shape[1]))
            made[f"share {number}"] = mod64.product(hidden, mask) + dealt
    return made


def seeds_of(run: Any, party: str) -> list[bytes]:
    """All seeds that came to a party."""
    found = []
    for _, message in run.received[party]:
        if isinstance(message, MaskSeed):
            found.append(message.seed)
        if isinstance(message, dealer.Dealt):
            found += [seed for part in message.parts for seed in (part.mask, part.once) if seed]
        if isinstance(message, dealer.Deal):
            found.append(message.seed)
    return found


def requests_of(run: Any) -> list[str]:
    """What the coordinator was asked for, word by word; seeds are always new."""
    requests = [message for _, message in run.received["coordinator"] if not isinstance(message, paillier.MaskedSums)]
    return [repr(message.items if isinstance(message, dealer.Deal) else message) for message in requests]


def sizes_of(run: Any, party: str) -> dict[str, list[tuple[str, int]]]:
    """How long what came to a party was, sender by sender; a key's length depends on the key alone."""
    sizes = defaultdict(list)
    for entry in run.ledgers[party].entries:
        if entry.way == "received" and not entry.kind.endswith("SharedKey"):
            sizes[entry.peer].append((entry.kind, entry.bytes))
    return dict(sizes)


# two different inputs of one shape


@dataclass(frozen=True)
class Scene:
    """Calls, a batch each, and which kinds of numbers the receiver may tell from random ones."""

    calls: tuple[Call, ...]
    parties: tuple[str, ...] = ALL
    known: str = "nothing"


_SQUARE = Call((PAIR,), "bank", 60, Dense(60, 100), 60, LARGE)
_SORTED = Call((PAIR,), "bank", 300, OneHot((4, 6, 2), 30), 10, LARGE)
SCENES = {
    "one": Scene((_SQUARE,)),
    "dense": Scene((_SQUARE, replace(_SQUARE, receiver="telco"), _SQUARE)),
    "hidden nodes": Scene((replace(_SQUARE, left=OneHot((20, 12, 28), 10, True), columns=10, bound=100 * LARGE),)),
    # where a bin is empty, the shares of its sum are zero, and whoever is shown the sum knows the bin
    "sorted": Scene((_SORTED, replace(_SORTED, receiver="telco")), known="contribution"),
    "sorted, one Y": Scene((replace(_SORTED, y="g"), replace(_SORTED, y="g")), known="contribution"),
    "several": Scene((replace(_SQUARE, terms=(PAIR, ("shop", "bank")), added=(("telco", 5), ("bank", 5))),)),
    "only added": Scene((replace(_SQUARE, added=(("shop", 1000),)),)),
}


def inputs_for(scene: Scene, made: Make, *, quiet: bool) -> list[list[Any]]:
    """Everything zero, in the first bin and in no node but the last; or as loud as can be."""
    batches = []
    for number, call in enumerate(scene.calls):
        _, held = made(call, 0 if call.y else number, extreme=True)
        if quiet:
            held = {party: _hushed(inputs, call) for party, inputs in held.items()}
        batches.append([(call, held)])
    return batches


def _hushed(inputs: Inputs, call: Call) -> Inputs:
    def zero(values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None else np.zeros_like(values)

    nodes = None
    if inputs.nodes is not None:
        nodes = np.full_like(inputs.nodes, -1)
        nodes[0] = call.left.nodes - 1
    return Inputs(zero(inputs.x), zero(inputs.y), nodes, zero(inputs.added))


def look(rules: Rules, scene: Scene, multiply: Make, made: Make, expected: Make) -> list[str]:
    """Run a scene twice, with inputs that could not differ more; the results must be right, the rest is told."""
    found, runs = [], []
    for quiet in (True, False):
        batches = inputs_for(scene, made, quiet=quiet)
        run = multiply(rules, batches, scene.parties)
        runs.append(run)
        for [problem], results in zip(batches, zip(*(run.results(p) for p in scene.parties), strict=True), strict=True):
            shown = dict(zip(scene.parties, results, strict=True))[problem[0].receiver]
            assert (shown == expected(problem)).all()
        for party in (*scene.parties, "coordinator"):
            view = {n: v for n, v in view_of(run, party).items() if not n.startswith(scene.known)}
            found += [f"{party}: {odd}" for odd in suspicions(view, _secrets(batches, party))]
            seeds = seeds_of(run, party)
            found += [f"{party}: a seed comes twice"] * (len(set(seeds)) < len(seeds))
            received = [message for _, message in run.received[party] if isinstance(message, permuting.Orders)]
            orders = [places.view("<u2") for message in received for places in message.places]
            found += [f"{party}: {odd}" for places in orders for odd in order_oddities(places)]
            assert view or orders or party not in PAIR, "there must be something to look at"
    if requests_of(runs[0]) != requests_of(runs[1]):
        found.append("coordinator: what it is asked for depends on data")
    for party in (*scene.parties, "coordinator"):
        if sizes_of(runs[0], party) != sizes_of(runs[1], party):
            found.append(f"{party}: sizes depend on data")
    return found


def _secrets(batches: list[list[Any]], party: str) -> list[np.ndarray]:
    held = [inputs for [(_, everybody)] in batches for other, inputs in everybody.items() if other != party]
    return [values for inputs in held for values in (inputs.x, inputs.y, inputs.added) if values is not None]


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_views_tell_nothing(protecting: Rules, multiply: Make, made: Make, expected: Make, scene: Scene) -> None:
    assert look(protecting, scene, multiply, made, expected) == []


# engines that are broken on purpose


def expanding(monkeypatch: pytest.MonkeyPatch, purpose: bytes, change: Callable[..., np.ndarray]) -> None:
    """Change what seeds are expanded to for one purpose, at the coordinator and at the parties alike."""

    def broken(seed: bytes, wanted: bytes, shape: tuple[int, ...]) -> np.ndarray:
        return change(seed, wanted, shape) if wanted.startswith(purpose) else expand(seed, wanted, shape)

    def broken_parts(seed: bytes, wanted: bytes, shapes: list[tuple[int, ...]], skip: int = 0) -> Iterator[np.ndarray]:
        if wanted.startswith(purpose):
            return (change(seed, wanted, shape) for shape in shapes)
        return expansions(seed, wanted, shapes, skip)

    for module in (dealer, shares):
        monkeypatch.setattr(module, "expand", broken)
    for module in (blocks, permutation):
        monkeypatch.setattr(module, "expansions", broken_parts)


def nothing(seed: bytes, purpose: bytes, shape: tuple[int, ...]) -> np.ndarray:
    return np.zeros(shape, np.uint64)


def always_the_same(seed: bytes, purpose: bytes, shape: tuple[int, ...]) -> np.ndarray:
    return expand(bytes(32), purpose, shape)


def of_32_bits(seed: bytes, purpose: bytes, shape: tuple[int, ...]) -> np.ndarray:
    return expand(seed, purpose, shape) >> np.uint64(32)


def the_same_for_each_column(seed: bytes, purpose: bytes, shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(expand(seed, purpose, shape[1:]), shape)


def without_shuffling(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_order(
        seed: bytes, purpose: bytes, shapes: list[tuple[int, int]], skip: int, ends: np.ndarray
    ) -> Iterator[np.ndarray]:
        return (np.tile(np.arange(rows), (count, 1)) for count, rows in shapes)

    monkeypatch.setattr(permutation, "shuffles", in_order)


def one_mask_for_all_unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    one_mask_for_all(monkeypatch)
    for module in (shares, permuting):
        monkeypatch.setattr(module, "new_to", lambda engine, seed: seed)


def one_mask_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[Any, bytes] = {}
    monkeypatch.setattr(
        dealer.Dealer,
        "mask",
        lambda self, side, party, name, shape: (kept.setdefault((side, party), randomness.new_seed()), True),
    )


def masks_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of twenty rows, all hidden by the same numbers."""
    for module in (blocks, dealer, opening, shares):
        monkeypatch.setattr(module, "row_blocks", lambda rows, _: [slice(at, at + 20) for at in range(0, rows, 20)])
    monkeypatch.setattr(blocks, "block_bytes", 20 * 8)
    monkeypatch.setattr(state, "_MOST_KEPT", 0)
    expanding(monkeypatch, b"mask", expand)


def without_cancelling(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (shares, paillier):
        monkeypatch.setattr(module, "masked", lambda engine, call, tag, held, others: held)


def without_rows_outside_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cheaper, and both sides know these rows; the coordinator would learn how many there are."""
    begin = shares.begin

    def fewer(engine: Any, batch: list[tuple[Call, Inputs]], tags: list[bytes]) -> Any:
        smaller = []
        for call, held in batch:
            if held.nodes is None:
                held = replace(held, nodes=np.zeros(call.rows, np.int32))
            inside = held.nodes >= 0
            x, y = (None if values is None else values[inside] for values in (held.x, held.y))
            smaller.append(
                (replace(call, rows=int(inside.sum()), most=call.result_bound), Inputs(x, y, held.nodes[inside]))
            )
        return begin(engine, smaller, tags)

    monkeypatch.setattr(shares, "begin", fewer)


def masks_of_paillier(monkeypatch: pytest.MonkeyPatch, number: Callable[[int], int]) -> None:
    class Secrets:
        randbelow = staticmethod(number)

    monkeypatch.setattr(paillier, "secrets", Secrets)


def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paillier.NoiseStock, "take", lambda self, count: ([1] * count, []))


BROKEN: dict[str, tuple[str, str, Callable[[pytest.MonkeyPatch], None], str]] = {
    "masks left out": ("shares", "dense", lambda m: expanding(m, b"mask", nothing), "hidden"),
    "masks of 32 bits": ("shares", "dense", lambda m: expanding(m, b"mask", of_32_bits), "hidden"),
    "masks reused": ("shares", "dense", one_mask_for_all_unnoticed, "hidden .* - hidden"),
    "masks left out, nodes hidden": ("shares", "hidden nodes", lambda m: expanding(m, b"mask", nothing), "hidden"),
    "masks begun anew in each block": ("shares", "hidden nodes", masks_begun_anew, "hidden .* - hidden"),
    "halves left out": ("shares", "dense", lambda m: expanding(m, b"half", nothing), "share"),
    "halves reused": (
        "shares",
        "dense",
        lambda m: expanding(m, b"half", always_the_same),
        "contribution .* - contribution",
    ),
    "b left out": ("shares", "sorted", lambda m: expanding(m, b"once", nothing), "moved"),
    "b reused": ("shares", "sorted", lambda m: expanding(m, b"once", always_the_same), "moved .* - moved"),
    "b reused for one Y": (
        "shares",
        "sorted, one Y",
        lambda m: expanding(m, b"once", always_the_same),
        "moved .* - moved",
    ),
    "b reused by columns": (
        "shares",
        "sorted",
        lambda m: expanding(m, b"once", the_same_for_each_column),
        "moved .* - moved",
    ),
    "orders not shuffled": ("shares", "sorted", without_shuffling, "order"),
    "nothing cancels": ("shares", "only added", without_cancelling, "contribution"),
    "cancelling numbers are zero": ("shares", "only added", lambda m: expanding(m, b"cancel", nothing), "contribution"),
    "sizes depend on data": ("shares", "sorted", without_rows_outside_all_nodes, "bank: sizes depend on data"),
    "requests depend on data": (
        "shares",
        "sorted",
        without_rows_outside_all_nodes,
        "coordinator: what it is asked for",
    ),
    "no mask under encryption": ("paillier", "one", lambda m: masks_of_paillier(m, lambda n: 0), "decrypted"),
    "one mask under encryption": ("paillier", "one", lambda m: masks_of_paillier(m, lambda n: n // 3), "decrypted"),
    "narrow masks under encryption": (
        "paillier",
        "one",
        lambda m: masks_of_paillier(m, lambda n: secrets.randbelow(n >> 64)),
        "decrypted",
    ),
    "no noise": ("paillier", "one", without_noise, "ciphertexts"),
    "nothing cancels under encryption": ("paillier", "only added", without_cancelling, "contribution"),
}


def test_a_seed_that_is_dealt_twice_is_refused(
    monkeypatch: pytest.MonkeyPatch, rules_for: Make, multiply: Make, made: Make, expected: Make
) -> None:
    one_mask_for_all(monkeypatch)
    with pytest.raises(ProtocolError, match="seed"):
        look(rules_for("shares"), SCENES["dense"], multiply, made, expected)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_engines_are_found_out(
    name: str, monkeypatch: pytest.MonkeyPatch, rules_for: Make, multiply: Make, made: Make, expected: Make
) -> None:
    """They give the right integers: nothing but what travels tells."""
    engine, scene, break_it, seen = BROKEN[name]
    break_it(monkeypatch)
    found = look(rules_for(engine), SCENES[scene], multiply, made, expected)
    assert any(re.search(seen, odd) for odd in found), found[:20]

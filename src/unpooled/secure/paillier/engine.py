"""Products under Paillier encryption: the coordinator has the key, and decrypts nothing that is not masked.

1. the coordinator makes a key and hands out its public half
2. the holder of Y packs each row into a number and sends it, encrypted, to the holder of X
3. the holder of X adds up ciphertexts, packs many sums into one, adds a random mask to each, and sends them to the
   coordinator
4. the coordinator decrypts, and sends the masked sums to the holder of Y: that is one share, and the masks, to be taken
   off, are the other

Shares are lists of numbers mod n, and a mask is any of those, so a masked sum is as random as the mask. It goes under
noise that covers all noise before it (`keys`). How many ciphertexts travel depends on shapes only. For one-hot
X with hidden nodes, the holder of Y folds the nodes into Y. Numbers in a dense X are lifted above zero, and the holder
of Y takes off what that adds.

The coordinator must not collude with the holder of X: the two could read Y. With the holder of Y it learns nothing that
this one is not shown in any case.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from functools import partial

import numpy as np
from gmpy2 import mpz

from unpooled.arrays import Bytes, Ints
from unpooled.errors import ProtocolError
from unpooled.secure import mod64
from unpooled.secure.calls import Call, Dense, Inputs, OneHot, given
from unpooled.secure.engine import Engine, Rules, Serving, recv_tagged
from unpooled.secure.evidence import digest_of
from unpooled.secure.paillier import key_holder, keys, limbs
from unpooled.secure.paillier.key_holder import Decrypt, Decrypted, DecryptItem, MaskedSums, SharedKey
from unpooled.secure.paillier.keys import PublicKey
from unpooled.secure.paillier.layout import Layout, layout_for, pack, repeated, row_words, unpack
from unpooled.secure.paillier.noise import NoiseStock, Span
from unpooled.secure.paillier.state import RowsKey
from unpooled.secure.paillier.sums import bin_sums, packed, weighted_sums
from unpooled.secure.randomness import expand_bytes
from unpooled.wire import message


@message(discloses="nothing: matrices Y, encrypted with a key that only the coordinator has")
class EncryptedRows:
    tags: tuple[bytes, ...]
    rows: tuple[Bytes, ...]


@dataclass(frozen=True, eq=False)
class Task:
    """One term of one call: where in the batch, what this party holds of it, how the results are laid out."""

    place: int
    call: Call
    inputs: Inputs
    tag: bytes
    left: str
    right: str
    layout: Layout

    @property
    def rows_key(self) -> RowsKey:
        return _rows_key(self.call, self.layout, self.tag)


def begin(engine: Engine, batch: Sequence[tuple[Call, Inputs]], tags: Sequence[bytes]) -> Callable[[], list[list[mpz]]]:
    """Encrypt, add, mask, decrypt: at most one message each way between two parties, however many products.

    All of it is done at once: encrypting takes longer than waiting.
    """
    held = _shares(engine, batch, tags)
    return lambda: held


def _shares(engine: Engine, batch: Sequence[tuple[Call, Inputs]], tags: Sequence[bytes]) -> list[list[mpz]]:
    public, me = public_key(engine), engine.party
    tasks = [
        Task(place, call, inputs, tags[place], left, right, _layout(engine.rules, call))
        for place, (call, inputs) in enumerate(batch)
        for left, right in call.terms
    ]
    lefts, rights = [task for task in tasks if task.left == me], [task for task in tasks if task.right == me]
    if me == engine.driver:
        asked = [DecryptItem(task.tag, task.left, task.right, task.layout.plaintexts) for task in tasks]
        engine.session.send(engine.coordinator or "", Decrypt(tuple(asked)))
    _noise(engine, cover=True).expect(sum(task.layout.plaintexts for task in lefts))  # while the rows are on their way
    _send_rows(engine, rights)  # 2
    _take_rows(engine, lefts)
    held = [[mpz(0)] * _layout(engine.rules, call).plaintexts for call, _ in batch]
    hidden = []
    for task in lefts:  # 3
        masks = [mpz(secrets.randbelow(int(public.n))) for _ in range(task.layout.plaintexts)]
        hidden.append(_hidden(engine, _totals(engine, task), masks))
        held[task.place] = _minus(public, held[task.place], masks)
    if lefts:
        sums = MaskedSums(tuple(task.tag for task in lefts), tuple(hidden))
        engine.session.send(engine.coordinator or "", sums)
    for task, decrypted in zip(rights, _take_decrypted(engine, rights), strict=True):  # 4
        held[task.place] = _plus(public, held[task.place], decrypted)
        if isinstance(task.call.left, Dense):
            held[task.place] = _minus(public, held[task.place], _lifted(task, _lift(task.call.left)))
    engine.paillier.forget({""})  # a matrix without a name serves one call
    return held


def announce(engine: Engine, batches: Sequence[Sequence[Call]]) -> None:
    """Have noise made for the next batches in advance."""
    me, results = engine.party, 0
    words: dict[RowsKey, int] = {}
    for number, call in enumerate(call for batch in batches for call in batch):
        layout = _layout(engine.rules, call)
        results += layout.plaintexts * sum(left == me for left, _ in call.terms)
        key = _rows_key(call, layout, number.to_bytes(8, "little"))
        if any(right == me and (left, key) not in engine.paillier.sent for left, right in call.terms):
            words[key] = call.rows * layout.words
    _noise(engine, cover=True).order(results)
    _noise(engine).order(sum(words.values()))


def public_key(engine: Engine) -> PublicKey:
    """The key; it is the first thing that the coordinator sends."""
    state = engine.paillier
    if state.public is None:
        coordinator = engine.coordinator or ""
        shared = engine.session.recv(coordinator, SharedKey)
        context = key_holder.context_of(coordinator, engine.driver, engine.parties)
        state.public = key_holder.key_from(shared, engine.rules.key_bits, coordinator, context)
    return state.public


def _noise(engine: Engine, *, cover: bool = False) -> NoiseStock:
    """Noise for rows, or for masked sums, which covers all noise before it."""
    stocks = engine.paillier.noise
    if cover not in stocks:
        stocks[cover] = NoiseStock(public_key(engine), cover=cover, progress=engine.session.progress)
    return stocks[cover]


def _layout(rules: Rules, call: Call) -> Layout:
    cells, columns = call.cells, call.columns
    if isinstance(call.left, OneHot) and call.left.hidden:
        cells, columns = call.left.bins, call.left.nodes * call.columns  # the nodes are folded into Y
    return layout_for(cells, columns, call.result_bound, rules.key_bits)


def _rows_key(call: Call, layout: Layout, tag: bytes) -> RowsKey:
    """What encrypted rows are kept under; without a name, or with nodes folded in, they are used once."""
    folded = isinstance(call.left, OneHot) and call.left.hidden
    name = "" if folded or call.fixed else call.y
    return RowsKey(name, b"" if name else tag, call.rows, layout.columns, layout.bits)


def _send_rows(engine: Engine, rights: Sequence[Task]) -> None:
    """Encrypt each Y once, and send it to those who do not have it."""
    for task in rights:
        _bind(engine, task)
    encrypted: dict[RowsKey, tuple[Bytes, list[Span]]] = {}
    for left in dict.fromkeys(task.left for task in rights):
        new: dict[RowsKey, Task] = {}
        for task in rights:
            if task.left == left and (left, task.rows_key) not in engine.paillier.sent:
                new.setdefault(task.rows_key, task)
        for key, task in new.items():
            engine.paillier.sent.add((left, key))
            if key not in encrypted:
                encrypted[key] = _encrypted(engine, task)
            _keep_opening(engine, task, encrypted[key][1])
        if new:
            tags = tuple(task.tag for task in new.values())
            engine.session.send(left, EncryptedRows(tags, tuple(encrypted[key][0] for key in new)))


def _bind(engine: Engine, task: Task) -> None:
    """Refuse a second matrix under the same name: the others would use the one they have."""
    y = given(task.inputs.y)
    digest = hashlib.sha256(f"{y.shape}".encode() + y.tobytes()).digest()
    if not task.call.y or task.call.fixed:
        return
    if engine.paillier.digests.setdefault(task.call.y, digest) != digest:
        raise ProtocolError(f"{engine.party}: one name was used for two matrices Y")


def _encrypted(engine: Engine, task: Task) -> tuple[Bytes, list[Span]]:
    public, y, left = public_key(engine), given(task.inputs.y), task.call.left
    if isinstance(left, OneHot) and left.hidden:
        y = mod64.fold(y.view(np.uint64), given(task.inputs.nodes), left.nodes).view(np.int64)
    words = row_words(y, task.layout)
    with engine.session.scope("encrypt"):
        noise, spans = _noise(engine).take(len(words))
    return keys.to_bytes(public, keys.encrypt(public, words, noise)), spans


def _take_rows(engine: Engine, lefts: Sequence[Task]) -> None:
    public = public_key(engine)
    for right in dict.fromkeys(task.right for task in lefts):
        new: dict[RowsKey, Task] = {}
        for task in lefts:
            if task.right == right and (right, task.rows_key) not in engine.paillier.received:
                new.setdefault(task.rows_key, task)
            elif task.right == right:
                _keep_received(engine, task, None)
        if not new:
            continue
        most = public.width * sum(task.call.rows * task.layout.words for task in new.values())
        sent = recv_tagged(engine.session, right, EncryptedRows, [task.tag for task in new.values()], most)
        for (key, task), rows in zip(new.items(), sent.rows, strict=True):
            key_holder.arrived("ciphertexts", public, rows, task.call.rows * task.layout.words, right)
            shape = task.call.rows, task.layout.words, public.width
            engine.paillier.received[right, key] = rows.reshape(shape)
            _keep_received(engine, task, rows)


def _keep_opening(engine: Engine, task: Task, spans: Sequence[Span]) -> None:
    """Keep the seeds of the noise of a matrix, for audits."""
    if engine.evidence and task.inputs.about is not None:
        public, noise = public_key(engine), [(span.seed.hex(), span.start, span.length) for span in spans]
        key = hex(public.n), hex(public.noise_base)
        engine.evidence.keep_opening("y", task.tag, task.left, dict(task.inputs.about), noise=noise, key=key)


def _keep_received(engine: Engine, task: Task, rows: Bytes | None) -> None:
    """Keep a digest of a matrix that arrived, or that it was used again."""
    if engine.evidence and task.inputs.about is not None:
        public, left, about = public_key(engine), task.call.left, dict(task.inputs.about)
        if rows is None:
            engine.evidence.keep_asked(task.right, about)
            return
        engine.evidence.keep_received(
            "y",
            task.tag,
            task.right,
            about,
            method="paillier",
            rows=task.call.rows,
            part=(0, task.call.rows),
            layout=astuple(task.layout),
            nodes=left.nodes if isinstance(left, OneHot) else 0,
            folded=isinstance(left, OneHot) and left.hidden,
            key=(hex(public.n), hex(public.noise_base)),
            sha256=digest_of(rows),
        )


def _totals(engine: Engine, task: Task) -> list[mpz]:
    """The encrypted results, packed."""
    public, left, x, progress = public_key(engine), task.call.left, given(task.inputs.x), engine.session.progress
    place, scope = (task.right, task.rows_key), engine.session.scope
    rows = engine.paillier.received[place]
    if not task.layout.plaintexts:
        return []
    if isinstance(left, Dense):
        with scope("add"):
            weights = x.view(np.uint64) + np.uint64(_lift(left))
            cells = weighted_sums(public, rows, weights, (2 * _lift(left)).bit_length(), progress)
        with scope("pack"):
            return packed(public, cells, task.layout, progress)
    nodes, count = (np.zeros(len(x), np.int32), 1) if left.hidden else (given(task.inputs.nodes), left.nodes)
    additions = int((nodes >= 0).sum()) * len(left.sizes) + task.layout.cells * task.layout.bits
    if limbs.worthwhile(public, additions * task.layout.words):
        with scope("add"):
            if place not in engine.paillier.limbs:
                engine.paillier.limbs[place] = limbs.rows_of(public, rows)
            sums = limbs.bin_sums(public, engine.paillier.limbs[place], x, left.sizes, nodes, count, progress)
        with scope("pack"):
            return limbs.packed(public, sums, task.layout, progress)
    with scope("add"):
        cells = bin_sums(public, rows, x, left.sizes, nodes, count, progress)
    with scope("pack"):
        return packed(public, cells, task.layout, progress)


def _hidden(engine: Engine, totals: Sequence[mpz], masks: Sequence[mpz]) -> Bytes:
    """Ciphertexts with masks added, under noise that covers theirs."""
    public = public_key(engine)
    noise, _ = _noise(engine, cover=True).take(len(masks))
    encrypted = keys.encrypt(public, keys.centre(public, masks), noise)
    return keys.to_bytes(public, [keys.add(public, c, mask) for c, mask in zip(totals, encrypted, strict=True)])


def _lift(left: Dense) -> int:
    """What is added to every number in X, so that none is negative."""
    return min(left.bound, 2**63)


def _lifted(task: Task, lift: int) -> list[int]:
    """What lifting X adds to the results: for every cell the sum of Y's rows, times the lift."""
    words, width = row_words(given(task.inputs.y), task.layout), task.layout.words
    return repeated([sum(words[word::width]) * lift for word in range(width)], task.layout)


def _take_decrypted(engine: Engine, rights: Sequence[Task]) -> list[list[mpz]]:
    if not rights:
        return []
    coordinator = engine.coordinator or ""
    public = public_key(engine)
    most = sum(task.layout.plaintexts for task in rights) * public.bits // 8
    decrypted = recv_tagged(engine.session, coordinator, Decrypted, [task.tag for task in rights], most)
    return [
        key_holder.arrived("share", public, values, task.layout.plaintexts, coordinator)
        for task, values in zip(rights, decrypted.sums, strict=True)
    ]


def from_values(engine: Engine, call: Call, values: Ints) -> list[mpz]:
    layout, public = _layout(engine.rules, call), public_key(engine)
    if isinstance(call.left, OneHot) and call.left.hidden:
        values = values.transpose(1, 0, 2)
    return [number % public.n for number in pack(values.reshape(layout.cells, layout.columns), layout)]


def add(engine: Engine, call: Call, parts: Sequence[Sequence[mpz]]) -> list[mpz]:  # noqa: ARG001
    return _plus(public_key(engine), *parts)


def masked(engine: Engine, call: Call, tag: bytes, held: list[mpz], others: Sequence[str]) -> list[mpz]:  # noqa: ARG001
    """The share plus random numbers that cancel against those of the others."""
    public = public_key(engine)
    for other in others:
        draw = partial(expand_bytes, engine.mask_seeds[other], b"cancel" + tag)
        numbers = keys.numbers_from(public, draw, len(held))
        held = _plus(public, held, numbers) if engine.comes_before(other) else _minus(public, held, numbers)
    return held


def to_bytes(engine: Engine, call: Call, held: Sequence[mpz]) -> Bytes:  # noqa: ARG001
    return keys.residues_to_bytes(public_key(engine), held)


def from_bytes(engine: Engine, call: Call, values: Bytes, sender: str) -> list[mpz]:
    return key_holder.arrived("share", public_key(engine), values, _layout(engine.rules, call).plaintexts, sender)


def read(engine: Engine, call: Call, total: Sequence[mpz]) -> Ints:
    values = unpack(keys.centre(public_key(engine), total), _layout(engine.rules, call))
    if isinstance(call.left, OneHot) and call.left.hidden:
        by_cell = values.reshape(call.left.bins, call.left.nodes, call.columns)
        return np.ascontiguousarray(by_cell.transpose(1, 0, 2))
    return values.reshape(call.shape)


def answer_bits(rules: Rules, call: Call) -> int:
    """All bits of the plaintexts: nobody can check in a ciphertext that the holder of Y kept to the bound of a slot."""
    return _layout(rules, call).plaintexts * rules.key_bits


def serve(engine: Engine, serving: Serving) -> int:
    return key_holder.serve(engine.session, engine.rules, engine.driver, engine.parties, serving)


def _plus(public: PublicKey, *lists: Sequence[int]) -> list[mpz]:
    return [sum(numbers) % public.n for numbers in zip(*lists, strict=True)]


def _minus(public: PublicKey, numbers: Sequence[int], others: Sequence[int]) -> list[mpz]:
    return [(number - other) % public.n for number, other in zip(numbers, others, strict=True)]

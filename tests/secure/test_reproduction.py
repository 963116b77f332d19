"""What is opened is compared with what arrived: only the same matrix under the seed that was dealt is the same."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import pytest

from unpooled.secure import mod64
from unpooled.secure.evidence import digest_of, digest_of_seed
from unpooled.secure.paillier.keys import PublicKey, encrypt, make_key, noise_table, noises, to_bytes
from unpooled.secure.paillier.layout import layout_for, row_words
from unpooled.secure.paillier.noise import NoiseStock, Span, exponents_of
from unpooled.secure.randomness import expand
from unpooled.secure.reproduction import is_x, is_y, opening_of
from unpooled.secure.shares.packing import pack, slots_for

SEED, OTHER = bytes(range(32)), bytes(32)
Y = np.array([[3, -1], [0, 5], [-2, 2]])
NODES = np.array([1, -1, 0], np.int32)
SLOTS = slots_for(2, 1000, 64)


def line(sent: Any, dealt: bytes = SEED, **fields: Any) -> dict[str, Any]:
    """What the receiver has kept."""
    kept = {"method": "triple", "nodes": 0, "sizes": (), "slots": astuple(SLOTS), "seed": digest_of_seed(dealt).hex()}
    return kept | {"sha256": digest_of(sent)} | fields


@pytest.mark.parametrize("folded", [0, 2])
def test_only_the_matrix_that_was_sent_is_explained(folded: int) -> None:
    words = mod64.fold(pack(Y, SLOTS), NODES, folded) if folded else pack(Y, SLOTS)
    kept = line(words - expand(SEED, b"mask", words.shape), nodes=folded)
    assert is_y(kept, SEED, {}, Y, NODES)
    assert not is_y(kept, OTHER, {}, Y, NODES)
    assert not is_y(kept, SEED, {}, Y + np.eye(3, 2, dtype=np.int64), NODES)
    if folded:
        assert not is_y(kept, SEED, {}, Y, NODES[::-1].copy())


def test_a_mask_that_the_coordinator_did_not_deal_explains_nothing() -> None:
    words = pack(Y, SLOTS)
    assert not is_y(line(words - expand(OTHER, b"mask", words.shape)), OTHER, {}, Y, NODES)
    x = np.arange(6).reshape(3, 2)
    sent = x.view(np.uint64) - expand(OTHER, b"mask", x.shape)
    assert not is_x(line(sent), OTHER, x, NODES)
    assert is_x(line(sent, OTHER), OTHER, x, NODES)


def test_what_was_encrypted_is_encrypted_again() -> None:
    key = make_key(512, insecure=True)
    layout = layout_for(3, 2, 1000, 512)
    stock = NoiseStock(key.public, cover=False, progress=lambda *_: None)
    stock.take(2)
    noise, spans = stock.take(3 * layout.words)
    sent = to_bytes(key.public, encrypt(key.public, row_words(Y, layout), noise))
    names = hex(key.public.n), hex(key.public.noise_base)
    kept = {"method": "paillier", "layout": astuple(layout), "nodes": 0, "folded": False, "key": names}
    kept["sha256"] = digest_of(sent)
    opened = {"key": names, "noise": [(span.seed.hex(), span.start, span.length) for span in spans]}
    seed, page = opening_of(opened)
    assert seed == ""
    assert is_y(kept, b"", page, Y, NODES)
    assert not is_y(kept, b"", page, Y + 1, NODES)
    assert not is_y(kept, b"", {"exponents": page["exponents"][::-1]}, Y, NODES)


def test_noise_is_handed_out_once_and_can_be_made_again() -> None:
    public: PublicKey = make_key(512, insecure=True).public
    stock, found = NoiseStock(public, cover=False, progress=lambda *_: None), []
    for count in (3, 100, 0, 7):
        noise, spans = stock.take(count)
        assert len(noise) == count == sum(span.length for span in spans)
        found += list(zip(noise, places(spans), strict=True))
    assert len(set(places([place for _, place in found]))) == len(found)
    for made, place in found[::10]:
        assert noises(noise_table(public), 1, exponents_of(public, place)) == [made]


def places(spans: list[Span]) -> list[Span]:
    """One by one."""
    return [Span(span.seed, span.start + step, 1) for span in spans for step in range(span.length)]

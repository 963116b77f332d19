"""What a party would have sent of a matrix, recomputed from its opening, to compare with what arrived.

A line is what the receiver has kept (`evidence`): how the product was made, and a digest of what arrived. An opening is
the seed of a mask, or for `paillier` the exponents of the noise: a ciphertext then determines its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bytes, Ints, Ints32, Ring
from unpooled.secure import mod64
from unpooled.secure.evidence import Arrays, Line, digest_of_all, digest_of_seed
from unpooled.secure.paillier.keys import PublicKey, encrypt, noise_table, noises, to_bytes
from unpooled.secure.paillier.layout import Layout, row_words
from unpooled.secure.paillier.noise import Span, exponents_of
from unpooled.secure.shares import permutation
from unpooled.secure.shares.blocks import mask_blocks, row_blocks
from unpooled.secure.shares.packing import Slots, pack


def opening_of(line: Line) -> tuple[str, Arrays]:
    """What the holder of a matrix tells: a seed, or the noise of the matrix."""
    if "seed" in line:
        return line["seed"], {}
    public = PublicKey(*(int(number, 16) for number in line["key"]))
    spans = [Span(bytes.fromhex(seed), start, count) for seed, start, count in line["noise"]]
    exponents = b"".join(exponents_of(public, span) for span in spans)
    return "", {"exponents": np.frombuffer(exponents, np.uint8)}


def is_y(line: Line, seed: bytes, page: Arrays, y: Ints, nodes: Ints32) -> bool:
    """Whether Y was this matrix when it was sent: packed, with the nodes folded in where only its holder knows them."""
    if line["method"] == "paillier":
        return _arrived(line, [_encrypted(line, page["exponents"].tobytes(), y, nodes)])
    size = line["slots"][-1]
    words, count = pack(y, Slots(*line["slots"])), line["nodes"] if line["method"] == "triple" else 0
    width = words.shape[1] * (count or 1)

    def block(cut: slice) -> Ring:
        return mod64.fold(words[cut], nodes[cut], count) if count else words[cut]

    return _was_dealt(seed, line) and _arrived(line, _masked(seed, len(words), width, size, block))


def is_x(line: Line, seed: bytes, x: NDArray[Any], nodes: Ints32) -> bool:
    """Whether X was this matrix when it was sent: less its mask, or the hidden order of its rows."""
    sizes = tuple(line["sizes"])
    if line["method"] == "permute":
        orders, lengths = mod64.sort_rows(x, sizes, nodes, line["nodes"])
        blocks = permutation.blocks_of(line["rows"], line["nodes"], line["blocks"])
        return _arrived(line, (permutation.hidden_places(seed, orders, nodes, blocks), lengths))
    width = sum(sizes) if sizes else x.shape[1]

    def block(cut: slice) -> Ring:
        return mod64.one_hot(x[cut], sizes) if sizes else x[cut].view(np.uint64)

    return _was_dealt(seed, line) and _arrived(line, _masked(seed, len(x), width, line["slots"][-1], block))


def _masked(seed: bytes, rows: int, width: int, size: int, block_of: Callable[[slice], Ring]) -> Iterator[Ring]:
    """A matrix less its mask, in words of so many bytes, in blocks of rows."""
    cuts = row_blocks(rows, width)
    for cut, mask in zip(cuts, mask_blocks(seed, width, cuts), strict=True):
        yield mod64.lower_bytes(block_of(cut) - mask, size)


def _arrived(line: Line, arrays: Iterable[NDArray[Any]]) -> bool:
    return digest_of_all(arrays) == str(line["sha256"])


def _was_dealt(seed: bytes, line: Line) -> bool:
    return digest_of_seed(seed).hex() == str(line["seed"])


def _encrypted(line: Line, exponents: bytes, y: Ints, nodes: Ints32) -> Bytes:
    public = PublicKey(*(int(number, 16) for number in line["key"]))
    if line["folded"]:
        y = mod64.fold(y.view(np.uint64), nodes, line["nodes"]).view(np.int64)
    words = row_words(y, Layout(*line["layout"]))
    noise = noises(noise_table(public), len(words), exponents)
    return to_bytes(public, encrypt(public, words, noise))

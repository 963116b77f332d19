"""What a party would have sent of a matrix, computed anew from the seed that it opens: digests, to be compared.

A line is what the receiver has kept (`evidence`): how the product was made, and a digest of what arrived.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.codec import Ints, Ints32
from unpooled.secure import mod64, permute
from unpooled.secure.evidence import Line, digest_of, digest_of_seed
from unpooled.secure.packing import Slots, pack
from unpooled.secure.randomness import expand


def problem_with(seed: bytes, line: Line) -> str:
    """Whether a seed is the one that was dealt, as far as the receiver was told."""
    known = line["seed"]
    return "the seed that was opened is not the one that was dealt" if known not in ("", _digest(seed)) else ""


def digest_of_y(line: Line, seed: bytes, y: Ints, nodes: Ints32) -> str:
    """Of Y: its words, with the nodes folded in for a triple, less their mask."""
    words = pack(y, Slots(*line["slots"]))
    if line["method"] == "triple" and line["nodes"]:
        words = mod64.fold(words, nodes, line["nodes"])
    return digest_of(words - expand(seed, b"mask", words.shape))


def digest_of_x(line: Line, seed: bytes, x: NDArray[Any], nodes: Ints32) -> str:
    """Of X: the matrix less its mask, or the order of its rows in a random order."""
    sizes = tuple(line["sizes"])
    if line["method"] == "permute":
        orders, lengths = mod64.sort_rows(x, sizes, nodes, line["nodes"])
        return digest_of(permute.hidden_places(seed, orders, nodes), lengths)
    full = mod64.one_hot(x, sizes) if sizes else x.view(np.uint64)
    return digest_of(full - expand(seed, b"mask", full.shape))


def _digest(seed: bytes) -> str:
    return digest_of_seed(seed).hex()

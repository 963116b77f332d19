"""Tags of many ids at once are those that a library makes one by one, and different ids have different ones."""

from __future__ import annotations

import os
import random

import numpy as np
import polars as pl
import pytest
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.cmac import CMAC

from unpooled.align import tags
from unpooled.align.tags import cmac, encrypted, in_order_of_value, tags_of

KEY = bytes(range(32))


def one_by_one(key: bytes, messages: list[bytes]) -> list[bytes]:
    made = []
    for message in messages:
        mac = CMAC(algorithms.AES(key))
        mac.update(message)
        made.append(mac.finalize())
    return made


def of(ids: dict[str, list[str]], key: bytes = KEY) -> list[bytes]:
    return [row.tobytes() for piece in tags_of(key, pl.DataFrame(ids)) for row in piece]


@pytest.mark.parametrize("longest", [0, 1, 15, 16, 17, 32, 300])
def test_macs_are_those_of_the_library(longest: int) -> None:
    draws = random.Random(longest)
    messages = [draws.randbytes(draws.randint(0, longest)) for _ in range(60)] + [bytes(longest), b"\xff" * longest]
    key = os.urandom(32)
    assert [row.tobytes() for row in cmac(key, messages)] == one_by_one(key, messages)


def test_macs_are_those_of_the_standard() -> None:
    """Examples of NIST for CMAC with AES-256."""
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    text = bytes.fromhex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411")
    found = cmac(key, [b"", text[:16], text])
    assert [row.tobytes().hex() for row in found] == [
        "028962f61b7bf89efc6b551f4667d983",
        "28a7023f452e8f82bd4bf28d8c37c35c",
        "aaf3d8f1de5640c232f5b169b9c911e6",
    ]


def test_no_message_has_no_mac() -> None:
    assert cmac(KEY, []).shape == (0, 16)
    assert of({"id": []}) == []


def test_tags_are_macs_of_ids_with_their_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tags, "_SLICE", 3)
    ids = ["a", "ß", "x" * 256, "", "日本", "0", "00", "a\0"]
    messages = [f"{len(id.encode())}:{id}".encode() for id in ids]
    assert of({"id": ids}) == one_by_one(KEY, messages)


def test_columns_do_not_run_together() -> None:
    one = of({"a": ["x", "xy", "x1:", ""], "b": ["yz", "z", "z", "xyz"]})
    assert len(set(one)) == 4
    assert of({"other": ["x"], "names": ["yz"]}) == one[:1]


def test_another_key_makes_other_tags() -> None:
    ids = {"id": [f"customer {number}" for number in range(100)]}
    assert not set(of(ids)) & set(of(ids, bytes(32)))


def test_blocks_are_permuted() -> None:
    blocks = np.frombuffer(os.urandom(16 * 50), np.uint8).reshape(-1, 16)
    made = encrypted(KEY, blocks)
    assert len({row.tobytes() for row in made}) == 50
    assert np.array_equal(made[7:8], encrypted(KEY, blocks[7:8]))


def test_the_order_is_that_of_values_as_bytes() -> None:
    """Also where the first halves are the same, which random tags never have."""
    values = [os.urandom(16) for _ in range(200)] + [b"same 8 b" + os.urandom(8) for _ in range(50)]
    rows = np.frombuffer(b"".join(values), np.uint8).reshape(-1, 16)
    for count in (0, 1, 200, 250):
        order = in_order_of_value(rows[:count])
        assert [values[place] for place in order] == sorted(values[:count])

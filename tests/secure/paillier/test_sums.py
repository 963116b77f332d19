"""Results laid out in plaintexts, sums under encryption, noise made ahead: all as plain integers have it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from unpooled.errors import ProtocolError
from unpooled.secure.calls import LARGEST
from unpooled.secure.paillier import keys
from unpooled.secure.paillier import sums as paillier_sums
from unpooled.secure.paillier.layout import layout_for, pack, repeated, row_words, unpack
from unpooled.secure.paillier.noise import NoiseStock, made

KEY = keys.make_key(512, insecure=True)

unhurried = settings(deadline=None, max_examples=50)


@unhurried
@given(
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, LARGEST),
    st.sampled_from([256, 512, 2048]),
    st.randoms(use_true_random=False),
)
def test_layouts_give_back_what_they_are_given(
    cells: int, columns: int, bound: int, key_bits: int, random: Any
) -> None:
    layout = layout_for(cells, columns, bound, key_bits)
    drawn = [random.choice([-bound, bound, random.randint(-bound, bound)]) for _ in range(cells * columns)]
    values = np.array(drawn, np.int64).reshape(cells, columns)
    packed = pack(values, layout)
    assert len(packed) == layout.plaintexts
    assert all(abs(number) < 2 ** (key_bits - 2) for number in packed)  # n is larger than twice that
    assert (unpack(packed, layout) == values).all()


@unhurried
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 2**20))
def test_a_cell_is_a_row_shifted(cells: int, columns: int, bound: int) -> None:
    layout = layout_for(cells, columns, bound, 256)
    row = np.arange(columns)[None] % (bound + 1) - bound // 2
    words = row_words(row, layout)
    assert repeated(words, layout) == pack(np.repeat(row, cells, axis=0), layout)
    for cell in range(cells):
        values = np.zeros((cells, columns), np.int64)
        values[cell] = row
        stack, place = divmod(cell, layout.deep)
        wanted = [0] * layout.plaintexts
        wanted[stack * layout.words : (stack + 1) * layout.words] = [word << place * layout.bits for word in words]
        assert pack(values, layout) == wanted


def test_what_no_layout_gives_is_refused() -> None:
    layout = layout_for(cells=3, columns=2, bound=100, key_bits=256)
    (good,) = pack(np.full((3, 2), -100), layout)
    assert (unpack([good], layout) == -100).all()
    for wrong in (good + (1 << 254), good - (1 << 254), good + (1 << 3 * layout.bits), 1 << 200):
        with pytest.raises(ProtocolError, match="share"):
            unpack([wrong], layout)


def decrypted(ciphertexts: list[mpz]) -> list[int]:
    return [int(number) for number in keys.centre(KEY.public, keys.decrypt(KEY, ciphertexts))]


def encrypted(numbers: np.ndarray) -> np.ndarray:
    """Rows × words as they are kept."""
    noise = keys.noises(keys.noise_table(KEY.public), numbers.size)
    made = keys.encrypt(KEY.public, numbers.reshape(-1).tolist(), noise)
    return keys.to_bytes(KEY.public, made).reshape(*numbers.shape, KEY.public.width)


def silent(done: int, total: int) -> None:
    assert 0 <= done <= total


@unhurried
@given(st.integers(0, 12), st.integers(1, 3), st.lists(st.integers(1, 4), max_size=3), st.integers(1, 4), st.data())
def test_bins_are_summed_by_node(rows: int, words: int, sizes: list[int], nodes: int, data: Any) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    values = rng.integers(-1000, 1000, (rows, words))
    bins = np.stack([rng.integers(0, size, rows) for size in sizes], 1) if sizes else np.empty((rows, 0), np.int64)
    node = rng.integers(-1, nodes, rows).astype(np.int32)
    wanted = np.zeros((nodes, sum(sizes), words), np.int64)
    for column in range(len(sizes)):
        inside = node >= 0
        place = sum(sizes[:column]) + bins[inside, column]
        np.add.at(wanted, (node[inside], place), values[inside])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOKY_MAX_CPU_COUNT", "1")
        patch.setattr(paillier_sums, "_ADDITIONS", data.draw(st.sampled_from([1, 5, 100])))
        sums = paillier_sums.bin_sums(KEY.public, encrypted(values), bins, sizes, node, nodes, silent)
    assert decrypted(sums) == wanted.reshape(-1).tolist()


@unhurried
@given(st.integers(0, 12), st.integers(1, 3), st.integers(0, 3), st.integers(0, 64), st.data())
def test_rows_are_weighted(rows: int, words: int, width: int, bits: int, data: Any) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    values = rng.integers(-1000, 1000, (rows, words))
    weights = rng.integers(0, 2**bits - 1, (rows, width), np.uint64, endpoint=True)
    wanted = weights.T.astype(object) @ values.astype(object) if rows else np.zeros((width, words), object)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOKY_MAX_CPU_COUNT", "1")
        patch.setattr(paillier_sums, "_ADDITIONS", data.draw(st.sampled_from([1, 100])))
        patch.setattr(paillier_sums, "_BLOCK", data.draw(st.sampled_from([1, 5, 100])))
        sums = paillier_sums.weighted_sums(KEY.public, encrypted(values), weights, bits, silent)
    assert decrypted(sums) == wanted.reshape(-1).tolist()


@pytest.mark.parametrize(("cells", "columns"), [(0, 2), (1, 1), (7, 2), (9, 40)])
def test_sums_are_packed_as_plain_numbers_are(cells: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    layout = layout_for(cells, columns, 1000, 512)
    values = np.random.default_rng(cells).integers(-1000, 1001, (cells, columns))
    values[cells // 2 :] = 0
    words = np.array(row_words(values, layout), object).reshape(cells, layout.words)
    sums = keys.from_bytes(KEY.public, encrypted(words).reshape(-1, KEY.public.width))
    sums = [c if word else mpz(1) for c, word in zip(sums, words.reshape(-1), strict=True)]  # as nothing added up is
    assert decrypted(paillier_sums.packed(KEY.public, sums, layout, silent)) == pack(values, layout)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_noise_is_handed_out_once(processes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", processes)
    told = []
    stock = NoiseStock(KEY.public, cover=True, progress=lambda done, total: told.append((done, total)))
    stock.order(100)
    stock.expect(30)
    stock.order(0)
    handed_out = [stock.take(count) for count in (30, 0, 60, 40, 1)]
    taken = [noise for noise, _ in handed_out]
    assert [len(part) for part in taken] == [30, 0, 60, 40, 1]
    for noise, spans in handed_out:
        assert [one for span in spans for one in made(KEY.public, True, span)[1]] == noise, "seeds show which it was"
    noise = [one for part in taken for one in part]
    assert len(set(noise)) == 131
    assert keys.decrypt(KEY, noise) == [0] * 131
    assert all(0 < done <= total for done, total in told)


def test_what_fails_in_making_noise_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    stock = NoiseStock(replace(KEY.public, noise_base=KEY.p), cover=False, progress=silent)
    with pytest.raises(ZeroDivisionError):
        stock.take(1)

"""Checkpoints hold what was written, whole, and only for the same job."""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from unpooled.checkpoint import Notebook, open_checkpoint
from unpooled.errors import InputError

ABOUT = {"plan": "abc", "data": "def", "version": "1"}


def test_pages_come_back_in_order_from_another_process_too(tmp_path: Path) -> None:
    first = Notebook(tmp_path / "book")
    for number in range(12):
        first.write(numbers=np.arange(number), text=np.frombuffer(b"model", np.uint8))
    again = Notebook(tmp_path / "book")
    assert len(again) == 12
    assert [page["numbers"].tolist() for page in again.pages()] == [list(range(number)) for number in range(12)]
    assert bytes(again.read(3)["text"]) == b"model"
    again.write(numbers=np.zeros(1))
    assert len(Notebook(tmp_path / "book")) == 13


def test_pages_beyond_a_point_are_taken_out(tmp_path: Path) -> None:
    book = Notebook(tmp_path / "book")
    for number in range(3):
        book.write(number=np.array(number))
    book.keep_first(5)
    assert len(book) == 3
    book.keep_first(1)
    assert len(book) == len(Notebook(tmp_path / "book")) == 1
    assert sorted(path.name for path in (tmp_path / "book").iterdir()) == ["page-00000.npz"]


def test_a_page_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = Notebook(tmp_path / "book")
    book.write(number=np.array(1))

    def breaks(file: object, **_: object) -> None:
        file.write(b"half")  # type: ignore[attr-defined]
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", breaks)
    with pytest.raises(KeyboardInterrupt):
        book.write(number=np.array(2))
    assert len(book) == len(Notebook(tmp_path / "book")) == 1
    assert len(list((tmp_path / "book").iterdir())) == 1


def test_only_the_owner_reads_it(tmp_path: Path) -> None:
    folder = open_checkpoint(tmp_path / "kept", "bank", ABOUT, resume=False)
    book = Notebook(folder / "book")
    book.write(number=np.array(1))
    assert [
        stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "book", folder / "book/page-00000.npz")
    ] == [
        0o700,
        0o700,
        0o600,
    ]


def test_pages_damaged_anyhow_are_whole_or_refused(tmp_path: Path) -> None:
    book, rng = Notebook(tmp_path / "book"), random.Random(1)
    book.write(number=np.arange(20), other=np.ones(3))
    path = tmp_path / "book/page-00000.npz"
    content, refused = path.read_bytes(), 0
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        try:
            book.read(0)
        except InputError:
            refused += 1
        assert len(Notebook(tmp_path / "book")) in (0, 1)
    assert refused > 100


def test_a_damaged_page_and_one_with_objects_are_refused(tmp_path: Path) -> None:
    book = Notebook(tmp_path / "book")
    book.write(number=np.arange(100))
    path = tmp_path / "book/page-00000.npz"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match=r"page-00000\.npz"):
        book.read(0)
    np.savez(path, number=np.array([{}], dtype=object))
    with pytest.raises(InputError, match=r"page-00000\.npz"):
        book.read(0)


@pytest.mark.parametrize("pages", [1, 3])
def test_a_last_page_that_is_torn_anywhere_counts_as_not_written(tmp_path: Path, pages: int) -> None:
    book = Notebook(tmp_path / "book")
    for number in range(pages):
        book.write(number=np.array(number), text=np.frombuffer(b"model", np.uint8))
    path = tmp_path / "book" / f"page-{pages - 1:05}.npz"
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert len(Notebook(tmp_path / "book")) == pages - 1, length
    path.write_bytes(bytes(len(whole)))
    torn = Notebook(tmp_path / "book")
    torn.write(number=np.array(9))
    assert [int(page["number"]) for page in Notebook(tmp_path / "book").pages()] == [*range(pages - 1), 9]


def test_a_torn_page_before_the_last_stays_an_error(tmp_path: Path) -> None:
    book = Notebook(tmp_path / "book")
    for number in range(3):
        book.write(number=np.array(number))
    (tmp_path / "book" / "page-00001.npz").write_bytes(b"")
    again = Notebook(tmp_path / "book")
    assert len(again) == 3
    with pytest.raises(InputError, match=r"page-00001\.npz"):
        list(again.pages())


def test_pages_behind_a_gap_are_taken_out_too(tmp_path: Path) -> None:
    book = Notebook(tmp_path / "book")
    for number in range(4):
        book.write(number=np.array(number))
    (tmp_path / "book" / "page-00001.npz").unlink()
    again = Notebook(tmp_path / "book")
    assert len(again) == 1
    again.keep_first(5)
    assert [path.name for path in (tmp_path / "book").iterdir()] == ["page-00000.npz"]


def test_threads_may_read_at_the_same_time(tmp_path: Path) -> None:
    """Python 3.11 cannot parse in several threads if they take turns in the midst of it, as they do here."""
    book = Notebook(tmp_path / "book")
    book.write(**{f"array {number}": np.zeros((3, 4)) for number in range(10)})

    def give_way(*_: object) -> None:
        time.sleep(0)

    threshold = gc.get_threshold()
    gc.callbacks.append(give_way)
    gc.set_threshold(5)
    try:
        with ThreadPoolExecutor(4) as threads:
            lengths = [len(page) for page in threads.map(book.read, [0] * 100)]
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(give_way)
    assert lengths == [10] * 100


def full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_is_named_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = Notebook(tmp_path / "book")
    book.write(number=np.array(1))
    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(InputError, match=r"page-00001\.npz.*No space left"):
        book.write(number=np.array(2))
    assert len(book) == len(Notebook(tmp_path / "book")) == 1
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"header\.json.*No space left"):
        open_checkpoint(tmp_path / "kept", "bank", ABOUT, resume=False)


def test_a_folder_that_is_gone_is_named_with_the_file(tmp_path: Path) -> None:
    book = Notebook(tmp_path / "book")
    book.write(number=np.array(1))
    shutil.rmtree(tmp_path / "book")
    with pytest.raises(InputError, match=r"page-00001\.npz.*No such file"):
        book.write(number=np.array(2))


def test_a_page_that_cannot_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = Notebook(tmp_path / "book")
    book.write(number=np.array(1))
    monkeypatch.setattr(Path, "unlink", full)
    with pytest.raises(InputError, match=r"page-00000\.npz"):
        book.keep_first(0)


def test_a_checkpoint_where_a_file_stands_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("")
    with pytest.raises(InputError, match=r"header\.json.*File exists"):
        open_checkpoint(tmp_path / "kept", "bank", ABOUT, resume=False)


def test_a_new_run_forgets_what_was_there(tmp_path: Path) -> None:
    folder = open_checkpoint(tmp_path / "kept", "bank", ABOUT, resume=False)
    Notebook(folder / "book").write(number=np.array(1))
    assert len(Notebook(open_checkpoint(tmp_path / "kept", "bank", ABOUT, resume=True) / "book")) == 1
    assert len(Notebook(open_checkpoint(tmp_path / "kept", "bank", ABOUT, resume=False) / "book")) == 0


def test_one_that_never_began_begins(tmp_path: Path) -> None:
    folder = open_checkpoint(tmp_path / "kept", "bank", ABOUT, resume=True)
    assert json.loads((folder / "header.json").read_text()) == {"format": "2", **ABOUT}


@pytest.mark.parametrize("name", ["plan", "data", "version"])
def test_another_plan_data_or_version_is_refused(tmp_path: Path, name: str) -> None:
    open_checkpoint(tmp_path / "kept", "bank", ABOUT, resume=False)
    with pytest.raises(InputError, match=rf"bank: .*{name}"):
        open_checkpoint(tmp_path / "kept", "bank", ABOUT | {name: "other"}, resume=True)


@pytest.mark.parametrize("content", ["", "[1]", "{", '{"format": "0"}'])
def test_a_header_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    open_checkpoint(tmp_path / "kept", "bank", ABOUT, resume=False)
    (tmp_path / "kept/header.json").write_text(content)
    with pytest.raises(InputError, match="bank"):
        open_checkpoint(tmp_path / "kept", "bank", ABOUT, resume=True)

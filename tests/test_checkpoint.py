"""Checkpoints hold what was written, whole, and only for the same job."""

from __future__ import annotations

import json
import stat
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


def test_a_damaged_page_and_one_with_objects_are_refused(tmp_path: Path) -> None:
    book = Notebook(tmp_path / "book")
    book.write(number=np.arange(100))
    path = tmp_path / "book/page-00000.npz"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match=r"page-00000.npz: this page of a checkpoint cannot be read"):
        book.read(0)
    np.savez(path, number=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="cannot be read"):
        book.read(0)


def test_a_new_run_forgets_what_was_there(tmp_path: Path) -> None:
    folder = open_checkpoint(tmp_path / "kept", "bank", ABOUT, resume=False)
    Notebook(folder / "book").write(number=np.array(1))
    assert len(Notebook(open_checkpoint(tmp_path / "kept", "bank", ABOUT, resume=True) / "book")) == 1
    assert len(Notebook(open_checkpoint(tmp_path / "kept", "bank", ABOUT, resume=False) / "book")) == 0


def test_one_that_never_began_begins(tmp_path: Path) -> None:
    folder = open_checkpoint(tmp_path / "kept", "bank", ABOUT, resume=True)
    assert json.loads((folder / "header.json").read_text()) == {"format": "1", **ABOUT}


@pytest.mark.parametrize("name", ["plan", "data", "version"])
def test_another_plan_data_or_version_is_refused(tmp_path: Path, name: str) -> None:
    open_checkpoint(tmp_path / "kept", "bank", ABOUT, resume=False)
    with pytest.raises(InputError, match=f"bank: the run cannot be resumed: since then there is another {name}; begin"):
        open_checkpoint(tmp_path / "kept", "bank", ABOUT | {name: "other"}, resume=True)


@pytest.mark.parametrize("content", ["", "[1]", "{", '{"format": "0"}'])
def test_a_header_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    open_checkpoint(tmp_path / "kept", "bank", ABOUT, resume=False)
    (tmp_path / "kept/header.json").write_text(content)
    with pytest.raises(InputError, match="cannot be resumed"):
        open_checkpoint(tmp_path / "kept", "bank", ABOUT, resume=True)

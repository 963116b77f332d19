"""A file appears whole, or the old one stays."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from unpooled.atomic import (
    OWNER_ONLY,
    close_folder,
    make_folder,
    owner_only,
    remove_unfinished,
    replacing,
    write_bytes,
    write_text,
)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_text_and_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    write_text(tmp_path / "text", "naïve\n")
    write_bytes(tmp_path / "bytes", b"\0\xff\r\n")
    assert (tmp_path / "text").read_bytes() == "naïve\n".encode()
    assert (tmp_path / "bytes").read_bytes() == b"\0\xff\r\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bytes", "text"]


def append(path: Path) -> None:
    with open(path, "ab", opener=owner_only) as file:
        file.write(b"x")


@pytest.mark.parametrize("write", [lambda path: write_text(path, "x"), lambda path: write_bytes(path, b"x"), append])
def test_a_file_is_its_owners_alone_whatever_it_was(tmp_path: Path, write: Callable[[Path], None]) -> None:
    before = os.umask(0)
    try:
        write(tmp_path / "new")
        (tmp_path / "old").touch(0o644)
        write(tmp_path / "old")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "new") == mode_of(tmp_path / "old") == 0o600


def test_new_folders_are_their_owners_alone_and_others_when_they_are_closed(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old").chmod(0o755)
    make_folder(tmp_path / "old" / "new" / "inner")
    assert mode_of(tmp_path / "old") == 0o755
    assert mode_of(tmp_path / "old" / "new") == mode_of(tmp_path / "old" / "new" / "inner") == 0o700
    for name in ("old", "other"):
        close_folder(tmp_path / name)
        assert mode_of(tmp_path / name) == 0o700


def test_nobody_else_reads_the_file_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replacing(path) as temporary:
        temporary.write_text("half")
        assert mode_of(temporary) == OWNER_ONLY
        assert temporary.parent == tmp_path
        assert not path.exists()
    assert path.read_text() == "half"


@pytest.mark.parametrize("interruption", [ValueError, KeyboardInterrupt])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, interruption: type[BaseException]
) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def write_half() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise interruption

    with pytest.raises(interruption):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_text_that_cannot_be_encoded_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "new \ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done with the disk, in order."""
    done: list[str] = []
    flush, replace = os.fsync, Path.replace

    def noted_flush(handle: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else f"file of {os.fstat(handle).st_size}")
        flush(handle)

    def noted_replace(path: Path, target: Path) -> Path:
        done.append("renamed")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", noted_flush)
    monkeypatch.setattr(Path, "replace", noted_replace)
    return done


@pytest.mark.parametrize("write", [lambda path: write_text(path, "whole"), lambda path: write_bytes(path, b"whole")])
def test_a_file_is_on_the_disk_before_it_takes_its_place_and_its_name_afterwards(
    tmp_path: Path, write: Callable[[Path], None], steps: list[str]
) -> None:
    write(tmp_path / "file")
    assert steps == ["file of 5", "renamed", "folder"]


def test_what_need_not_last_is_not_waited_for(tmp_path: Path, steps: list[str]) -> None:
    write_bytes(tmp_path / "file", b"whole", lasting=False)
    assert steps == ["renamed"]
    assert (tmp_path / "file").read_bytes() == b"whole"


def test_a_disk_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_text(path, "old")

    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match=r"Input/output error: '.*/file'$"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_left_unfinished_is_removed(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    write_text(tmp_path / "inner" / "list.csv", "id\n1\n")
    killed = "import os, sys; from pathlib import Path; from unpooled import atomic\n" + (
        "with atomic.replacing(Path(sys.argv[1])) as path:\n    path.write_text('id'); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", killed, str(tmp_path / "inner" / "list.csv")], check=False)
    assert len(list((tmp_path / "inner").iterdir())) == 2
    remove_unfinished(tmp_path)
    assert len(list((tmp_path / "inner").iterdir())) == 2, "what lies deeper may be somebody else's"
    remove_unfinished(tmp_path / "inner")
    assert [path.name for path in (tmp_path / "inner").iterdir()] == ["list.csv"]
    assert (tmp_path / "inner" / "list.csv").read_text() == "id\n1\n"

"""Lines chained by digests: every change before the end is noticed, and named by its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from unpooled import chain
from unpooled.errors import BookError, LedgerError


def written(path: Path, count: int = 4) -> list[bytes]:
    lines, last = [], chain.START
    for number in range(count):
        line, last = chain.chained(last, f'{{"number": {number}')
        lines.append(line)
    path.write_bytes(b"".join(lines))
    return lines


def read(path: Path) -> list[int]:
    lines = path.read_text().split("\n")[:-1]
    return [content["number"] for content, _ in chain.checked(path, lines, BookError)]


def test_what_was_written_is_read_with_its_digests(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    written(path)
    assert read(path) == [0, 1, 2, 3]
    *_, (_, last) = chain.checked(path, path.read_text().split("\n")[:-1], LedgerError)
    assert chain.last_digest(path) == last


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda lines: [lines[0].replace(b"0", b"7", 1), *lines[1:]], 1),
        (lambda lines: [lines[0], *lines[2:]], 2),
        (lambda lines: [*lines[:2], lines[1], *lines[2:]], 3),
        (lambda lines: [lines[1], lines[0], *lines[2:]], 1),
        (lambda lines: [*lines[:3], b'{"number": 3}\n'], 4),
    ],
)
def test_a_change_is_named_by_its_line(tmp_path: Path, change: object, line: int) -> None:
    assert callable(change)
    path = tmp_path / "lines"
    path.write_bytes(b"".join(change(written(path))))
    with pytest.raises(BookError, match=f"line {line}: the chain is broken"):
        read(path)


def test_lines_cut_from_the_end_are_not_noticed_without_a_digest_kept_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"".join(written(path)[:2]))
    assert read(path) == [0, 1]

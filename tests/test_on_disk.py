"""Arrays in files that have no name."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unpooled import on_disk


def test_an_array_on_disk_is_like_one_in_memory_and_leaves_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    found = [on_disk.empty((300, 7), np.float64, place) for place in (folder, None)]
    for array in found:
        array[:] = np.arange(2100).reshape(300, 7)
        on_disk.let_go(array)
        array[5] *= 2
        on_disk.let_go(array[:, 2])
    assert found[0].tobytes() == found[1].tobytes()
    assert not list(folder.iterdir())
    assert folder.stat().st_mode & 0o777 == 0o700


def test_an_empty_array_needs_no_file(tmp_path: Path) -> None:
    assert on_disk.empty((0, 3), np.uint8, tmp_path / "disk").shape == (0, 3)
    assert not (tmp_path / "disk").exists()

"""A fitted completer on disk: what comes back fills the same cells, and what is wrong is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unpooled.arrays import Bools
from unpooled.complete.completers.completers import COMPLETERS
from unpooled.complete.completers.files import load, save
from unpooled.complete.completers.filling import complete, fit
from unpooled.complete.completers.hot_deck import HotDeckSettings
from unpooled.complete.generators.generators import GENERATORS
from unpooled.complete.imputers.imputers import IMPUTERS
from unpooled.data.table import Table
from unpooled.errors import InputError

Mixed = Callable[[int], Table]


@pytest.mark.parametrize("completer", COMPLETERS, ids=lambda completer: completer.name)
def test_what_comes_back_fills_the_same_cells(
    completer: Any, mixed: Mixed, scattered: Callable[[Table], Bools], tmp_path: Path
) -> None:
    table = mixed(40)
    mask = scattered(table)
    shorter = {"epochs": 3} if completer in GENERATORS else {"steps": 50} if completer in IMPUTERS else {}
    fitted = fit(completer.settings(**shorter), table, np.random.default_rng(1), mask)
    save(fitted, tmp_path / "fitted.npz")
    again = load(tmp_path / "fitted.npz")
    assert again.settings == fitted.settings
    assert again.columns == fitted.columns
    assert again.quality == fitted.quality
    before, after = (complete(one, table, np.random.default_rng(2), mask, draws=2) for one in (fitted, again))
    assert [one.frame.equals(two.frame) for one, two in zip(before.draws, after.draws, strict=True)] == [True, True]
    assert (tmp_path / "fitted.npz").stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / "fitted.npz"]


def test_a_table_without_values(mixed: Mixed, tmp_path: Path) -> None:
    table = mixed(5)
    fitted = fit(HotDeckSettings(), table, np.random.default_rng(1), np.ones((5, 6), np.bool_))
    save(fitted, tmp_path / "fitted.npz")
    assert load(tmp_path / "fitted.npz").state is None


def damaged(path: Path, how: str) -> None:
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(arrays["header"].tobytes())
    if how == "cut off":
        path.write_bytes(path.read_bytes()[:-40])
        return
    if how == "text":
        path.write_text("no such thing")
        return
    if how == "unknown completer":
        header["settings"]["completer"] = "no such"
    elif how == "no levels":
        del header["columns"][0]["kind"]
    elif how == "newer format":
        header["format"] = 2
    elif how == "too few columns":
        arrays["donors"] = arrays["donors"][:, 1:]
    elif how == "another array":
        arrays["more"] = arrays["donors"]
    elif how == "objects":
        arrays["donors"] = np.array([{}], dtype=object)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(path, **arrays)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "how",
    [
        "cut off",
        "text",
        "unknown completer",
        "no levels",
        "newer format",
        "too few columns",
        "another array",
        "objects",
    ],
)
def test_what_is_wrong_is_refused(how: str, mixed: Mixed, tmp_path: Path) -> None:
    path = tmp_path / "fitted.npz"
    save(fit(HotDeckSettings(), mixed(40), np.random.default_rng(1)), path)
    damaged(path, how)
    with pytest.raises(InputError, match=r"fitted\.npz: is no fitted completer"):
        load(path)


def test_files_that_cannot_be_read_or_written_are_named(mixed: Mixed, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.npz"):
        load(tmp_path / "absent.npz")
    with pytest.raises(InputError, match=r"fitted\.npz"):
        save(fit(HotDeckSettings(), mixed(40), np.random.default_rng(1)), tmp_path / "nowhere" / "fitted.npz")

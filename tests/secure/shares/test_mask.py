"""A mask hides one matrix only."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from unpooled.errors import ProtocolError
from unpooled.secure.shares.state import Mask


def bins(*, writable: bool) -> np.ndarray:
    values = np.arange(12, dtype=np.uint8).reshape(4, 3).copy()
    values.setflags(write=writable)
    return values


@pytest.mark.parametrize("writable", [True, False])
def test_another_matrix_is_refused(writable: bool) -> None:
    mask, one = Mask(b"seed", (4, 3)), bins(writable=writable)
    mask.bind("telco", one, sizes=(4, 4, 4))
    mask.bind("telco", one.copy(), sizes=(4, 4, 4))
    for other, sizes in ((one + 1, (4, 4, 4)), (one, (4, 4, 5)), (one[:3], (4, 4, 4)), (one.view(np.int8), (4, 4, 4))):
        with pytest.raises(ProtocolError, match=r"telco: a mask .* another"):
            mask.bind("telco", other, sizes=sizes)


def test_the_same_matrix_changed_is_refused() -> None:
    mask, one = Mask(b"seed", (4, 3)), bins(writable=True)
    view = one[:]
    view.setflags(write=False)
    mask.bind("telco", view)
    one[0, 0] = 9  # what a view cannot change, its base can
    with pytest.raises(ProtocolError, match=r"telco: a mask .* another"):
        mask.bind("telco", view)


def test_what_cannot_change_is_gone_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    digests, sha256 = list[bytes](), hashlib.sha256

    def counted(*begin: bytes) -> Any:
        digests.append(begin[0])
        return sha256(*begin)

    monkeypatch.setattr(hashlib, "sha256", counted)
    for writable, times in ((False, 1), (True, 3)):
        digests.clear()
        mask, one = Mask(b"seed", (4, 3)), bins(writable=writable)
        for _ in range(3):
            mask.bind("telco", one[:4], sizes=(4, 4, 4))
        assert len(digests) == times

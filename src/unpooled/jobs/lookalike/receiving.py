"""What the seeker does with a list that has arrived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from unpooled.jobs.lookalike import list_files
from unpooled.jobs.lookalike.advice import Advice, at_length
from unpooled.jobs.lookalike.figures import histogram
from unpooled.jobs.lookalike.in_common import Line
from unpooled.jobs.lookalike.list_files import Listed
from unpooled.jobs.work import Work, id_rules

LISTED_BYTES = 2**10
"""More than a row of the list takes, on average."""


def received(work: Work[Any], found: Listed, advice: Advice | None, in_common: Sequence[Line] = ()) -> dict[str, Any]:
    """Write the seeker's list, without those whom its own file excludes; what its result says of it."""
    sent = len(found.scores)
    hashed = work.table is not None and work.table.hashed
    found = list_files.without(found, work.private.exclude, work.party, id_rules(work), hashed=hashed)
    list_files.write_reliable(work.folder, found)
    return {
        "listed": len(found.scores),
        **({"excluded": sent - len(found.scores)} if work.private.exclude else {}),
        "iterations": np.bincount(found.iterations).tolist(),
        "scores": histogram(found.scores, whole=False),
        **({"advice": asdict(advice), "expected": asdict(at_length(advice, len(found.scores)))} if advice else {}),
        **({"in_common": [asdict(line) for line in in_common]} if in_common else {}),
        "file": list_files.RELIABLE,
    }

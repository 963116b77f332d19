"""How far the advice about a list is from the truth: expected precision by length with its band, and suggested length.

A random tenth of the positives of bank, credit and census is known, and all columns are pooled. The search is vfpu with
its defaults, and estimates come from five models more, as in a job; the base is LightGBM with 8 leaves, for speed. The
constants of `pu.estimates.expectation` were chosen on draws 1 to 3; what is reported is from draws 4 to 8.

- coverage: how often the true precision of the first rows lies within the band, over sets, lengths and draws
- width: the mean width of the band; error: the mean distance of expected from true precision
- factor: the suggested length over the true number of positives, or the reverse, whichever is larger; the worst counts
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import warnings
from typing import Any, NamedTuple

import numpy as np
from lightgbm import LGBMClassifier

from quality import KNOWN_SHARE, known_of, prepared
from unpooled import workers
from unpooled.pu.estimates.elkan_noto import held_out
from unpooled.pu.estimates.expectation import expected_of
from unpooled.pu.methods import rank
from unpooled.pu.pooled.classifiers import PooledClassifiers
from unpooled.pu.settings import VfpuSettings

SETS = ("bank", "credit", "census")
DRAWS = (4, 5, 6, 7, 8)
COVERAGE_BAR, FACTOR_BAR = 0.8, 1.5


class Found(NamedTuple):
    """For each length the truth and what was expected; the number of positives and what was suggested."""

    lengths: list[int]
    true: list[float]
    expected: list[float]
    low: list[float]
    high: list[float]
    positives: int
    suggested: int

    @property
    def covered(self) -> list[bool]:
        return [low <= true <= high for true, low, high in zip(self.true, self.low, self.high, strict=True)]

    @property
    def factor(self) -> float:
        return max(self.suggested / self.positives, self.positives / self.suggested)


def searched(run: tuple[str, int]) -> Found:
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    name, draw = run
    matrix, positive = prepared(name)
    known = known_of(positive, draw)
    learn = PooledClassifiers(matrix, LGBMClassifier(n_estimators=50, num_leaves=8, n_jobs=1, verbose=-1))
    scored = held_out(known, learn, draw)
    order = rank(known, VfpuSettings(), learn, draw).order
    said = expected_of(scored.of_known, scored.of_unlabelled)
    means = np.cumsum(positive[order]) / np.arange(1, len(order) + 1)
    return Found(
        said.lengths.tolist(),
        means[said.lengths - 1].tolist(),
        said.precision.tolist(),
        said.low.tolist(),
        said.high.tolist(),
        int(positive[order].sum()),
        said.suggested,
    )


def figures_of(found: list[Found]) -> dict[str, Any]:
    """What several draws say together."""
    covered = [one for each in found for one in each.covered]
    widths = [high - low for each in found for low, high in zip(each.low, each.high, strict=True)]
    errors = [abs(a - b) for each in found for a, b in zip(each.true, each.expected, strict=True)]
    return {
        "coverage": round(statistics.mean(covered), 3),
        "width": round(statistics.mean(widths), 3),
        "error": round(statistics.mean(errors), 3),
        "suggested": [each.suggested for each in found],
        "positives": [each.positives for each in found],
        "factor": round(max(each.factor for each in found), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, nargs="+", default=DRAWS)
    parser.add_argument("--sets", nargs="+", default=SETS)
    options = parser.parse_args()
    runs = [(name, draw) for draw in options.draws for name in options.sets]
    found = dict(zip(runs, workers.in_order(searched, runs), strict=True))
    table = {name: [one for (of, _), one in found.items() if of == name] for name in options.sets}
    for name, each in table.items():
        print(f"{name}, draw {options.draws[0]}: first rows, true precision, expected, band", file=sys.stderr)
        one = each[0]
        for length, true, *expected in zip(one.lengths, one.true, one.expected, one.low, one.high, strict=True):
            print(f"  {length:6} {true:.3f}  " + " ".join(f"{value:.3f}" for value in expected), file=sys.stderr)
    total = figures_of(list(found.values()))
    bars = [
        {
            "name": "band_coverage",
            "value": total["coverage"],
            "bar": COVERAGE_BAR,
            "holds": total["coverage"] >= COVERAGE_BAR,
        },
        {
            "name": "suggested_length_factor",
            "value": total["factor"],
            "bar": FACTOR_BAR,
            "holds": total["factor"] <= FACTOR_BAR,
        },
    ]
    figures = {
        "benchmark": "advice",
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "known_fraction": KNOWN_SHARE,
        "draws": list(options.draws),
        "sets": {name: figures_of(each) for name, each in table.items()},
        "all": {name: total[name] for name in ("coverage", "width", "error", "factor")},
    }
    print(json.dumps(figures | {"bars": bars}))


if __name__ == "__main__":
    main()

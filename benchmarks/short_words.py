"""Whether short words cost quality: look-alike searches with hidden nodes, with limited sums and with full ones.

With hidden nodes splits are found by gradients whose sums fit short words (`parameters.largest_sum`). Here pooled
searches with the job's defaults, which give the same rankings as federated ones, are made twice on the same draws: as
they are, and with all 16 bits of each gradient, which takes words of 8 bytes. `xgb` has second derivatives in place of
weights. Prints the precision among the first 1,000 as a table in Markdown, and one JSON object as its last line.
`--sets`, `--learners`, `--draws` and `--iterations` compute less, or more.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

from rich.console import Console

from unpooled.experiments.lookalike.dealing import deal
from unpooled.pu.methods import rank
from unpooled.pu.pooled.trees import PooledModels
from unpooled.pu.settings import VfpuSettings
from unpooled.vertical.learners import begun_secret
from unpooled.vertical.trees import boosting
from unpooled.vertical.trees.parameters import GbdtParameters, XgbParameters

TOP, FIRST_SEED = 1_000, 21
SETS = ("bank", "credit", "census")
LEARNERS = {"gbdt": GbdtParameters, "xgb": XgbParameters}

console = Console(stderr=True)


@contextmanager
def full_sums() -> Iterator[None]:
    """Gradients have all their bits, however large sums become."""
    with mock.patch.object(boosting, "largest_sum", return_value=2**62):
        yield


def precision(name: str, seed: int, learner: str, iterations: int, *, short: bool) -> float:
    dealt = deal(name, seed, train=1.0, known=0.1)
    parameters = LEARNERS[learner].model_validate(begun_secret({"learner": learner}))
    with nullcontext() if short else full_sums():
        models = PooledModels(dealt.columns, parameters)
        ranking = rank(dealt.known, VfpuSettings(iterations=iterations), models, seed)
    return float(dealt.positive[ranking.order[:TOP]].mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS))
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=2)
    said = parser.parse_args()
    draws, iterations = said.draws, said.iterations
    lines = ["| set | learner | short words | words of 8 bytes | difference, mean of draws | its standard error |"]
    lines.append("|---|---|---|---|---|---|")
    figures: dict[str, Any] = {
        "benchmark": "short_words",
        "draws": draws,
        "iterations": iterations,
        "precision_1000": {},
    }
    for learner in said.learners:
        for name in said.sets:
            pairs = []
            for seed in range(FIRST_SEED, FIRST_SEED + draws):
                short, full = (precision(name, seed, learner, iterations, short=way) for way in (True, False))
                pairs.append((short, full))
                console.print(f"{learner} {name} {seed}: {short:.3f} {full:.3f}")
            differences = [short - full for short, full in pairs]
            error = statistics.stdev(differences) / draws**0.5 if draws > 1 else float("nan")
            means = [statistics.mean(way) for way in zip(*pairs, strict=True)]
            each = [*(f"{mean:.4f}" for mean in means), f"{statistics.mean(differences):+.4f}", f"{error:.4f}"]
            lines.append(f"| {name} | {learner} | {' | '.join(each)} |")
            figures["precision_1000"][f"{name} {learner}"] = {"short": means[0], "full": means[1], "pairs": pairs}
    print("\n".join(lines))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

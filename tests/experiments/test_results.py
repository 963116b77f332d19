"""The committed page `docs/results.md` is what the committed cells say, for every experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from unpooled.experiments import cells as kept
from unpooled.experiments import page
from unpooled.experiments.experiment import Experiment, Tier
from unpooled.experiments.experiments import EXPERIMENTS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.name)
def test_the_page_is_what_the_committed_cells_say(experiment: Experiment) -> None:
    """Without cells there is no section."""
    path = DOCS / "results.md"
    text, folder = path.read_text(encoding="utf-8"), DOCS / "results"
    done = kept.read(experiment, kept.path_of(experiment, Tier.standard, folder))
    cells = experiment.own(Tier.standard, done)
    if not cells:
        assert f"<!-- begin {experiment.name}:" not in text
        return
    wanted = experiment.cells(Tier.standard, experiment.seed)
    assert all(experiment.key(cell) in cells for cell in wanted), "the tier is not complete"
    made = page.with_section(text, experiment.name, page.section(experiment, Tier.standard, cells, "results"), path)
    options = "--tier standard --from-cells --out docs/results --page docs/results.md"
    assert text == made, f"docs/results.md is out of date: unpooled experiment {experiment.name} {options}"
    for name in experiment.pictures(kept.frame_of(experiment, cells)):
        assert f"(results/{experiment.name}-{name}.svg)" in text
        assert (folder / f"{experiment.name}-{name}.svg").is_file()

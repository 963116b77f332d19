"""All experiments of the VFPU paper in the quick tier, on small made-up sets: their cells, pages and figures."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from unpooled.cli import app
from unpooled.experiments import cells as kept
from unpooled.experiments import experiments
from unpooled.experiments.experiment import Experiment, Tier
from unpooled.experiments.lookalike import ablations, baselines, federated_vs_pooled, growth, tiers
from unpooled.experiments.lookalike.paper import told
from unpooled.experiments.lookalike.searches import KEYS

LOOKALIKE = tuple(each for each in experiments.EXPERIMENTS if each.file == "lookalike")
FEW: dict[str, tuple[object, ...]] = {"iterations": (1, 2), "bags": (3,), "theta": (0.02,), "known": (0.1, 0.2)}


@pytest.fixture(scope="module")
def folder(small: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `unpooled experiment all` has written, on one set, with the engines as threads."""
    small.setattr(experiments, "EXPERIMENTS", LOOKALIKE)
    for module in (ablations, baselines, federated_vs_pooled, growth):
        small.setattr(module, "SETS", ("bank",))
    small.setattr(federated_vs_pooled, "TIMED_SET", "bank")
    small.setattr(baselines, "LARGEST", "bank")
    small.setitem(tiers.TRAIN, Tier.quick, 0.6)  # the paper's size, so that its figures are compared
    small.setattr(baselines, "JUDGED_AT", 500)
    few = {who: baselines.NETWORKS[who] for who in ("network on known positives", "FixMatch")}
    small.setattr(baselines, "NETWORKS", few)
    small.setitem(tiers.FEDERATED, Tier.quick, {"train": 0.8, "iterations": 2, "bags": 2})
    small.setitem(tiers.ABLATIONS, Tier.quick, (1, 0.6))
    small.setitem(tiers.TIMED, "train", 0.85)
    small.setattr(federated_vs_pooled, "ENGINES", ("threads, shares", "threads, paillier 512, insecure"))
    parts = {title: (key, lead, FEW.get(key, values)) for title, (key, lead, values) in ablations.PARTS.items()}
    small.setattr(ablations, "PARTS", parts)
    out = tmp_path_factory.mktemp("results")
    result = CliRunner().invoke(app, ["experiment", "all", "--out", str(out)], catch_exceptions=False)
    assert result.exit_code == 0
    return out


def frame_of(folder: Path) -> pl.DataFrame:
    experiment = LOOKALIKE[0]
    return kept.frame_of(experiment, kept.read(experiment, kept.path_of(experiment, Tier.quick, folder)))


def section_of(folder: Path, name: str) -> str:
    text = (folder / "results.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"<!-- begin {name}: .*?-->(.*?)<!-- end {name} -->", text, flags=re.DOTALL)
    return str(found)


def tables_in(text: str) -> list[list[str]]:
    return [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]


@pytest.mark.parametrize("experiment", LOOKALIKE, ids=lambda each: each.name)
def test_every_section_has_whole_tables_and_its_figures(folder: Path, experiment: Experiment) -> None:
    text = section_of(folder, experiment.name)
    assert f"`unpooled experiment {experiment.name} --tier quick`: all " in text
    assert "Cells: `lookalike-quick.csv`" in text
    tables = tables_in(text)
    assert len(tables) >= 2
    for lines in tables:
        assert len(lines) > 2, lines
        assert len({line.count("|") for line in lines}) == 1, lines
    for title in re.findall(r"^### (.*)$", text, flags=re.MULTILINE):
        after = text.split(f"### {title}\n\n")[1].split("\n###")[0]
        assert "\n|" in f"\n{after}", f"{title} has no table"
    linked = re.findall(r"\]\((\S+)\.svg\)", text)
    names = experiment.pictures(experiment_frame(folder, experiment))
    assert linked == [f"{experiment.name}-{name}" for name in names]
    for link in linked:
        assert (folder / f"{link}.svg").is_file()
        assert (folder / f"{link}.png").is_file()


def experiment_frame(folder: Path, experiment: Experiment) -> pl.DataFrame:
    done = kept.read(experiment, kept.path_of(experiment, Tier.quick, folder))
    return kept.frame_of(experiment, experiment.own(Tier.quick, done))


def test_federated_cells_are_the_pooled_ones(folder: Path) -> None:
    lines = frame_of(folder).filter(pl.col("method") == "federated")
    trees = lines.filter(pl.col("learner") != "linear")
    assert trees.height >= 10
    assert trees["difference"].to_list() == [0.0] * trees.height
    assert max(lines["difference"].to_list()) <= 0.002
    text = section_of(folder, "federated-vs-pooled")
    assert "the largest difference of any metric is 0.0000 with trees and " in text
    assert "The paper's federated figures are 0.0174 below its pooled ones" in text


def test_each_figure_of_the_paper_stands_on_a_page(folder: Path) -> None:
    for name in ("growth", "baselines"):
        (lines,) = [lines for lines in tables_in(section_of(folder, name)) if "the VFPU paper" in lines[0]]
        assert len(lines) - 2 == len(told(name))
        ends = [line.split("|")[-2].strip() for line in lines[2:]]
        assert all(re.match(r"reproduced$|better$|worse$|not measured$|cannot be right: ", end) for end in ends)
    (lines,) = [lines for lines in tables_in(section_of(folder, "federated-vs-pooled")) if "the paper" in lines[0]]
    assert 4 * (len(lines) - 2) == len(told("table-3-1"))
    assert sum("cannot be right together: recall" in line for line in lines) == 23
    assert [line.split("|")[-2].strip() for line in lines if "| bank | RF |" in line] == ["worse"] * 2
    assert "Of 96 figures: cannot be right 69, " in section_of(folder, "federated-vs-pooled")


def test_cells_are_shared_and_computed_once(folder: Path) -> None:
    wanted = [tuple(cell[key] for key in KEYS) for each in LOOKALIKE for cell in each.cells(Tier.quick, each.seed)]
    assert len(frame_of(folder).select(list(KEYS)).unique()) == len(set(wanted)) < len(wanted)


@pytest.mark.parametrize("tier", Tier)
def test_cells_of_a_tier_are_distinct_and_have_an_estimate(tier: Tier) -> None:
    for experiment in LOOKALIKE:
        cells = experiment.cells(tier, experiment.seed)
        assert len({experiment.key(cell) for cell in cells}) == len(cells)
        assert all(experiment.seconds(cell) > 0 for cell in cells)
        assert min(int(cell["seed"]) for cell in cells) > 10, "draws 1 to 10 chose the job's settings"

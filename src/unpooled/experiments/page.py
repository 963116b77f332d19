"""What an experiment shows: figures beside its cells, and a section of a page between markers, from cells alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from unpooled import atomic
from unpooled.drawing.words import listed
from unpooled.errors import InputError
from unpooled.experiments import figures
from unpooled.experiments.cells import Cells, frame_of, path_of
from unpooled.experiments.experiment import Experiment, Tier

TITLE = "# Results\n\nWhat experiments on public data gave. Each section is made by the command that it names.\n"


def section(experiment: Experiment, tier: Tier, cells: Cells, links: str) -> str:
    """The section of an experiment, from its own cells; `links` leads from the page to the folder of the cells."""
    frame = frame_of(experiment, cells)
    seeds = sorted(frame["seed"].unique().to_list())
    wanted = experiment.cells(tier, seeds[0])
    there = sum(experiment.key(cell) in cells for cell in wanted)
    part = f"all {there}" if there == len(wanted) else f"{there} of {len(wanted)}"
    gaps = "" if there == len(wanted) else "; what is not computed yet is left out"
    minutes = sum(done.seconds for done in cells.values()) / 60
    files = f"`{path_of(experiment, tier, Path(links)).as_posix()}`"
    first = "" if seeds[0] == experiment.seed else f" --seed {seeds[0]}"
    head = [
        f"## {experiment.name}",
        f"By `unpooled experiment {experiment.name} --tier {tier}{first}`: {part} cells of this tier, random "
        f"{'seed' if len(seeds) == 1 else 'seeds'} {listed([str(seed) for seed in seeds])}, {round(minutes)} minutes. "
        f"Figures are means over random seeds, with the standard deviation where there are several{gaps}. "
        f"Computed with {_each(done.versions for done in cells.values())}; {_each(d.machine for d in cells.values())}. "
        f"Cells: {files}.",
    ]
    body = experiment.section(frame)
    for name in experiment.pictures(frame):
        body = body.replace(f"]({name}.svg)", f"]({(Path(links) / f'{experiment.name}-{name}.svg').as_posix()})")
    return "\n\n".join([*head, body])


def write(experiment: Experiment, tier: Tier, cells: Cells, folder: Path, page: Path) -> list[Path]:
    """Write figures and the section, from those of the cells that are the experiment's own; what was written."""
    cells = experiment.own(tier, cells)
    if not cells:
        raise InputError(f"{path_of(experiment, tier, folder)}: there are no cells yet; compute some first")
    atomic.make_folder(page.parent)
    written = []
    for name, picture in experiment.pictures(frame_of(experiment, cells)).items():
        written += figures.save(picture, folder / f"{experiment.name}-{name}")
    links = Path(os.path.relpath(folder, page.parent)).as_posix()
    before = page.read_text(encoding="utf-8") if page.is_file() else TITLE
    atomic.write_text(page, with_section(before, experiment.name, section(experiment, tier, cells, links), page))
    return [*written, page]


def with_section(text: str, name: str, body: str, page: Path) -> str:
    """The page with this section between its markers, in place of an earlier one or at the end."""
    begin, end = f"<!-- begin {name}: made by `unpooled experiment {name}`, not by hand -->", f"<!-- end {name} -->"
    if text.count(begin) != text.count(end) or text.count(begin) > 1 or text.find(begin) > text.find(end):
        raise InputError(f"{page}: the markers of the section {name} do not fit together")
    marked = f"{begin}\n\n{body}\n\n{end}"
    if begin not in text:
        return f"{text.rstrip()}\n\n{marked}\n"
    return re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _: marked, text, flags=re.DOTALL)


def _each(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(texts))

"""Cells on disk: a CSV file for each tier of an experiment, or of several that share cells, written whole each time.

A cell has a line for each method: its keys, the method, the figures (empty where there is none), how many lines the
cell has, how long it took, and the versions and kind of machine that computed it. So an interruption costs the cell
that was being computed, and a file that was cut off or edited is noticed.
"""

from __future__ import annotations

import csv
import io
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path

import polars as pl

from unpooled import atomic
from unpooled.errors import InputError
from unpooled.experiments.experiment import Experiment, Figures, Tier, Value
from unpooled.version import __version__

METHOD = "method"
_BESIDE = ("lines", "seconds", "versions", "machine")


@dataclass(frozen=True)
class Done:
    """A cell that was computed."""

    figures: Figures
    seconds: float
    versions: str
    machine: str


Cells = dict[tuple[Value, ...], Done]


def path_of(experiment: Experiment, tier: Tier, folder: Path) -> Path:
    """Where the cells are."""
    return folder / f"{experiment.file}-{tier}.csv"


def versions_of(packages: Sequence[str]) -> str:
    """The versions of this package and of others that figures depend on."""
    found = {"unpooled": __version__}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    return ", ".join(f"{name} {number}" for name, number in found.items())


def machine() -> str:
    """The kind of machine, without its name."""
    system, python, cpus = f"{platform.system()} {platform.machine()}", platform.python_version(), os.cpu_count()
    return f"{system}, Python {python}, {cpus} CPUs"


def columns_of(experiment: Experiment) -> list[str]:
    """The header of the file."""
    return [*experiment.keys, METHOD, *experiment.figures, *_BESIDE]


def write(experiment: Experiment, cells: Cells, path: Path) -> None:
    """Write all cells, in the order in which they were computed."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(columns_of(experiment))
    for key, done in cells.items():
        beside = [len(done.figures), f"{done.seconds:.1f}", done.versions, done.machine]
        for method, figures in done.figures.items():
            if unknown := figures.keys() - set(experiment.figures):
                raise InputError(f"experiment {experiment.name}: unknown figures {', '.join(sorted(unknown))}")
            if wrong := [name for name, value in figures.items() if not isfinite(value)]:
                cell = ", ".join(map(str, key))
                raise InputError(f"experiment {experiment.name}: cell {cell}, {method}: {wrong[0]} is not a number")
            values = [f"{figures[name]:.6g}" if name in figures else "" for name in experiment.figures]
            lines.writerow([*key, method, *values, *beside])
    atomic.write_text(path, text.getvalue())


def read(experiment: Experiment, path: Path) -> Cells:
    """Read what `write` wrote, and check every value; nothing if there is no file."""
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise _damaged(path, "it is not text") from None
    lines = csv.reader(io.StringIO(text), strict=True)
    found: dict[tuple[Value, ...], list[tuple[str, dict[str, float]]]] = {}
    beside: dict[tuple[Value, ...], tuple[int, float, str, str]] = {}
    try:
        if next(lines, None) != columns_of(experiment):
            raise ValueError(f"its columns are not those of the experiment {experiment.name}")
        for line in lines:
            cell, method, figures, rest = _parsed(experiment, line)
            if beside.setdefault(cell, rest) != rest or method in dict(found.get(cell, [])):
                raise ValueError("a cell occurs twice")
            found.setdefault(cell, []).append((method, figures))
    except (ValueError, csv.Error) as error:
        raise _damaged(path, f"line {max(lines.line_num, 1)}: {error}") from None
    for cell, methods in found.items():
        if len(methods) != beside[cell][0]:
            raise _damaged(path, f"of the cell {', '.join(map(str, cell))} lines are missing")
    return {cell: Done(dict(methods), *beside[cell][1:]) for cell, methods in found.items()}


def _parsed(
    experiment: Experiment, line: Sequence[str]
) -> tuple[tuple[Value, ...], str, dict[str, float], tuple[int, float, str, str]]:
    names = columns_of(experiment)
    if len(line) != len(names):
        raise ValueError(f"{len(line)} fields instead of {len(names)}")
    text = dict(zip(names, line, strict=True))
    key = tuple(kind(text[name]) for name, kind in experiment.keys.items())
    figures = {name: float(text[name]) for name in experiment.figures if text[name]}
    lines, seconds = int(text["lines"]), float(text["seconds"])
    if not all(map(isfinite, (*figures.values(), seconds))) or not text[METHOD]:
        raise ValueError("a value is not a number")
    return key, text[METHOD], figures, (lines, seconds, text["versions"], text["machine"])


def _damaged(path: Path, what: str) -> InputError:
    return InputError(f"{path}: damaged: {what}; restore it, or remove it to compute its cells again")


def frame_of(experiment: Experiment, cells: Mapping[tuple[Value, ...], Done]) -> pl.DataFrame:
    """All lines as a table: keys, method and figures."""
    types = {str: pl.String, int: pl.Int64, float: pl.Float64}
    schema = {name: types[kind] for name, kind in experiment.keys.items()}
    lines = [
        (*key, method, *(figures.get(name) for name in experiment.figures))
        for key, done in cells.items()
        for method, figures in done.figures.items()
    ]
    schema |= {METHOD: pl.String} | dict.fromkeys(experiment.figures, pl.Float64)
    return pl.DataFrame(lines, schema=schema, orient="row")

"""What a party's page says of why people are first: what its own columns add, person by person, and on average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from pydantic import PositiveInt

from unpooled.drawing.html import render
from unpooled.errors import InputError
from unpooled.jobs.learning.explaining import CONTRIBUTIONS, LINES
from unpooled.jobs.run_files import RunFiles, result_of
from unpooled.jobs.train.columns import COLUMNS_SHOWN, Positive

PEOPLE_SHOWN, LINES_SHOWN = 6, 6
"""How many people a page shows, and how many columns of each."""

_TEMPLATE = Path(__file__).with_name("explained.html")


@dataclass(frozen=True)
class Size:
    """How much a column, or another party, adds or takes away, on average."""

    name: str
    size: Positive


@dataclass(frozen=True)
class ExplainedResult:
    """What `result.json` of an owner says of explained rows; only the active party knows the margin and the parties."""

    rows: PositiveInt
    columns: tuple[Size, ...]
    margin: str = ""
    parties: tuple[Size, ...] = ()


@dataclass(frozen=True)
class OwnerExplained:
    explained: ExplainedResult | None = None


@dataclass(frozen=True)
class Added:
    """A line of a person's table: a column with its cell, or what stands for several."""

    name: str
    value: str
    contribution: float


@dataclass(frozen=True)
class Person:
    """A person by id, what the party's strongest columns add, the others together, and other parties' columns.

    `total` is the margin where the base is known, else what the party's own columns add.
    """

    id: str
    own: Sequence[Added]
    others: Added | None
    parties: Sequence[Added]
    base: float | None
    total: float

    @property
    def largest(self) -> float:
        shown = [*self.own, *self.parties, *([self.others] if self.others else [])]
        return max((abs(line.contribution) for line in shown), default=0.0) or 1.0


def explained_html(run: RunFiles, heading: str) -> str:
    """The part of one party's page; nothing where nothing was explained, or the page is of a whole run."""
    party = run.parties.get(run.owner or "")
    found = result_of(party, OwnerExplained) if party else None
    if party is None or found is None or found.explained is None:
        return ""
    explained = found.explained
    return render(
        _TEMPLATE,
        run=run,
        heading=heading,
        explained=explained,
        columns=[column for column in explained.columns if column.size][:COLUMNS_SHOWN],
        most=max((one.size for one in (*explained.columns, *explained.parties)), default=0.0) or 1.0,
        people=read_people(party.folder / CONTRIBUTIONS, party.name, PEOPLE_SHOWN),
    )


def read_people(path: Path, owner: str, first: int) -> list[Person]:
    """The first people of an owner's file; InputError if it is not one."""
    try:
        lines = pl.read_csv(path, infer_schema=False, glob=False)
    except (OSError, pl.exceptions.PolarsError):
        raise InputError(f"{path}: cannot be read as a file of contributions") from None
    ids, names = lines.columns[: -len(LINES)], lines.columns[-len(LINES) :]
    if not ids or tuple(name.rstrip("_") for name in names) != LINES:
        raise InputError(f"{path}: its columns are not ids followed by {', '.join(LINES)}")
    given = lines.rename(dict(zip(names, LINES, strict=True))).with_columns(
        pl.col("contribution").cast(pl.Float64, strict=False), pl.col("party", "value").fill_null("")
    )
    if given["contribution"].is_null().any() or not given["contribution"].is_finite().all():
        raise InputError(f"{path}: column 'contribution': not a number")
    people = given.partition_by(ids, maintain_order=True)[:first]
    return [_person(", ".join(map(str, person.row(0)[: len(ids)])), person.select(LINES), owner) for person in people]


def _person(name: str, lines: pl.DataFrame, owner: str) -> Person:
    own, parties, base = list[Added](), list[Added](), None
    for party, column, value, contribution in lines.iter_rows():
        if party == owner:
            own.append(Added(column, value, contribution))
        elif party:
            parties.append(Added(party, "", contribution))
        else:
            base = contribution
    own.sort(key=lambda line: -abs(line.contribution))
    shown, rest = own[:LINES_SHOWN], own[LINES_SHOWN:]
    others = Added(str(len(rest)), "", sum(line.contribution for line in rest)) if rest else None
    return Person(name, shown, others, parties, base, sum(lines["contribution"].to_list()))

"""What the active party reads of its completed table: the table first, then how its columns came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from unpooled.complete.table import GENERATED, NOT_FILLED, PREDICTED, REAL
from unpooled.drawing.blocks import Blocks, blocks_of
from unpooled.drawing.chart import Chart
from unpooled.drawing.html import render
from unpooled.drawing.matrix import Estimate, Matrix, intervals_of, matrix_of
from unpooled.drawing.measures import figure
from unpooled.drawing.pairs import pair_chart
from unpooled.drawing.words import listed, many, percent
from unpooled.evaluate.table import TableEvaluation
from unpooled.jobs.align.job import ALIGNED
from unpooled.jobs.complete.choosing import SCREENING
from unpooled.jobs.complete.evaluation import EVALUATION
from unpooled.jobs.complete.results import CompletedColumn, CompletedResult, Error
from unpooled.jobs.complete.table_files import COMPLETED, CONFIDENCE, DRAWS, HANDLES, PROVENANCE
from unpooled.jobs.run_files import RunFiles, result_of

COLUMNS_DRAWN = 30

_TABLE, _COLUMNS = (Path(__file__).with_name(name) for name in ("table.html", "columns.html"))
_STRONG = ("named", "too many", "above", "significant")
_MEASURES = {
    "": "The plan names the columns to predict.",
    "gain": "Strength is how much better small models predict known cells, hidden for a test, than the column’s own "
    "distribution does: 0 is not at all, 1 perfectly.",
    "max": "Strength is the largest rank correlation with any of their columns, between 0 and 1.",
    "mean": "Strength is the mean of the rank correlations with all their columns, between 0 and 1.",
    "cramer": "Strength is the largest Cramér’s V with any of their columns, between 0 and 1.",
    "list": "Strengths are those of a list from an earlier run.",
}
_SORTS = {REAL: "real", PREDICTED: "predicted", GENERATED: "generated", NOT_FILLED: "unfilled"}


@dataclass(frozen=True)
class Compared:
    """A column beside the truth, in words."""

    name: str
    way: str
    cells: int
    quality: str
    expected: str
    between: str
    off: str
    apart: str


def table_html(run: RunFiles, result: CompletedResult) -> str:
    """What stands first on the page: the table and its files, what came of it if that is known, what to do next."""
    folder = run.parties[run.owner or ""].folder
    evaluation = result_of(run.parties[run.owner or ""], TableEvaluation, EVALUATION)
    lenders, owner = run.plan.with_role("passive"), run.owner
    origins = {
        REAL: f"values that {owner} had",
        PREDICTED: f"found for each person by models over the columns of {listed(lenders)}",
        GENERATED: f"drawn at {owner}, with activations of {listed(lenders)} beside its own columns"
        if result.activations
        else f"drawn at {owner} alone, to look like its column",
        NOT_FILLED: "empty, as before",
    }
    no_better = [one.name for one in result.completed if one.way == PREDICTED and one.no_better]
    by_few = [f"{one.name} ({many(one.cells[REAL], 'real cell')})" for one in result.completed if one.by_few]
    return render(
        _TABLE,
        run=run,
        result=result,
        people=result.common + result.others,
        lenders=listed(lenders),
        one_lender=len(lenders) == 1,
        origins=origins,
        no_better=listed(no_better) if no_better else "",
        by_few=listed(by_few) if by_few else "",
        files=_files(run, result, folder),
        evaluation=evaluation,
        compared=_compared(result, evaluation) if evaluation else [],
    )


def columns_html(run: RunFiles, result: CompletedResult) -> str:
    """What was missing, which way each column went, how wrong it probably is, and how it is distributed."""
    lenders = run.plan.with_role("passive")
    columns = sorted(result.completed, key=lambda one: -(one.strength or 0.0))
    judged = [one for one in columns if one.first_error]
    shown, pairs = [one for one in columns if one.distribution], _pairs(columns)
    associations = result.associations
    return render(
        _COLUMNS,
        run=run,
        result=result,
        people=result.common + result.others,
        lenders=listed(lenders),
        one_lender=len(lenders) == 1,
        measure=_MEASURES[result.measure],
        blocks=_blocks(run, result),
        columns_left_out=max(len(columns) - COLUMNS_DRAWN, 0),
        matrix=_matrix(result, columns[:COLUMNS_DRAWN]),
        matrix_words=associations.what if associations else "",
        line_words=f"{associations.line:.2g}" if associations and associations.line is not None else "",
        associations=associations,
        columns=columns,
        why=lambda column: why_words(column, result.threshold),
        judged=judged,
        intervals=intervals_of([_estimate(one) for one in judged[:COLUMNS_DRAWN]]),
        intervals_left_out=max(len(judged) - COLUMNS_DRAWN, 0),
        quality=_quality,
        between=_between,
        predicted=[one for one in columns if one.way == PREDICTED],
        distributions=[[one for one in shown if one.name in pairs], [one for one in shown if one.name not in pairs]],
        pairs=pairs,
        apart=_apart,
    )


def why_words(column: CompletedColumn, threshold: float | None) -> str:
    """Why a column went its way.

    >>> cells = dict.fromkeys(("real", "predicted", "generated", "not filled"), 1)
    >>> told = {"name": "hb", "type": "number", "way": "generated", "why": "below", "strength": 0.21}
    >>> why_words(CompletedColumn(**told, cells=cells, in_common=cells), 0.5)
    'strength 0.21, not above the threshold 0.5'
    """
    strength = "" if column.strength is None else f"strength {column.strength:.2f}, "
    return {
        "named": "named in the plan",
        "not named": "not named in the plan",
        "too few": f"{strength}but too few different values among the people in common",
        "too many": f"{strength}strong enough, but the plan’s most_columns were reached",
        "above": f"{strength}above the threshold {threshold:g}" if threshold is not None else strength,
        "below": f"{strength}not above the threshold {threshold:g}" if threshold is not None else strength,
        "significant": f"{strength}significant",
        "chance": f"{strength}no more than chance would bring",
    }[column.why]


def _files(run: RunFiles, result: CompletedResult, folder: Path) -> dict[str, str]:
    """The files that are there, and what each is."""
    weight = f"; column {result.weight} has the mean confidence of each row" if result.weight else ""
    meanings = {
        COMPLETED: f"the completed table: the columns of {run.owner}’s own, and a handle for each row{weight}",
        PROVENANCE: "where each cell is from: real, predicted, generated or not filled",
        CONFIDENCE: "how sure each cell is: 1 for real cells, 0 for those not filled",
        DRAWS: f"{result.draws:,} further tables in which filled cells are drawn, to train on; numbered in column draw",
        HANDLES: f"which handle stands for which of {run.owner}’s own people; these are ids: keep it secret",
        SCREENING: "every column’s strength; a later plan may use this list instead of a new screening",
        ALIGNED: f"the ids of the people whom {run.owner} has in common with the others; keep it secret",
    }
    names = [*result.files, *(name for name in (HANDLES, SCREENING, ALIGNED) if (folder / name).exists())]
    return {name: meanings.get(name, meanings.get(Path(name).stem, "")) for name in names}


def _blocks(run: RunFiles, result: CompletedResult) -> Blocks:
    outside = result.rows - result.common
    people = (outside, result.common, result.others)
    lenders = run.plan.with_role("passive")
    first = (name if len(lenders) > 1 else f"{name}’s" for name in lenders)
    lines: list[tuple[str, list[Mapping[str, int]]]] = [
        (name, [{}, {"lent": result.common}, {"lent": result.others}]) for name in first
    ]
    for column in result.completed[:COLUMNS_DRAWN]:
        common = {_SORTS[origin]: column.in_common[origin] for origin in _SORTS}
        others = {_SORTS[origin]: column.cells[origin] - column.in_common[origin] for origin in _SORTS}
        lines.append((column.name, [{"outside": outside}, common, others]))
    return blocks_of(lines, people, ("yours only", "in common", "theirs only"))


def _matrix(result: CompletedResult, columns: list[CompletedColumn]) -> Matrix | None:
    """Associations and strengths; None without either."""
    associations = result.associations
    by_name = dict(zip(associations.columns, associations.values, strict=True)) if associations else {}
    strengths = [one.strength for one in columns]
    if not associations and not any(value is not None for value in strengths):
        return None
    return matrix_of(
        [one.name for one in columns],
        [by_name[one.name] for one in columns] if associations else [],
        associations.line if associations else None,
        strengths,
        [one.why in _STRONG for one in columns],
        result.threshold if result.measure else None,
    )


def _estimate(column: CompletedColumn) -> Estimate:
    error = column.first_error
    assert error is not None
    words = _quality(error.value, error.measure)
    return Estimate(column.name, error.value, error.low, error.high, error.guess, words)


def _quality(value: float, measure: str, name: str = "R² ") -> str:
    """A figure as people read it: accuracy as a percentage, R² as it is, with its name.

    >>> _quality(0.8125, "accuracy"), _quality(-0.25, "r2"), _quality(0.5, "r2", "")
    ('81.2 %', 'R² −0.25', '0.50')
    """
    return percent(max(value, 0.0)) if measure == "accuracy" else f"{name}{value:.2f}".replace("-", "−")


def _between(error: Error) -> str:
    return f"{_quality(error.low, error.measure, '')} to {_quality(error.high, error.measure, '')}"


def _pairs(columns: list[CompletedColumn]) -> dict[str, Chart]:
    return {
        one.name: pair_chart(
            one.distribution.edges, one.distribution.real, one.distribution.filled, dates=one.type == "date"
        )
        for one in columns
        if one.distribution and one.distribution.edges
    }


def _apart(column: CompletedColumn) -> str:
    """How far two distributions are apart, in words."""
    assert column.distribution is not None
    apart = column.distribution.apart
    return f"they differ by {percent(apart)}, where 0 % is alike and 100 % nothing in common"


def _compared(result: CompletedResult, evaluation: TableEvaluation) -> list[Compared]:
    found = []
    for column in result.completed:
        if (one := evaluation.columns.get(column.name)) is None:
            continue
        measure = next((name for name in ("r2", "accuracy") if name in one.errors), "")
        expected, off = column.first_error, one.errors.get("mae")
        if expected and expected.measure != measure:
            expected = None
        apart = next((one.distribution[name] for name in ("ks", "total_variation") if name in one.distribution), None)
        found.append(
            Compared(
                name=column.name,
                way=column.way,
                cells=one.cells,
                quality=_quality(one.errors[measure], measure) if measure else "",
                expected=_quality(expected.value, measure) if expected else "",
                between=_between(expected) if expected else "",
                off="" if off is None else f"{figure(off)}{' days' if column.type == 'date' else ''}",
                apart="" if apart is None else percent(apart),
            )
        )
    return found

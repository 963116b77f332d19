"""The experiment `ablations`: what each setting of a search is worth, and what few or biased positives do to it.

Each part changes one thing about VFPU with the job's settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from unpooled.data.datasets import BIAS, BIASED_BY
from unpooled.experiments.experiment import Cell, Tier, Value
from unpooled.experiments.figures import Panel, Picture
from unpooled.experiments.lookalike import tiers
from unpooled.experiments.lookalike.dealing import SETS
from unpooled.experiments.lookalike.searches import BY_PROMOTION, KEYS, search_cell
from unpooled.experiments.lookalike.sharing import experiment_on_searches
from unpooled.experiments.lookalike.showing import at_length, line, sets_in, sizes, text
from unpooled.experiments.tables import Summary, chosen, summarised, table

PARTS: dict[str, tuple[str, str, Sequence[Value]]] = {
    "Iterations (M)": ("iterations", "M = ", (1, 2, 3, 5, 8)),
    "Bags of an iteration (T)": ("bags", "T = ", (3, 5, 10, 20)),
    "Fraction promoted in an iteration (θ)": ("theta", "θ = ", (0.005, 0.01, 0.02, 0.05)),
    "Fraction of the positives that is known": ("known", "", (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)),
    "Where negatives are drawn from": ("negatives", "", ("unlabelled", "reliable")),
    "Bags": ("hide_bags", "", ("yes", "no")),
    "Nodes": ("hide_nodes", "", ("yes", "no")),
    "Bins of columns that are lent": ("lent_bins", "", (5, 9, 32)),
    "Who is known": ("labelling", "", ("random", "biased")),
}
"""By title: the key that changes, how its values are introduced, and the values."""

CALLED = {
    ("hide_bags", "yes"): "hidden",
    ("hide_bags", "no"): "shown",
    ("hide_nodes", "yes"): "hidden",
    ("hide_nodes", "no"): "shown",
    ("negatives", "unlabelled"): "all unlabelled rows",
    ("negatives", "reliable"): "the least likely ones",
    ("labelling", "random"): "random positives",
    ("labelling", "biased"): "mostly positives with a high age or credit limit",
}
AT = (500, 1_000, 2_000)
QUICK_SETS = ("bank",)


def cells(tier: Tier, seed: int) -> list[Cell]:
    """The job's settings, each change of one of them, and bank without the column that gives most away."""
    found: dict[tuple[Value, ...], Cell] = {}
    draws, train = tiers.ABLATIONS[tier]
    for one in range(seed, seed + draws):
        for name in QUICK_SETS if tier is Tier.quick else SETS:
            changes = [{key: value} for key, _, values in PARTS.values() for value in values]
            changes += [{"without": "duration"}] if name == "bank" else []
            for change in changes:
                cell = search_cell(name, one, train, **change)
                found[tuple(cell.values())] = cell
    return list(found.values())


def section(frame: pl.DataFrame) -> str:
    """The section, from all cells."""
    usual = _usual(frame)
    parts = [
        "VFPU with the job's settings (GBDT, M = 5, T = 10, θ = 0.02, a tenth of the positives known), and one thing "
        f"changed at a time: {sizes(usual)}. The tables have the precision of the first rows, and the AUC of all "
        "unlabelled rows.",
        "![Precision by the fraction of positives known](known.svg)",
        *(
            f"### {title}\n\n{_note(key)}{_part(frame, key, lead, values)}"
            for title, (key, lead, values) in PARTS.items()
        ),
        "### The order of the list",
        "The same models and promotions: by score over all iterations, which is the job's order, and by promotion, "
        "which is the VFPU paper's.",
        _orders(usual),
        _without(frame),
    ]
    return "\n\n".join(part for part in parts if part)


def pictures(frame: pl.DataFrame) -> Mapping[str, Picture]:
    """Precision of the first 1,000 by the fraction of positives known, a line for each set."""
    key, _, values = PARTS["Fraction of the positives that is known"]
    fractions = [float(value) for value in values]
    lines = []
    for name in sets_in(frame):
        found = [(x, at_length(_lines(frame, key, x, set=name), 1_000, "precision")) for x in fractions]
        lines.append(line(name, [(x, one) for x, one in found if one]))
    panel = Panel("precision of the first 1,000", lines)
    return {"known": Picture("Known positives", "positives known", "precision", fractions, [panel], percent=True)}


def _usual(frame: pl.DataFrame) -> pl.DataFrame:
    """The lines with the job's settings."""
    return _lines(frame, "seed", None)


def _lines(frame: pl.DataFrame, changed: str, value: object, **where: object) -> pl.DataFrame:
    """The lines where one key has a value and the others are as in the job."""
    usual = search_cell("bank", 0, 0.0)
    free = {"set", "seed", "train", changed}
    same = {key: usual[key] for key in KEYS if key not in free}
    lines = chosen(frame, **same, **where)
    return lines if value is None else chosen(lines, **{changed: value})


def _row(frame: pl.DataFrame, name: str, what: str, method: str = "pooled") -> str:
    lines = chosen(frame, set=name, method=method)
    found: Summary | None = summarised(lines, "auc") if what == "auc" else at_length(lines, int(what), "precision")
    return text(found)


def _columns(frame: pl.DataFrame) -> dict[str, dict[str, object]]:
    shown = {**{str(num): f"first {num:,}" for num in AT}, "auc": "AUC"}
    return {f"{name}: {told}": {"name": name, "what": what} for name in sets_in(frame) for what, told in shown.items()}


def _part(frame: pl.DataFrame, key: str, lead: str, values: Sequence[Value]) -> str:
    usual = search_cell("bank", 0, 0.0)[key]
    rows = {
        f"{lead}{CALLED.get((key, str(value)), value)}{', as in the job' if value == usual else ''}": {"value": value}
        for value in values
    }

    def cell(value: Value, name: str, what: str) -> str:
        return _row(_lines(frame, key, value), name, what)

    return table("", rows, _columns(frame), cell)


def _note(key: str) -> str:
    if key != "labelling":
        return ""
    columns = ", ".join(f"{column} ({name})" for name, column in BIASED_BY.items())
    return (
        f"*Biased*: a positive is e^{BIAS:g} times as likely to be known for each standard deviation of {columns} "
        "that it is higher.\n\n"
    )


def _orders(frame: pl.DataFrame) -> str:
    rows = {"by score": {"method": "pooled"}, "by promotion": {"method": f"pooled, {BY_PROMOTION}"}}
    return table("", rows, _columns(frame), lambda method, name, what: _row(frame, name, what, method))


def _without(frame: pl.DataFrame) -> str:
    if not chosen(frame, without="duration").height:
        return ""
    rows = {"with duration": {"value": ""}, "without": {"value": "duration"}}
    bank = chosen(frame, set="bank")

    def cell(value: str, name: str, what: str) -> str:
        return _row(_lines(bank, "without", value), name, what)

    told = "How long a call took says much about its outcome, and is known only afterwards."
    return f"### Bank without `duration`\n\n{told}\n\n{table('', rows, _columns(bank), cell)}"


ABLATIONS = experiment_on_searches(
    name="ablations",
    about="what M, T, θ, known positives, negatives, hidden bags and nodes, and biased labels do to look-alikes",
    cells=cells,
    section=section,
    pictures=pictures,
)

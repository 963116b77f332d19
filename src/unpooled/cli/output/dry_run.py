"""What `--dry-run` shows: that everything is in place, and what will be disclosed to whom.

It consists of blocks; each is a function that returns one, with its place in the list of `show_dry_run`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import typer

from unpooled.attacks.stage import ATTACKED
from unpooled.cli.output import forecast
from unpooled.cli.output.messages import details, learners, of_outline, wrapped
from unpooled.data.quality import Quality
from unpooled.drawing.words import listed, many
from unpooled.jobs.kinds import kind_named, outline_of, parameters_of
from unpooled.jobs.outline import Exchange
from unpooled.jobs.over_runs import said
from unpooled.jobs.plan import Plan
from unpooled.jobs.preflight import Preflight
from unpooled.jobs.together import Together
from unpooled.jobs.work import CheckedJob
from unpooled.run.forecast import Forecast, beyond_memory

_MOST_WARNINGS = 10  # about a table; --all shows the others


@dataclass(frozen=True)
class Block:
    """A part of a dry run: a key of the JSON object with its content, a few lines, and `more` of them for --all."""

    name: str
    content: Any
    lines: Sequence[str]
    more: Sequence[str] = ()


def show_dry_run(
    plan: Plan,
    preflights: Sequence[Preflight],
    parties: Sequence[CheckedJob[Any]],
    together: Together | None,
    expected: Forecast | str,
    *,
    everything: bool,
    as_json: bool,
) -> None:
    """Show what was found at the parties, the messages of the job, the most that they can tell, and what it takes."""
    exchanges = outline_of(plan)
    blocks = [_parties(plan, preflights), _together(together), _messages(plan, exchanges), _answers(plan, parties)]
    blocks += [_choices(plan), _budgets(preflights)]
    blocks.append(Block("forecast", forecast.as_json(expected), forecast.in_words(expected)))
    beyond = [] if isinstance(expected, str) else beyond_memory(expected, parties)
    blocks.append(Block("beyond_memory", beyond, [f"Refused: {text}." for text in beyond]))
    if as_json:
        typer.echo(json.dumps({block.name: block.content for block in blocks}))
        return
    for block in blocks:
        if block.lines:
            typer.echo(wrapped(block.lines) + "\n")
        if everything and block.more:
            typer.echo(wrapped(block.more) + "\n")
    ending = ["Nothing was started, nothing left this machine."]
    if plan.kind in ATTACKED:
        ending.append("`unpooled audit` tells what the parties could infer from that, by attacks on a simulated run.")
    if not everything:
        ending.append("--all shows every column, all findings about tables, and every message by name.")
    typer.echo(wrapped(ending))


def _parties(plan: Plan, preflights: Sequence[Preflight]) -> Block:
    lines, more = [], []
    for found in preflights:
        said = [f"{found.party} ({plan.parties[found.party].role})", found.origin]
        if found.quality:
            said += [many(found.quality.rows, "row"), many(len(found.columns), "column")]
        said += [f"{use} {name}" for use, name in found.not_features.items()]
        said += [f"works on the Ray cluster at {found.cluster}"] if found.cluster else []
        said += [f"logs its own side of the run to {found.tracking}"] if found.tracking else []
        lines.append(", ".join([*said, f"certificates {found.certificates}"]))
        if found.quality:
            warnings, others = _findings(found.quality)
            lines += [f"  {warning}" for warning in warnings[:_MOST_WARNINGS]]
            if hidden := warnings[_MOST_WARNINGS:]:
                lines.append(f"  {many(len(hidden), 'more warning')}")
            more += [f"{found.party}: {text}" for text in [*hidden, *others]]
        if found.columns:
            columns = [f"{name} ({kind})" for name, kind in found.columns.items()]
            more.append(f"columns of {found.party}: {', '.join(columns)}")
    content = [{key: value for key, value in asdict(found).items() if key != "budget"} for found in preflights]
    return Block("parties", content, lines, more)


def _findings(quality: Quality) -> tuple[list[str], list[str]]:
    """What looks wrong with a table, and what else its owner may want to know."""
    warnings = [f"warning: {note}" for note in quality.notes if note.level == "warning"]
    others = [f"note: {note}" for note in quality.notes if note.level == "note"]
    if quality.rows_read > quality.rows:
        others.insert(0, f"{many(quality.rows_read, 'row')} read, {quality.rows:,} left")
    return warnings, others


def _together(together: Together | None) -> Block:
    """What only shows when the tables of all parties are compared."""
    if together is None:
        return Block("together", None, ())
    known = "" if together.known is None else f", of which the seeker knows {together.known:,}"
    lines = [f"in common: {many(together.common, 'row')}{known}"]
    return Block("together", asdict(together), [*lines, *(f"  warning: {text}" for text in together.warnings)])


def _messages(plan: Plan, exchanges: Sequence[Exchange]) -> Block:
    messages = of_outline(exchanges)
    lines = [
        *_senders(plan, exchanges),
        "",
        *learners(messages, "learn"),
        "Everybody learns whether the plans agree, and when a party fails.",
    ]
    return Block("exchanges", [_plain(e) for e in exchanges], lines, list(details(messages)))


def _senders(plan: Plan, exchanges: Sequence[Exchange]) -> Iterator[str]:
    for sender in plan.parties:
        kinds: dict[str, set[str]] = {}
        for exchange in exchanges:
            if exchange.sender == sender:
                kinds.setdefault(exchange.receiver, set()).add(exchange.kind)
        if kinds:
            every = many(len(set().union(*kinds.values())), "message type")
            yield f"{sender} sends {every}: " + listed([f"{len(of)} to {peer}" for peer, of in kinds.items()])


def _answers(plan: Plan, parties: Sequence[CheckedJob[Any]]) -> Block:
    """The most that each party's answers can tell about its rows."""
    found = {job.party: kind_named(plan.kind).answers(job) for job in parties}
    answers = {party: answered for party, answered in found.items() if answered}
    lines = [f"{party}: {answered}." for party, answered in answers.items()]
    return Block("answers", {party: vars(answered) for party, answered in answers.items()}, lines)


def _choices(plan: Plan) -> Block:
    """What is to be known of the plan's settings: what they cost, or give away."""
    lines = kind_named(plan.kind).said_before(plan, parameters_of(plan))
    return Block("choices", lines, lines)


def _budgets(preflights: Sequence[Preflight]) -> Block:
    """What each table's book says of all runs so far, and what is left."""
    standings = {found.party: found.budget for found in preflights if found.budget}
    lines = [line for party, standing in standings.items() for line in said(party, standing)]
    return Block("budget", {party: asdict(standing) for party, standing in standings.items()}, lines)


def _plain(exchange: Exchange) -> dict[str, object]:
    plain = {name: getattr(exchange, name) for name in ("sender", "receiver", "kind", "frames", "bytes", "only_if")}
    return plain | {"discloses": exchange.disclosure.what, "to": exchange.disclosure.to}

"""What must hold after a cut and after the resumed run, compared with an undisturbed run."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from cuts import BEGUN, Attempt, Cut, Point
from fault_jobs import COLUMNS
from unpooled.budget.accounts import account_of
from unpooled.budget.book import Book
from unpooled.budget.places import name_of
from unpooled.budget.spending import RUN_BUDGET
from unpooled.errors import InputError, LedgerError, UnpooledError, origin_of
from unpooled.jobs.complete.parameters import Parameters as Complete
from unpooled.jobs.complete.parameters import groups_of
from unpooled.jobs.information.job import Parameters as Information
from unpooled.jobs.kinds import outline_of, parameters_of
from unpooled.jobs.lookalike.parameters import Parameters as Search
from unpooled.jobs.plan import Plan
from unpooled.jobs.train.job import Parameters as Train
from unpooled.jobs.work import WORKING
from unpooled.ledger import Entry, Record, read_ledger, reconcile_all
from unpooled.run import audit
from unpooled.run import folder as run_folder
from unpooled.secure.engine import COUNTED
from unpooled.secure.evidence import RECEIVED, SECRETS
from unpooled.secure.query_count import ASKED, Asked
from unpooled.vertical.linear.parameters import LinearParameters
from unpooled.vertical.resume import AGAIN
from unpooled.vertical.trees.parameters import groups_at_once, largest_group, questions_of

_NAME = re.compile(rb'"name":"[0-9a-f]{32}"')
_COUNTS = {
    "train": ("checkpoint",),
    "lookalike": ("checkpoint",),
    "complete": (".", "screening", "checkpoint"),
}
"""The kinds of job that go on from a checkpoint, and the folders where they count; others begin anew."""
_MODELS = ("train", "lookalike")
"""Those that leave a model."""
_WHEN_WRONG = {"Abort", "Waiting", "Working"}
_EACH_TIME_ANOTHER = {
    "result.json": ("digest", "questions", "bits", "splits", "most_bits", "served_megabytes", "links"),
    "status.json": ("started", "ended", "cpu_seconds", "peak_memory_mb"),
}


@dataclass(frozen=True)
class Undisturbed:
    """What a run left that nothing disturbed, and the points that it came by."""

    plan: Plan
    files: dict[str, object]
    records: dict[str, Record]
    points: list[Point]
    questions: dict[str, int]


def undisturbed(attempt: Attempt) -> Undisturbed:
    """What to compare with; the first error of the run, if there is one."""
    for error in attempt.errors.values():
        raise error
    plan, root = attempt.plan, attempt.root
    records = {party: read_ledger(root / party / run_folder.LEDGER) for party in plan.parties}
    questions = {party: result.get("questions", 0) for party, result in attempt.results.items()}
    return Undisturbed(plan, dict(files_of(root, plan)), records, sorted(attempt.points), questions)


def files_of(root: Path, plan: Plan) -> Iterator[tuple[str, object]]:
    """All files of a run with what is to be the same in each of them; ledgers and counts are looked at elsewhere."""
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name.startswith(("books", "anchors")) or path.name == RUN_BUDGET:
            continue
        if path.is_dir() or path.name in (run_folder.LEDGER, ASKED, RECEIVED) or path.parent.name == SECRETS:
            yield name, None
        elif path.suffix == ".npz":
            yield name, _page(path)
        elif path.name in _EACH_TIME_ANOTHER:
            content: dict[str, Any] = json.loads(path.read_bytes())
            yield name, {key: value for key, value in content.items() if key not in _EACH_TIME_ANOTHER[path.name]}
        elif path.name == "aligned.csv" and plan.kind == "align":  # in an order of random tags
            yield name, sorted(path.read_bytes().splitlines())
        else:
            yield name, _NAME.sub(b"", path.read_bytes().replace(str(root).encode(), b""))


def _page(path: Path) -> dict[str, object]:
    with np.load(path) as page:
        content: dict[str, object] = {key: page[key].tolist() for key in page if key not in COUNTED}
        if "model" in page:
            content["model"] = _NAME.sub(b"", page["model"].tobytes())
    return content


def after_a_cut(attempt: Attempt, told: Counter[str]) -> Iterator[str]:
    """The party that was cut off is the only one at fault, and nobody has forgotten what it answered."""
    victim = attempt.cut.party if attempt.cut else ""
    if not isinstance(attempt.errors.get(victim), Cut):
        yield f"{victim} was not cut off: {attempt.errors.get(victim)!r}"
    for party, error in attempt.errors.items():
        if party != victim and not isinstance(error, UnpooledError):
            yield f"{party} ended with {error!r}"
        elif party != victim and origin_of(error, party) != victim:
            yield f"{party} blames {origin_of(error, party)}: {error}"
    yield from counts(attempt, told)
    yield from books(attempt, told)


def books(attempt: Attempt, told: Counter[str]) -> Iterator[str]:
    """The book of each owner's table is in order, and counts no less than was answered, for one run alone."""
    for party in attempt.plan.owners:
        table = attempt.privates[party].table
        book = Book(name_of(table), attempt.books) if table else None
        if book is None:
            continue
        if problem := book.problem():
            yield f"{party}: {problem}"
            continue
        account = account_of(book.read())
        if len(account.runs) > 1:
            yield f"{party} counts {len(account.runs)} runs"
        for name, what in (("answered", "questions"), ("opened", "splits")):
            if account.amount(what) < told[f"{party} {name}"]:
                yield f"{party} has {name} {told[f'{party} {name}']}, and its book counts {account.amount(what)}"


def counts(attempt: Attempt, told: Counter[str]) -> Iterator[str]:
    """What is counted on the disk is no less than what was answered and begun in all attempts so far."""
    for party in attempt.plan.owners:
        counted = Counter[str]()
        try:
            for folder in _COUNTS.get(attempt.plan.kind, (".",)):
                asked = Asked(attempt.root / party / WORKING / folder)
                counted += Counter({name: sum(counts.values()) for name, counts in asked.counts.items()})
                counted[BEGUN] += asked.begun
        except InputError as error:
            yield f"{party}: {error}"
            continue
        for name in (BEGUN, *COUNTED):
            count = counted[name]
            if count < told[f"{party} {name}"]:
                yield f"{party} has {name} {told[f'{party} {name}']}, and counts {count}"


def after_resuming(attempt: Attempt, whole: Undisturbed, told: Counter[str], cuts: int) -> Iterator[str]:
    """Everything is as in the undisturbed run."""
    if attempt.errors:
        yield from (f"{party} could not resume: {error!r}" for party, error in attempt.errors.items())
        return
    found = dict(files_of(attempt.root, attempt.plan))
    for name in sorted({*found, *whole.files}):
        if name not in whole.files or name not in found:
            yield f"{name} is {'not there' if name in whole.files else 'left over'}"
        elif found[name] != whole.files[name]:
            yield f"{name} is different"
    yield from books(attempt, told)
    yield from _belong_together(attempt)
    yield from _ledgers(attempt, whole)
    yield from _audits(attempt)
    yield from counts(attempt, told)
    yield from _allowed(attempt, whole, cuts)


def _belong_together(attempt: Attempt) -> Iterator[str]:
    """Owners have the same rows, in the same order, and parts of the same model."""
    owners = [attempt.root / party for party in attempt.plan.owners]
    if attempt.plan.kind == "check":
        return
    if len({attempt.results[home.name]["digest"] for home in owners}) > 1:
        yield "the digests of rows differ"
    ids = [[line.split(b",")[0] for line in (home / "aligned.csv").read_bytes().splitlines()] for home in owners]
    if any(each != ids[0] for each in ids):
        yield "the rows differ"
    if attempt.plan.kind in _MODELS:
        named = [set(_NAME.findall((home / "model.json").read_bytes())) for home in owners]
        if not named[0] or any(names != named[0] for names in named):
            yield "the parts of the model do not belong together"


def _ledgers(attempt: Attempt, whole: Undisturbed) -> Iterator[str]:
    plan, records = attempt.plan, dict[str, Record]()
    for party in plan.parties:
        try:
            records[party] = read_ledger(attempt.root / party / run_folder.LEDGER)
        except LedgerError as error:
            yield f"{error}"
            return
    yield from (f"the ledger of {party} is not closed" for party, record in records.items() if not record.closed)
    yield from (difference for pair in reconcile_all(records.values()) for difference in pair.differences)
    for one, other in permutations(plan.parties, 2):
        left = Counter((e.kind, e.scope) for e in records[one].entries if (e.way, e.peer) == ("sent", other))
        came = Counter((e.kind, e.scope) for e in records[other].entries if (e.way, e.peer) == ("received", one))
        yield from (f"{one} has no record of {kind} to {other}" for kind, _ in came - left)
    said = {(exchange.sender, exchange.receiver, exchange.kind) for exchange in outline_of(plan)}
    for party, record in records.items():
        if unsaid := _kinds(record.entries) - {(to, kind) for sender, to, kind in said if sender == party}:
            yield f"{party} sent what the outline does not say: {sorted(unsaid)}"
        if missing := _kinds(whole.records[party].entries) ^ _kinds(record.entries):
            yield f"{party} disclosed something else: {sorted(missing)}"
        before, again = _sequences(whole.records[party].entries), _sequences(record.last)
        if plan.kind not in _COUNTS and before != again:
            yield f"{party} said something else than in an undisturbed run"
        for key, kinds in again.items():
            if more := Counter(kind for kind, _ in kinds) - Counter(kind for kind, _ in before[key]):
                yield f"{party} {key}: more than in an undisturbed run: {more}"


def _audits(attempt: Attempt) -> Iterator[str]:
    """Whatever owners sent one another in hiding, before and after the cut, they can open, and it was as prescribed."""
    homes = [attempt.root / party for party in attempt.plan.owners]
    for checker, opener in permutations(homes, 2):
        if audit.has_sent(checker, opener):
            for product, problem in audit.trial(checker, opener, None).wrong.items():
                yield f"{opener.name} cannot show {checker.name} that {product[:12]} is right: {problem}"


def _kinds(entries: tuple[Entry, ...]) -> set[tuple[str, str]]:
    return {(entry.peer, entry.kind) for entry in entries if entry.way == "sent" and entry.kind not in _WHEN_WRONG}


def _sequences(entries: tuple[Entry, ...]) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """What went each way between a party and each peer, in order, but for news that depends on the machine's speed."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for entry in entries:
        if entry.kind in _WHEN_WRONG:
            continue
        found.setdefault((entry.way, entry.peer), []).append((entry.kind, entry.scope))
    return found


def _allowed(attempt: Attempt, whole: Undisturbed, cuts: int) -> Iterator[str]:
    """Nobody counts more than interruptions explain: of trees so much that ten of them fit the allowance."""
    parameters, again = parameters_of(attempt.plan), 0
    if isinstance(parameters, Train | Search | Complete):
        base = parameters.model
        if isinstance(base, LinearParameters):  # all that may be asked about a batch, and for losses, after the rest
            again = 2 * base.epochs * (COLUMNS + 2 + len(attempt.plan.owners)) + max(whole.questions.values())
        else:
            again = AGAIN // 10 * largest_group(base) * groups_at_once(base) * questions_of(base) // base.trees
        if isinstance(parameters, Complete):  # models of all columns grow in step, and associations may be asked again
            again = again * max(groups_of(parameters)) + parameters.most_columns
    if isinstance(parameters, Information):  # everything is asked again
        again = max(whole.questions.values())
    for party, questions in whole.questions.items():
        counted, most = attempt.results[party].get("questions", 0), questions + cuts * again
        if not questions <= counted <= most:
            yield f"{party} counts {counted} columns, where {questions} to {most} explain themselves"


def told_in(attempt: Attempt) -> Counter[str]:
    """What the parties have really answered and begun in an attempt."""
    return Counter({f"{party} {what}": count for party, told in attempt.told.items() for what, count in told.items()})

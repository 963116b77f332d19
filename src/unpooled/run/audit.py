"""An audit after a run: one party asks, another opens what it put in, and the first, or a third party, checks.

1. the checker draws products at random from what it was sent, when the run is over, and asks about these (`ask`)
2. the opener looks at what that would disclose, agrees, and opens them (`answer`)
3. the checker computes what an honest party would have sent, and compares (`check`)

All of it goes by files; nothing runs over a network. Whoever is given the checker's folder (plan, evidence, request)
and the answer can do the third step in its place, and then the checker need not see what was opened.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unpooled.errors import InputError
from unpooled.jobs.kind import Audit as AuditOfKind
from unpooled.jobs.kinds import kind_named, parameters_of
from unpooled.jobs.learning.common import setup_of
from unpooled.jobs.plan import Plan, digest_of, fields_of
from unpooled.jobs.run_files import RESULT
from unpooled.jobs.work import WORKING
from unpooled.run.audit_files import Answer, Opening, Request, Salt, read_answer, read_request
from unpooled.run.folder import STATUS, plan_in, read_json
from unpooled.secure.evidence import (
    RECEIVED,
    SECRETS,
    Arrays,
    Line,
    digest_of_inputs,
    has_page,
    openings_in,
    page_in,
    received_in,
)
from unpooled.secure.reproduction import opening_of
from unpooled.vertical.inputs import TARGETS
from unpooled.vertical.learner import Audit, Audited, Check, LearnerParameters
from unpooled.vertical.learners import learner_of

_CANNOT_BE = (InputError, KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, MemoryError)
"""Errors that invalid contents of an answer may cause; its sender may want to cause them."""


@dataclass(frozen=True)
class Verdict:
    """What came of a check: how many products were opened, of how many, and by product what is wrong with it."""

    checker: str
    opener: str
    opened: int
    of: int
    wrong: dict[str, str]
    notes: tuple[str, ...]


def ask(home: Path, opener: str, sample: int | None) -> Request:
    """At the checker: draw so many of the products that another party put something into, or take all."""
    plan, checker = _plan_of(home)
    sent = list(_products(received_in(home), opener))
    if not sent:
        raise InputError(f"{home}: {checker} received nothing from {opener} that could be audited")
    drawn = sent if sample is None else secrets.SystemRandom().sample(sent, min(sample, len(sent)))
    return Request(plan=_digest(plan), checker=checker, opener=opener, products=tuple(drawn))


def answer(home: Path, request: Request) -> Answer:
    """At the opener: what opens the products that are asked about."""
    plan, opener = _plan_of(home)
    if request.opener != opener or request.plan != _digest(plan):
        raise InputError(f"the request is not for {opener} and the plan of {home}")
    shelf = home / WORKING / SECRETS
    kept = openings_in(shelf)
    sent = {line["product"]: line for line in kept if line.get("to") == request.checker}
    if never := [product for product in request.products if product not in sent]:
        raise InputError(
            f"the request asks about {len(never)} products that {opener} never sent {request.checker}, such as "
            f"{never[0][:16]}: nothing is opened"
        )
    openings = [sent[product] for product in request.products]
    fits = {line["about"]["fit"] for line in openings}
    commitments = [line for line in kept if "commitment" in line and line["fit"] in fits]
    names = [line["page"] for line in commitments]
    names += [name for name in _audit_of(plan).pages(openings) if has_page(shelf, name)]
    pages, told = {name: page_in(shelf, name) for name in dict.fromkeys(names)}, dict[str, Opening]()
    for line in openings:
        seed, page = opening_of(line)
        told[line["product"]] = Opening(about=line["about"], seed=seed)
        pages |= {line["product"]: page} if page else {}
    salts = tuple(Salt(fit=line["fit"], salt=line["salt"], page=line["page"]) for line in commitments)
    return Answer(request, told, salts, pages)


def check(home: Path, request: Request, answered: Answer) -> Verdict:
    """Compare what was opened with what the checker was sent, and with what an honest party would have sent."""
    plan, checker = _plan_of(home)
    if request.checker != checker or request.plan != _digest(plan):
        raise InputError(f"the request is not from {checker} for the plan of {home}")
    if answered.request != request:
        raise InputError(f"the answer is to another request than the one of {checker}")
    lines = received_in(home)
    received = _products(lines, request.opener)
    fits, opened = dict[int, Check | str](), list[Arrays]()
    wrong, notes = dict[str, str](), list[str]()
    for product in request.products:
        if product not in received or product not in answered.openings:
            wrong[product] = "it was not opened, or is not in the checker's evidence"
            continue
        fit = received[product]["about"]["fit"]
        if fit not in fits:
            fits[fit] = found = _check_of(home, plan, lines, fit, answered, opened)
            notes += [] if isinstance(found, str) else [f"fit {fit}, {note}" for note in found.notes]
        found = fits[fit]
        problem = found if isinstance(found, str) else _problem(found, received[product], answered.openings[product])
        if problem:
            wrong[product] = problem
    return Verdict(checker, request.opener, len(request.products), len(received), wrong, tuple(notes))


def trial(checker: Path, opener: Path, sample: int | None) -> Verdict:
    """Ask, answer and check, with the folders of both parties."""
    request = ask(checker, _plan_of(opener)[1], sample)
    return check(checker, request, answer(opener, request))


def has_sent(checker: Path, opener: Path) -> bool:
    """Whether a party received anything from another that could be audited."""
    return (checker / RECEIVED).exists() and bool(_products(received_in(checker), _plan_of(opener)[1]))


def request_path(home: Path, opener: str) -> Path:
    return home / f"audit-request-{_known(home, opener)}.json"


def answer_path(home: Path, request: Request) -> Path:
    return home / f"audit-answer-{_known(home, request.checker)}.npz"


def read_both(home: Path, path: Path) -> tuple[Request, Answer]:
    """An answer, and the request in the checker's folder that it answers."""
    answered = read_answer(path)
    return read_request(request_path(home, answered.request.opener)), answered


def _known(home: Path, party: str) -> str:
    if party not in (parties := _plan_of(home)[0].parties):
        raise InputError(f"{party} is not in the plan of {home}; its parties are {', '.join(parties)}")
    return party


def _problem(found: Check, line: Line, opening: Opening) -> str:
    """What is wrong with an opening; an invalid one is a deviation, and does not end the audit."""
    try:
        return found.problem_of(line, opening.seed, opening.about)
    except _CANNOT_BE as error:
        return f"the opening is invalid: {error}"


def _check_of(
    home: Path, plan: Plan, lines: list[Line], fit: int, answered: Answer, earlier: list[Arrays]
) -> Check | str:
    """How one fit is checked with the inputs that were opened, or what is wrong with these.

    `earlier` are the labels and weights of the fits before it, to which its own are added.
    """
    opener = answered.request.opener
    parameters = _audited_of(plan).model(parameters_of(plan), fit, read_json(home / RESULT))
    committed = {line["commitment"] for line in lines if _is_of(line, "commitment", opener) and line["fit"] == fit}
    opened = {  # those of an interrupted run that never arrived do not count
        digest: told.page
        for told in answered.salts
        if told.fit == fit
        and (page := answered.pages.get(told.page))
        and (digest := digest_of_inputs(bytes.fromhex(told.salt), page).hex()) in committed
    }
    if not committed or set(opened) != committed:
        return "the opened inputs are not those that the party committed to"
    used = set(opened.values())
    inputs = {name.partition("-")[0]: answered.pages[name] for name in used}
    if len(inputs) < len(used):
        return "the party committed to other inputs after an interruption than before"
    received = [line for line in lines if _is_of(line, "about", opener) and line["about"]["fit"] == fit]
    try:
        return _check_by(home, plan, parameters, inputs, answered, fit, received, earlier)
    except _CANNOT_BE as error:
        return f"the opened inputs are invalid: {error}"


def _check_by(
    home: Path,
    plan: Plan,
    parameters: LearnerParameters,
    inputs: Mapping[str, Arrays],
    answered: Answer,
    fit: int,
    received: list[Line],
    earlier: list[Arrays],
) -> Check | str:
    audit, shelf = _audit_of(plan), home / WORKING / SECRETS
    if targets := inputs.get(TARGETS):
        if problem := _audited_of(plan).problem(parameters_of(plan), targets, earlier):
            return problem
        earlier.append(targets)
    own = {name: page_in(shelf, name) for name in audit.pages(received) if has_page(shelf, name)}
    opener = answered.request.opener
    return audit.check(parameters, Audited(setup_of(plan), opener, fit, inputs, answered.pages, received, own))


def _audit_of(plan: Plan) -> Audit:
    """How the products of the plan's learner are checked."""
    audit = learner_of(_audited_of(plan).model(parameters_of(plan), 0, {})).audit
    if audit is None:
        raise _nothing_in(plan)
    return audit


def _audited_of(plan: Plan) -> AuditOfKind[Any]:
    """What a kind of job says of audits."""
    if (audited := kind_named(plan.kind).audit) is None:
        raise _nothing_in(plan)
    return audited


def _nothing_in(plan: Plan) -> InputError:
    return InputError(f"there is nothing to audit in a job of the kind {plan.kind}")


def _products(lines: Iterable[Line], sender: str) -> dict[str, Line]:
    return {line["product"]: line for line in lines if _is_of(line, "product", sender)}


def _is_of(line: Line, what: str, sender: str) -> bool:
    return what in line and line.get("from") == sender


def _plan_of(home: Path) -> tuple[Plan, str]:
    """A run's plan, and whose folder it is."""
    party = read_json(home / STATUS).get("party")
    if not isinstance(party, str):
        raise InputError(f"{home}: is not the folder of a party in a run: it has no {STATUS}")
    return plan_in(home), party


def _digest(plan: Plan) -> str:
    return digest_of(fields_of(plan, parameters_of(plan)))

"""What is refused before a table is completed: files and tables before the start, rows as soon as they are known."""

from __future__ import annotations

from unpooled.arrays import Bools
from unpooled.complete.association import CLASSES, check_rows
from unpooled.complete.completers.completer import CompleterSettings
from unpooled.complete.completers.completers import completer_of
from unpooled.complete.screening import can_be_learned, load
from unpooled.complete.variables import coded, variables_of
from unpooled.complete.vf_gain.protocol import check_common_rows
from unpooled.data.columns import fault
from unpooled.data.restore import check_restorable
from unpooled.data.table import Table
from unpooled.errors import InputError, PlanError
from unpooled.jobs.complete.activating import check_sending, check_width
from unpooled.jobs.complete.choosing import screened_variables
from unpooled.jobs.complete.parameters import Parameters
from unpooled.jobs.complete.table_files import check_names
from unpooled.jobs.learning.common import check_prepared
from unpooled.jobs.work import CheckedJob


def check_files(job: CheckedJob[Parameters]) -> None:
    """Refuse what the private file names and cannot serve."""
    private, parameters, party = job.private, job.parameters, job.party
    if party != job.plan.active:
        check_prepared(job.plan, parameters.model, party, private)
        if party in job.plan.owners:
            check_sending(job)
        return
    if private.prepare.missing == "drop":
        raise PlanError(f"{party}: prepare.missing: 'drop' would drop rows that are to be completed; remove this key")
    for key in ("target", "weight"):
        if getattr(private, key) is not None:
            raise PlanError(f"{party}: {key}: every column of the table is completed; remove this key")
    wants_list = parameters.measure == "list" and parameters.columns is None
    if wants_list != (private.generate.screening is not None):
        needs = (
            "the plan takes a list from an earlier run: name it" if wants_list else "the plan takes no list: remove it"
        )
        raise PlanError(f"{party}: generate.screening: {needs}")
    if private.generate.screening:
        load(private.generate.screening)
    for settings in (private.generate.completer, *(group.completer for group in private.generate.groups)):
        _check_installed(settings, party)


def _check_installed(settings: CompleterSettings, party: str) -> None:
    """Refuse a completer that needs a package which is not there."""
    try:
        completer_of(settings).check(settings)
    except InputError as error:
        raise InputError(f"{party}: generate: {error}") from None


def check_table(job: CheckedJob[Parameters], table: Table) -> None:
    """Refuse a table without columns, or with too few; of the active party, one that the plan or its settings do not go
    with."""
    if not table.kinds:
        raise fault(table.party, table.origin, "it has no column besides the ids")
    if job.party != job.plan.active:
        check_width(job, table)
        return
    parameters, settings = job.parameters, job.private.generate
    named = {"columns in the plan": parameters.columns or ()}
    named |= {f"generate.groups {place + 1}": group.columns for place, group in enumerate(settings.groups)}
    for key, names in named.items():
        if absent := [name for name in names if name not in table.kinds]:
            raise fault(
                table.party, table.origin, f"{key} names it, but it is not among the columns that are read", absent[0]
            )
    if settings.screening:
        listed = {one.column for one in load(settings.screening).columns}
        if absent := [name for name in table.kinds if name not in listed]:
            raise InputError(
                f"{table.party}: {settings.screening}: column '{absent[0]}' of {table.origin} is not on the list"
            )
    if len(table.kinds) > parameters.most_columns:
        reason = f"it has {len(table.kinds)} columns, and most_columns in the plan is {parameters.most_columns}"
        raise fault(table.party, table.origin, f"{reason}: raise it, or name fewer in columns of [table]")
    check_names(table, settings)
    check_restorable(table)
    for variable in variables_of(table, most_classes=parameters.most_classes):
        if variable.constant:
            reason = "it has a single value, so there is nothing to learn; leave it out with columns in [table]"
            raise fault(table.party, table.origin, reason, variable.name)
        if variable.classes > parameters.most_classes:
            reason = f"it has {variable.classes} levels, and most_classes in the plan is {parameters.most_classes}"
            raise fault(table.party, table.origin, reason, variable.name)


def check_common(job: CheckedJob[Parameters], table: Table, _known: Bools | None, others: int) -> None:
    """Refuse common rows of the active party with nothing to complete, or too few for what is to be learned."""
    parameters, passive = job.parameters, job.plan.with_role("passive")
    if not others and not table.frame.select(*table.kinds).null_count().sum_horizontal()[0]:
        reason = f"nothing is missing: it has every row of {', '.join(passive)} and a value in every cell"
        raise fault(table.party, table.origin, reason)
    variables = screened_variables(table, parameters)
    for variable in variables:
        if variable.name in (parameters.columns or ()) and not can_be_learned(variable, parameters.predict):
            least = 2 * parameters.predict.folds
            reason = (
                f"columns in the plan names it, but in the common rows it has one value or fewer than {least} cells"
            )
            raise fault(table.party, table.origin, reason, variable.name)
    if parameters.activations:
        check_common_rows(passive[0], table.frame.height)
    if parameters.association == "cramer":
        check_rows(passive[0], table.frame.height, sum(coded(variables, table.frame.height)[1]), CLASSES)
    elif parameters.association:
        check_rows(passive[0], table.frame.height, len(variables))

"""Look at everything a party needs before anything starts, without a connection and without reading its whole table."""

from __future__ import annotations

from dataclasses import dataclass

from unpooled.data.columns import Kind, kind_name
from unpooled.data.prepare import check_limits
from unpooled.data.sources import schema
from unpooled.errors import PlanError
from unpooled.jobs.kinds import check_policy, parameters_of
from unpooled.jobs.labels import check_columns
from unpooled.jobs.learning import check_prepared
from unpooled.jobs.lookalike import job as lookalike
from unpooled.jobs.model_files import check_saved, reading
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private, check_fits
from unpooled.jobs.train import job as train
from unpooled.transport.trust import Identity, load_identity


@dataclass(frozen=True)
class Rehearsal:
    """What a look at one party found."""

    party: str
    origin: str
    columns: dict[str, str]
    certificates: str


def identity_of(party: str, private: Private) -> Identity:
    """What a party proves its name with; its private file must say where that is."""
    if private.certificates is None:
        raise PlanError(f"{party}: certificates: name the folder with its key and certificate in the private file")
    return load_identity(private.certificates, party)


def rehearse(plan: Plan, party: str, private: Private, *, joins: bool = False) -> Rehearsal:
    """Check a party's settings, model, table, columns, limits, certificates and policy; the first fault is raised.

    A party that `joins` over a network must have certificates; for one that runs here they can be made.
    """
    check_fits(plan, party, private)
    check_policy(plan, party, private.policy)
    parameters = parameters_of(plan)
    if isinstance(parameters, train.Parameters | lookalike.Parameters):
        check_prepared(plan, parameters.model, party, private)
    origin = "none"
    kinds: dict[str, Kind] = {}
    if plan.kind == "predict" and private.model:
        check_saved(plan, party, private)
    if settings := reading(plan, party, private):
        origin, kinds = settings.origin, schema(settings, party)
        check_limits(private.prepare, kinds, party, origin)
        if isinstance(parameters, train.Parameters):
            check_columns(private, kinds, party, origin, parameters.model.classes)
    certificates = "made for the run"
    if joins or private.certificates is not None:
        identity_of(party, private)
        certificates = "valid"
    return Rehearsal(party, origin, {name: kind_name(kind) for name, kind in kinds.items()}, certificates)

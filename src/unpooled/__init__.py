"""unpooled: learning together from data that stays apart.

What is exported here is the public interface; `docs/python.md` explains each name.
"""

from unpooled.data.prepare import PrepareSettings
from unpooled.data.sources import TableSettings
from unpooled.errors import (
    CertificateError,
    Deadlock,
    InputError,
    JobFailed,
    LedgerError,
    PeerError,
    PeerFailed,
    PeerLost,
    PeerSilent,
    PlanError,
    PlanMismatch,
    ProtocolError,
    RefusedError,
    UnpooledError,
    WireError,
)
from unpooled.jobs.files import Job, load_job, load_plan, load_private
from unpooled.jobs.plan import Party, Plan
from unpooled.jobs.private import Policy, Private
from unpooled.ledger import Record, read_ledger, reconcile
from unpooled.run.simulate import Member, Outcome, simulate, simulate_job, simulate_roles
from unpooled.session import Session
from unpooled.version import __version__
from unpooled.wire import message

__all__ = [
    "CertificateError",
    "Deadlock",
    "InputError",
    "Job",
    "JobFailed",
    "LedgerError",
    "Member",
    "Outcome",
    "Party",
    "PeerError",
    "PeerFailed",
    "PeerLost",
    "PeerSilent",
    "Plan",
    "PlanError",
    "PlanMismatch",
    "Policy",
    "PrepareSettings",
    "Private",
    "ProtocolError",
    "Record",
    "RefusedError",
    "Session",
    "TableSettings",
    "UnpooledError",
    "WireError",
    "__version__",
    "load_job",
    "load_plan",
    "load_private",
    "message",
    "read_ledger",
    "reconcile",
    "simulate",
    "simulate_job",
    "simulate_roles",
]

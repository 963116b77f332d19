"""The public interface; `docs/python.md` explains each name."""

from .complete.generators.frames import TableGenerator, generate_table
from .data.prepare import PrepareSettings
from .data.sources import TableSettings
from .errors import (
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
    WorkerLost,
)
from .estimators.apart import Apart
from .estimators.lookalike import LookalikeFinder
from .estimators.vertical import VerticalClassifier, VerticalRegressor
from .jobs.files import Job, load_job, load_plan, load_private
from .jobs.plan import Party, Plan
from .jobs.private import Consent, Policy, Private
from .ledger import Record, read_ledger, reconcile
from .run.simulate import Member, Outcome, simulate, simulate_job, simulate_roles
from .session import Session
from .version import __version__
from .wire import message

__all__ = [
    "Apart",
    "CertificateError",
    "Consent",
    "Deadlock",
    "InputError",
    "Job",
    "JobFailed",
    "LedgerError",
    "LookalikeFinder",
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
    "TableGenerator",
    "TableSettings",
    "UnpooledError",
    "VerticalClassifier",
    "VerticalRegressor",
    "WireError",
    "WorkerLost",
    "__version__",
    "generate_table",
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

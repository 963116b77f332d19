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
    TrackingError,
    UnpooledError,
    WireError,
    WorkerLost,
)
from .estimators.apart import Apart
from .estimators.lookalike import LookalikeFinder
from .estimators.vertical import VerticalClassifier, VerticalRegressor
from .frames.join import join
from .frames.models import ModelPart, load_model
from .frames.outcome import Outcome, PartyOutcome
from .frames.report import Report
from .frames.simulate import Member, simulate, simulate_job
from .jobs.files import Job, load_job, load_plan, load_private
from .jobs.plan import Party, Plan
from .jobs.private import Consent, Policy, Private, Tracking
from .ledger import Record, read_ledger, reconcile
from .run.simulate import simulate_roles
from .session import Session
from .tracking.mlflow_store import log_run
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
    "ModelPart",
    "Outcome",
    "Party",
    "PartyOutcome",
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
    "Report",
    "Session",
    "TableGenerator",
    "TableSettings",
    "Tracking",
    "TrackingError",
    "UnpooledError",
    "VerticalClassifier",
    "VerticalRegressor",
    "WireError",
    "WorkerLost",
    "__version__",
    "generate_table",
    "join",
    "load_job",
    "load_model",
    "load_plan",
    "load_private",
    "log_run",
    "message",
    "read_ledger",
    "reconcile",
    "simulate",
    "simulate_job",
    "simulate_roles",
]

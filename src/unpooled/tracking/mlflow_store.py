"""Logging to MLflow, which is loaded when a run is logged and not before.

MLflow reports its use to its makers unless it is told not to: it is told here, before it is loaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from unpooled.errors import InputError, TrackingError
from unpooled.jobs.private import Tracking
from unpooled.tracking.record import LEDGER_SUMMARY, Tracked, tracked

T = TypeVar("T")

_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ALLOW_FILE_STORE": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}
"""Nothing is reported to MLflow's makers; folders are allowed; a server that does not answer is soon given up."""
_LONGEST_NAME, _LONGEST_VALUE = 250, 6000
_AT_ONCE = 100
"""How many parameters MLflow takes in one request."""
_NOT_IN_NAMES = re.compile(r"[^\w\-. ]")


def log_run(folder: str | Path, tracking: Tracking) -> str:
    """Log one party's side of a run that has ended, from its folder; returns the id of the new MLflow run.

    InputError if the folder is not that of a party whose run has ended, TrackingError if it cannot be logged.
    """
    if tracking.mlflow is None:
        raise InputError("tracking.mlflow: say where to log")
    what = tracked(Path(folder), tracking.artefacts)
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        from mlflow import MlflowClient
    except ImportError:
        raise TrackingError("logging to MLflow needs: pip install 'unpooled[mlflow]'") from None
    try:
        return _logged(MlflowClient(tracking_uri=tracking.mlflow), what, tracking.experiment)
    except Exception as error:  # of many classes: MLflow's own, and those of what it speaks to servers with
        reason = (str(error).splitlines() or [type(error).__name__])[0].replace(tracking.mlflow, tracking.place)
        raise TrackingError(f"the run was not logged to {tracking.place}: {reason}") from None


def _logged(client: Any, what: Tracked, experiment: str) -> str:
    from mlflow.entities import Metric, Param

    found = client.get_experiment_by_name(experiment)
    number = found.experiment_id if found else client.create_experiment(experiment)
    began, ended = _milliseconds(what.started), _milliseconds(what.ended)
    run = client.create_run(number, start_time=began, tags=dict(what.tags), run_name=what.name).info.run_id
    state = "FAILED"
    try:
        for some in _batches(Param(_name(key), value[:_LONGEST_VALUE]) for key, value in what.parameters.items()):
            client.log_batch(run, params=some)
        for measured in _batches(Metric(_name(key), value, ended, 0) for key, value in what.metrics.items()):
            client.log_batch(run, metrics=measured)
        for path in what.files:
            client.log_artifact(run, str(path))
        if what.ledger is not None:
            client.log_text(run, what.ledger, LEDGER_SUMMARY)
        state = "FINISHED" if what.finished else "FAILED"
    finally:
        client.set_terminated(run, state, ended)
    return str(run)


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    iterator = iter(items)
    return iter(lambda: list(islice(iterator, _AT_ONCE)), [])


def _name(key: str) -> str:
    """A name that MLflow accepts."""
    return _NOT_IN_NAMES.sub("_", key)[:_LONGEST_NAME]


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)

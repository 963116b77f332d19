"""A party's own Ray cluster: each item is a task, wherever a core is free.

Tasks carry functions by name, so unpooled must be installed on every node, in the same version. Items and results are
serialised by Ray, within the party's own machines. A task whose worker or node is lost is tried again elsewhere.
A process is connected with one cluster at most, and this machine must be one of its nodes.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import platform
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from unpooled.errors import InputError, UnpooledError, WorkerLost
from unpooled.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    import ray

T = TypeVar("T")
R = TypeVar("R")

TRIES = 4
"""How often a task is begun before its loss is an error."""
_SECONDS_TO_CONNECT = 10.0
_SECONDS_TO_ANSWER = 120.0
_OPEN = (
    "anybody who reaches a Ray cluster without authentication can run programs on it and read what is computed there: "
    "set RAY_AUTH_MODE=token here and on all its nodes, with the same token"
)

log = logging.getLogger("unpooled.workers")


def check_cluster(address: str, party: str) -> None:
    """Refuse a cluster that cannot be used from here: what can be said without joining it."""
    if importlib.util.find_spec("ray") is None:
        raise InputError(f"{party}: workers.engine = 'ray' needs: pip install 'unpooled[ray]'")
    mode = os.environ.get("RAY_AUTH_MODE", "").lower()
    if mode == "disabled":
        log.warning("the Ray cluster at %s is used without authentication (RAY_AUTH_MODE=disabled)", address)
    elif mode != "token":
        raise InputError(f"{party}: workers: {_OPEN}")
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_CONNECT).close()
    except OSError as error:
        raise InputError(f"{party}: workers.address: nothing answers at {address}: {error.strerror or error}") from None


class RayCluster:
    """A connection with a cluster, until the end of the block."""

    def __init__(self, address: str, party: str) -> None:
        self._address, self._party = address, party
        self.cores = 0

    def __enter__(self) -> Self:
        check_cluster(self._address, self._party)
        import ray

        if ray.is_initialized():
            raise self._fault("this process is connected with a Ray cluster already, and can use one only")
        try:
            with _own_handler(signal.SIGTERM):
                ray.init(address=self._address, log_to_driver=False, configure_logging=False)
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            hint = "is this machine one of its nodes, with the same token?"
            raise self._fault(f"{_first_line(error)}; {hint}") from None
        try:
            self._remote = ray.remote(num_cpus=1, max_retries=TRIES - 1)(run)
            self._check_nodes(ray.nodes())
            self.cores = max(1, int(ray.cluster_resources().get("CPU", 0)))
        except BaseException:
            ray.shutdown()
            raise
        log.info("connected with the Ray cluster at %s: %d cores", self._address, self.cores)
        return self

    def __exit__(self, *_: object) -> None:
        import ray

        ray.shutdown()

    def _check_nodes(self, nodes: list[dict[str, Any]]) -> None:
        """Refuse a cluster without cores, or with a node that has another version of unpooled, or none."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        working = [node for node in nodes if node["Alive"] and node["Resources"].get("CPU")]
        if not working:
            raise self._fault("it has no cores")
        asked = {}
        for node in working:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            asked[node["NodeManagerAddress"], node["NodeID"]] = self._remote.options(
                scheduling_strategy=there, num_cpus=0, max_retries=0
            ).remote(__version__, str, "")
        for (host, _), answer in asked.items():
            try:
                ray.get(answer, timeout=_SECONDS_TO_ANSWER)
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, UnpooledError):
                    raise self._fault(str(error.cause)) from None
                raise self._fault(f"node {host} cannot load unpooled {__version__}") from None
            except ray.exceptions.RayError as error:
                raise self._fault(f"node {host} does not answer: {_first_line(error)}") from None

    def _fault(self, reason: str) -> InputError:
        return InputError(f"{self._party}: workers: Ray cluster at {self._address}: {reason}")

    def submit(self, function: Callable[[T], R], item: T) -> _Task[R]:
        return _Task(self._remote.remote(__version__, function, item))


def run(version: str, function: Callable[[T], R], item: T) -> R:
    """In a worker of the cluster, perhaps on a node that has joined meanwhile."""
    if version != __version__:
        raise WorkerLost(f"node {platform.node()} has unpooled {__version__}, not {version} as the party")
    return function(item)


class _Task(Generic[R]):
    def __init__(self, reference: ray.ObjectRef[R]) -> None:
        self._reference = reference

    def result(self) -> R:
        import ray

        try:
            found: R = self._reference.future().result()  # ray.get would make any interruption one by Ctrl-C
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            lost = f"the Ray cluster lost a task, {TRIES} times or for good ({type(error).__name__})"
            raise WorkerLost(f"{lost}; perhaps a node ran out of memory") from None
        return found

    def cancel(self) -> None:
        import ray

        if ray.is_initialized():
            ray.cancel(self._reference)


@contextmanager
def _own_handler(number: signal.Signals) -> Iterator[None]:
    """Keep the handler of a signal, which Ray would replace."""
    handler = signal.getsignal(number)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(number, handler)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]

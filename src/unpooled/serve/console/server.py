"""The process of a service: its state folder locked, its threads, and the console at its address."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvicorn

from unpooled import atomic
from unpooled.errors import InputError
from unpooled.serve import logs
from unpooled.serve.console.app import make_app
from unpooled.serve.console.console import Console
from unpooled.serve.folder import StateFolder
from unpooled.serve.peers import check_address
from unpooled.serve.service import Service
from unpooled.serve.settings import ServiceSettings, load_settings
from unpooled.serve.state.database import open_database

_GRACE_SECONDS = 5


def run_server(root: Path, console_at: str | None, *, attached: bool, say: Callable[[str], None]) -> None:
    """Serve until the process is told to end; runs are then stopped so that they can be resumed.

    `console_at` is where the console of a new service listens.
    """
    folder = StateFolder(root)
    folder.make()
    logs.write_to(sys.stderr)
    with _locked(folder), _state(folder, console_at) as console:
        host, port = console.listens
        address = f"{'https' if console.secure else 'http'}://{host}:{port}"
        welcome = f"{console.party}'s console: {address}"
        if not console.set_up:
            welcome = f"to set up this service, open: {address}/setup?key={console.setup_key}"
        server = _Server(console, _config(console, host, int(port)), lambda: say(welcome))
        if attached:
            threading.Thread(target=_end_with_parent, args=(server,), daemon=True).start()
        server.run()
        if not server.started:
            raise InputError(f"the console cannot listen on {host}:{port}; perhaps the port is in use")


class _Server(uvicorn.Server):
    """A server that says when it can be reached, and ends what streams to pages at once when it is told to end."""

    def __init__(self, console: Console, config: uvicorn.Config, reached: Callable[[], None]) -> None:
        super().__init__(config)
        self._console = console
        self._reached = reached

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._reached()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._console.ending = True
        super().handle_exit(sig, frame)


@contextmanager
def _locked(folder: StateFolder) -> Iterator[None]:
    try:
        with atomic.locked(folder.lock, wait=False):
            yield
    except BlockingIOError:
        raise InputError(f"{folder.root}: a service with this state folder is running already") from None


@contextmanager
def _state(folder: StateFolder, console_at: str | None) -> Iterator[Console]:
    settings = load_settings(folder) if folder.settings.exists() else None
    if settings and console_at not in (None, settings.console):
        raise InputError(f"--console is for a new service; this one has {settings.console} in {folder.settings}")
    database = open_database(folder.database)

    def begin(settings: ServiceSettings) -> Service:
        return Service(folder, settings, database)

    console = Console(settings, folder, database, begin=begin)
    if console_at:
        check_address(console_at)
        console.first_address = console_at
    try:
        if console.set_up:
            console.start()
        yield console
    finally:
        if console.running:
            console.running.close()
        database.close()


def _config(console: Console, host: str, port: int) -> uvicorn.Config:
    settings = console.settings
    return uvicorn.Config(
        make_app(console),
        host.strip("[]"),
        port,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=console.behind_proxy,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_certfile=settings.console_certificate if settings else None,
        ssl_keyfile=settings.console_key if settings else None,
    )


def _end_with_parent(server: uvicorn.Server) -> None:
    while os.read(0, 1024):
        pass
    server.should_exit = True
    os.kill(os.getpid(), signal.SIGTERM)

"""What the pages of a console work with."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

from argon2 import PasswordHasher
from fastapi import Depends, HTTPException, Request
from prometheus_client import CollectorRegistry

from unpooled.serve.accounts import people
from unpooled.serve.console.limits import Streams, Window
from unpooled.serve.context import Context
from unpooled.serve.folder import StateFolder
from unpooled.serve.jobs.records import Job, find_job
from unpooled.serve.running.watching import Watching
from unpooled.serve.service import Service
from unpooled.serve.settings import ServiceSettings, SignIn
from unpooled.serve.state.database import Database

_LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]"})
_QUARTER = 15 * 60.0


@dataclass
class Console:
    """The console of a service; there are no settings until it is set up."""

    settings: ServiceSettings | None
    folder: StateFolder
    database: Database
    hasher: PasswordHasher = field(default_factory=PasswordHasher)
    begin: Callable[[ServiceSettings], Service] | None = None
    """Starts the service, once it is set up."""
    running: Service | None = None
    first_address: str = ServiceSettings.model_fields["console"].default
    """Where the console listens before it is set up."""
    setup_key: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    """Whoever starts the service is shown this, and may set it up."""
    metrics: CollectorRegistry = field(default_factory=CollectorRegistry)
    requests: Window = field(default_factory=lambda: Window(3_000, 60.0))
    """By address."""
    attempts: Window = field(default_factory=lambda: Window(10, _QUARTER))
    """To sign in, by name."""
    attempts_from: Window = field(default_factory=lambda: Window(50, _QUARTER))
    """To sign in, by address."""
    streams: Streams = field(default_factory=lambda: Streams(8))
    """Pages that are kept up to date, by person."""
    ending: bool = False
    """Whether the process has been told to end: nothing may keep it waiting."""

    @property
    def context(self) -> Context:
        """What acts on jobs work with; they are done also while the service itself does not run."""
        if self.running:
            return self.running.context
        if self.settings is None:
            raise HTTPException(503, "The service is not set up yet.")
        return Context(self.settings, self.folder, self.database)

    @cached_property
    def watching(self) -> Watching:
        """What is seen of jobs, by all who look."""
        return Watching(self.context)

    def job(self, job: str) -> Job:
        """A job by its id, or else there is no such page."""
        with self.database.reading() as connection:
            found = find_job(connection, job)
        if found is None:
            raise HTTPException(404)
        return found

    def wake(self) -> None:
        """Something has changed: the service, if it runs, looks at once what comes next."""
        if self.running:
            self.running.wake()

    @property
    def service(self) -> Service:
        """The service at work."""
        if self.running is None:
            raise HTTPException(503, "The service is not set up yet, or it is ending.")
        return self.running

    def start(self) -> None:
        """Start the service, if it is set up and something is there to start it."""
        if self.begin and self.settings and self.running is None:
            self.running = self.begin(self.settings)

    @property
    def party(self) -> str:
        return self.settings.party if self.settings else ""

    @property
    def secure(self) -> bool:
        """Whether browsers reach the console by https."""
        return self.settings is not None and self.settings.secure_console

    @property
    def behind_proxy(self) -> bool:
        return self.settings is not None and self.settings.behind_proxy

    @property
    def sign_in(self) -> SignIn | None:
        """The OpenID Connect provider, if there is one."""
        return self.settings.sign_in if self.settings else None

    @property
    def listens(self) -> tuple[str, str]:
        """Host and port."""
        address: str = self.settings.console if self.settings else self.first_address
        host, _, port = address.rpartition(":")
        return host, port

    @property
    def hosts(self) -> set[str]:
        """The host names under which browsers may ask: a page elsewhere could let its own name point here."""
        names = {self.listens[0], *(self.settings.console_names if self.settings else ())}
        return {name.lower() for name in names} | _LOCAL

    @property
    def set_up(self) -> bool:
        """Whether there are settings, and somebody who can change them."""
        return self.settings is not None and people.has_administrator(self.database)


def _console(request: Request) -> Console:
    found: Console = request.app.state.console
    return found


Here = Annotated[Console, Depends(_console)]
"""The console, as an argument of a route."""

"""A party's service, put together: state, runs, reviews, and the exchange with other parties' services."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Self

from unpooled import atomic
from unpooled.errors import InputError
from unpooled.serve.context import Context
from unpooled.serve.database import open_database
from unpooled.serve.folder import StateFolder
from unpooled.serve.review import Reviewer
from unpooled.serve.running.keeper import Keeper
from unpooled.serve.settings import load_settings


class Service:
    """A running service; `open` starts its threads, `close` ends them and all runs, which can be resumed."""

    def __init__(self, folder: StateFolder) -> None:
        folder.make()
        self._held = ExitStack()
        self._lock(folder)
        self.context = Context(load_settings(folder), folder, open_database(folder.database))
        self.reviewer = Reviewer(self.context)
        self.keeper = Keeper(self.context, changed=self.call_soon)

    def _lock(self, folder: StateFolder) -> None:
        try:
            self._held.enter_context(atomic.locked(folder.lock, wait=False))
        except BlockingIOError:
            raise InputError(f"{folder.root}: a service with this state folder is running") from None

    def __enter__(self) -> Self:
        self.keeper.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call_soon(self) -> None:
        """There may be letters to send."""

    def close(self) -> None:
        self.keeper.close()
        self.reviewer.close()
        self._held.close()

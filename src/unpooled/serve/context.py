"""What everything in a service works with."""

from __future__ import annotations

from dataclasses import dataclass

from unpooled.serve.database import Database
from unpooled.serve.folder import StateFolder
from unpooled.serve.settings import ServiceSettings


@dataclass(frozen=True)
class Context:
    """A party's service: its settings, its state folder and its database."""

    settings: ServiceSettings
    folder: StateFolder
    database: Database

    @property
    def party(self) -> str:
        return self.settings.party

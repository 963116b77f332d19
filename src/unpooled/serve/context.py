"""What everything in a service works with."""

from __future__ import annotations

from dataclasses import dataclass

from unpooled.serve.folder import StateFolder
from unpooled.serve.settings import ServiceSettings
from unpooled.serve.state.database import Database


@dataclass
class Context:
    """A party's service: its settings, of which some change while it runs, its state folder and its database."""

    settings: ServiceSettings
    folder: StateFolder
    database: Database

    @property
    def party(self) -> str:
        return self.settings.party

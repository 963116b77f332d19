"""The paths in a service's state folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from unpooled import atomic
from unpooled.budget.places import Places


@dataclass(frozen=True)
class StateFolder:
    """Everything that a service keeps, for its owner only."""

    root: Path

    @property
    def settings(self) -> Path:
        return self.root / "service.toml"

    @property
    def database(self) -> Path:
        return self.root / "state.sqlite"

    @property
    def certificates(self) -> Path:
        """This party's key and certificate in use: a link, so that they are replaced together."""
        return self.root / "certificates" / "in-use"

    @property
    def next_certificate(self) -> Path:
        """A new key, and the request that waits to be signed."""
        return self.root / "certificates" / "next"

    @property
    def authority(self) -> Path:
        """The key of an authority, at the one party that signs everybody's certificates."""
        return self.root / "authority"

    @property
    def ledger(self) -> Path:
        """The record of every frame between this service and others."""
        return self.root / "ledger.jsonl"

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def reviews(self) -> Path:
        """Dry runs and audits of plans that were offered."""
        return self.root / "reviews"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def books(self) -> Places:
        """The books of the party's tables; whoever administrates the service may keep the anchors elsewhere."""
        return Places(self.root / "books", self.root / "anchors")

    def make(self) -> None:
        """Make the folder, and those in it, for the owner only."""
        for folder in (self.root, self.root / "certificates", self.runs, self.reviews):
            atomic.close_folder(folder)

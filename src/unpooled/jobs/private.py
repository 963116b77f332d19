"""What is private to a party: where its data is, its keys, its seed, what it agrees to. Never sent, never compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from unpooled.align.opening import MOST_PEER_IDS
from unpooled.data.prepare import PrepareSettings
from unpooled.data.sources import TableSettings
from unpooled.errors import PlanError
from unpooled.jobs.plan import Address
from unpooled.secure.service_limits import Serving
from unpooled.settings import Section


class Policy(Section):
    """What a party agrees to; whatever goes beyond it is refused, by this party's own software."""

    never_send: tuple[str, ...] = Field(
        (), description="kinds of message that must not leave, as the ledger names them", strict=False
    )
    minimum_rows: int = Field(
        30, description="the fewest rows to take part with; fewer would say much about each", ge=1
    )
    minimum_peer_rows: int = Field(
        30, description="the fewest ids another party may compare with this one's; fewer would be probing", ge=1
    )
    maximum_peer_rows: int = Field(
        MOST_PEER_IDS, description="the most ids another party may compare with this one's, or bring to its ring", ge=1
    )
    minimum_overlap: int = Field(
        30, description="the fewest ids in common; with fewer the job ends without telling which", ge=1
    )
    maximum_sent_megabytes: float | None = Field(None, description="a limit on everything sent in one run", gt=0)
    maximum_questions: int | None = Field(
        None, description="the most columns of sums that others may ask about the same rows in a job", ge=0
    )
    maximum_bits_per_row: float | None = Field(
        None,
        description="the most bits that others may be answered about the same rows in a job, for each of these rows; "
        "without it as many as the plan's trees need",
        ge=0,
    )
    maximum_splits: int | None = Field(
        None,
        description="the most splits of trees that this party opens in a job; without it as many as the plan's trees "
        "have",
        ge=0,
    )
    maximum_served_megabytes: float = Field(
        Serving().megabytes,
        description="a coordinator's: the most random numbers or results that it makes, and keeps in memory, at once",
        gt=0,
    )
    maximum_thresholds: int | None = Field(
        None,
        description="the most distinct thresholds this party reveals, missing values apart, over all its columns",
        ge=0,
    )


class Consent(Section):
    """What a party agrees that others learn of its people in a search for look-alikes, which needs it."""

    positives: bool = Field(
        False, description="the seeker's: the active party may learn which of its rows are this party's people"
    )
    found: bool = Field(
        False,
        description="an owner's of columns: the seeker may learn the ids of the look-alikes, who are this party's "
        "customers",
    )


class Private(Section):
    """One party's private file."""

    certificates: Path | None = Field(
        None, description="folder with key.pem, certificate.pem and authority.pem", strict=False
    )
    listen: Address | None = Field(
        None, description="HOST:PORT to listen on, where it differs from the plan's address (behind a router, say)"
    )
    seed: int | None = Field(
        None,
        description="for draws that are to come out the same again, a secret as the data are; without it, random",
        ge=0,
    )
    target: str | None = Field(
        None,
        description="the column to learn; for lookalike, in a trial, the truth to judge the list by; only the active "
        "party has one",
    )
    weight: str | None = Field(
        None, description="a column with each row's weight, where rows count differently; only the active party has one"
    )
    model: Path | None = Field(
        None,
        description="for predict: the folder with this party's part of a model, as a train job left it",
        strict=False,
    )
    table: TableSettings | None = Field(None, description="the party's table; a coordinator has none")
    prepare: PrepareSettings = Field(PrepareSettings(), description="how the table is made ready")
    policy: Policy = Field(Policy(), description="what this party agrees to")
    consent: Consent = Field(Consent(), description="what others may learn of this party's people; for lookalike")

    def at(self, folder: Path) -> Private:
        """The same with relative paths taken from a folder."""
        certificates, model = (path and folder / path for path in (self.certificates, self.model))
        table = self.table
        if table and table.path:
            table = table.model_copy(update={"path": folder / table.path})
        return self.model_copy(update={"certificates": certificates, "model": model, "table": table})


def check_certificates(privates: Mapping[str, Private]) -> None:
    """Refuse certificates for some parties only: those made for a run would not be signed by the same authority."""
    without = [name for name, private in privates.items() if private.certificates is None]
    if without and len(without) < len(privates):
        raise PlanError(f"private.{without[0]}: certificates: give them for every party, or for none to have them made")

"""A party's private settings: its data, keys and seed, and what it agrees to. They are never sent or compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from unpooled.align.opening import MOST_PEER_IDS
from unpooled.budget.limits import OverRuns
from unpooled.complete.settings import GenerateSettings
from unpooled.complete.vf_gain.settings import MOST_EPSILON
from unpooled.data.prepare import PrepareSettings
from unpooled.data.sources import TableSettings
from unpooled.errors import PlanError
from unpooled.jobs.plan import Address
from unpooled.secure.engine import Serving
from unpooled.settings import Section


class Policy(OverRuns):
    """Limits that a party's own software enforces, in each run and over all runs."""

    never_send: tuple[str, ...] = Field(
        (), description="messages that this party never sends, by their names in the ledger", strict=False
    )
    minimum_rows: int = Field(
        30,
        description="the fewest rows to take part with; with fewer, results reveal much about each; for a passive "
        "party of complete, also the fewest people whom the active party lacks, if there are any",
        ge=1,
    )
    minimum_peer_rows: int = Field(
        30, description="the fewest ids another party may compare with this one's; with fewer it could probe", ge=1
    )
    maximum_peer_rows: int = Field(
        MOST_PEER_IDS, description="the most ids another party may compare with this one's", ge=1
    )
    minimum_overlap: int = Field(
        30,
        description="the fewest ids that the owners have in common; with fewer the job ends and nobody learns which",
        ge=1,
    )
    minimum_positives: int = Field(
        30,
        description="for the seeker and the active party: the fewest of the common ids that the seeker has; with fewer "
        "the job ends and nobody learns which",
        ge=1,
    )
    maximum_sent_megabytes: float | None = Field(None, description="the most that this party sends in one run", gt=0)
    maximum_questions: int | None = Field(
        None, description="the most columns of sums that others may ask for about the same rows in a job", ge=0
    )
    maximum_bits_per_row: float | None = Field(
        None,
        description="the most bits that others may learn about the same rows in a job, per row; without it as many as "
        "the plan's trees need",
        ge=0,
    )
    maximum_splits: int | None = Field(
        None,
        description="the most splits of trees that this party reveals in a job; without it as many as the plan's trees "
        "have",
        ge=0,
    )
    maximum_served_megabytes: float = Field(
        Serving().megabytes,
        description="for a coordinator: the most random numbers or results that it keeps in memory at once",
        gt=0,
    )
    maximum_thresholds: int | None = Field(
        None,
        description="the most distinct thresholds that this party reveals over all its columns, without missing "
        "values; without it one less than the plan's bins, or lent_bins, for each column",
        ge=0,
    )
    maximum_epsilon: float = Field(
        MOST_EPSILON,
        description="for a passive party of complete: the most epsilon of activations in one run, that is, how much "
        "they may tell about a row",
        ge=0,
    )


class Consent(Section):
    """What a party agrees that others learn about its people; a kind of job may need it."""

    aided: bool = Field(
        False,
        description="for all with ids, where psi = 'aided': a coordinator that colludes with another party whose ids "
        "are compared could test guesses of this party's ids",
    )
    positives: bool = Field(
        False, description="for a seeker: the active party may learn which of its rows are this party's people"
    )
    found: bool = Field(
        False,
        description="for the others: the seeker may learn the ids of look-alikes, who are this party's customers",
    )
    advice: bool = Field(
        False,
        description="for the active party: the seeker may learn how many positives are expected among its look-alikes, "
        "by the length of the list",
    )
    describe: tuple[str, ...] = Field(
        (),
        description="for an owner: columns of its table of which the seeker may learn what look-alikes have in common, "
        "never of fewer people than policy.minimum_rows",
        strict=False,
    )
    values: bool = Field(
        False,
        description="for a passive party: the active party may get values about this party's other people under random "
        "handles, and learns how many there are; other passive parties learn which of its people they have too",
    )
    activations: bool = Field(
        False,
        description="for a passive party: the active party may get a few numbers for each of this party's people, made "
        "of all columns, with noise; what they tell of a person is limited by the plan's epsilon",
    )
    rows: bool = Field(
        False, description="for the active party: passive parties may learn which of their rows it has too"
    )
    weights: bool = Field(
        False,
        description="for a passive party by whose weights rows count: the active party may learn the weight of each "
        "common row",
    )
    woe: bool = Field(
        False,
        description="for the active party of information: passive parties may learn the weight of evidence of each bin "
        "of their columns, and so about how many positives each bin has",
    )
    explain: bool = Field(
        False,
        description="where the plan says explain: for a seeker and the active party: passive parties may learn which "
        "people score highest, and how much their own columns add to that; for a passive party: the active party may "
        "learn how much all of this party's columns together add",
    )


class Workers(Section):
    """Where a party's heavy arithmetic is done; results, messages and what they disclose are the same."""

    engine: Literal["local", "ray"] = Field(
        "local", description="local: on all cores of this machine; ray: on this party's own Ray cluster"
    )
    address: Address | None = Field(
        None,
        description="HOST:PORT of the head of the Ray cluster, of which this machine must be a node",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.engine == "ray" and self.address is None:
            raise ValueError("engine = 'ray' needs the address of the cluster")
        if self.engine == "local" and self.address is not None:
            raise ValueError("only engine = 'ray' has an address")
        return self


Artefact = Literal["result", "ledger", "report", "model"]


class Tracking(Section):
    """Where a party's own side of its finished runs is logged; it goes there outside of the ledger."""

    mlflow: str | None = Field(
        None,
        description="the URI of an MLflow tracking server, such as https://mlflow.example.org, or of a folder, "
        "file:///srv/mlflow; without it, nothing is logged",
    )
    experiment: str = Field("unpooled", description="the MLflow experiment to which runs are added", min_length=1)
    artefacts: tuple[Artefact, ...] = Field(
        ("result", "ledger"),
        description="files that are logged too: result, the party's result.json; ledger, a summary by message type; "
        "report, the party's page, which shows some ids at a seeker; model, the party's part of it",
        strict=False,
    )

    @property
    def place(self) -> str:
        """The URI as it may be shown, without a password; empty if nothing is logged."""
        return re.sub(r"//[^/@]*@", "//", self.mlflow or "")


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
        description="makes random draws repeatable; as secret as the data, so a large random number. Without it, draws "
        "differ each time",
        ge=0,
    )
    memory: float | None = Field(
        None,
        description="the most memory that this party's process may take, in GB: columns and bins stay on disk, and a "
        "job that would take more all the same is refused before it starts; without it, all is in memory",
        gt=0,
    )
    target: str | None = Field(
        None,
        description="the column to learn; or, where a job learns something else, the truth to evaluate results with; "
        "only the active party has one",
    )
    weight: str | None = Field(
        None,
        description="a column with the weight of each row; only the active party has one, or the owner that the plan "
        "names (weights)",
    )
    model: Path | None = Field(
        None,
        description="the folder with this party's part of a model, from the run that trained it",
        strict=False,
    )
    earlier: Path | None = Field(
        None,
        description="the folder of this party's part in an earlier run, whose results a job continues from",
        strict=False,
    )
    exclude: Path | None = Field(
        None,
        description="a file with the ids of people to leave out, in columns called as in the table: an owner's rows "
        "never take part, a seeker's list is without them; never sent",
        strict=False,
    )
    table: TableSettings | None = Field(None, description="the party's table; a coordinator has none")
    prepare: PrepareSettings = Field(PrepareSettings(), description="how the table is prepared")
    generate: GenerateSettings = Field(
        GenerateSettings(), description="how columns of a completed table are filled that are not predicted"
    )
    policy: Policy = Field(Policy(), description="limits that this party's own software enforces")
    consent: Consent = Field(Consent(), description="what others may learn about this party's people")
    workers: Workers = Field(Workers(), description="where heavy arithmetic is done (docs/cluster.md)")
    tracking: Tracking = Field(Tracking(), description="where this party logs its own side of a run (docs/tracking.md)")

    def at(self, folder: Path) -> Private:
        """The same with relative paths taken from a folder."""
        named = {key: getattr(self, key) for key in ("certificates", "model", "earlier", "exclude")}
        paths = {key: path and folder / path for key, path in named.items()}
        table = self.table
        if table:
            files = {key: path and folder / path for key, path in (("path", table.path), ("handles", table.handles))}
            table = table.model_copy(update=files)
        generate = self.generate
        if generate.screening:
            generate = generate.model_copy(update={"screening": folder / generate.screening})
        return self.model_copy(update={**paths, "table": table, "generate": generate})


def check_certificates(privates: Mapping[str, Private]) -> None:
    """Refuse certificates for some parties only: those made for a run would not be signed by the same authority."""
    without = [name for name, private in privates.items() if private.certificates is None]
    if without and len(without) < len(privates):
        raise PlanError(f"private.{without[0]}: certificates: give them for every party, or for none to have them made")

"""Three owners of columns and a coordinator who learn together in this process, and what pooled data would give."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.arrays import Bools, Floats
from unpooled.data.prepare import load_preparation, transform
from unpooled.data.table import Table, table_from_frame
from unpooled.jobs.checks import checked
from unpooled.jobs.kinds import parameters_of
from unpooled.jobs.plan import Plan, fields_of
from unpooled.jobs.private import Private
from unpooled.jobs.train.job import Parameters
from unpooled.run.conversation import role_of
from unpooled.run.simulate import Outcome, simulate_job, simulate_roles
from unpooled.session import Session
from unpooled.vertical.inputs import Columns
from unpooled.vertical.linear.parameters import LinearParameters
from unpooled.vertical.model_file import load
from unpooled.vertical.targets import Target
from unpooled.vertical.team import alone
from unpooled.vertical.trees import ensemble
from unpooled.vertical.trees.model import Model, Part

ROLES = {"telco": "passive", "bank": "active", "railway": "passive", "coordinator": "coordinator"}
OWNERS = ("telco", "bank", "railway")
OTHERS = 30
SEEDS = {"telco": 1, "bank": 2, "railway": 3}
SEARCHING = SEEDS | {"shop": 5, "gym": 6, "coordinator": 4}
PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True}


def people(rows: int = 300, seed: int = 5) -> dict[str, pl.DataFrame]:
    """What each party knows of its customers, who overlap; the bank's columns hold every kind of target."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 6)).round(3)
    score = x[:, 0] + x[:, 2] + x[:, 4] + 0.5 * x[:, 1] * x[:, 3] + 0.3 * rng.normal(size=rows)
    ids = pl.Series("id", [f"person-{number:03}" for number in range(rows)])
    group = np.digitize(score, [-0.7, 0.7])
    bank = pl.DataFrame(
        {
            "id": ids,
            "age": x[:, 0],
            "income": pl.Series(x[:, 1]).set(pl.Series(rng.random(rows) < 0.1), None),
            "buys": pl.Series(np.where(score > 0, "yes", "no")),
            "group": pl.Series(["low", "middle", "high"]).gather(group),
            "amount": score,
            "grade": group * 10.0,
            "counts": rng.integers(1, 5, rows) / 4,
        }
    )
    telco = pl.DataFrame(
        {
            "id": ids,
            "calls": x[:, 2],
            "data": pl.Series(x[:, 3]).set(pl.Series(rng.random(rows) < 0.1), None),
            "tariff": pl.Series(["basic", "plus", "ship"]).gather(np.digitize(x[:, 2] + x[:, 5], [-0.4, 0.6])),
        }
    )
    railway = pl.DataFrame({"id": ids, "trips": x[:, 4], "card": x[:, 5] + x[:, 0] > 0})
    return {
        "bank": bank[rng.permutation(rows - OTHERS)],
        "telco": telco[rng.permutation(np.arange(OTHERS, rows))],
        "railway": railway[rng.permutation(rows)],
    }


TARGETS = ("buys", "group", "amount", "grade", "counts")


@dataclass(frozen=True)
class Learning:
    """Runs a job with the parties' tables, in folders of their own under `root`."""

    root: Path
    frames: Mapping[str, pl.DataFrame] = field(default_factory=people)

    def plan(self, kind: str = "train", parties: tuple[str, ...] = tuple(ROLES), **settings: Any) -> Plan:
        """A plan; what is not the plan's own are parameters of the kind. A model is small unless told."""
        if kind == "train":
            model = settings.get("model", {})
            settings["model"] = (
                {"epochs": 12} if model.get("learner") == "linear" else {"trees": 3, "depth": 3}
            ) | model
        own = {key: settings.pop(key) for key in list(settings) if key in Plan.model_fields}
        roles = {party: {"role": ROLES[party]} for party in parties}
        content = {"kind": kind, "parties": roles, "parameters": settings, "timeout": 600.0}
        return Plan.model_validate(content | own)

    def tables(self, plan: Plan, target: str = "buys", weight: str | None = None) -> dict[str, Table]:
        """The tables of a plan's owners, the bank's with one target only."""
        others = [name for name in TARGETS if name not in (target, weight)]
        frames = {party: self.frames[party] for party in plan.owners}
        frames["bank"] = frames["bank"].drop(others, strict=False)
        return {party: table_from_frame(frame, "id", party) for party, frame in frames.items()}

    def bank(self) -> pl.DataFrame:
        """The bank's table with one target and weights, ordered by id."""
        return self.frames["bank"].select("id", "age", "income", "buys", "counts").sort("id")

    def with_bank(self, plan: Plan, frame: pl.DataFrame, types: Mapping[str, Any] | None = None) -> dict[str, Table]:
        """The tables with another one in place of the bank's."""
        return self.tables(plan) | {"bank": table_from_frame(frame, "id", "bank", types)}

    def run(
        self,
        plan: Plan,
        name: str = "run",
        target: str = "buys",
        weight: str | None = None,
        tables: Mapping[str, Table] | None = None,
        **privates: Mapping[str, Any],
    ) -> Outcome[dict[str, Any]]:
        """Run it; what a party's private settings have besides is given by its name."""
        bank = {"target": target, "weight": weight}
        agreed = {"consent": {"aided": True}}
        settings = {
            party: {"seed": SEEDS.get(party)} | agreed | (bank if party == "bank" else {}) for party in plan.parties
        }
        made = {party: Private.model_validate(own | dict(privates.get(party, {}))) for party, own in settings.items()}
        given = self.tables(plan, target, weight) if tables is None else tables
        return simulate_job(plan, made, given, self.root / name)

    def predictions(self, name: str = "run") -> pl.DataFrame:
        return pl.read_csv(self.root / name / "bank" / "predictions.csv")

    def scores(self, name: str = "run") -> Floats:
        """The scores in the file of predictions, rows × outputs."""
        found = self.predictions(name)
        return found.select(pl.col("^(score|probability_.*)$")).to_numpy()

    def pooled(self, plan: Plan, target: str, weight: str | None = None) -> Floats:
        """The scores of one party that has all prepared columns, in the order in which the federated run has them."""
        columns, learned = self.pooled_rows(plan, target, weight)
        parameters = parameters_of(plan)
        assert isinstance(parameters, Parameters)
        return ensemble.fit(alone(), parameters.model, columns, [learned]).scores[0]  # type: ignore[arg-type]

    def pooled_rows(self, plan: Plan, target: str, weight: str | None = None) -> tuple[Columns, Target]:
        """All prepared columns in that order, and what is to be learned."""
        return _pooled(self, plan, target, weight)

    def models(self, plan: Plan, name: str = "run") -> dict[str, dict[str, Any]]:
        """Private settings that name the parts of a model."""
        return {party: {"model": self.root / name / party} for party in plan.owners}


def _pooled(learning: Learning, plan: Plan, target: str, weight: str | None) -> tuple[Columns, Target]:
    parameters = parameters_of(plan)
    assert isinstance(parameters, Parameters)
    assert not isinstance(parameters.model, LinearParameters)
    tables, predictions = learning.tables(plan, target, weight), learning.predictions()
    columns = prepared_together(learning.root / "run", plan, tables, predictions["id"])
    labels = predictions["label"]
    if parameters.model.classes:
        known = sorted(labels.drop_nulls().unique())
        labels = labels.replace_strict(dict(zip(known, range(len(known)), strict=True)), default=None)
    trained = (predictions["set"] == "train").to_numpy()
    weights = trained * 1.0
    if weight:
        weights = trained * _rows_of(tables["bank"], predictions["id"])[weight].to_numpy()
    values = labels.cast(pl.Float64).fill_null(0.0).to_numpy()
    return columns, Target(values, weights, _seed_of_draws(predictions, parameters))


def prepared_together(run: Path, plan: Plan, tables: Mapping[str, Table], ids: pl.Series) -> Columns:
    """The owners' columns of these people as a run has prepared them, beside each other in the order it had them in."""
    blocks: list[Floats] = []
    names: list[str] = []
    for party in plan.owners:
        home, table = run / party, tables[party]
        rows = _rows_of(replace(table, frame=table.frame.with_row_index("row")), ids)["row"]
        prepared = transform(load_preparation(home / "preparation.json"), table.take(rows.to_numpy()))
        whole = party == plan.active
        part = load(home / "model.json", Model).part if whole else load(home / "model.json", Part)
        order = [feature.column for feature in part.binning.features]
        blocks.append(prepared.matrix[:, order])
        names += [f"{party} {feature.name}" for feature in part.binning.features]
    sizes = tuple(block.shape[1] for block in blocks)
    return Columns(np.hstack(blocks), tuple(names), sizes, plan.owners.index(plan.active))


def _rows_of(table: Table, ids: pl.Series) -> pl.DataFrame:
    return pl.DataFrame({"id": ids}).join(table.frame, on="id", how="left", maintain_order="left")


def _seed_of_draws(predictions: pl.DataFrame, parameters: Parameters) -> int:
    """What the bank draws for its trees after it has drawn its test rows, class by class."""
    rng = np.random.default_rng([SEEDS["bank"], zlib.crc32(b"bank")])
    usable = predictions.filter(pl.col("set").is_in(["train", "test"]))
    by_class = usable["label"].value_counts(sort=False).sort("label")["count"].to_list()
    groups = by_class if parameters.model.classes else [len(usable)]
    for rows in groups:
        rng.choice(np.arange(rows), round(parameters.test_fraction * rows), replace=False)
    return int(rng.integers(2**63))


@pytest.fixture(scope="session")
def learning_in() -> Callable[[Path], Learning]:
    """Makes one with folders of its own."""
    frames = people()
    return lambda root: Learning(root, frames)


@pytest.fixture
def learning(tmp_path: Path, learning_in: Callable[[Path], Learning]) -> Learning:
    return learning_in(tmp_path)


@pytest.fixture
def many(tmp_path: Path) -> Learning:
    """So many rows that a linear model takes them, 1540 of them in common."""
    return Learning(tmp_path, people(1600))


SEEKING = ("shop", "telco", "bank", "coordinator")
DESCRIBED = {"telco": ["calls", "tariff"], "bank": ["income"], "railway": ["trips", "card"]}
AGREED = {"shop": {"consent": {"positives": True, "aided": True}}} | {
    party: {"consent": {"aided": True, "found": True, "advice": True, "describe": DESCRIBED[party]}} for party in OWNERS
}


@dataclass(frozen=True)
class Seeking:
    """A shop that knows some of those who buy looks for others among the owners' customers, 240 of them in common."""

    root: Path
    frames: Mapping[str, pl.DataFrame]

    def plan(self, parties: tuple[str, ...] = SEEKING, **settings: Any) -> Plan:
        """A plan; what is not the plan's own are parameters. Method and model are small unless told."""
        method, model = settings.get("method", {}), settings.get("model", {})
        if method == {} or "iterations" in method:
            settings["method"] = {"iterations": 2, "bags": 2, "fraction": 0.05} | method
        settings["model"] = ({} if model.get("learner") == "linear" else {"trees": 2, "depth": 2}) | model
        own = {key: settings.pop(key) for key in list(settings) if key in Plan.model_fields}
        roles = {party: {"role": (ROLES | {"shop": "seeker"})[party]} for party in parties}
        content = {"kind": "lookalike", "parties": roles, "parameters": settings, "timeout": 600.0}
        return Plan.model_validate(content | own)

    def tables(self, plan: Plan, target: str | None = None) -> dict[str, Table]:
        """The tables, the bank's with one target or none."""
        frames = {party: self.frames[party] for party in plan.parties if party in self.frames}
        frames["bank"] = frames["bank"].drop([name for name in TARGETS if name != target])
        return {party: table_from_frame(frame, "id", party) for party, frame in frames.items()}

    def run(
        self,
        plan: Plan,
        name: str = "run",
        target: str | None = None,
        tables: Mapping[str, Table] | None = None,
        **privates: Mapping[str, Any],
    ) -> Outcome[dict[str, Any]]:
        """Run it; what a party's private settings have besides is given by its name."""
        own: dict[str, dict[str, Any]] = {party: {"seed": SEEDS.get(party)} for party in plan.parties}
        own["bank"]["target"] = target
        made = {
            party: Private.model_validate(settings | AGREED.get(party, {}) | dict(privates.get(party, {})))
            for party, settings in own.items()
        }
        return simulate_job(plan, made, self.tables(plan, target) if tables is None else tables, self.root / name)

    def pooled_rows(self, plan: Plan) -> tuple[Columns, Bools, int]:
        """All prepared columns of the people in common, whom of them the shop knows, and the bank's seed of draws."""
        aligned = pl.read_csv(self.root / "run" / "bank" / "aligned.csv")
        columns = prepared_together(self.root / "run", plan, self.tables(plan), aligned["id"])
        seed = int(np.random.default_rng([SEEDS["bank"], zlib.crc32(b"bank")]).integers(2**63))
        return columns, aligned["id"].is_in(self.frames["shop"]["id"].implode()).to_numpy(), seed

    def reliable(self, name: str = "run") -> pl.DataFrame:
        """The list that the shop got."""
        return pl.read_csv(self.root / name / "shop" / "reliable.csv")

    def ranking(self, name: str = "run") -> pl.DataFrame:
        """The list that the bank keeps."""
        return pl.read_csv(self.root / name / "bank" / "ranking.csv")


def seekers(rows: int = 300) -> dict[str, pl.DataFrame]:
    """The owners' tables, and a shop that knows every third of those who buy."""
    frames = people(rows)
    buyers = frames["bank"].filter(pl.col("buys") == "yes")["id"].sort()
    strangers = pl.Series("id", [f"stranger-{number}" for number in range(10)])
    return frames | {"shop": pl.DataFrame({"id": pl.concat([buyers.gather_every(3), strangers])})}


@pytest.fixture(scope="session")
def seeking_in() -> Iterator[Callable[[Path], Seeking]]:
    """Makes one with folders of its own."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")  # so little is not worth worker processes
        frames = seekers()
        yield lambda root: Seeking(root, frames)


@pytest.fixture
def seeking(tmp_path: Path, seeking_in: Callable[[Path], Seeking]) -> Seeking:
    return seeking_in(tmp_path)


# What parties see while they run


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[str, int, int]]]:
    """What each party's watcher would be told: where it is, what is done, and of how much."""
    told: dict[str, list[tuple[str, int, int]]] = {}
    begin = Session.__init__

    def watched(self: Session, *given: Any, **settings: Any) -> None:
        def watcher(where: str, done: int, total: int) -> None:
            told.setdefault(self.party, []).append((where, done, total))

        begin(self, *given, **settings | {"watcher": watcher})

    monkeypatch.setattr(Session, "__init__", watched)
    return told


# Jobs that are interrupted


class Stopped(BaseException):
    """Stands for the end of a process: no party's software expects it."""


@dataclass(eq=False)
class Search:
    """A job that is begun, stopped and resumed in the same folders, mostly a search for look-alikes.

    `privates` are private settings by party, besides consents; the bank may have a plan of its own.
    """

    plan: Plan
    tables: Mapping[str, Table]
    root: Path
    privates: dict[str, dict[str, Any]] = field(default_factory=dict)
    banks_plan: Plan | None = None
    seeds: Mapping[str, int] = field(default_factory=lambda: SEARCHING)
    begun: int = 0

    def go(
        self, guards: Mapping[str, Callable[[type, int], None]] | None = None, *, resume: bool | None = None
    ) -> Outcome[dict[str, Any]]:
        """Begin, or go on if it has begun, unless told; ledgers have a folder of their own each time."""
        roles = {}
        for party in self.plan.parties:
            home = self.root / party
            home.mkdir(parents=True, exist_ok=True)
            consent = {"consent": dict.fromkeys(("positives", "found", "values", "rows", "activations"), True)}
            private = Private.model_validate(consent | self.privates.get(party, {}))
            plan = self.banks_plan or self.plan if party == "bank" else self.plan
            goes_on = self.begun > 0 if resume is None else resume
            job = checked(plan, party, private, self.tables.get(party))
            roles[party] = role_of(job, home, resume=goes_on)
        self.begun += 1
        fields, ledgers = fields_of(self.plan, parameters_of(self.plan)), self.root / f"ledgers-{self.begun}"
        return simulate_roles(roles, fields=fields, seeds=self.seeds, guards=guards, timeout=600, folder=ledgers)

    def stop(self, party: str, after: int, kind: type = object) -> None:
        """Begin or go on, and stop a party when it has sent so many messages, all or those of a kind."""
        left = iter(range(after))

        def guard(sent: type, _size: int) -> None:
            if issubclass(sent, kind) and next(left, None) is None:
                raise Stopped

        with pytest.raises(Stopped):
            self.go({party: guard})

    @property
    def found(self) -> str:
        return (self.root / "shop" / "reliable.csv").read_text()

    def asked(self, party: str = "telco", where: str = "checkpoint") -> dict[str, Any]:
        """What a party has ever begun and answered, by the count in a folder of its working files."""
        kept: dict[str, Any] = json.loads((self.root / party / ".working" / where / "asked.json").read_text())
        return kept


@pytest.fixture(scope="session")
def search() -> type[Search]:
    return Search

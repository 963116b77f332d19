"""What a tree costs: CPU seconds of all roles together, seconds, messages and bytes between each two parties.

The bank and the telco have 12 columns of random numbers each. All columns affect the bank's two classes, so that trees
are as full as `min_rows` allows. Trees are those of `xgb` with its defaults: depth 6, 32 bins, `min_rows` 10. They grow
one after the other, as in any boosting, with all roles as threads. Every run must give exactly the scores of pooled
columns, otherwise the benchmark stops.

A tree is measured from the moment it begins to grow until the next one does, so that everything between two trees
counts. The first one includes keys, tables, bins and worker processes and is reported separately; the last one is left
out. Figures are medians, and CPU seconds include worker processes. Messages, bytes and rounds are averages per tree; a
round, which is a round trip, is counted each time the bank switches from sending to a peer to receiving from it; those
with the telco and the coordinator run side by side.

If other work shares a core with us, as on a rented machine, everything takes up to twice as long, for milliseconds or
for minutes, and CPU seconds include that. So the same ten small pooled trees grow before and after each run that is
kept on one core; `slowed` is how much longer these took, each compared with the fastest twentieth of its kind in the
whole benchmark. `cpu_seconds`, also of the comparisons, are divided by that, and so are the `bars_undisturbed`;
`measured_cpu_seconds`, and the `bars`, are not. On an idle machine the two are the same.

Threads of one Python process take turns on the interpreter, and being woken on another core costs each of them up to
half as much again. So, where the system can, they are kept on one core, except with `paillier`, whose worker processes
use all; `..._all_cores` are figures without that.

Compared: the same with the engine `plain`; pooled; with `min_rows` 1; with hidden nodes; with all roles as processes
that communicate over TLS, in turns with those as threads (`grpc_vs_memory`, as measured, and with threads on as many
cores as the processes have, `grpc_vs_memory_all_cores`); and a tree of LightGBM of that shape from the pooled columns,
once its bins are made, on one thread.

`pooled_vs_lightgbm` is the median, over turns, of the CPU seconds of a pooled tree over those of LightGBM's with as
many bins; `pooled_vs_lightgbm_255_bins` has LightGBM's own default of 255, which takes it about twice as long.

In lockstep ten models for ten targets grow together and share each round; the cost of a tree is a tenth of it.

Loops are compiled from the start, as they are in all but the first seconds of a job (`unpooled.compiled`).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import lightgbm
import numpy as np
from rich.console import Console

from product import Taken, cpu_seconds
from transport import free_port
from unpooled.arrays import Floats
from unpooled.ledger import Entry, Ledger, Record, read_ledger
from unpooled.run.conversation import converse
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Name, Rules, open_engine
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.transport.certificates import make_trial
from unpooled.transport.mailbox import Mailbox
from unpooled.transport.network import Addresses, NetworkTransport
from unpooled.transport.trust import load_identity
from unpooled.vertical.inputs import Columns
from unpooled.vertical.team import Team, alone
from unpooled.vertical.trees import ensemble as trees
from unpooled.vertical.trees.ensemble import Fitted, Target, fit, help_fit
from unpooled.vertical.trees.grower.active import grow
from unpooled.vertical.trees.grower.context import LEAF, GrowerContext, GrownTree, TreeSpec
from unpooled.vertical.trees.messages import Trees
from unpooled.vertical.trees.model import Part
from unpooled.vertical.trees.parameters import XgbParameters, questions_of
from unpooled.wire import kind_of

COLUMNS = 12  # of each party
SMALL, IN_LOCKSTEP, MIDDLE, LARGE = 1_000, 4_000, 25_000, 200_000
MODELS, TURNS = 10, 7
ALL_CORES, TLS = "_all_cores", "tls_"
TIMEOUT = 1_000
BARS = {
    "shares_1000": 0.02,
    "shares_25000": 0.08,
    "shares_lockstep": 0.03,
    "paillier_1000": 3.0,
    "paillier_25000": 20.0,
    "growth": 1.2,
    "grpc_vs_memory": 1.4,
    "pooled_vs_lightgbm": 2.0,
}


class Work(NamedTuple):
    """Some models to fit; rows and targets follow from their numbers alone."""

    rows: int
    trees: int
    engine: Name = "shares"
    models: int = 1
    min_rows: int = XgbParameters().min_rows
    hide_nodes: bool = False

    @property
    def parameters(self) -> XgbParameters:
        return XgbParameters(trees=self.trees, min_rows=self.min_rows, hide_nodes=self.hide_nodes)


class Run(NamedTuple):
    """What the first tree took, what each other one took; of those the leaves, and what was said for them.

    `beside` are the CPU seconds of the same pooled trees before and after, if it was kept on one core.
    """

    first: Taken
    others: list[Taken]
    leaves: float = 0.0
    messages: Mapping[str, float] = {}
    bytes: Mapping[str, float] = {}
    rounds: Mapping[str, float] = {}
    beside: tuple[tuple[float, ...], ...] = ()


# the rows


@cache
def matrix_of(rows: int) -> Floats:
    return np.random.default_rng(rows).normal(size=(rows, 2 * COLUMNS))


def targets_of(work: Work) -> list[Target]:
    """For each model other columns speak for class 1, and all others against it, equally loud."""
    rng = np.random.default_rng([work.rows, 1])
    side = np.where(matrix_of(work.rows) > 0, 1.0, -1.0)
    scores = [0.3 * side @ rng.choice([-1.0, 1.0], 2 * COLUMNS) for _ in range(work.models)]
    return [Target((rng.random(work.rows) < 1 / (1 + np.exp(-of_rows))).astype(float)) for of_rows in scores]


def columns_of(work: Work, places: Sequence[int]) -> Columns:
    return Columns(matrix_of(work.rows)[:, list(places)], tuple(str(place) for place in places))


# the roles


def team_of(session: Session, work: Work) -> Team:
    return Team("bank", ("telco", "bank"), opened(session, work), "rows")


def opened(session: Session, work: Work) -> Engine:
    rules = Rules(work.engine, questions=questions_of(work.parameters, work.models))
    return open_engine(session, rules, ("telco", "bank"), driver="bank", coordinator="coordinator")


def telco(work: Work, session: Session) -> Part:
    columns = columns_of(work, range(COLUMNS, 2 * COLUMNS))
    return help_fit(team_of(session, work), work.parameters, columns, models=work.models)


def bank(work: Work, session: Session) -> tuple[Fitted, list[Taken]]:
    marks = [now()]
    team = team_of(session, work)
    fitted = marked_fit(team, work, range(COLUMNS), marks)
    finish(team.products)
    return fitted, between(marks, work.models)


def coordinator(work: Work, session: Session) -> None:
    serve(opened(session, work))


def marked_fit(team: Team, work: Work, places: Sequence[int], marks: list[Taken]) -> Fitted:
    """Fit, and leave a mark each time that trees begin to grow."""

    def marked_grow(
        context: GrowerContext, specs: Sequence[TreeSpec], number: int
    ) -> Generator[None, None, list[GrownTree]]:
        marks.append(now())
        return (yield from grow(context, specs, number))

    with mock.patch.object(trees, "grow", marked_grow):
        return fit(team, work.parameters, columns_of(work, places), targets_of(work))


def now() -> Taken:
    return Taken(cpu_seconds(), time.perf_counter())


def between(marks: Sequence[Taken], models: int) -> list[Taken]:
    """What each tree but the last took; the first one from the very beginning."""
    moments = [marks[0], *marks[2:]]
    return [
        Taken((end.cpu - begin.cpu) / models, (end.seconds - begin.seconds) / models)
        for begin, end in pairwise(moments)
    ]


# the runs


@contextmanager
def on_one_core() -> Iterator[None]:
    """Keep this thread, and those that it starts, on one core."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def run(work: Work, *, all_cores: bool = False) -> Run:
    """All roles as threads."""
    roles: dict[str, Callable[[Session], Any]] = {
        "telco": partial(telco, work),
        "bank": partial(bank, work),
        "coordinator": partial(coordinator, work),
    }
    with nullcontext() if all_cores or work.engine == "paillier" else on_one_core():
        outcome = simulate_roles(roles, timeout=TIMEOUT)
    fitted, taken = outcome.results["bank"]
    check(work, fitted, [feature.name for feature in outcome.results["telco"].binning.features])
    return summed_up(work, fitted, taken, outcome.ledgers)


def check(work: Work, fitted: Fitted, telcos_names: Sequence[str]) -> None:
    """The telco's columns come first, in the order of which it alone knows."""
    expected = pooled_scores(work._replace(engine="plain"), (*map(int, telcos_names), *range(COLUMNS)))
    if not all(np.array_equal(ours, theirs) for ours, theirs in zip(fitted.scores, expected, strict=True)):
        raise RuntimeError(f"{work}: other scores than from pooled columns")


@cache
def pooled_scores(work: Work, places: tuple[int, ...]) -> tuple[Floats, ...]:
    return fit_pooled(work, places)[1]


def fit_pooled(work: Work, places: tuple[int, ...]) -> tuple[list[Taken], tuple[Floats, ...]]:
    marks = [now()]
    fitted = marked_fit(alone(), work, places, marks)
    return between(marks, work.models), fitted.scores


def summed_up(work: Work, fitted: Fitted, taken: Sequence[Taken], ledgers: Mapping[str, Record]) -> Run:
    """What was said is told by the ledgers of the bank and the telco, of which one has a part in each message."""
    messages: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    rounds: Counter[str] = Counter()
    for party in ("bank", "telco"):
        last = {"telco": "received", "coordinator": "received"}
        for entry in of_other_trees(ledgers[party].entries):
            if party == "telco" and entry.peer == "bank":
                continue
            pair = f"{party} to {entry.peer}" if entry.way == "sent" else f"{entry.peer} to {party}"
            messages[pair] += 1
            sizes[pair] += entry.bytes
            rounds[entry.peer] += party == "bank" and entry.way == "received" and last[entry.peer] == "sent"
            last[entry.peer] = entry.way
    trees = (work.trees - 2) * work.models

    def each(counter: Counter[str]) -> dict[str, float]:
        return {what: round(total / trees, 1) for what, total in counter.items()}

    grown = [tree.first.count(LEAF) for ensemble in fitted.model.ensembles for tree in ensemble.trees[1:-1]]
    return Run(taken[0], list(taken[1:]), statistics.mean(grown), each(messages), each(sizes), each(rounds))


def of_other_trees(entries: Sequence[Entry]) -> Sequence[Entry]:
    """From where the second tree begins to where the last one does."""
    begins = [place for place, entry in enumerate(entries) if entry.kind == kind_of(Trees)]
    return entries[begins[1] : begins[-1]]


def run_over_tls(work: Work) -> Run:
    """All roles as processes; the bank is this one."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_trial(root / "certs", ["bank", "telco", "coordinator"])
        addresses = {"bank": f"127.0.0.1:{free_port()}", "coordinator": f"127.0.0.1:{free_port()}"}
        names = context.SimpleQueue()
        others = [
            context.Process(target=take_part, args=(party, work, root, addresses, names), daemon=True)
            for party in ("telco", "coordinator")
        ]
        for process in others:
            process.start()
        fitted, taken = conversation("bank", root, addresses, partial(bank, work))
        check(work, fitted, names.get())
        for process in others:
            process.join()
        ledgers = {party: read_ledger(root / f"{party}.jsonl") for party in ("bank", "telco")}
    return summed_up(work, fitted, taken, ledgers)


def take_part(party: str, work: Work, root: Path, addresses: Mapping[str, str], names: Any) -> None:
    """The telco or the coordinator, in a process of its own."""
    if party == "telco":
        part = conversation(party, root, addresses, partial(telco, work))
        names.put([feature.name for feature in part.binning.features])
    else:
        conversation(party, root, addresses, partial(coordinator, work))


def conversation(party: str, root: Path, addresses: Mapping[str, str], role: Callable[[Session], Any]) -> Any:
    """The telco dials both others, the coordinator the bank."""
    peers = tuple(peer for peer in ("bank", "telco", "coordinator") if peer != party)
    dialled = {"bank": (), "coordinator": ("bank",), "telco": ("bank", "coordinator")}[party]
    places = Addresses(addresses.get(party), {peer: addresses[peer] for peer in dialled})
    with closing(Ledger(root / f"{party}.jsonl", party, "benchmark")) as ledger:
        identity = load_identity(root / "certs" / party, party)
        transport = NetworkTransport(identity, Mailbox(party, peers, ledger), places, TIMEOUT)
        return converse(Session(transport, ledger, seed=0, timeout=TIMEOUT), {}, role)


def run_pooled(work: Work) -> Run:
    """All columns in one place."""
    with on_one_core():
        first, *others = fit_pooled(work, tuple(range(2 * COLUMNS)))[0]
    return Run(first, others)


def run_lightgbm(work: Work, bins: int | None = None) -> Run:
    """The same with LightGBM's trees, with as many bins as ours unless told otherwise."""
    settings = {
        "objective": "binary",
        "max_depth": work.parameters.depth,
        "num_leaves": 2**work.parameters.depth,
        "max_bin": bins or work.parameters.bins,
        "min_data_in_leaf": work.min_rows,
        "min_sum_hessian_in_leaf": work.parameters.minimum_child_weight,
        "lambda_l2": work.parameters.l2,
        "num_threads": 1,
        "verbose": -1,
    }
    with on_one_core():
        rows = lightgbm.Dataset(matrix_of(work.rows), targets_of(work)[0].values, params=settings)
        booster = lightgbm.Booster(settings, rows)
        marks = [now()]
        for _ in range(max(work.trees, 3)):
            booster.update()
            marks.append(now())
    first, *others = (Taken(end.cpu - begin.cpu, end.seconds - begin.seconds) for begin, end in pairwise(marks))
    return Run(first, others)


POOLED = {"pooled": run_pooled, "lightgbm": run_lightgbm, "lightgbm_255_bins": partial(run_lightgbm, bins=255)}


# the measurement


def measured(say: Callable[[str], None]) -> dict[str, list[Run]]:
    """Runs that can be compared take turns."""
    runs: dict[str, list[Run]] = {}

    def turns(count: int, works: Mapping[str, Work]) -> None:
        for _ in range(count):
            for name, work in works.items():
                say(name)
                tls = name.startswith(TLS)
                made = partial(run_over_tls, work) if tls else partial(run, work, all_cores=name.endswith(ALL_CORES))
                kept = not (tls or name.endswith(ALL_CORES) or work.engine == "paillier")
                runs.setdefault(name, []).append(with_trees_beside(made) if kept else made())

    small, middle, large = Work(SMALL, 12), Work(MIDDLE, 5), Work(LARGE, 4)
    turns(
        5,
        {
            f"plain_{SMALL}": small._replace(engine="plain"),
            f"shares_{SMALL}": small,
            f"{TLS}{SMALL}": small,
            f"shares_{SMALL}_hidden": small._replace(hide_nodes=True),
            f"{TLS}{SMALL}_hidden": small._replace(hide_nodes=True),
            f"shares_{SMALL}_min_rows_1": small._replace(min_rows=1),
            f"shares_{SMALL}{ALL_CORES}": small,
        },
    )
    lockstep = Work(IN_LOCKSTEP, 6, models=MODELS)
    together = {"shares_lockstep": lockstep, f"shares_lockstep{ALL_CORES}": lockstep}
    turns(3, {"plain_lockstep": lockstep._replace(engine="plain")} | together)
    turns(3, {f"plain_{MIDDLE}": middle._replace(engine="plain"), f"shares_{MIDDLE}": middle})
    turns(1, {f"plain_{LARGE}": large._replace(engine="plain"), f"shares_{LARGE}": large})
    turns(1, {f"paillier_{SMALL}": Work(SMALL, 5, "paillier"), f"paillier_{MIDDLE}": Work(MIDDLE, 3, "paillier")})
    return runs


def with_trees_beside(measure: Callable[[], Run]) -> Run:
    """Measure, with the same pooled trees before and after."""
    before = reference_trees()
    return measure()._replace(beside=(before, reference_trees()))


def reference_trees() -> tuple[float, ...]:
    """The CPU seconds of pooled trees."""
    return tuple(tree.cpu for tree in run_pooled(Work(SMALL, 12)).others)


def slowed(made: Run, undisturbed: Floats) -> float:
    """How much longer pooled trees took before and after a run."""
    return float(np.mean(np.array(made.beside) / undisturbed)) if made.beside else 1.0


def main() -> None:
    if "OMP_NUM_THREADS" not in os.environ:  # LightGBM's other threads would spin, and count as our CPU seconds
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"OMP_NUM_THREADS": "1"})  # noqa: S606
    if sys.platform != "linux":
        os.environ["LOKY_MAX_CPU_COUNT"] = "1"  # no worker processes where their clocks cannot be read
    os.environ.setdefault("UNPOOLED_COMPILED", "1")
    with Console(stderr=True).status("measuring") as status:
        runs = measured(lambda what: status.update(f"measuring {what}"))
        status.update("measuring pooled trees")
        beside: dict[str, list[Run]] = {}
        for work in (Work(SMALL, 12), Work(IN_LOCKSTEP, 6), Work(MIDDLE, 12), Work(LARGE, 4)):
            for _ in range(TURNS if work.rows == MIDDLE else 1):
                for name, made in POOLED.items():
                    beside.setdefault(f"{name}_{work.rows}", []).append(with_trees_beside(partial(made, work)))
    report(runs, beside)


def cpu_of(runs: Sequence[Run], undisturbed: Floats | None = None) -> float:
    """What a tree takes, as measured; or where nobody else slows the core down."""
    factors = [1.0 if undisturbed is None else slowed(made, undisturbed) for made in runs]
    return statistics.median(tree.cpu / by for made, by in zip(runs, factors, strict=True) for tree in made.others)


def cpu_figures(runs: Sequence[Run], undisturbed: Floats) -> dict[str, Any]:
    return {
        "cpu_seconds": round(cpu_of(runs, undisturbed), 4),
        "measured_cpu_seconds": round(cpu_of(runs), 4),
        "slowed": round(statistics.mean(slowed(made, undisturbed) for made in runs), 2),
    }


def figures_of(runs: Sequence[Run], undisturbed: Floats) -> dict[str, Any]:
    return cpu_figures(runs, undisturbed) | {
        "seconds": round(statistics.median(tree.seconds for run in runs for tree in run.others), 4),
        "first_tree_measured_cpu_seconds": round(statistics.median(run.first.cpu for run in runs), 4),
        "leaves": round(runs[0].leaves, 1),
        "rounds": runs[0].rounds,
        "messages": runs[0].messages,
        "bytes": runs[0].bytes,
    }


def bars_of(
    runs: Mapping[str, Sequence[Run]], beside: Mapping[str, Sequence[Run]], undisturbed: Floats | None = None
) -> list[dict[str, Any]]:
    values = {name: cpu_of(runs[name], undisturbed) for name in BARS if name in runs}
    large, small = (cpu_of(runs[f"shares_{rows}"], undisturbed) for rows in (LARGE, SMALL))
    values["growth"] = large / small / (LARGE / SMALL)
    values["grpc_vs_memory"] = cpu_of(runs[f"{TLS}{SMALL}"]) / cpu_of(runs[f"shares_{SMALL}"])
    values["pooled_vs_lightgbm"] = pooled_vs(beside, "lightgbm", undisturbed)
    return [
        {"name": name, "value": round(values[name], 4), "bar": bar, "holds": values[name] <= bar}
        for name, bar in BARS.items()
    ]


def pooled_vs(beside: Mapping[str, Sequence[Run]], other: str, undisturbed: Floats | None = None) -> float:
    """The CPU seconds of a pooled tree over those of another's, the median over turns."""
    turns = zip(beside[f"pooled_{MIDDLE}"], beside[f"{other}_{MIDDLE}"], strict=True)
    return statistics.median(cpu_of([ours], undisturbed) / cpu_of([theirs], undisturbed) for ours, theirs in turns)


def report(runs: Mapping[str, Sequence[Run]], beside: Mapping[str, Sequence[Run]]) -> None:
    grown = [trees for made in (*runs.values(), *beside.values()) for each in made for trees in each.beside]
    undisturbed: Floats = np.quantile(grown, 0.05, axis=0)
    figures = {
        "benchmark": "tree",
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "trees": {name: figures_of(made, undisturbed) for name, made in runs.items()},
        "all_in_one_place": {name: cpu_figures(made, undisturbed) for name, made in beside.items()},
        "pooled_vs_lightgbm_255_bins": round(pooled_vs(beside, "lightgbm_255_bins"), 4),
        "grpc_vs_memory_all_cores": round(
            cpu_of(runs[f"{TLS}{SMALL}"]) / cpu_of(runs[f"shares_{SMALL}{ALL_CORES}"]), 4
        ),
        "bars_undisturbed": bars_of(runs, beside, undisturbed),
        "bars": bars_of(runs, beside),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

"""One party's side of secure products: who takes part, how products are protected, what was prepared and answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, Protocol

from unpooled.arrays import Bytes, Ints
from unpooled.control import spoken
from unpooled.errors import InputError, PlanError, ProtocolError, RefusedError
from unpooled.secure.calls import Call, Dense, Inputs
from unpooled.secure.evidence import Evidence
from unpooled.secure.paillier.keys import check_size
from unpooled.secure.paillier.state import PaillierState
from unpooled.secure.randomness import SEED_BYTES, new_seed
from unpooled.secure.shares.state import SharesState
from unpooled.session import ITEM_BYTES, Session
from unpooled.wire import message

Name = Literal["plain", "shares", "paillier"]

ANSWERED_FRACTION = 0.1
COUNTED = ("answered", "bits", "opened")
"""What is counted by the digest of the rows."""
_MOST_STEPS = 2**31
MEGABYTE = 2**20
MOST_PRODUCTS = 2**16
"""Of one request. Of those that learners make, a descent of many models in shares has most: some thousand."""


@dataclass(frozen=True)
class Rules:
    """How products are protected; the same at all parties.

    `questions` is how many columns may be asked about a set of rows; by default a tenth of the rows. `count_rows`
    allows a method that is faster for many nodes, and shows the holder of Y how many rows each bin of a node has.
    """

    engine: Name
    key_bits: int = 2048
    insecure: bool = False
    count_rows: bool = True
    questions: int | None = None


class Spending(Protocol):
    """What a party lets others learn over all its runs (`budget.spending`); it refuses what is too much."""

    def count(self, what: Literal["questions", "bits_per_row", "splits"], amount: float, most: float | None) -> None:
        """Called before an answer leaves, with the most of this run."""

    def show_gradients(self, peers: Sequence[str], digest: str, cut: str) -> None:
        """Called before others are shown gradients of these rows, with a digest of how they are cut into batches."""

    def show_activations(self, epsilon: float, *, again: bool) -> None:
        """Called before activations of all rows leave; `again` if the same ones were made before an interruption."""


@dataclass
class Engine:
    """One party's side. `parties` hold data; the `driver` is the one that tells the coordinator what is needed.

    `most_answered`, `most_bits_per_row` and `most_splits` are this party's own limits. By digest of the rows,
    `answered` counts the columns asked, `bits` the bits shown and `opened` the splits of trees opened; `most_bits` is
    the most a learner needs, and `revealed` what all that shows of a table in bins (`Learner.revealed`). `count_ahead`
    is called before each answer with what is counted (one of `COUNTED`), the rows, the amount and the limit, so that a
    count on disk is written before the answer leaves. `shares` and `paillier` are the engines' state. `scored` counts
    how often rows were scored by linear models. `widths` is how many columns each party said it has, by party and
    digest of the rows. `spending` counts over all runs, where that is kept.
    """

    session: Session
    rules: Rules
    parties: tuple[str, ...]
    driver: str
    coordinator: str | None
    most_answered: int | None = None
    most_bits_per_row: float | None = None
    most_splits: int | None = None
    batches: int = 0
    scored: int = 0
    calls: Counter[tuple[str, ...]] = field(default_factory=Counter)
    mask_seeds: dict[str, bytes] = field(default_factory=dict, repr=False)
    answered: Counter[str] = field(default_factory=Counter)
    bits: Counter[str] = field(default_factory=Counter)
    opened: Counter[str] = field(default_factory=Counter)
    most_bits: dict[str, int] = field(default_factory=dict)
    revealed: dict[str, Mapping[str, int]] = field(default_factory=dict)
    count_ahead: Callable[[str, str, int, int | None], None] | None = None
    shares: SharesState = field(default_factory=SharesState, repr=False)
    paillier: PaillierState = field(default_factory=PaillierState, repr=False)
    widths: dict[tuple[str, str], int] = field(default_factory=dict)
    evidence: Evidence | None = field(default=None, repr=False)
    spending: Spending | None = field(default=None, repr=False)

    @property
    def party(self) -> str:
        return self.session.party

    @property
    def counted(self) -> dict[str, Counter[str]]:
        """All counts of what this party has answered."""
        return {name: getattr(self, name) for name in COUNTED}

    def comes_before(self, other: str) -> bool:
        """Whether this party comes before another in the common list of parties."""
        return self.parties.index(self.party) < self.parties.index(other)


@dataclass(frozen=True)
class Serving:
    """A coordinator's limits: megabytes per request, and rows of a product if it knows how many there are.

    The default is enough for ten trees at a time on 200,000 rows of 200 columns.
    """

    megabytes: float = 4096
    rows: int | None = None

    def check(self, party: str, driver: str, size: int, products: int, rows: int) -> None:
        """Refuse a request before any of it is computed."""
        if products > MOST_PRODUCTS:
            raise RefusedError(f"{party} serves at most {MOST_PRODUCTS} products at once; {driver} asks for {products}")
        if self.rows is not None and rows > self.rows:
            raise RefusedError(f"{party} serves products of at most {self.rows} rows; {driver} asks for {rows}")
        if size > self.megabytes * MEGABYTE:
            raise RefusedError(
                f"{party} serves at most {self.megabytes:g} MB at once (policy.maximum_served_megabytes); "
                f"{driver} asks for {size // MEGABYTE}"
            )


def next_tags(calls: Counter[tuple[str, ...]], batch: Iterable[Call]) -> list[bytes]:
    """The tags of the next calls; `calls` counts the calls of each set of participants, and is updated.

    A party may never hear of calls that it takes no part in, so calls are numbered by their participants.
    """
    tags = []
    for call in batch:
        calls[call.participants] += 1
        tags.append(call.tag(calls[call.participants]))
    return tags


class Protection(Protocol):
    """What each engine's module provides. Only the engine looks inside its shares."""

    def begin(
        self, engine: Engine, batch: Sequence[tuple[Call, Inputs]], tags: Sequence[bytes]
    ) -> Callable[[], list[Any]]:
        """Send what needs no answer, or do all of it; the function that is returned does the rest.

        It has this party's additive share of every call's sum; zero where it takes no part.
        """

    def from_values(self, engine: Engine, call: Call, values: Ints) -> Any:
        """A share made of this party's own matrix."""

    def add(self, engine: Engine, call: Call, parts: Sequence[Any]) -> Any:
        """The sum of shares."""

    def masked(self, engine: Engine, call: Call, tag: bytes, held: Any, others: Sequence[str]) -> Any:
        """The share with random numbers added that cancel out among this party and the others."""

    def to_bytes(self, engine: Engine, call: Call, held: Any) -> Bytes:
        """A share as bytes, to be sent."""

    def from_bytes(self, engine: Engine, call: Call, values: Bytes, sender: str) -> Any:
        """A share that was received."""

    def read(self, engine: Engine, call: Call, total: Any) -> Ints:
        """The result that the sum of all shares stands for."""

    def answer_bits(self, rules: Rules, call: Call) -> int:
        """The most bits that the receiver can learn from the shares that are sent."""

    def announce(self, engine: Engine, batches: Sequence[Sequence[Call]]) -> None:
        """Prepare what the next batches need."""

    def serve(self, engine: Engine, serving: Serving) -> int:
        """The coordinator's part; the number of bytes that it sent on request."""


@message(discloses="nothing: no more products come")
class Stop:
    pass


@message(
    discloses="how many groups of models and of trees, or epochs, are done, and of how many",
    to="those who wait for the end",
)
class HowFar:
    where: str
    done: int
    total: int


@message(discloses="nothing: a seed for random numbers that two parties add and take off again")
class MaskSeed:
    seed: bytes


def recv_tagged(session: Session, peer: str, kind: type[Any], tags: Sequence[bytes], most: int) -> Any:
    """The next message of this type, which must have exactly these tags, and a value for each.

    `most` limits the bytes of all values together.
    """
    parts = [part.name for part in fields(kind)]
    arrived = session.recv(peer, kind, at_most=most + len(parts) * ITEM_BYTES * len(tags))
    if arrived.tags != tuple(tags) or any(len(getattr(arrived, part)) != len(tags) for part in parts):
        wrong = f"invalid {kind.__name__} from {peer}"
        raise ProtocolError(f"{wrong}: it is not for the products that {session.party} works on")
    return arrived


def follow(session: Session, driver: str, news: HowFar) -> None:
    """Show the driver's progress at a party that waits for it."""
    if not 0 <= news.done <= news.total < _MOST_STEPS:
        raise ProtocolError(f"invalid HowFar from {driver}: numbers out of range")
    session.follow(spoken(news.where), news.done, news.total)


def check_engine(rules: Rules, *, coordinator: bool, networked: bool = False) -> None:
    """Refuse products that cannot be protected as the rules say, given who takes part and what they talk over."""
    if rules.engine == "plain":
        if networked:
            raise PlanError("engine: plain protects nothing and is refused over a network; choose shares or paillier")
        return
    if not coordinator:
        raise PlanError(f"engine: {rules.engine} needs a coordinator; it sees no data")
    if rules.engine == "paillier":
        try:
            check_size(rules.key_bits, insecure=rules.insecure)
        except (InputError, RefusedError) as error:
            raise PlanError(f"key_bits: {error}") from None


def open_engine(
    session: Session,
    rules: Rules,
    parties: Sequence[str],
    driver: str,
    coordinator: str | None,
    most_answered: int | None = None,
    most_bits_per_row: float | None = None,
    most_splits: int | None = None,
    evidence: Evidence | None = None,
    folder: Path | None = None,
    spending: Spending | None = None,
) -> Engine:
    """Begin, at every party that holds data and at the coordinator.

    Where the plan has a limit too, the lower one holds. Either all parties keep `evidence` for an audit, or none. What
    is too large for memory is kept in a `folder`, while the job runs.
    """
    check_engine(rules, coordinator=coordinator is not None, networked=session.networked)
    if driver not in parties or coordinator in parties:
        raise PlanError("parties: the driver must hold data, and the coordinator must not")
    limits = most_answered, most_bits_per_row, most_splits
    engine = Engine(session, rules, tuple(parties), driver, coordinator, *limits, evidence=evidence, spending=spending)
    engine.shares.folder = folder
    with session.scope("seeds"):
        engine.mask_seeds = agreed_seeds(session, engine.parties)
    return engine


def agreed_seeds(session: Session, parties: Sequence[str]) -> dict[str, bytes]:
    """A random seed shared with each other party; of two, the first in the list makes it."""
    seeds: dict[str, bytes] = {}
    for first, second in combinations(parties, 2):
        if session.party == first:
            seeds[second] = new_seed()
            session.send(second, MaskSeed(seeds[second]))
        elif session.party == second:
            seeds[first] = session.recv(first, MaskSeed).seed
            if len(seeds[first]) != SEED_BYTES:
                raise ProtocolError(f"invalid MaskSeed from {first}: wrong length")
    return seeds


def count_questions(engine: Engine, call: Call, bits: int) -> None:
    """Refuse a call that asks more about this party's hidden matrix than its limits allow, in columns or in bits.

    A party that is shown XᵀY and holds Y asks as many questions about X as Y has columns, and vice versa: as many
    independent questions as there are rows would reveal the hidden matrix. A specially made Y, of powers of two for
    example, needs far fewer, since every bit of a result can be about another row.
    """
    me = engine.party
    asked = 0
    for left, right in call.terms:
        if left == me and call.receiver != me:
            asked += call.columns * (1 if isinstance(call.left, Dense) else call.left.nodes)
        if right == me and call.receiver != me:
            asked += call.left.width if isinstance(call.left, Dense) else call.left.bins * call.left.nodes
    if not asked:
        return
    limit, rows = engine.rules.questions, call.among or call.rows
    most = int(ANSWERED_FRACTION * rows) if limit is None else limit
    most = most if engine.most_answered is None else min(most, engine.most_answered)
    if engine.answered[call.digest] + asked > most:
        raise RefusedError(
            f"{me} answers at most {most} columns about the same {rows} rows, and would have been asked "
            f"{engine.answered[call.digest] + asked}"
        )
    count_bits(engine, call.digest, rows, bits)
    if engine.spending:
        engine.spending.count("questions", asked, None)
    _count(engine, "answered", call.digest, asked, most)


def limit_bits(engine: Engine, digest: str, rows: int, needed: int) -> None:
    """Let a party answer as many bits about a set of rows as a learner needs, or fewer if its own limit says so."""
    own = engine.most_bits_per_row
    engine.most_bits[digest] = needed if own is None else min(needed, int(own * rows))


def count_bits(engine: Engine, digest: str, rows: int, bits: int) -> None:
    """Refuse to show more bits about a set of rows than are allowed."""
    count_all_bits(engine, digest, [(rows, bits)])


def count_all_bits(engine: Engine, digest: str, shown: Sequence[tuple[int, int]]) -> None:
    """The same of several parts of these rows, such as those of trees: the rows of each, and the bits."""
    rows, bits = max(count for count, _ in shown), sum(bits for _, bits in shown)
    own, total = engine.most_bits_per_row, engine.bits[digest] + bits
    most = engine.most_bits.get(digest, None if own is None else int(own * rows))
    if most is not None and total > most:
        raise RefusedError(
            f"{engine.party} answers at most {most} bits about the same {rows} rows, and would have answered {total}"
        )
    if engine.spending and rows:
        per_row = sum(of_part / count for count, of_part in shown if count)
        engine.spending.count("bits_per_row", per_row, None if most is None else most / rows)
    _count(engine, "bits", digest, bits, most)


def count_splits(engine: Engine, digest: str, splits: int) -> None:
    """Refuse to open more splits than this party's own limit allows."""
    total = engine.opened[digest] + splits
    if engine.most_splits is not None and total > engine.most_splits:
        raise RefusedError(f"{engine.party} opens at most {engine.most_splits} splits, and was asked for {total}")
    if engine.spending:
        engine.spending.count("splits", splits, None)
    _count(engine, "opened", digest, splits, engine.most_splits)


def _count(engine: Engine, name: str, digest: str, amount: int, most: int | None) -> None:
    if engine.count_ahead:
        engine.count_ahead(name, digest, amount, most)
    engine.counted[name][digest] += amount

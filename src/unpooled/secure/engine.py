"""What a party has in hand for products: who takes part, how they are protected, what is prepared and answered."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal, Protocol

from unpooled.arrays import Bytes, Ints
from unpooled.control import spoken
from unpooled.errors import InputError, PlanError, ProtocolError, RefusedError
from unpooled.secure.calls import Call, Dense, Inputs
from unpooled.secure.evidence import Evidence
from unpooled.secure.paillier.keys import check_size
from unpooled.secure.randomness import SEED_BYTES, new_seed
from unpooled.secure.service_limits import Serving
from unpooled.secure.shares.stock import Stock
from unpooled.session import Session
from unpooled.wire import message

Name = Literal["plain", "shares", "paillier"]

ANSWERED_SHARE = 0.1
COUNTED = ("answered", "bits", "opened")
"""What is counted by the digest of the rows."""
_MOST_STEPS = 2**31


@dataclass(frozen=True)
class Rules:
    """How products are protected, the same at all parties.

    `questions` is how many columns may be asked about a set of rows; without it a tenth of them. `count_rows`
    allows the method that is faster for many nodes and shows the holder of Y how many rows each bin of a node has.
    """

    engine: Name
    key_bits: int = 2048
    insecure: bool = False
    count_rows: bool = True
    questions: int | None = None


@dataclass
class Engine:
    """One party's side; `parties` hold data, the `driver` is the one of them who tells the coordinator what comes.

    `most_answered`, `most_bits_per_row` and `most_splits` are this party's own limits. By the digest of the rows
    `answered` counts the columns that it was asked, `bits` what it has shown and `opened` the splits of trees that it
    has opened; `most_bits` is what a learner needs at the most. `count_ahead` is told before each answer what is
    counted (one of `COUNTED`), of which rows, how much, and how much may be in all: whoever keeps count on its disk has
    it there before the answer leaves. `scored` counts the times that rows were scored by linear models, and `widths`
    has, by owner and digest of the rows, how many columns the others said that they have.
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
    widths: dict[tuple[str, str], int] = field(default_factory=dict)
    calls: Counter[tuple[str, ...]] = field(default_factory=Counter)
    mask_seeds: dict[str, bytes] = field(default_factory=dict, repr=False)
    prepared: dict[Any, Any] = field(default_factory=dict, repr=False)
    answered: Counter[str] = field(default_factory=Counter)
    bits: Counter[str] = field(default_factory=Counter)
    opened: Counter[str] = field(default_factory=Counter)
    most_bits: dict[str, int] = field(default_factory=dict)
    count_ahead: Callable[[str, str, int, int | None], None] | None = None
    announced: deque[Sequence[Call]] = field(default_factory=deque)
    chosen: deque[bytes] = field(default_factory=deque, repr=False)
    stock: Stock = field(default_factory=Stock, repr=False)
    masked: set[str] = field(default_factory=set, repr=False)
    seeds: set[bytes] = field(default_factory=set, repr=False)
    evidence: Evidence | None = field(default=None, repr=False)

    @property
    def party(self) -> str:
        return self.session.party

    @property
    def counted(self) -> dict[str, Counter[str]]:
        """All that is counted of what this party has answered."""
        return {name: getattr(self, name) for name in COUNTED}

    def comes_before(self, other: str) -> bool:
        """Whether this party stands before another in the list that all share."""
        return self.parties.index(self.party) < self.parties.index(other)


def next_tags(calls: Counter[tuple[str, ...]], batch: Iterable[Call]) -> list[bytes]:
    """The tags of the calls that come next, given how many there were of each set of participants, which counts on.

    All who take part in a call know its number: whoever takes no part in it may never hear of it.
    """
    tags = []
    for call in batch:
        calls[call.participants] += 1
        tags.append(call.tag(calls[call.participants]))
    return tags


class Protection(Protocol):
    """What each engine's module has. A share is whatever the engine makes it; only the engine looks inside."""

    def share(self, engine: Engine, batch: Sequence[tuple[Call, Inputs]], tags: Sequence[bytes]) -> list[Any]:
        """This party's additive share of every call's sum; zero where it takes no part."""

    def from_values(self, engine: Engine, call: Call, values: Ints) -> Any:
        """A matrix of this party's own as a share."""

    def add(self, engine: Engine, call: Call, parts: Sequence[Any]) -> Any:
        """The sum of shares."""

    def masked(self, engine: Engine, call: Call, tag: bytes, held: Any, others: Sequence[str]) -> Any:
        """The share with random numbers added that cancel out among this party and the others."""

    def to_bytes(self, engine: Engine, held: Any) -> Bytes:
        """A share as it travels."""

    def from_bytes(self, engine: Engine, call: Call, values: Bytes, sender: str) -> Any:
        """A share that arrived."""

    def read(self, engine: Engine, call: Call, total: Any) -> Ints:
        """What the sum of all shares means."""

    def answer_bits(self, rules: Rules, call: Call) -> int:
        """How many bits the receiver is shown, if all bits of the shares that travel are made use of."""

    def announce(self, engine: Engine, batches: Sequence[Sequence[Call]]) -> None:
        """Have made ahead what batches to come need."""

    def forget(self, engine: Engine, names: Iterable[str]) -> None:
        """Drop what is kept of matrices with these names."""

    def serve(self, engine: Engine, serving: Serving) -> int:
        """The coordinator's part; how many bytes it has sent of what it was asked for."""

    def finish(self, engine: Engine) -> None:
        """The driver's word to the coordinator that no more products come."""


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


def follow(session: Session, driver: str, news: HowFar) -> None:
    """Whoever waits for the driver shows how far that one is."""
    if not 0 <= news.done <= news.total < _MOST_STEPS:
        raise ProtocolError(f"{driver} sent HowFar with numbers that cannot be")
    session.follow(spoken(news.where), news.done, news.total)


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
) -> Engine:
    """Begin: at every party that holds data, and at the coordinator.

    `most_answered` is this party's own limit to the columns that it is asked about a set of rows, `most_bits_per_row`
    and `most_splits` to what it shows of them; where the plan has a limit too, the lower one counts. With `evidence` it
    keeps what can be checked later; either all parties do, or none.
    """
    if rules.engine == "plain" and session.networked:
        raise PlanError("engine: plain protects nothing, so it does not run over a network")
    if rules.engine != "plain" and coordinator is None:
        raise PlanError(f"engine: {rules.engine} needs a coordinator, which sees no data")
    if driver not in parties or coordinator in parties:
        raise PlanError("parties: the one who drives holds data, and the coordinator must not")
    if rules.engine == "paillier":
        try:
            check_size(rules.key_bits, insecure=rules.insecure)
        except (InputError, RefusedError) as error:
            raise PlanError(f"key_bits: {error}") from None
    limits = most_answered, most_bits_per_row, most_splits
    engine = Engine(session, rules, tuple(parties), driver, coordinator, *limits, evidence=evidence)
    with session.scope("seeds"):
        engine.mask_seeds = agreed_seeds(session, engine.parties)
    return engine


def agreed_seeds(session: Session, parties: Sequence[str]) -> dict[str, bytes]:
    """A seed with each of the other parties; of two the first one in the list makes it."""
    seeds: dict[str, bytes] = {}
    for first, second in combinations(parties, 2):
        if session.party == first:
            seeds[second] = new_seed()
            session.send(second, MaskSeed(seeds[second]))
        elif session.party == second:
            seeds[first] = session.recv(first, MaskSeed).seed
            if len(seeds[first]) != SEED_BYTES:
                raise ProtocolError(f"{first} sent a MaskSeed of the wrong length")
    return seeds


def count_questions(engine: Engine, call: Call, bits: int) -> None:
    """Refuse a call that asks more about this party's hidden matrix than it answers, in columns or in bits.

    Whoever is shown XᵀY and holds Y asks as many questions about X as Y has columns, and the other way round: as many
    independent ones as there are rows would give the hidden matrix away. A Y that was made up for it, of powers of two
    say, needs far fewer: every bit of a result can be about another row.
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
    limit, rows = engine.rules.questions, max(call.rows, call.among)
    most = int(ANSWERED_SHARE * rows) if limit is None else limit
    most = most if engine.most_answered is None else min(most, engine.most_answered)
    if engine.answered[call.digest] + asked > most:
        raise RefusedError(
            f"{me} answers at most {most} columns about the same {rows} rows, and would have been asked "
            f"{engine.answered[call.digest] + asked}"
        )
    count_bits(engine, call.digest, rows, bits)
    _count(engine, "answered", call.digest, asked, most)


def limit_bits(engine: Engine, digest: str, rows: int, needed: int) -> None:
    """Let a party answer so many bits about a set of rows as a learner needs, or fewer if its own limit says so."""
    own = engine.most_bits_per_row
    engine.most_bits[digest] = needed if own is None else min(needed, int(own * rows))


def count_bits(engine: Engine, digest: str, rows: int, bits: int) -> None:
    """Refuse to show more bits about a set of rows than are allowed."""
    own, total = engine.most_bits_per_row, engine.bits[digest] + bits
    most = engine.most_bits.get(digest, None if own is None else int(own * rows))
    if most is not None and total > most:
        raise RefusedError(
            f"{engine.party} answers at most {most} bits about the same {rows} rows, and would have answered {total}"
        )
    _count(engine, "bits", digest, bits, most)


def count_splits(engine: Engine, digest: str, splits: int) -> None:
    """Refuse to open more splits than this party's own limit allows."""
    total = engine.opened[digest] + splits
    if engine.most_splits is not None and total > engine.most_splits:
        raise RefusedError(f"{engine.party} opens at most {engine.most_splits} splits, and was asked for {total}")
    _count(engine, "opened", digest, splits, engine.most_splits)


def _count(engine: Engine, name: str, digest: str, amount: int, most: int | None) -> None:
    if engine.count_ahead:
        engine.count_ahead(name, digest, amount, most)
    engine.counted[name][digest] += amount

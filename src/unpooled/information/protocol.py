"""Information values of a passive party's columns against the active party's labels, shown without any count.

Only the owner of a column knows which row is in which bin, and how many rows a bin has; only the active party knows the
labels. Every column counts as equally many bins, so that nobody sees how many it has; further ones are empty, and add
nothing. Steps have the same numbers in both roles:

1. each passive party says how many columns it has
2. the coordinator deals random numbers for what follows (`serve_lookups`), and serves products afterwards; with the
   engine `plain` the active party deals
3. how many positives each bin has becomes a secret share at either party: a product of bins and labels
4. both look up, at positions that are such shares, the logarithm of each count, and the count times its logarithm
5. the sum that is a column's information value, again in shares: what is looked up, times what one party knows, the
   sizes of bins or the weights of the classes
6. its last bits are cut off, and it is shown to the active party, who tells the owner
7. if the plan says so, the owner is shown the weight of evidence of each of its bins

With L the logarithms (`values`), n the size of a bin, w and v the weights of a positive and a negative:

    Σ (w·pos - v·neg)·(L(pos) - L(neg))  =  Σ (w + v)·(pos·L(pos) + neg·L(neg))  -  Σ n·(w·L(neg) + v·L(pos))

All of it is in whole numbers mod 2^64, so the result is the one that `values.information_value` has from counts. Each
count is a position: it is looked up where the two shares add up to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from unpooled.arrays import Bytes, Ints, Ints32, Ring
from unpooled.errors import ProtocolError, RefusedError
from unpooled.information.bins import ColumnBins, slots_for
from unpooled.information.messages import ColumnCount, EvidenceShares, InformationShares, InformationValues
from unpooled.information.values import (
    CUT_BITS,
    MOST_ROWS,
    SHOWN_BITS,
    class_logs,
    class_weights,
    coarse_table,
    counted_logs,
    log_table,
    rounding_of,
)
from unpooled.secure.calls import Call, Dense, Inputs, OneHot
from unpooled.secure.engine import ANSWERED_FRACTION, count_questions
from unpooled.secure.lookup import Masked, Pair, dot_products, look_up, shorter, steps_to_shorten
from unpooled.secure.lookup_dealer import (
    DealtAhead,
    DotProducts,
    Lookups,
    Wanted,
    deal,
    take_dealt,
)
from unpooled.secure.outline import Exchange, Setup, products_outline
from unpooled.secure.product import Contribution, bounded_shares
from unpooled.session import ITEM_BYTES
from unpooled.vertical.team import Team

MOST_COLUMNS = 4096
_LARGEST = 35 << SHOWN_BITS
"""No information value is larger: logarithms of counts are below 17.4, and fractions differ by 2 in all."""
_LARGEST_WOE = 35
"""Two logarithms."""
_LIFT = np.uint64(2**63 + 2 ** (CUT_BITS - 1))
"""Makes sums positive, and what is cut off rounds to the nearest."""
_ATTEMPTS = 4
"""How many times the same is answered in a run that is resumed."""
_WORDS_AT_ONCE = 2**26
_SIGNS = np.array([1, -1, -1]).astype(np.uint64)
_SHOWN_RANGE = 2 ** (64 - CUT_BITS)


@dataclass(frozen=True)
class InformationSettings:
    """What the plan says: at most so many bins of a column; what is shown; decimals of a weight of evidence."""

    bins: int
    show: Literal["iv", "woe"]
    woe_decimals: int

    @property
    def slots(self) -> int:
        return slots_for(self.bins)

    @property
    def tables(self) -> int:
        """How many tables each count is looked up in."""
        return 3 if self.show == "woe" else 2


def find_information(team: Team, dealer: str, labels: Ints, settings: InformationSettings) -> dict[str, Ints32]:
    """At the active party: the information values of all passive parties' columns, in steps of 2^-14.

    `labels` are 1 for positives and 0 for others.
    """
    session, rows = team.session, _checked_rows(team, len(labels))
    columns = {owner: _checked_columns(owner, session.recv(owner, ColumnCount)) for owner in team.passive}  # 1
    for owner, count in columns.items():
        _count_answers(team, owner, count, rows, settings)
    pairs = _dealt_pairs(team, dealer, columns, rows, settings)  # 2
    inputs = Inputs(y=labels[:, np.newaxis], nodes=np.zeros(rows, np.int32))
    shares = _count_positives(team, {owner: (count, inputs) for owner, count in columns.items()}, rows, settings)  # 3
    positives = int(labels.sum())
    classes, found = (positives, rows - positives), dict[str, Ints32]()
    for number, owner in enumerate(columns):
        team.progress(number, len(columns))
        with session.scope(owner):
            found[owner] = _found(pairs[owner], shares[owner], classes, settings)
    return found


def lend_information(
    team: Team, dealer: str, columns: Sequence[ColumnBins], settings: InformationSettings
) -> tuple[Ints32, Ints | None]:
    """At a passive party: the information values of its columns, in steps of 2^-14; the weights of evidence of their
    bins, in units of the last decimal, as columns × bins, if they are shown.
    """
    session, me = team.session, team.session.party
    rows = _checked_rows(team, len(columns[0].bins) if columns else 0)
    session.send(team.active, ColumnCount(len(columns)))  # 1
    _count_answers(team, me, len(columns), rows, settings)
    lookups, products = _needs(len(columns), rows, settings)
    dealt = take_dealt(session, dealer, lookups, products, first=True)  # 2
    pair = Pair(session, team.active, first=True, dealt=dealt, lookups=lookups, products=products)
    bins = np.stack([column.bins for column in columns], axis=1)
    shares = _count_positives(team, {me: (len(columns), Inputs(x=bins))}, rows, settings)[me]  # 3
    with session.scope(me):
        return _lent(pair, shares, _sizes(bins, settings), settings)


def most_answer_bits(columns: int) -> int:
    """How many bits a passive party shows of so many columns."""
    return columns * (64 - CUT_BITS)


def information_outline(setup: Setup, settings: InformationSettings) -> list[Exchange]:
    """What is sent, besides what every job with products sends."""
    active, passive = setup.active, setup.passive
    products = products_outline(setup, hidden_nodes=True)
    if setup.rules.engine == "plain":
        dealt = [Exchange(active, party, DealtAhead, 1) for party in passive]
    else:
        coordinator = setup.coordinator or ""
        dealt = [
            Exchange(active, coordinator, Wanted, 1),
            *(Exchange(coordinator, party, DealtAhead, 1) for party in passive),
            Exchange(coordinator, active, DealtAhead, len(passive)),
        ]
    if setup.rules.engine != "paillier":
        products = [exchange for exchange in products if exchange.message is not Contribution]
    return [
        *(Exchange(party, active, ColumnCount, 1, 50) for party in passive),
        *dealt,
        *products,
        *(Exchange(one, other, Masked) for party in passive for one, other in ((active, party), (party, active))),
        *(Exchange(party, active, InformationShares, 1) for party in passive),
        *(Exchange(active, party, InformationValues, 1) for party in passive),
        *(Exchange(active, party, EvidenceShares, 1) for party in passive if settings.show == "woe"),
    ]


def _found(pair: Pair, positive: Ring, classes: tuple[int, int], settings: InformationSettings) -> Ints32:
    """At the active party, with one passive party: steps 4 to 7; `positive` are shares, columns × bins."""
    of_positive, of_negative = _looked_up(pair, positive, -positive, settings)  # 4
    weight, other = (np.uint64(each) for each in class_weights(*classes))
    length = settings.slots + 3
    own = np.empty((len(positive), length), np.uint64)  # 5
    own[:, :-3] = -(weight * of_negative[..., 0] + other * of_positive[..., 0])
    own[:, -3:] = np.array([weight + other, weight, other]) * _SIGNS
    mixed = (weight + other) * (of_positive[..., 1] + of_negative[..., 1]).sum(axis=1)
    rounding = np.array(rounding_of(*classes)).astype(np.uint64)
    total = dot_products(pair, own) + mixed + rounding + _LIFT
    short = shorter(pair, total, CUT_BITS)  # 6
    session, owner = pair.session, pair.peer
    theirs = session.recv(owner, InformationShares, at_most=short.nbytes + ITEM_BYTES).values
    if theirs.shape != short.shape:
        raise ProtocolError(f"invalid InformationShares from {owner}: not one for each of {len(short)} columns")
    sums = ((short + theirs) & np.uint64(_SHOWN_RANGE - 1)).astype(np.int64) - _SHOWN_RANGE // 2
    if (np.abs(sums) > _LARGEST).any():
        raise ProtocolError(f"invalid InformationShares from {owner}: an information value cannot be so large")
    values: Ints32 = sums.astype(np.int32)
    session.send(owner, InformationValues(values))
    if settings.show == "woe":  # 7
        same = np.array(class_logs(*classes, settings.woe_decimals)).astype(np.uint64)
        session.send(owner, EvidenceShares(of_positive[..., 2] - of_negative[..., 2] + same))
    return values


def _lent(pair: Pair, positive: Ring, sizes: Ring, settings: InformationSettings) -> tuple[Ints32, Ints | None]:
    """At a passive party: steps 4 to 7; `sizes` of bins are columns × bins."""
    of_positive, of_negative = _looked_up(pair, positive, sizes - positive, settings)  # 4
    own = np.concatenate(  # 5
        [
            sizes,
            (of_positive[..., 1] + of_negative[..., 1]).sum(axis=1, keepdims=True),
            (sizes * of_negative[..., 0]).sum(axis=1, keepdims=True),
            (sizes * of_positive[..., 0]).sum(axis=1, keepdims=True),
        ],
        axis=1,
    )
    short = shorter(pair, dot_products(pair, own), CUT_BITS)  # 6
    session, active = pair.session, pair.peer
    session.send(active, InformationShares(short))
    values = session.recv(active, InformationValues).values
    if values.shape != short.shape or (np.abs(values) > _LARGEST).any():
        raise ProtocolError(f"invalid InformationValues from {active}: not one for each of {len(short)} columns")
    if settings.show != "woe":
        return values, None
    theirs = session.recv(active, EvidenceShares, at_most=positive.nbytes + ITEM_BYTES).values  # 7
    if theirs.shape != positive.shape:
        raise ProtocolError(f"invalid EvidenceShares from {active}: shape {theirs.shape}, expected {positive.shape}")
    evidence = of_positive[..., 2] - of_negative[..., 2] + theirs
    return values, evidence.view(np.int64)


def _looked_up(pair: Pair, positive: Ring, negative: Ring, settings: InformationSettings) -> tuple[Ring, Ring]:
    """Shares of what stands in the tables at both counts of each bin: columns × bins × tables each."""
    bits = pair.lookups[0].bits
    logs = log_table(bits)
    tables = [logs, counted_logs(logs)]
    if settings.show == "woe":
        tables.append(coarse_table(bits, settings.woe_decimals))
    with pair.session.scope("look up"):
        found = look_up(pair, np.concatenate([positive.reshape(-1), negative.reshape(-1)]), tables)
    both = found.reshape(2, *positive.shape, len(tables))
    return both[0], both[1]


def _needs(columns: int, rows: int, settings: InformationSettings) -> tuple[list[Lookups], list[DotProducts]]:
    """What two parties are dealt for so many columns of one of them."""
    counts = Lookups(2 * columns * settings.slots, rows.bit_length(), settings.tables)
    return [counts, *steps_to_shorten(columns, CUT_BITS)], [DotProducts(columns, settings.slots + 3)]


def _dealt_pairs(
    team: Team, dealer: str, columns: dict[str, int], rows: int, settings: InformationSettings
) -> dict[str, Pair]:
    """At the active party: ask for random numbers, or make them; its side of lookups with each passive party."""
    session, needs = team.session, {owner: _needs(count, rows, settings) for owner, count in columns.items()}
    if dealer != session.party:
        both = tuple(tuple(each) for each, _ in needs.values()), tuple(tuple(each) for _, each in needs.values())
        session.send(dealer, Wanted(tuple(needs), *both))
    pairs = {}
    for owner, (lookups, products) in needs.items():
        if dealer == session.party:
            theirs, own = deal(lookups, products)
            session.send(owner, theirs)
        else:
            own = take_dealt(session, dealer, lookups, products, first=False)
        pairs[owner] = Pair(session, owner, first=False, dealt=own, lookups=lookups, products=products)
    return pairs


def _count_positives(
    team: Team, held: dict[str, tuple[int, Inputs]], rows: int, settings: InformationSettings
) -> dict[str, Ring]:
    """This party's shares of how many positives are in each bin, as columns × bins, by their owner.

    So many columns are counted at a time that their bins, as the numbers that hide them, do not fill the memory.
    """
    engine = team.products
    at_once = MOST_COLUMNS if engine.rules.engine == "paillier" else max(1, _WORDS_AT_ONCE // (rows * settings.slots))
    found: dict[str, list[Ring]] = {owner: [] for owner in held}
    for start in range(0, max(count for count, _ in held.values()), at_once):
        batch = {}
        for owner, (count, inputs) in held.items():
            if start < count:
                columns = slice(start, min(start + at_once, count))
                call = _counts_call(team, owner, columns.stop - start, rows, settings)
                batch[owner] = call, inputs if inputs.x is None else Inputs(x=inputs.x[:, columns])
        for owner, shares in zip(batch, bounded_shares(engine, list(batch.values())), strict=True):
            found[owner].append(shares.reshape(-1, settings.slots))
    return {owner: np.concatenate(parts) for owner, parts in found.items()}


def _counts_call(team: Team, owner: str, columns: int, rows: int, settings: InformationSettings) -> Call:
    """The nodes, though there is but one, are hidden, so that the active party is not shown how many rows a bin has."""
    left = OneHot((settings.slots,) * columns, nodes=1, hidden=True)
    return Call(((owner, team.active),), team.active, rows, left, 1, 1, digest=_name_of(team, owner))


def _count_answers(team: Team, owner: str, columns: int, rows: int, settings: InformationSettings) -> None:
    """Count what will be shown, at the party whose numbers it is about, and refuse more than its limits allow."""
    pair, digest = ((owner, team.active),), _name_of(team, owner)
    shown = Call(pair, team.active, rows, Dense(1, 1), columns, 1, digest=digest)
    _count_answer(team, shown, owner, columns, most_answer_bits(columns))
    if settings.show == "woe":
        bins = columns * settings.slots
        told = Call(pair, owner, rows, Dense(bins, 1), 1, 1, digest=digest)
        bits = bins * (2 * _LARGEST_WOE * 10**settings.woe_decimals).bit_length()
        _count_answer(team, told, team.active, bins, bits)


def _count_answer(team: Team, call: Call, party: str, asked: int, bits: int) -> None:
    """Count one answer of a party, if this is it: at most a tenth of the rows, and that a few times in a run."""
    engine, most = team.products, int(ANSWERED_FRACTION * call.rows)
    if engine.party != party:
        return
    if asked > most:
        raise RefusedError(
            f"{party} answers at most {most} values about {call.rows} rows, and would have been asked {asked}: take "
            "fewer bins or columns"
        )
    rules = engine.rules
    engine.rules = replace(rules, questions=_ATTEMPTS * asked)
    try:
        count_questions(engine, call, bits)
    finally:
        engine.rules = rules


def _name_of(team: Team, owner: str) -> str:
    """Under what answers are counted: apart from those to learners about the same rows."""
    return f"{team.digest} information of {owner}"


def _sizes(bins: Bytes, settings: InformationSettings) -> Ring:
    return np.stack([np.bincount(column, minlength=settings.slots) for column in bins.T]).astype(np.uint64)


def _checked_rows(team: Team, rows: int) -> int:
    if rows > MOST_ROWS:
        raise RefusedError(
            f"{team.session.party} computes information values of at most {MOST_ROWS:,} rows; there are {rows:,}"
        )
    return rows


def _checked_columns(owner: str, said: ColumnCount) -> int:
    if not 1 <= said.columns <= MOST_COLUMNS:
        raise ProtocolError(f"invalid ColumnCount from {owner}: there are 1 to {MOST_COLUMNS} columns")
    return said.columns

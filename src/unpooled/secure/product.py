"""The one secure operation: sums of products XᵀY of matrices that different parties hold, shown to one party.

1. every party checks its inputs, and that it does not answer more than its limits allow
2. the engine leaves every participant an additive share of the sum: random numbers, which mean nothing until added up
3. a party that adds a matrix of its own adds it to its share
4. all but the receiver send their shares to it; where several send, they first add numbers that cancel out, so that the
   receiver sees the sum and no share by itself
5. the receiver adds up, and refuses what lies beyond the bound, or sums over bins that do not add up to its own Y
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unpooled.arrays import Bytes, Ints, Ring
from unpooled.errors import InputError, PlanError, ProtocolError
from unpooled.secure import mod64, plain
from unpooled.secure.calls import Call, Inputs, OneHot, check_call, check_inputs
from unpooled.secure.engine import Engine, Protection, Rules, Serving, Stop, count_questions, next_tags, recv_tagged
from unpooled.secure.paillier import engine as paillier
from unpooled.secure.randomness import expand, new_seed
from unpooled.secure.shares import engine as shares
from unpooled.wire import message

_HIDING_BITS = 62
_ENGINES: dict[str, Protection] = {"plain": plain, "shares": shares, "paillier": paillier}


@message(discloses="a sum of products, together with what the others send", to="the party that the product is shown to")
class Contribution:
    tags: tuple[bytes, ...]
    values: tuple[Bytes, ...]


def product(
    engine: Engine, batch: Sequence[tuple[Call, Inputs]], *, asks: bool = True, more: bool = False
) -> list[Ints | None]:
    """Several independent products at once; None for those that this party is not shown.

    The driver hands in all calls, also those between others, since it asks the coordinator for what they need. Every
    other party hands in those of them in which it takes part, in the same order, and none where there are none. Nothing
    is asked if all results are hidden by what parties add. With `more` another message to who is shown follows at once.
    """
    return begin(engine, batch, asks=asks, more=more)()


def begin(
    engine: Engine, batch: Sequence[tuple[Call, Inputs]], *, asks: bool = True, more: bool = False
) -> Callable[[], list[Ints | None]]:
    """Send what needs no answer; the function that is returned waits for the others, and has the results.

    A party may begin several batches before it waits, and must wait for them in the same order.
    """
    calls = [call for call, _ in batch]
    tags = next_tags(engine.calls, calls)
    engine.batches += 1
    seen = set[object]()
    for call, inputs in batch:  # 1
        check_call(call, engine.parties)
        check_inputs(call, engine.party, inputs, seen)
        if asks:
            count_questions(engine, call, answer_bits(engine.rules, call))
    module, number = _ENGINES[engine.rules.engine], engine.batches
    with engine.session.scope("product", number):
        shares_of_all = module.begin(engine, batch, tags)  # 2

    def results() -> list[Ints | None]:
        with engine.session.scope("product", number):
            held = shares_of_all()
            for place, (call, inputs) in enumerate(batch):
                if engine.party in dict(call.added) and inputs.added is not None:  # 3
                    own = module.from_values(engine, call, inputs.added)
                    held[place] = module.add(engine, call, [held[place], own])
            return _show(engine, module, [inputs for _, inputs in batch], calls, tags, held, more=more)

    return results


def product_shares(engine: Engine, batch: Sequence[tuple[Call, Inputs]]) -> list[Ring]:
    """Steps 1 and 2 alone, mod 2^64: this party's shares, and nobody is shown anything, so nothing is asked either.

    The matrices are any numbers mod 2^64, such as shares that an earlier call left, with 2^63 as their bound.
    """
    if engine.rules.engine == "paillier":
        raise PlanError("engine: paillier leaves no shares to compute with; choose shares")
    tags = next_tags(engine.calls, [call for call, _ in batch])
    engine.batches += 1
    for call, inputs in batch:
        check_inputs(call, engine.party, inputs)
    with engine.session.scope("product", engine.batches):
        return _ENGINES[engine.rules.engine].begin(engine, batch, tags)()


def bounded_shares(engine: Engine, batch: Sequence[tuple[Call, Inputs]]) -> list[Ring]:
    """The same with every engine, of products of one pair and one column, whose results are below 2^24 or so.

    With `paillier` the holder of Y is shown the result and a random number below 2^62, which the holder of X has taken:
    that hides a result r but for a chance of r / 2^62. With the other engines shares are as random as their words,
    which are as short as results allow: shares add up mod 2^(bits of the bound, and one for the sign).
    """
    if any(len(call.terms) > 1 or call.columns > 1 or call.added for call, _ in batch):
        raise InputError("bounded shares are those of a single column of Y, of one pair of parties")
    if engine.rules.engine != "paillier":
        return [held.reshape(call.shape) for held, (call, _) in zip(product_shares(engine, batch), batch, strict=True)]
    hidden, taken = [], []
    for call, inputs in batch:
        ((left, right),) = call.terms
        random = expand(new_seed(), b"hidden", call.shape) >> np.uint64(64 - _HIDING_BITS)
        taken.append(random if left == engine.party else np.zeros(call.shape, np.uint64))
        covered = replace(call, receiver=right, added=((left, 2**_HIDING_BITS),))
        hidden.append((covered, replace(inputs, added=random.view(np.int64) if left == engine.party else None)))
    shown = product(engine, hidden, asks=False)
    return [-own if result is None else result.view(np.uint64) for own, result in zip(taken, shown, strict=True)]


def answer_bits(rules: Rules, call: Call) -> int:
    """How many bits a product shows at the most; a receiver that makes up its matrix can make use of all of them."""
    return _ENGINES[rules.engine].answer_bits(rules, call)


def announce(engine: Engine, batches: Sequence[Sequence[Call]]) -> None:
    """Announce the next batches of calls, so that what they need is made ahead.

    Either every party announces the batches that it will hand to `product`, or only the driver does.
    """
    _ENGINES[engine.rules.engine].announce(engine, batches)


def forget(engine: Engine, names: Iterable[str]) -> None:
    """Drop what is kept of matrices with these names; all parties do so at the same point and do not use them again."""
    engine.shares.forget(set(names))
    engine.paillier.forget(set(names))


def serve(engine: Engine, serving: Serving | None = None) -> int:
    """The coordinator's part: do what the driver asks for until it has finished; the number of bytes sent for that."""
    return _ENGINES[engine.rules.engine].serve(engine, serving or Serving())


def finish(engine: Engine) -> None:
    """Tell the coordinator that no more products come; only the driver sends a message."""
    if engine.rules.engine == "paillier":
        paillier.public_key(engine)  # a key that nobody has needed is received all the same
    if engine.rules.engine != "plain" and engine.party == engine.driver:
        engine.session.send(engine.coordinator or "", Stop())


def _show(
    engine: Engine,
    module: Protection,
    inputs: Sequence[Inputs],
    calls: Sequence[Call],
    tags: Sequence[bytes],
    held: Sequence[Any],
    *,
    more: bool,
) -> list[Ints | None]:
    me, session = engine.party, engine.session
    for receiver in dict.fromkeys(call.receiver for call in calls):  # 4
        mine = [i for i, call in enumerate(calls) if call.receiver == receiver != me and me in call.participants]
        if mine:
            others = [[one for one in calls[i].participants if one not in (me, receiver)] for i in mine]
            each = zip(mine, others, strict=True)
            masked = [module.masked(engine, calls[i], tags[i], held[i], besides) for i, besides in each]
            contents = tuple(module.to_bytes(engine, calls[i], share) for i, share in zip(mine, masked, strict=True))
            session.send(receiver, Contribution(tuple(tags[i] for i in mine), contents), more=more)
    results: list[Ints | None] = [None] * len(calls)
    shown = [i for i, call in enumerate(calls) if call.receiver == me]
    arrived: dict[int, list[Any]] = {i: [held[i]] for i in shown}
    for sender in engine.parties:  # 5
        theirs = [i for i in shown if sender != me and sender in calls[i].participants]
        if theirs:
            most = sum(module.to_bytes(engine, calls[i], held[i]).nbytes for i in theirs)  # as much as its own
            contribution = recv_tagged(session, sender, Contribution, [tags[i] for i in theirs], most)
            for i, values in zip(theirs, contribution.values, strict=True):
                arrived[i].append(module.from_bytes(engine, calls[i], values, sender))
    for i in shown:
        result = module.read(engine, calls[i], module.add(engine, calls[i], arrived[i]))
        _check_bound(calls[i], result)
        _check_totals(calls[i], inputs[i], result)
        results[i] = result
    return results


def _check_bound(call: Call, result: Ints) -> None:
    """A share of random numbers makes the sum random and mostly too large; one that is a little wrong is not seen."""
    if result.size and (int(result.max()) > call.result_bound or int(result.min()) < -call.result_bound):
        raise ProtocolError("a product exceeds its bound: a party or the coordinator sent a wrong share")


def _check_totals(call: Call, inputs: Inputs, result: Ints) -> None:
    """Every row of a node is in one bin of each column: where the receiver holds Y, it knows what these add up to.

    So it notices any wrong share, unless what is wrong adds up to zero within each column.
    """
    left = call.left
    if not isinstance(left, OneHot) or len(call.terms) > 1 or call.added or not result.size or min(left.sizes) < 1:
        return
    if inputs.y is None or inputs.nodes is None:
        return
    totals = mod64.node_sums(inputs.y.view(np.uint64), inputs.nodes, left.nodes).view(np.int64)
    starts = np.cumsum(left.sizes, dtype=np.int64) - left.sizes
    if (np.add.reduceat(result, starts, axis=1) != totals[:, np.newaxis]).any():
        raise ProtocolError("a product does not add up: a party or the coordinator sent a wrong share")

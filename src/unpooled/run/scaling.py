"""How the figures of a job grow with rows and rounds, seen in rehearsals that differ in one of them.

What grows with the rows need not grow for ever: trees have more nodes with more rows, and so more sums are asked for,
until they are as deep as the plan allows. Two rehearsals with different rows say how fast a figure grows, a third one
whether that comes to an end.

Encryption makes rehearsals slow. With `paillier` growth is seen with a short key, which changes neither trees nor the
numbers of messages, and a few rows show how much more the plan's own key takes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from math import ceil, inf
from typing import Any

import numpy as np

from unpooled.align.aided import DUMMY_BYTES, KeyedTags
from unpooled.align.ecdh import CHUNK
from unpooled.align.ristretto import POINT_BYTES
from unpooled.compiled import from_the_start, worthwhile
from unpooled.data.prepare import fit, transform
from unpooled.jobs.kinds import kind_named, parameters_of
from unpooled.jobs.learning.labels import features_of
from unpooled.run.rehearsal import ADD, ALIGN, ENCRYPTED, KEY, REST, Cast, Key, Rehearsal, common_rows_for, rehearse
from unpooled.secure.product import Contribution
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.learners import learner_of
from unpooled.wire import kind_of

_ROWS, _SHORT_KEY_ROWS, _TABLE_ROWS = 2_100, 3_600, 3_000
"""The most common rows of a rehearsal, the same with a short key, and rows of a table."""
_FEWER = 3
"""A second rehearsal has so many times fewer common rows, a third one so many times fewer again."""
_OWN_KEY_ROWS, _OWN_KEY_ROUNDS, _SHORT_KEY_BITS = 200, 3, 512
_COMPILED_AFTER = 2_000
"""From about so many encrypted rows on, compiled loops do it."""
_SHAPES = 4
"""With a short key at least so many models or rounds: one tree by itself may be large or small by chance."""
_GROWS = 1.5
"""With three times the rows, counts of messages that grow by less than this do not depend on the rows. Nor do those of
rounds without batches, which grow only while trees are small for want of rows."""
_LONG = 1_000
"""Rounds after which every fit has ended that can end early."""


@dataclass(frozen=True, eq=False)
class OwnKey:
    """Rehearsals with few rows and the plan's own key, `low` with one round and `high` with `rounds`.

    `short` is `low` with a short key, and `loops` says whether compiled loops encrypt.
    """

    high: Rehearsal
    low: Rehearsal
    short: Rehearsal
    rounds: int
    loops: bool


@dataclass(frozen=True, eq=False)
class Scale:
    """Rehearsals, by which figures are scaled to all rows and rounds: `low` has fewer rounds than `high`.

    `widths` are the numbers of owners' columns as prepared for a learner. `fewer` are rehearsals with as few rounds as
    `low` and fewer and fewer rows, none if all rows were rehearsed. `few` and `more` are the rounds, and `models` and
    `groups` how many times more there are of them than in the rehearsals. Counts of messages that rows grow by less
    than `least` do not depend on them. `said` is what the kind of job guesses.
    """

    cast: Cast
    widths: dict[str, int]
    high: Rehearsal
    low: Rehearsal
    fewer: list[Rehearsal]
    few: int
    more: int
    rounds: float
    models: float
    groups: float
    least: float = 1.0
    own_key: OwnKey | None = None
    said: str = ""

    @property
    def guess(self) -> str:
        """What rehearsals with few rows cannot tell, as a sentence; empty if there is nothing."""
        model, rows = getattr(parameters_of(self.cast.plan), "model", None), self.low.common
        if model is None or self.own_key is None or learner_of(model).full_rows(model) <= rows or not self.fewer:
            return ""
        models = learner_of(model).models
        return (
            f"how large {models} become: with the {rows:,} rows of a rehearsal they are not yet as large as the plan "
            "allows, and the coordinator's CPU time, and bytes of sums, may be several times the forecast"
        )

    def bytes(self, key: Key) -> float:
        if key[3]:
            dummies = self._dummies(key)
            return dummies + (self.high.bytes[key] - dummies) * self._by_tables(key[0], key[1])
        found = self._of(lambda one: one.bytes[key], times=self.models, ending=True, rows=self._rows_in(key))
        return found * self._by_key(lambda one: one.bytes[key])

    def largest(self, party: str) -> float:
        """The largest frame that a party sends or receives."""
        return max(self._largest(key) for key in self.high.bytes if party in key[:2])

    def _largest(self, key: Key) -> float:
        """The largest frame of this type; it does not depend on the rounds."""

        def figure(one: Rehearsal) -> float:
            return one.largest[key]

        return figure(self.low) * self._by_rows(figure, ending=True, rows=self._rows_in(key)) * self._by_key(figure)

    def _rows_in(self, key: Key) -> int:
        """With how many rows messages of this type are as large as with all: sums grow only until models are full."""
        model, common = getattr(parameters_of(self.cast.plan), "model", None), self.cast.common
        if model is None or self.own_key or key[2] != kind_of(Contribution):
            return common
        return min(learner_of(model).full_rows(model) or common, common)

    def frames(self, key: Key, size: float) -> float:
        found = self.high.frames[key]
        if not key[3]:
            return self._of(lambda one: one.frames[key], times=self.groups, least=self.least)
        by_tables = found > 2 and key[2] != kind_of(KeyedTags)  # a few frames of tags are dummies, whatever the rows
        chunked = found * self._by_tables(key[0], key[1]) if by_tables else size / (CHUNK * POINT_BYTES)
        return max(found, chunked) if size > self.high.bytes[key] else found

    def cpu(self, party: str) -> float:
        aligning = self.high.cpu[party, ALIGN] * self._by_tables(party)
        if self.own_key is None:
            parts = REST, ADD, KEY, *ENCRYPTED
            return aligning + self._of(lambda one: sum(one.cpu[party, part] for part in parts), times=self.models)
        rest = self._of(lambda one: one.cpu[party, REST], times=self.models)
        return aligning + rest + self._adding(self.own_key, party) + self._encrypting(self.own_key, party)

    def _adding(self, own: OwnKey, party: str) -> float:
        """Every round adds up all rows; what comes before the first is done once."""
        low = own.low.cpu[party, ADD]
        by_round = max(own.high.cpu[party, ADD] - low, 0.0) / (own.rounds - 1)
        rounds = self.rounds * self.models * self.cast.common / own.low.common
        return max(low - by_round, 0.0) + by_round * rounds

    def _encrypting(self, own: OwnKey, party: str) -> float:
        """What encrypting and decrypting take by the byte that is sent, and once."""
        seconds = own.low.cpu[party, KEY]  # its few bytes differ from key to key, and say nothing
        for kind in ENCRYPTED:
            keys = [key for key in self.high.bytes if key[0] == party and key[2] == kind]
            sent, more = (sum(one.bytes[key] for key in keys) for one in (own.low, own.high))
            low, high = (one.cpu[party, kind] for one in (own.low, own.high))
            byte = max(high - low, 0.0) / (more - sent) if more > sent else 0.0
            seconds += max(low - byte * sent, 0.0) + byte * sum(self.bytes(key) for key in keys)
        return seconds

    def _of(
        self,
        figure: Callable[[Rehearsal], float],
        *,
        times: float = 1.0,
        least: float = 1.0,
        ending: bool = False,
        rows: int | None = None,
    ) -> float:
        """A figure with all rows, or so many, and all rounds; rows that grow it by less than `least` do not count."""
        high, low = figure(self.high), figure(self.low)
        by_round = max(high - low, 0.0) / (self.more - self.few) if self.more > self.few else 0.0
        fixed = max(high - by_round * self.more, 0.0)
        return (fixed + by_round * self.rounds * times) * self._by_rows(figure, least, ending=ending, rows=rows)

    def _by_rows(
        self, figure: Callable[[Rehearsal], float], least: float = 1.0, *, ending: bool, rows: int | None = None
    ) -> float:
        """How many times larger a figure is with all rows, or with so many, if that is more than were rehearsed.

        Only exact figures can tell whether growth is `ending`.
        """
        wanted, rows, low = rows or self.cast.common, self.low.common, figure(self.low)
        wanted = max(wanted, rows)
        if not self.fewer or not low or low < least * figure(self.fewer[0]):
            return 1.0
        one, *others = [(one.common, figure(one)) for one in self.fewer]
        grown = _steady((rows, low), one)
        if ending and others and one[1] > 0:
            ended, (fewest, found) = _ending((rows, low), one), others[0]
            if abs(ended(fewest) - found) < abs(grown(fewest) - found):
                grown = ended
        return grown(wanted) / low

    def _by_key(self, figure: Callable[[Rehearsal], float]) -> float:
        """How many times larger a figure is with the plan's own key."""
        if self.own_key is None or not figure(self.own_key.short):
            return 1.0
        return figure(self.own_key.low) / figure(self.own_key.short)

    def _dummies(self, key: Key) -> int:
        """The bytes of an alignment that do not grow with tables: dummies, of the active party for labels too."""
        plan = self.cast.plan
        lists = 2 if plan.active in key[:2] and plan.with_role("passive") and plan.with_role("seeker") else 1
        return lists * {kind_of(kind): size for kind, size in DUMMY_BYTES.items()}.get(key[2], 0)

    def _by_tables(self, *parties: str) -> float:
        """How many times more ids an alignment of these parties has; with the seeker it is about the common ones."""
        plan, cast, one = self.cast.plan, self.cast, self.high
        if seekers := set(parties) & set(plan.with_role("seeker")):
            (seeker,) = seekers
            return (cast.rows[seeker] + cast.common) / (one.rows[seeker] + one.common)
        return sum(cast.rows[owner] for owner in plan.owners) / sum(one.rows[owner] for owner in plan.owners)


def _steady(at: tuple[int, float], before: tuple[int, float]) -> Callable[[int], float]:
    """A figure by rows, from two points: so much by row and so much once."""
    (rows, figure), (fewer, smaller) = at, before
    by_row = min(max(figure - smaller, 0.0) / (rows - fewer), figure / rows)
    return lambda wanted: figure + by_row * (wanted - rows)


def _ending(at: tuple[int, float], before: tuple[int, float]) -> Callable[[int], float]:
    """A figure by rows, from two points: with few rows so much by row, and never more than a limit.

    That is 1 / (a / rows + b), where 1 / b is the limit.
    """
    (rows, figure), (fewer, smaller) = at, before
    by_row = min(max(1 / smaller - 1 / figure, 0.0) / (1 / fewer - 1 / rows), rows / figure)
    return lambda wanted: 1 / (1 / figure + by_row * (1 / wanted - 1 / rows))


def rehearsed(cast: Cast) -> Scale:
    """Rehearse the job as often as it takes to see how its figures grow."""
    plan = cast.plan
    kind, parameters, raw = kind_named(plan.kind), parameters_of(plan), plan.parameters
    groups = kind.groups(parameters)
    widths = _widths(cast) if groups else {}
    encrypts = plan.engine == "paillier" and bool(groups)
    own_columns = len(cast.tables[plan.active].kinds) if plan.active in cast.tables else 0
    together = {party: (cast.tables[party].take(rows), cast.privates[party]) for party, rows in cast.together.items()}
    changes = kind.rehearsed(parameters, encrypts, together, own_columns)
    raw, fewest = {**raw, **changes.parameters}, common_rows_for(changes.least_own)
    changed = kind.parameters.model_validate(raw)
    model: LearnerParameters | None = getattr(changed, "model", None)
    fewer = kind.groups(changed)
    times = (sum(groups) / sum(fewer), len(groups) / len(fewer)) if fewer else (1.0, 1.0)
    most = _SHORT_KEY_ROWS if encrypts else _ROWS
    few, more, wanted, batch, name = 1, 1, 1.0, 0, ""
    if model and (learner := learner_of(model)).rounds:
        name, unit = learner.rounds(model, max(fewer), plan.engine)
        if learner.batch_rows:
            batch = ceil(
                learner.batch_rows(model, max(widths.values())) / (1 - getattr(parameters, "test_fraction", 0.0))
            )
            most = 2 * batch
        wanted = learner.rounds_of(model, max(cast.common // batch, 1)) if learner.rounds_of else getattr(model, name)
        if encrypts and not learner.batch_rows:
            unit = max(unit, ceil(_SHAPES / max(fewer)))
        few = min(unit, int(wanted))
        left_out = encrypts or times[0] > 1
        more = 2 * few if left_out else min(2 * unit, int(wanted))  # models left out must be seen by round
    rows = min(max(most, 2 * fewest), cast.common)

    def run(rows: int, rounds: int, table_rows: int = 1, **settings: Any) -> Rehearsal:
        rounded = raw | {"model": {**raw.get("model", {}), name: rounds}} if name else raw
        return rehearse(cast, rows, rounded, table_rows, changes, **settings)

    short, own_key = dict[str, Any](), None
    if encrypts:
        short = {"key_bits": min(_SHORT_KEY_BITS, plan.key_bits), "insecure": True}
        count, rounds = min(max(batch or _OWN_KEY_ROWS, fewest), cast.common), 2 if batch else _OWN_KEY_ROUNDS
        with from_the_start() if cast.common * wanted * times[0] > _COMPILED_AFTER else nullcontext():
            few_bits = run(count, 1, **short)  # first, so that loading compiled loops is not taken for encrypting
            own_key = OwnKey(run(count, rounds), run(count, 1), few_bits, rounds, worthwhile(0))
    high = run(rows, more, _TABLE_ROWS, **short)
    low = run(rows, few, **short) if few < more else high
    steps = [batch] if batch else [rows // _FEWER, *([rows // _FEWER**2] if own_key else [])]
    steps = list(dict.fromkeys(max(step, fewest) for step in steps))
    smaller = [run(step, few, **short) for step in steps if rows < cast.common]
    if model and (once := learner_of(model).ends_early(model)):
        ended = run(min(2 * rows, cast.common), _LONG, engine="plain")
        taken = max(ended.frames[key] for key in ended.frames if key[2] == kind_of(once)) / len(fewer)
        wanted = min(wanted, max(taken * ended.common / cast.common, _least_rounds(model)))  # it takes as many steps
    least = 1.0 if batch else _GROWS if more == 1 else inf
    return Scale(cast, widths, high, low, smaller, few, more, wanted, *times, least, own_key, changes.guess)


def _least_rounds(model: LearnerParameters) -> int:
    """With so many steps that the first round or two do it, patience decides."""
    return int(getattr(model, "patience", 0)) + 2


def _widths(cast: Cast) -> dict[str, int]:
    """How many columns each owner has, prepared; an intercept among them."""
    widths = {}
    for party in cast.plan.owners:
        table, prepare = features_of(cast.tables[party], cast.privates[party]), cast.privates[party].prepare
        sample = table.take(np.arange(min(table.frame.height, _ROWS)))
        widths[party] = len(transform(fit(sample, prepare), sample).names) + 1
    return widths

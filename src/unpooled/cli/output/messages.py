"""Messages in words, before a run from its outline and after it from ledgers: who sends what, and who learns what."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.filesize import decimal

from unpooled import control
from unpooled.drawing.words import listed, many
from unpooled.jobs.outline import Exchange
from unpooled.ledger import Record, summarise
from unpooled.wire import Disclosure


@dataclass(frozen=True)
class Sent:
    """Messages of one type from one party to another; how many and how large is None where it depends on the rows."""

    sender: str
    receiver: str
    kind: str
    disclosure: Disclosure
    frames: int | None
    bytes: int | None
    only_if: str = ""

    @property
    def told(self) -> str:
        """What the receiver learns about data, if anything."""
        nothing = not self.disclosure.to or self.disclosure.what.startswith("nothing")
        return "" if nothing or self.kind in control.KINDS else self.disclosure.what


def of_outline(exchanges: Iterable[Exchange]) -> list[Sent]:
    """The messages of an outline."""
    return [Sent(e.sender, e.receiver, e.kind, e.disclosure, e.frames, e.bytes, e.only_if) for e in exchanges]


def of_ledgers(records: Sequence[Record]) -> list[Sent]:
    """The messages in ledgers; those in two of them are taken from the sender's."""
    present, sent = {record.party for record in records}, []
    for record in records:
        for line in summarise(record):
            if line.way == "sent":
                sent.append(Sent(record.party, line.peer, line.kind, line.disclosure, line.frames, line.bytes))
            elif line.peer not in present:
                sent.append(Sent(line.peer, record.party, line.kind, line.disclosure, line.frames, line.bytes))
    return sent


def learners(messages: Sequence[Sent], learn: str) -> Iterator[str]:
    """Who learns what from whom, each sentence once, with those beside it that go the same ways; `learn` is the verb.

    Control messages are left out; what is not sent in every run comes last.
    """
    order = list(dict.fromkeys(party for one in messages for party in (one.sender, one.receiver)))
    sentences: dict[tuple[str, str], list[Sent]] = {}
    for message in messages:
        if message.told:
            sentences.setdefault((message.only_if, message.told), []).append(message)
    groups: dict[tuple[str, tuple[int, ...], tuple[int, ...]], list[str]] = {}
    for (only_if, sentence), sent in sentences.items():
        receivers = tuple(sorted({order.index(one.receiver) for one in sent}))
        senders = tuple(sorted({order.index(one.sender) for one in sent}))
        groups.setdefault((only_if, receivers, senders), []).append(sentence)
    for only_if, receivers, senders in sorted(groups, key=lambda group: (group[0], len(group[1]), group[1])):
        verb = f"{learn}s" if learn == "learn" and len(receivers) == 1 else learn
        source = "each other" if receivers == senders else listed([order[place] for place in senders])
        condition = f", {only_if}" if only_if else ""
        told = " · ".join(groups[only_if, receivers, senders])
        yield f"{listed([order[place] for place in receivers])} {verb} from {source}{condition}: {told}"


def details(messages: Iterable[Sent]) -> Iterator[str]:
    """Every message type with its full name: who sends it to whom, how often, how large, and what it discloses."""
    kinds: dict[tuple[str, Disclosure], list[Sent]] = {}
    for message in messages:
        kinds.setdefault((message.kind, message.disclosure), []).append(message)
    for (kind, disclosure), sent in kinds.items():
        yield kind
        amounts: dict[str, list[str]] = {}
        for message in sent:
            amounts.setdefault(_amount(message), []).append(f"{message.sender} to {message.receiver}")
        for amount, ways in amounts.items():
            yield f"  {', '.join(ways)}: {amount}{' each' if len(ways) > 1 and amount[0].isdigit() else ''}"
        yield f"  discloses {disclosure}"


def _amount(message: Sent) -> str:
    frames = "by rows" if message.frames is None else many(message.frames, "message")
    amount = frames if message.bytes is None else f"{frames}, {decimal(message.bytes)}"
    return ", ".join(filter(None, (message.only_if, amount)))


def wrapped(lines: Iterable[str]) -> str:
    """Lines broken where the terminal ends, between words only: no name or path is cut."""
    width = shutil.get_terminal_size().columns

    def broken(line: str) -> str:
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)

    return "\n".join(map(broken, lines))

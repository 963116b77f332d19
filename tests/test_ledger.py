"""A ledger shows every frame and every tampering, never a value; two of them are compared."""

from __future__ import annotations

import hashlib
import io
import json
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unpooled.errors import LedgerError
from unpooled.ledger import (
    Entry,
    Ledger,
    Line,
    Pair,
    Record,
    Way,
    mend,
    read_ledger,
    reconcile,
    reconcile_all,
    summarise,
)
from unpooled.wire import Disclosure

SUM = Disclosure("the sum", "the receiver")
NOTHING = Disclosure("nothing: masked", "")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A bank's ledger of three frames, closed."""
    ledger = Ledger(tmp_path / "ledger.jsonl", "bank", "abc")
    ledger.record("sent", "telco", "demo.Sum", "fit/tree 1", 100, SUM)
    ledger.record("received", "telco", "demo.Masked", 'a "quoted" né\\', 2000, NOTHING)
    ledger.record("sent", "telco", "demo.Sum", "fit/tree 2", 50, SUM)
    ledger.close()
    return ledger.path


def test_what_was_recorded_is_read_back(path: Path) -> None:
    record = read_ledger(path)
    assert (record.party, record.plan, record.closed) == ("bank", "abc", True)
    assert [replace(entry, at=0.0) for entry in record.entries] == [
        Entry(0.0, "sent", "telco", "demo.Sum", "fit/tree 1", 100, "the sum", "the receiver"),
        Entry(0.0, "received", "telco", "demo.Masked", 'a "quoted" né\\', 2000, "nothing: masked", ""),
        Entry(0.0, "sent", "telco", "demo.Sum", "fit/tree 2", 50, "the sum", "the receiver"),
    ]
    assert summarise(record) == [
        Line("sent", "telco", "demo.Sum", SUM, frames=2, bytes=150),
        Line("received", "telco", "demo.Masked", NOTHING, frames=1, bytes=2000),
    ]


def test_every_line_is_json(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 5
    assert all(len(line["chain"]) == 64 for line in lines)


def test_a_change_of_any_byte_breaks_the_chain(path: Path) -> None:
    content = path.read_bytes()
    for position, byte in enumerate(content):
        path.write_bytes(content[:position] + bytes([byte ^ 4]) + content[position + 1 :])
        with pytest.raises(LedgerError):
            read_ledger(path)


def remove_a_line(lines: list[str]) -> None:
    del lines[2]


def swap_two_lines(lines: list[str]) -> None:
    lines[1], lines[3] = lines[3], lines[1]


def repeat_a_line(lines: list[str]) -> None:
    lines.insert(2, lines[1])


def remove_the_first_line(lines: list[str]) -> None:
    del lines[0]


def add_an_empty_line(lines: list[str]) -> None:
    lines.append("\n")


def end_lines_otherwise(lines: list[str]) -> None:
    lines[1] = lines[1].replace("\n", "\r\n")


@pytest.mark.parametrize(
    ("tamper", "line"),
    [
        (remove_a_line, 3),
        (swap_two_lines, 2),
        (repeat_a_line, 3),
        (remove_the_first_line, 1),
        (add_an_empty_line, 6),
        (end_lines_otherwise, 2),
    ],
)
def test_a_broken_chain_is_named_by_its_line(path: Path, tamper: Callable[[list[str]], None], line: int) -> None:
    lines = path.read_bytes().decode().splitlines(keepends=True)
    tamper(lines)
    path.write_bytes("".join(lines).encode())
    with pytest.raises(LedgerError, match=rf"ledger\.jsonl line {line}: .*chain"):
        read_ledger(path)


@pytest.mark.parametrize(("lost", "line"), [(1, 5), (20, 5), (10**6, 1)], ids=["its end", "a part", "all"])
def test_an_unfinished_line_is_told_from_a_changed_one(path: Path, lost: int, line: int) -> None:
    path.write_bytes(path.read_bytes()[:-lost])
    with pytest.raises(LedgerError, match=rf"ledger\.jsonl line {line}: unfinished"):
        read_ledger(path)


def test_a_line_cut_within_a_letter_is_unfinished(tmp_path: Path) -> None:
    with closing(Ledger(tmp_path / "ledger.jsonl", "größe", "abc")) as ledger:
        content = ledger.path.read_bytes()
    ledger.path.write_bytes(content[: content.index("ß".encode()) + 1])
    with pytest.raises(LedgerError, match="line 1: unfinished"):
        read_ledger(ledger.path)


@pytest.mark.parametrize("kept", [1, 2, 4])
def test_a_ledger_that_lost_its_end_is_not_closed(path: Path, kept: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:kept]))
    record = read_ledger(path)
    assert not record.closed
    assert len(record.entries) == kept - 1


OPENING = {"at": 1.5, "ledger": 1, "party": "bank", "plan": "abc"}
FRAME = {"at": 1.5, "way": "sent", "peer": "telco", "kind": "K", "scope": "", "bytes": 9, "discloses": "x", "to": "y"}


def write_forged(path: Path, *contents: Any) -> None:
    """A ledger whose chain holds, whatever its lines say: anybody can compute one."""
    last, lines = "0" * 64, []
    for content in contents:
        text = content if isinstance(content, str) else json.dumps(content)[:-1]
        last = hashlib.sha256(f"{last}\n{text}".encode()).hexdigest()
        lines.append(f'{text}, "chain": "{last}"}}\n')
    path.write_text("".join(lines), encoding="utf-8")


def test_the_forger_of_these_tests_can_write_a_good_ledger(tmp_path: Path) -> None:
    write_forged(tmp_path / "good", OPENING, FRAME, {"at": 2.5, "closed": True})
    assert read_ledger(tmp_path / "good").entries == (Entry(**FRAME),)


@pytest.mark.parametrize(
    ("contents", "complaint"),
    [
        ([FRAME], "line 1: .*opening"),
        ([OPENING | {"ledger": 2}], "line 1: .*format 1"),
        ([OPENING | {"party": None}], "line 1: .*opening"),
        ([OPENING | {"party": "\x1b[2J"}], "line 1: .*opening"),
        ([OPENING, OPENING], "line 2: .*frame"),
        ([OPENING, FRAME | {"value": 17}], "line 2: .*frame"),
        ([OPENING, FRAME | {"bytes": "9"}], "line 2: .*frame"),
        ([OPENING, FRAME | {"peer": []}], "line 2: .*frame"),
        ([OPENING, FRAME | {"way": "lost"}], "line 2: .*frame"),
        ([OPENING, FRAME | {"scope": "two\nlines"}], "line 2: .*frame"),
        ([OPENING, {"at": 1.5, "closed": True}, FRAME], "line 2: .*frame"),
        ([OPENING, FRAME, FRAME | {"closed": True}], "line 3: .*frame"),
        ([OPENING, '["at"'], "line 2: .*JSON"),
        ([OPENING, '{"at": ' + "[" * 100_000], "line 2: .*JSON"),
    ],
)
def test_a_forged_ledger_is_refused_even_if_its_chain_holds(
    tmp_path: Path, contents: list[Any], complaint: str
) -> None:
    write_forged(tmp_path / "forged", *contents)
    with pytest.raises(LedgerError, match=complaint):
        read_ledger(tmp_path / "forged")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="missing"):
        read_ledger(tmp_path / "missing")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\n")
    with pytest.raises(LedgerError, match="binary"):
        read_ledger(tmp_path / "binary")


def test_an_existing_ledger_is_never_overwritten(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=r"ledger\.jsonl"):
        Ledger(path, "bank", "abc")
    assert path.read_bytes() == before


def test_a_ledger_that_cannot_be_made_or_was_closed_takes_nothing(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"ledger\.jsonl"):
        Ledger(tmp_path / "no such folder" / "ledger.jsonl", "bank", "abc")
    ledger = Ledger(tmp_path / "ledger.jsonl", "bank", "abc")
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match=r"ledger\.jsonl"):
        ledger.record("sent", "telco", "demo.Sum", "", 1, SUM)
    assert read_ledger(ledger.path) == Record(ledger.path, "bank", "abc", (), closed=True)


class FullDisk(io.RawIOBase):
    """Takes the first bytes of a write only, or fails, as a disk does that is nearly or entirely full."""

    def __init__(self, taken: int | None) -> None:
        self.taken = taken

    def write(self, data: Any) -> int:
        if self.taken is None:
            raise OSError(28, "No space left on device")
        return min(self.taken, len(data))


@pytest.mark.parametrize("taken", [None, 0, 7])
def test_a_line_that_was_not_written_whole_is_an_error_and_the_file_is_closed_all_the_same(
    tmp_path: Path, taken: int | None
) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl", "bank", "abc")
    ledger._file.close()
    ledger._file = FullDisk(taken)  # type: ignore[assignment]
    with pytest.raises(LedgerError, match=r"ledger\.jsonl"):
        ledger.record("sent", "telco", "demo.Sum", "", 1, SUM)
    with pytest.raises(LedgerError, match=r"ledger\.jsonl"):
        ledger.record("sent", "telco", "demo.Sum", "", 1, SUM)
    ledger.close()
    assert ledger._file.closed


def test_a_closing_line_that_was_not_written_whole_is_an_error_too(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl", "bank", "abc")
    ledger._file.close()
    ledger._file = FullDisk(7)  # type: ignore[assignment]
    with pytest.raises(LedgerError, match=r"ledger\.jsonl.*disk"):
        ledger.close()
    assert ledger._file.closed


class Interrupted(io.RawIOBase):
    """Passes on the first bytes of a write, and then a signal comes."""

    def __init__(self, file: io.FileIO, taken: int | None, signal: type[BaseException]) -> None:
        self.file, self.taken, self.signal = file, taken, signal

    def write(self, data: Any) -> int:
        self.file.write(data[: self.taken])
        raise self.signal

    def close(self) -> None:
        self.file.close()
        super().close()


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize(("taken", "frames"), [(0, 1), (None, 2)])
def test_an_interrupt_while_a_line_is_written_does_not_break_the_chain(
    tmp_path: Path, signal: type[BaseException], taken: int | None, frames: int
) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl", "bank", "abc")
    ledger.record("sent", "telco", "demo.Sum", "", 1, SUM)
    ledger._file = Interrupted(ledger._file, taken, signal)  # type: ignore[assignment, arg-type]
    with pytest.raises(signal):
        ledger.record("sent", "telco", "demo.Sum", "", 2, SUM)
    with pytest.raises(LedgerError, match=r"ledger\.jsonl"):
        ledger.record("sent", "telco", "demo.Sum", "", 3, SUM)
    ledger.close()
    assert ledger._file.closed
    record = read_ledger(ledger.path)
    assert [entry.bytes for entry in record.entries] == [1, 2][:frames]
    assert not record.closed


def test_a_line_cut_in_two_by_an_interrupt_is_told_by_the_reader(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl", "bank", "abc")
    ledger._file = Interrupted(ledger._file, 20, KeyboardInterrupt)  # type: ignore[assignment, arg-type]
    with pytest.raises(KeyboardInterrupt):
        ledger.record("sent", "telco", "demo.Sum", "", 1, SUM)
    ledger.close()
    with pytest.raises(LedgerError, match="line 2: unfinished"):
        read_ledger(ledger.path)


def test_threads_that_record_at_the_same_time_keep_the_chain(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl", "bank", "abc")

    def record(peer: str) -> None:
        for number in range(200):
            ledger.record("received", peer, "demo.Sum", f"round {number}", number, SUM)

    threads = [threading.Thread(target=record, args=(peer,)) for peer in ("a", "b", "c", "d")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ledger.close()
    entries = read_ledger(ledger.path).entries
    for peer in ("a", "b", "c", "d"):
        assert [entry.bytes for entry in entries if entry.peer == peer] == list(range(200))


# two parties' ledgers


def entry(way: Way, peer: str, number: int, **changes: Any) -> Entry:
    return replace(Entry(0.0, way, peer, "demo.Sum", f"round {number}", 10 * number, "the sum", "telco"), **changes)


BANK = Record(Path("bank"), "bank", "abc", tuple(entry("sent", "telco", n) for n in (1, 2, 3)), closed=True)
TELCO = Record(Path("telco"), "telco", "abc", tuple(entry("received", "bank", n) for n in (1, 2, 3)), closed=True)


def test_ledgers_that_agree_have_no_differences() -> None:
    shop = entry("sent", "shop", 9)  # frames with others are not compared
    assert reconcile(replace(BANK, entries=(shop, *BANK.entries)), TELCO) == []
    assert reconcile(TELCO, BANK) == []


def test_every_two_ledgers_are_compared() -> None:
    shop = Record(Path("shop"), "shop", "xyz", (), closed=True)
    assert reconcile_all([BANK, TELCO, shop]) == (
        Pair(("bank", "telco"), ()),
        Pair(("bank", "shop"), ("bank and shop recorded different plans",)),
        Pair(("telco", "shop"), ("telco and shop recorded different plans",)),
    )
    assert reconcile_all([BANK]) == ()


def test_different_plans_are_a_difference() -> None:
    assert reconcile(BANK, replace(TELCO, plan="xyz")) == ["bank and telco recorded different plans"]


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"kind": "demo.Rows"}, "kind differs: 'demo.Sum' at bank, 'demo.Rows' at telco"),
        ({"scope": "round 7"}, "scope differs: 'round 2' at bank, 'round 7' at telco"),
        ({"bytes": 21}, "bytes differs: 20 at bank, 21 at telco"),
        ({"discloses": "all"}, "discloses differs: 'the sum' at bank, 'all' at telco"),
        ({"to": "shop"}, "to differs: 'telco' at bank, 'shop' at telco"),
    ],
)
def test_a_frame_that_each_side_tells_otherwise_is_a_difference(change: dict[str, Any], difference: str) -> None:
    first, second, third = TELCO.entries
    telco = replace(TELCO, entries=(first, replace(second, **change), third))
    expected = [f"frame 2 from bank to telco: {difference}"]
    assert reconcile(BANK, telco) == reconcile(telco, BANK) == expected


def test_a_frame_that_one_side_does_not_have_is_a_difference() -> None:
    assert reconcile(BANK, replace(TELCO, entries=TELCO.entries[:1])) == [
        "frame 2 from bank to telco: bank sent demo.Sum, telco has no record of it",
        "frame 3 from bank to telco: bank sent demo.Sum, telco has no record of it",
    ]
    assert reconcile(replace(BANK, entries=BANK.entries[:2]), TELCO) == [
        "frame 3 from bank to telco: telco received demo.Sum, bank has no record of it",
    ]
    shifted = reconcile(BANK, replace(TELCO, entries=TELCO.entries[1:]))
    assert shifted[0] == "frame 1 from bank to telco: scope differs: 'round 1' at bank, 'round 2' at telco"


def test_a_resumed_run_goes_on_in_its_ledger(path: Path) -> None:
    for number in (1, 2):
        ledger = Ledger(path, "bank", "abc", resume=True)
        ledger.record("sent", "telco", "demo.Sum", f"again {number}", 10 * number, SUM)
        if number == 1:
            ledger._file.close()  # as if it had been killed
        ledger.close()
    record = read_ledger(path)
    assert record.resumed == (3, 4)
    assert [entry.scope for entry in record.last] == ["again 2"]
    assert sum(line.bytes for line in summarise(record)) == 150 + 2000 + 30
    assert record.closed


def test_frames_lost_before_a_run_was_resumed_are_no_difference(path: Path, tmp_path: Path) -> None:
    resumed = Ledger(path, "bank", "abc", resume=True)
    resumed.record("sent", "telco", "demo.Sum", "again", 10, SUM)
    other = Ledger(tmp_path / "telco.jsonl", "telco", "abc")
    other.close()
    other = Ledger(tmp_path / "telco.jsonl", "telco", "abc", resume=True)
    other.record("received", "bank", "demo.Sum", "again", 10, SUM)
    assert reconcile(read_ledger(path), read_ledger(other.path)) == []
    other.record("received", "bank", "demo.Sum", "never sent", 10, SUM)
    assert len(reconcile(read_ledger(path), read_ledger(other.path))) == 1
    resumed.close()
    other.close()


@pytest.mark.parametrize(("party", "plan"), [("telco", "abc"), ("bank", "xyz")])
def test_a_ledger_goes_on_only_for_its_own_party_and_plan(path: Path, party: str, plan: str) -> None:
    with pytest.raises(LedgerError, match=r"ledger\.jsonl"):
        Ledger(path, party, plan, resume=True)


def test_a_changed_ledger_does_not_go_on(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"fit/tree 1", b"fit/tree 9"))
    with pytest.raises(LedgerError, match=r"line 2: .*chain"):
        Ledger(path, "bank", "abc", resume=True)


# After a power cut


def test_a_ledger_that_a_power_cut_left_anywhere_in_its_last_line_is_mended_and_goes_on(path: Path) -> None:
    whole = path.read_bytes()
    last = whole.rfind(b"\n", 0, -1) + 1
    for length in range(last + 1, len(whole)):
        path.write_bytes(whole[:length])
        mend(path)
        assert path.read_bytes() == whole[:last], length
    ledger = Ledger(path, "bank", "abc", resume=True)
    ledger.record("sent", "telco", "demo.Sum", "again", 7, SUM)
    ledger.close()
    record = read_ledger(path)
    assert (len(record.entries), record.resumed, record.closed) == (4, (3,), True)


@pytest.mark.parametrize("lost", [b"\xc3", b"\0" * 500], ids=["half a letter", "zeros"])
def test_whatever_stands_behind_the_last_whole_line_is_cut_off(path: Path, lost: bytes) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole + lost)
    with pytest.raises(LedgerError):
        read_ledger(path)
    mend(path)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("content", [b"", b'{"at": 1.5, "led'])
def test_a_ledger_without_a_whole_line_has_not_begun(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(content)
    mend(path)
    assert not path.exists()
    mend(path)


def test_a_whole_ledger_is_left_as_it_is_and_a_broken_one_stays_broken(path: Path) -> None:
    content = path.read_bytes()
    mend(path)
    assert path.read_bytes() == content
    path.write_bytes(content.replace(b"fit/tree 1", b"fit/tree 9") + b"{")
    mend(path)
    with pytest.raises(LedgerError, match=r"line 2: .*chain"):
        Ledger(path, "bank", "abc", resume=True)


def test_a_ledger_that_cannot_be_mended_is_named(tmp_path: Path) -> None:
    (tmp_path / "ledger.jsonl").mkdir()
    with pytest.raises(LedgerError, match=r"ledger\.jsonl.*Is a directory"):
        mend(tmp_path / "ledger.jsonl")

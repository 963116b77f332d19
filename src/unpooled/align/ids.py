"""Comparable ids, and what can be said about ids without showing one.

A table's ids are already NFC and without white space around them; here case may be ignored, and the columns of a
composite id become one key.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

from unpooled.data.columns import fault
from unpooled.data.table import Table
from unpooled.wire import message

_NONE, _SOME, _ALL = 0, 1, 2
_LONGEST = 10**6


def row_keys(table: Table, *, ignore_case: bool = False) -> list[bytes]:
    """One key per row, equal exactly if the ids are equal."""
    columns = [table.frame[name].to_list() for name in table.id]
    if ignore_case:
        columns = [[unicodedata.normalize("NFC", cell.casefold()) for cell in column] for column in columns]
    encoded = [[_prefixed(cell.encode()) for cell in column] for column in columns]
    return encoded[0] if len(encoded) == 1 else [b"".join(parts) for parts in zip(*encoded, strict=True)]


def keys_of(table: Table, *, ignore_case: bool = False) -> list[bytes]:
    """The key of each row. Two rows with the same key are an error that names them."""
    keys = row_keys(table, ignore_case=ignore_case)
    if len(set(keys)) < len(keys):
        reason = "rows have the same id if case is ignored (rows are counted after cleaning)"
        raise fault(table.party, table.origin, reason, ", ".join(table.id), _repeated(keys))
    return keys


def _prefixed(part: bytes) -> bytes:
    """The part preceded by its length, so that different lists of parts give different keys."""
    return len(part).to_bytes(4, "little") + part


def _repeated(keys: Sequence[bytes]) -> list[int]:
    first: dict[bytes, int] = {}
    rows = {row for row, key in enumerate(keys, start=1) if first.setdefault(key, row) != row}
    return sorted(rows | {first[keys[row - 1]] for row in rows})


@message(
    discloses="what its ids look like: shortest and longest, and for six traits (digits only, leading zeros, capitals, "
    "small letters, marks or spaces, letters beyond ASCII) whether none, some or all have it",
    to="the active party, only when too few ids are in common; its error tells all parties what differs",
)
class IdLooks:
    shortest: int
    longest: int
    digits: int
    zeros: int
    capitals: int
    small: int
    marks: int
    beyond: int


def looks_of(table: Table) -> IdLooks:
    """What a table's ids look like; the columns of a composite id are taken together."""
    ids = ["".join(cells) for cells in table.ids.iter_rows()]
    lengths = [len(text) for text in ids]
    return IdLooks(
        min(lengths, default=0),
        max(lengths, default=0),
        _share(ids, str.isdecimal),
        _share(ids, lambda text: text.startswith("0")),
        _share(ids, lambda text: any(map(str.isupper, text))),
        _share(ids, lambda text: any(map(str.islower, text))),
        _share(ids, lambda text: not text.isalnum()),
        _share(ids, lambda text: not text.isascii()),
    )


def _share(ids: Sequence[str], has_it: Callable[[str], bool]) -> int:
    count = sum(map(has_it, ids))
    return _NONE if count == 0 else _ALL if count == len(ids) else _SOME


def hint(mine: IdLooks, theirs: IdLooks, me: str, them: str, *, ignore_case: bool) -> str:
    """Why two parties' ids may not match, as text without any id."""
    differences = []
    if mine.digits != theirs.digits:
        differences.append(f"{_few(mine.digits)} of {me}'s ids are whole numbers, {_few(theirs.digits)} of {them}'s")
    if (mine.zeros == _NONE) != (theirs.zeros == _NONE):
        with_zeros, without = (them, me) if mine.zeros == _NONE else (me, them)
        differences.append(f"ids of {with_zeros} begin with zeros, which {without}'s may have lost")
    if (mine.shortest, mine.longest) != (theirs.shortest, theirs.longest):
        differences.append(f"{me}'s are {_long(mine)} long, {them}'s {_long(theirs)}")
    if not ignore_case and (mine.capitals, mine.small) != (theirs.capitals, theirs.small):
        differences.append("they differ in capital and small letters (ignore_case = true may help)")
    if mine.marks != theirs.marks:
        differences.append(f"{_few(mine.marks)} of {me}'s hold spaces or marks, {_few(theirs.marks)} of {them}'s")
    if mine.beyond != theirs.beyond:
        differences.append(
            f"{_few(mine.beyond)} of {me}'s hold letters beyond ASCII, {_few(theirs.beyond)} of {them}'s"
        )
    if not differences:
        return f"the ids of {me} and {them} look alike, so these may be different people, or the wrong column"
    return "; ".join(differences)


def _few(share: int) -> str:
    return {_NONE: "none", _SOME: "some", _ALL: "all"}.get(share, "some")


def _long(looks: IdLooks) -> str:
    if not 0 <= looks.shortest <= looks.longest < _LONGEST:
        return "of unknown length"
    return str(looks.shortest) if looks.shortest == looks.longest else f"{looks.shortest} to {looks.longest}"

"""Keys of ids, and what can be said about ids without showing one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from unpooled.align.normalise import IdRules, comparable
from unpooled.data.columns import LONGEST_ID, fault
from unpooled.data.table import Table
from unpooled.wire import message

_NONE, _SOME, _ALL = 0, 1, 2
_LONGEST = 10**6
_HASH_DIGITS = 64


def ids_of(table: Table, rules: IdRules) -> pl.DataFrame:
    """The id of each row as it is compared; two rows with one id are an error."""
    ids = comparable(table, rules)
    if ids.n_unique() < ids.height:
        reason = "rows have the same id, as the plan normalises ids (rows are counted after cleaning)"
        raise fault(table.party, table.origin, reason, ", ".join(table.id), _repeated(keys_in(ids)))
    return ids


def keys_of(table: Table, rules: IdRules) -> list[bytes]:
    """One key per row, equal exactly if the ids are compared as equal; two rows with one key are an error."""
    return keys_in(ids_of(table, rules))


def keys_in(ids: pl.DataFrame) -> list[bytes]:
    """The keys of ids as they are compared."""
    encoded = [[_prefixed(cell.encode()) for cell in column.to_list()] for column in ids]
    return encoded[0] if len(encoded) == 1 else [b"".join(parts) for parts in zip(*encoded, strict=True)]


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


def looks_of(ids: pl.DataFrame) -> IdLooks:
    """What ids look like as they are compared; the columns of a composite id are taken together."""
    texts = ["".join(cells) for cells in ids.iter_rows()]
    lengths = [len(text) for text in texts]
    return IdLooks(
        min(lengths, default=0),
        max(lengths, default=0),
        _share(texts, str.isdecimal),
        _share(texts, lambda text: text.startswith("0")),
        _share(texts, lambda text: any(map(str.isupper, text))),
        _share(texts, lambda text: any(map(str.islower, text))),
        _share(texts, lambda text: not text.isalnum()),
        _share(texts, lambda text: not text.isascii()),
    )


def _share(texts: Sequence[str], has_it: Callable[[str], bool]) -> int:
    count = sum(map(has_it, texts))
    return _NONE if count == 0 else _ALL if count == len(texts) else _SOME


def hint(mine: IdLooks, theirs: IdLooks, me: str, them: str, columns: int) -> str:
    """Why two parties' ids, of so many columns, may not match, and what in the plan may help; the text has no id."""
    hashed = [party for party, looks in ((me, mine), (them, theirs)) if looks.shortest == looks.longest == _HASH_DIGITS]
    if len(hashed) == columns == 1:
        return f"ids of {hashed[0]} look like SHA-256 hashes, those of the other do not (hash = 'sha256' may help)"
    differences, numbers = [], mine.digits == theirs.digits == _ALL
    if mine.digits != theirs.digits:
        differences.append(f"{_few(mine.digits)} of {me}'s ids are whole numbers, {_few(theirs.digits)} of {them}'s")
    if numbers and (mine.zeros == _NONE) != (theirs.zeros == _NONE):
        with_zeros, without = (them, me) if mine.zeros == _NONE else (me, them)
        differences.append(f"ids of {with_zeros} begin with zeros, which {without}'s may have lost")
    if (mine.shortest, mine.longest) != (theirs.shortest, theirs.longest):
        length = max(mine.longest, theirs.longest)
        mended = f" ({_zeros_restored(length)} may help)" if numbers and columns == 1 and length <= LONGEST_ID else ""
        differences.append(f"{me}'s are {_long(mine)} long, {them}'s {_long(theirs)}{mended}")
    cases = (mine.capitals, mine.small), (theirs.capitals, theirs.small)
    if mine.digits == theirs.digits and cases[0] != cases[1] and mine.capitals + theirs.capitals:
        differences.append("they differ in capital and small letters (normalise = 'case' may help)")
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


def _possible(looks: IdLooks) -> bool:
    return 0 <= looks.shortest <= looks.longest < _LONGEST


def _long(looks: IdLooks) -> str:
    if not _possible(looks):
        return "of unknown length"
    return str(looks.shortest) if looks.shortest == looks.longest else f"{looks.shortest} to {looks.longest}"


def _zeros_restored(length: int) -> str:
    return f"normalise = {{name = 'digits', length = {length}}}"


def advice(table: Table, rules: IdRules) -> list[str]:
    """What a party's own ids suggest when too few match. It is for this party alone: others may not know as much."""
    if rules.hash:
        return ["hashes match only if all parties normalise ids alike before hashing them, and use the plan's salt"]
    if table.frame.is_empty():
        return []
    found = ((name, _advice(table.frame[name], rule.name)) for name, rule in rules.by_column(table))
    return [f"column '{name}': {text}" for name, text in found if text]


def _advice(cells: pl.Series, rule: str) -> str:
    def all_are(pattern: str) -> bool:
        return bool(cells.str.contains(f"^{pattern}$").all())

    lengths = cells.str.len_chars().to_list()
    shortest, longest = min(lengths), max(lengths)
    if all_are("[0-9A-Fa-f]{64}"):
        return "these look like SHA-256 hashes; if others have the ids themselves, agree on hash = 'sha256' in the plan"
    if all_are("[0-9a-f]{16}") and not all_are("[0-9]+"):
        return (
            "these look like handles: they match those that the same run has left at another party, where the plan has "
            "compare = 'handles'"
        )
    if all_are("[0-9]+") and shortest < longest and rule != "digits":
        return (
            f"these have {shortest} to {longest} digits; if leading zeros were lost, agree on "
            f"{_zeros_restored(longest)} in the plan"
        )
    if all_are(r"[^\s@]+@[^\s@]+"):
        if rule == "email":
            return "only the same address matches; a domain with two names, such as googlemail.com, counts as two"
        return "these look like e-mail addresses; agree on normalise = 'email' in the plan"
    if all_are(r"[+(]?[0-9][0-9\s./()-]+") and rule != "phone" and not all_are("[0-9]+"):
        return "these look like telephone numbers; agree on normalise = {name = 'phone', country = …} in the plan"
    if rule == "exact" and cells.str.contains(r"\p{Lu}").any():
        return "these have capitals; if others write them small, agree on normalise = 'case' in the plan"
    return "these hold spaces, which others may write differently" if cells.str.contains(r"\s").any() else ""

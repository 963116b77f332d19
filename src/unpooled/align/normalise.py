"""Ids as parties compare them: normalised by rules of the plan, and hashed if the plan says so.

=========  =====================================================================================
rule       what it makes of an id, from which a table has already removed white space at both ends
=========  =====================================================================================
`exact`    the id as it is
`case`     the id without the difference between capital and small letters
`email`    small letters; an address has one @ with something on both sides, and no white space
`phone`    the digits of an international number, without + (see `_phone`)
`digits`   digits, with zeros before them up to `length`
=========  =====================================================================================

An id that does not fit its rule is an error: it would match nothing, or the wrong id.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import polars as pl
from pydantic import BeforeValidator, Field, field_validator, model_serializer, model_validator

from unpooled.data.columns import LONGEST_ID, fault
from unpooled.data.table import Table
from unpooled.errors import PlanError
from unpooled.settings import Section

_EMAIL, _HASH = re.compile(r"[^\s@]+@[^\s@]+"), re.compile("[0-9a-f]{64}")
_PHONE, _INTERNATIONAL = re.compile(r"[(\s]*\+?[0-9\s./()-]+"), re.compile(r"[(\s]*(?:\+|00)")
_SEPARATORS = re.compile(r"[\s./()-]")
_SHORTEST_PHONE, _LONGEST_PHONE = 7, 15
_AT_ONCE = 2**16  # cells as Python's texts, which take far more memory than a column
_UNFIT_HASH = "not a SHA-256 hash, which has 64 hexadecimal digits"
_SETTINGS: Mapping[str, tuple[str, ...]] = {"phone": ("country", "trunk"), "digits": ("length",)}


class Rule(Section):
    """How the ids of one column are normalised."""

    name: Literal["exact", "case", "email", "phone", "digits"] = "exact"
    country: str | None = None
    trunk: str | None = None
    length: int | None = Field(None, ge=1, le=LONGEST_ID)

    @field_validator("country")
    @classmethod
    def _country_code(cls, country: str | None) -> str | None:
        if country is not None and not re.fullmatch("[1-9][0-9]{0,2}", country):
            raise ValueError('a country code has one to three digits, without + or 00, for example "49"')
        return country

    @field_validator("trunk")
    @classmethod
    def _digits(cls, trunk: str | None) -> str | None:
        if trunk is not None and not re.fullmatch("[0-9]{0,3}", trunk):
            raise ValueError('digits before a national number, for example "0", or "" for none')
        return trunk

    @model_validator(mode="after")
    def _settings_of_the_rule(self) -> Self:
        for key in ("country", "trunk", "length"):
            if getattr(self, key) is not None and key not in _SETTINGS.get(self.name, ()):
                raise ValueError(f"{key}: the rule {self.name} has no such setting")
        if self.name == "phone" and self.country is None:
            raise ValueError('phone needs a country code, for example {name = "phone", country = "49"}')
        if self.name == "digits" and self.length is None:
            raise ValueError('digits needs a length, for example {name = "digits", length = 7}')
        return self

    @model_serializer
    def _short(self) -> str | dict[str, Any]:
        given = {key: value for key, value in self if value is not None}
        return self.name if len(given) == 1 else given

    def normal(self, cell: str) -> str | None:
        """An id as it is compared; None if it does not fit the rule.

        >>> Rule(name="email").normal("Ann.Lee@Example.org"), Rule(name="email").normal("ann at example.org")
        ('ann.lee@example.org', None)
        >>> Rule(name="digits", length=5).normal("123"), Rule(name="digits", length=5).normal("123456")
        ('00123', None)
        """
        if self.name == "case":
            return unicodedata.normalize("NFC", cell.casefold())
        if self.name == "email":
            return unicodedata.normalize("NFC", cell.lower()) if _EMAIL.fullmatch(cell) else None
        if self.name == "phone":
            return self._phone(cell)
        if self.name == "digits":
            fits = cell.isascii() and cell.isdigit() and len(cell) <= (self.length or 0)
            return cell.zfill(self.length or 0) if fits else None
        return cell

    def _phone(self, cell: str) -> str | None:
        """A telephone number as the digits of country code and number.

        After + or 00 comes a country code; a (0) behind it, which is not dialled, is left out. Any other number is one
        of the rule's country, and loses the `trunk` prefix that is dialled within it, 0 unless the rule says otherwise.

        >>> rule = Rule(name="phone", country="49")
        >>> [rule.normal(number) for number in ("030 / 123-456", "(+49) (0)30 123456", "0049 30 123456", "ext. 12")]
        ['4930123456', '4930123456', '4930123456', None]
        """
        if not _PHONE.fullmatch(cell):
            return None
        if international := _INTERNATIONAL.match(cell):
            digits = _SEPARATORS.sub("", cell[international.end() :].replace("(0)", ""))
        else:
            trunk = "0" if self.trunk is None else self.trunk
            digits = f"{self.country}{_SEPARATORS.sub('', cell).removeprefix(trunk)}"
        return digits if _SHORTEST_PHONE <= len(digits) <= _LONGEST_PHONE and digits[0] != "0" else None

    @property
    def unfit(self) -> str:
        """What is wrong with an id that does not fit."""
        return {
            "email": "not an e-mail address, with one @ and no spaces",
            "phone": f"not a telephone number of {_SHORTEST_PHONE} to {_LONGEST_PHONE} digits, written with digits, "
            "spaces and . - / ( ) alone, and + or 00 before a country code",
            "digits": f"not a number of at most {self.length} digits",
        }[self.name]


def _rules(value: object) -> object:
    """One rule stands for a list of one, and a rule's name for the rule."""
    rules = list(value) if isinstance(value, list | tuple) else [value]
    if not rules:
        raise ValueError('give at least one rule, or leave it out for "exact"')
    return tuple({"name": rule} if isinstance(rule, str) else rule for rule in rules)


class IdRules(Section):
    """The part of a plan that says how ids are compared."""

    normalise: Annotated[tuple[Rule, ...], BeforeValidator(_rules)] = Field(
        (Rule(),),
        description='how ids are normalised: "exact", "case", "email", {name = "phone", country = "49"} or '
        '{name = "digits", length = 7}; for ids of several columns a list with a rule for each, or one for all',
    )
    hash: Literal["sha256"] | None = Field(
        None, description="sha256: compare hashes of normalised ids, for parties that hold nothing else (table.hashed)"
    )
    salt: str = Field("", description="with hash: a text before each id when it is hashed; all parties know it")

    @model_validator(mode="after")
    def _salt_for_hashes(self) -> Self:
        if self.salt and not self.hash:
            raise ValueError("salt: only hashed ids have one; set hash, or remove it")
        return self

    def by_column(self, table: Table) -> list[tuple[str, Rule]]:
        """The rule of each of a table's id columns."""
        rules, columns = self.normalise, table.id
        if len(rules) not in (1, len(columns)):
            raise PlanError(
                f"parameters.normalise: it has {len(rules)} rules, and ids of {table.party} have {len(columns)} "
                "columns (table.id)"
            )
        return list(zip(columns, rules * len(columns) if len(rules) == 1 else rules, strict=True))


def comparable(table: Table, rules: IdRules) -> pl.DataFrame:
    """The ids as all parties compare them, under the table's names; an id that does not fit is an error."""
    if table.hashed and not rules.hash:
        raise PlanError(f"{table.party}: table.hashed: the plan has no hash = 'sha256'; agree on that, or remove it")
    return pl.DataFrame([_column(table, name, rule, rules) for name, rule in rules.by_column(table)])


def _column(table: Table, name: str, rule: Rule, rules: IdRules) -> pl.Series:
    if rule.name == "exact" and not rules.hash:
        return table.frame[name]
    normal, unfit, pieces = _as_hash if table.hashed else rule.normal, list[int](), [pl.Series(name, [], pl.String)]
    for start in range(0, table.frame.height, _AT_ONCE):
        cells = table.frame[name][start : start + _AT_ONCE].to_list()
        found = [cell and normal(cell) for cell in cells]
        both = enumerate(zip(cells, found, strict=True), start=start + 1)
        unfit += [row for row, (cell, one) in both if cell and not one]
        if rules.hash and not table.hashed:
            found = [cell and hashlib.sha256(f"{rules.salt}{cell}".encode()).hexdigest() for cell in found]
        pieces.append(pl.Series(name, found, pl.String))
    if unfit:
        reason = f"{_UNFIT_HASH} (table.hashed)" if table.hashed else f"{rule.unfit} (parameters.normalise)"
        raise fault(table.party, table.origin, reason, name, unfit)
    return pl.concat(pieces)


def _as_hash(cell: str) -> str | None:
    return cell.lower() if _HASH.fullmatch(cell.lower()) else None

"""A plan: what the parties of a job share and compare before anything else.

It contains nothing private. Each field has a digest. Parties whose digests differ do not start, and are told which
fields differ; so are parties with different versions of the protocol, whatever version of the package they have.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Set
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from unpooled.control import PlanOffer, spoken
from unpooled.errors import PlanMismatch, ProtocolError
from unpooled.session import Session
from unpooled.settings import Section
from unpooled.transport.trust import PARTY_NAME
from unpooled.version import PROTOCOL_VERSION, must_upgrade
from unpooled.wire import WIRE_VERSION

SAFE_KEY_BITS = 2048
_OFFER_BYTES = 2**20
_FIELDS_NAMED = 20
_ADDRESS = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")

Role = Literal["seeker", "active", "passive", "coordinator"]


def _check_address(address: str) -> str:
    found = _ADDRESS.fullmatch(address)
    if not found or not 0 < int(found[1]) < 2**16:
        raise ValueError("an address is HOST:PORT, for example bank.example.org:7433 or [::1]:7433")
    return address


Address = Annotated[str, AfterValidator(_check_address)]


class Party(Section):
    """One party in a plan."""

    role: Role = Field(description="seeker, active, passive or coordinator")
    address: Address | None = Field(
        None, description="HOST:PORT where the others reach it; a party without one only dials"
    )


class Plan(Section):
    """A job as all its parties see it."""

    kind: str = Field(description="the kind of job; `unpooled job` lists them")
    engine: Literal["shares", "paillier", "plain"] = Field("shares", description="how products are protected")
    key_bits: int = Field(SAFE_KEY_BITS, description="size of keys made for the job", ge=512, le=8192)
    insecure: bool = Field(
        False, description="allow keys of fewer than 2048 bits; for comparisons, never for real data"
    )
    count_rows: bool = Field(
        True,
        description="with shares, allow a faster way for trees that discloses how many rows each bin of a node has",
    )
    audit: bool = Field(
        True,
        description="keep evidence for audits, in which parties that agree to it check the inputs of others",
    )
    timeout: float = Field(
        600,
        description="seconds after which a silent party counts as lost; busy parties send keep-alives",
        gt=0,
        le=86_400,
    )
    parameters: dict[str, Any] = Field({}, description="settings of this kind of job")
    parties: dict[str, Party] = Field(description="who takes part; `unpooled certs` makes certificates for these names")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.key_bits < SAFE_KEY_BITS and not self.insecure:
            raise ValueError(
                f"key_bits: {self.key_bits} is not secure; at least {SAFE_KEY_BITS}, or set insecure = true"
            )
        if len(self.parties) < 2:
            raise ValueError("parties: at least two are needed")
        for name in self.parties:
            if not re.fullmatch(PARTY_NAME, name):
                raise ValueError(
                    f"parties: {name!r} is not a valid name: use a-z, 0-9 and hyphens, and begin with a letter"
                )
        if sum(party.role == "active" for party in self.parties.values()) != 1:
            raise ValueError("parties: exactly one must be active")
        return self

    def with_role(self, role: Role) -> list[str]:
        """The names of the parties in a role, in the plan's order."""
        return [name for name, party in self.parties.items() if party.role == role]

    @property
    def active(self) -> str:
        """The party that drives the job."""
        return self.with_role("active")[0]

    @property
    def owners(self) -> tuple[str, ...]:
        """The parties that hold columns, in the plan's order."""
        return tuple(name for name, party in self.parties.items() if party.role in ("active", "passive"))


def fields_of(plan: Plan, parameters: BaseModel) -> dict[str, str]:
    """Everything the parties must agree on, defaults filled in, as dotted names with JSON values."""
    content = plan.model_dump(mode="json") | {
        "parameters": parameters.model_dump(mode="json"),
        "party_order": list(plan.parties),
        "versions": {"protocol": PROTOCOL_VERSION, "wire": WIRE_VERSION},
    }
    return {name: json.dumps(value, ensure_ascii=False) for name, value in _flat(content)}


def _flat(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in sorted(content.items()):
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def digest_of(fields: Mapping[str, str]) -> str:
    """One digest of all fields, to name the plan by."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def agree(session: Session, fields: Mapping[str, str]) -> None:
    """Compare protocol version and plan with every peer's; PlanMismatch says who must upgrade, or names the fields."""
    mine = {name: hashlib.sha256(value.encode()).digest() for name, value in fields.items()}
    with session.scope("plan"):
        for peer in session.peers:
            session.send(peer, PlanOffer(PROTOCOL_VERSION, tuple(mine), tuple(mine.values())))
        for peer in session.peers:
            offer = session.recv(peer, PlanOffer, at_most=_OFFER_BYTES)
            if offer.protocol != PROTOCOL_VERSION:
                raise PlanMismatch(must_upgrade(session.party, peer, offer.protocol))
            if len(offer.names) != len(offer.digests):
                raise ProtocolError(
                    f"invalid PlanOffer from {peer}: {len(offer.names)} names, {len(offer.digests)} digests"
                )
            theirs = dict(zip(offer.names, offer.digests, strict=True))
            different = {name for name in mine.keys() & theirs.keys() if mine[name] != theirs[name]}
            found = _named(different)
            found += _named(mine.keys() - theirs.keys(), f" (only at {session.party})")
            found += _named(theirs.keys() - mine.keys(), f" (only at {peer})")
            if found:
                raise PlanMismatch(f"the plans of {session.party} and {peer} differ in: {'; '.join(found)}")
    session.agreed()


def _named(fields: Set[str], where: str = "") -> list[str]:
    """Fields in words, the first few of many; nothing if there are none."""
    shown = sorted(fields)[:_FIELDS_NAMED]
    more = ", ..." if len(fields) > len(shown) else ""
    return [spoken(", ".join(shown) + more) + where] if shown else []

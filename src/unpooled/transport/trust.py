"""Checking keys and certificates: a party is who its valid certificate says it is.

A party's folder holds `key.pem`, `certificate.pem`, `authority.pem` and, if the authority has given one, the revocation
list `revoked.pem`. Making them is the work of `certificates.py`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from unpooled.errors import CertificateError

PARTY_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")

KEY_FILE = "key.pem"
CERTIFICATE_FILE = "certificate.pem"
AUTHORITY_FILE = "authority.pem"
REVOKED_FILE = "revoked.pem"

_ORIGIN = {
    KEY_FILE: "`unpooled certs request` makes it",
    CERTIFICATE_FILE: "the authority makes it from the party's request with `unpooled certs sign`",
    AUTHORITY_FILE: "the authority sends it along with the certificate",
}

Parsed = TypeVar("Parsed")
Extension = TypeVar("Extension", bound=x509.ExtensionType)


@dataclass(frozen=True)
class Identity:
    """A party's own certificate, the folder with it and its key, and what it checks others' against."""

    party: str
    folder: Path
    certificate_pem: bytes
    authority_pem: bytes
    revoked: x509.CertificateRevocationList | None


def load_identity(folder: Path, party: str) -> Identity:
    """Read a party's folder, and refuse it if its peers would refuse the certificate."""
    try:
        return _load_identity(folder, party)
    except CertificateError as error:
        raise CertificateError(f"{party} cannot use {folder}: {error}") from None


def _load_identity(folder: Path, party: str) -> Identity:
    key = read_key(folder / KEY_FILE)
    certificate = read_certificate(folder / CERTIFICATE_FILE)
    authority = read_authority(folder)
    revoked_file = folder / REVOKED_FILE
    identity = Identity(
        party=party,
        folder=folder,
        certificate_pem=certificate.public_bytes(Encoding.PEM),
        authority_pem=authority.public_bytes(Encoding.PEM),
        revoked=read_revoked(revoked_file, authority) if revoked_file.exists() else None,
    )
    check_peer(identity, identity.certificate_pem, expected=party)
    if key.public_key() != certificate.public_key():
        raise CertificateError(f"{CERTIFICATE_FILE} does not match {KEY_FILE}; have this folder's request signed")
    return identity


def check_peer(
    identity: Identity, certificate_pem: bytes, expected: str | None = None, now: datetime | None = None
) -> str:
    """Return the party that a certificate belongs to, after checking that it is valid and the expected party's."""
    now = now or datetime.now(UTC)
    shown_by = expected or "the peer"
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
    except ValueError:
        raise CertificateError(f"{shown_by} showed something that is not a certificate") from None
    authority = x509.load_pem_x509_certificate(identity.authority_pem)
    serial = f"(serial …{certificate.serial_number & 0xFFFF:04x})"
    if not is_signed_by(certificate, authority):
        raise CertificateError(
            f"the certificate {serial} shown by {shown_by} is not signed by the authority that {identity.party} trusts"
        )
    party = name_in(certificate)
    if expected is not None and party != expected:
        raise CertificateError(f"{expected} was expected, but the certificate {serial} names {party}")
    described = f"{party}'s certificate {serial}"
    check_dates("the authority's certificate", authority, now)
    check_dates(described, certificate, now)
    usage = _extension(certificate, x509.ExtendedKeyUsage) or ()
    if not {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH} <= set(usage):
        raise CertificateError(f"{described} must allow calling and being called (TLS client and server)")
    if identity.revoked is not None:
        _check_not_revoked(described, certificate, identity.revoked, now)
    return party


def check_dates(described: str, certificate: x509.Certificate, now: datetime) -> None:
    """Refuse a certificate that is not yet valid or has expired."""
    if now > certificate.not_valid_after_utc:
        raise CertificateError(f"{described} expired on {moment(certificate.not_valid_after_utc)}; a new one is needed")
    if now < certificate.not_valid_before_utc:
        begins = moment(certificate.not_valid_before_utc)
        raise CertificateError(f"{described} is valid only from {begins}; here it is {moment(now)}: check the clock")


def _check_not_revoked(
    described: str, certificate: x509.Certificate, revoked: x509.CertificateRevocationList, now: datetime
) -> None:
    if revoked.next_update_utc is None or now > revoked.next_update_utc:
        made = moment(revoked.last_update_utc)
        raise CertificateError(f"{REVOKED_FILE} of {made} is too old to rely on; ask the authority for a fresh one")
    entry = revoked.get_revoked_certificate_by_serial_number(certificate.serial_number)
    if entry is not None:
        raise CertificateError(f"{described} was revoked on {entry.revocation_date_utc:%Y-%m-%d}")


def check_party_name(name: str) -> str:
    if not PARTY_NAME.fullmatch(name):
        raise CertificateError(
            f"{name[:40]!r} is not a valid party name: use a small letter, then small letters, digits or hyphens, at "
            "most 32 characters"
        )
    return name


def name_in(certificate: x509.Certificate) -> str:
    """Return the one name in a certificate, without checking its signature."""
    name = check_party_name(common_name(certificate.subject))
    alternative_names = _extension(certificate, x509.SubjectAlternativeName) or ()
    if list(alternative_names) != [x509.DNSName(name)]:
        raise CertificateError(f"{name}'s certificate must have that name as its only alternative (DNS) name")
    return name


def common_name(subject: x509.Name) -> str:
    """Return the common name of a subject that has nothing else, otherwise an empty text."""
    match list(subject):
        case [x509.NameAttribute(oid=NameOID.COMMON_NAME, value=str(name))]:
            return name
    return ""


def is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether the authority itself signed the certificate, without an intermediate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _extension(certificate: x509.Certificate, kind: type[Extension]) -> Extension | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError):
        return None


def read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a private key that only its owner can read."""
    wanted = "a P-256 private key without a password"
    key = read_pem(path, lambda content: load_pem_private_key(content, password=None), wanted)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise CertificateError(f"{path} is not {wanted}")
    if os.name != "nt" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise CertificateError(f"{path} can be read by others; run: chmod 600 {path}")
    return key


def read_certificate(path: Path) -> x509.Certificate:
    return read_pem(path, x509.load_pem_x509_certificate, "a certificate")


def read_authority(folder: Path) -> x509.Certificate:
    """Read the authority's own certificate from a folder of a party or of the authority."""
    authority = read_certificate(folder / AUTHORITY_FILE)
    constraints = _extension(authority, x509.BasicConstraints)
    if constraints is None or not constraints.ca or not is_signed_by(authority, authority):
        raise CertificateError(f"{folder / AUTHORITY_FILE} is not an authority's certificate")
    return authority


def read_revoked(path: Path, authority: x509.Certificate) -> x509.CertificateRevocationList:
    """Read a revocation list that the authority signed."""
    authority_key = require_p256(authority.public_key(), "the authority's key")

    def parse(content: bytes) -> x509.CertificateRevocationList:
        revoked = x509.load_pem_x509_crl(content)
        if revoked.issuer != authority.subject or not revoked.is_signature_valid(authority_key):
            raise ValueError
        return revoked

    return read_pem(path, parse, "a revocation list signed by the authority; ask the authority for it again")


def read_pem(path: Path, parse: Callable[[bytes], Parsed], wanted: str) -> Parsed:
    """Read and parse a PEM file, or say which file is missing or is not what is wanted."""
    try:
        return parse(path.read_bytes())
    except FileNotFoundError:
        origin = f"; {_ORIGIN[path.name]}" if path.name in _ORIGIN else ""
        raise CertificateError(f"{path} is missing{origin}") from None
    except OSError as error:
        raise CertificateError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise CertificateError(f"{path} is not {wanted}") from None


def require_p256(public_key: object, described: str) -> ec.EllipticCurvePublicKey:
    """Return the key if it is a P-256 key."""
    if isinstance(public_key, ec.EllipticCurvePublicKey) and isinstance(public_key.curve, ec.SECP256R1):
        return public_key
    raise CertificateError(f"{described} is not a P-256 key; `unpooled certs request` makes one")


def moment(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M} UTC"

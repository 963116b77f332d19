"""Making keys, requests, certificates and revocation lists.

A party makes its own key and a request; an authority signs it and returns the certificate. The authority's folder
holds `authority-key.pem`, `authority.pem`, `revoked.pem` and, in `issued/`, a copy of every certificate it signed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from unpooled.atomic import make_folder, write_bytes
from unpooled.errors import CertificateError
from unpooled.transport.trust import (
    AUTHORITY_FILE,
    CERTIFICATE_FILE,
    KEY_FILE,
    REVOKED_FILE,
    check_dates,
    check_party_name,
    common_name,
    is_signed_by,
    read_authority,
    read_certificate,
    read_key,
    read_pem,
    read_revoked,
    require_p256,
)

AUTHORITY_KEY_FILE = "authority-key.pem"
REQUEST_FILE = "request.pem"
ISSUED_FOLDER = "issued"
TRIAL_AUTHORITY = "trial_authority"  # the underscore keeps it apart from every party's name

AUTHORITY_DAYS = 3650
PARTY_DAYS = 365
TRIAL_DAYS = 30
LIST_DAYS = 90
CLOCK_SKEW = timedelta(minutes=5)


def make_authority(folder: Path, name: str, days: int = AUTHORITY_DAYS) -> x509.Certificate:
    """Make an authority: its key, its certificate and an empty revocation list."""
    if not 1 <= len(name) <= 64:
        raise CertificateError("an authority's name has 1 to 64 characters")
    key = _make_key(folder / AUTHORITY_KEY_FILE)
    now = datetime.now(UTC)
    authority = (
        _begin_certificate(
            _subject(name), _subject(name), key.public_key(), now - CLOCK_SKEW, now + timedelta(days=days)
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    write_bytes(folder / AUTHORITY_FILE, authority.public_bytes(Encoding.PEM))
    write_bytes(folder / REVOKED_FILE, revocation_list(authority, key, (), made=now).public_bytes(Encoding.PEM))
    return authority


def make_request(folder: Path, party: str) -> x509.CertificateSigningRequest:
    """Make a party's key and its request for a certificate; only the request is sent to anybody."""
    check_party_name(party)
    key = _make_key(folder / KEY_FILE)
    request = x509.CertificateSigningRequestBuilder().subject_name(_subject(party)).sign(key, hashes.SHA256())
    write_bytes(folder / REQUEST_FILE, request.public_bytes(Encoding.PEM))
    return request


def sign(authority_folder: Path, request_file: Path, out: Path, days: int = PARTY_DAYS) -> x509.Certificate:
    """Sign a request, and write the three files for the party into `out`."""
    authority, key = _read_authority(authority_folder)
    party, public_key = _read_request(request_file)
    now = datetime.now(UTC)
    check_dates("the authority's certificate", authority, now)
    ends = min(now + timedelta(days=days), authority.not_valid_after_utc)
    certificate = issue(authority, key, party, public_key, begins=now - CLOCK_SKEW, ends=ends)

    issued = authority_folder / ISSUED_FOLDER
    for folder in (issued, out):
        make_folder(folder)
    for path in (issued / f"{party}-{certificate.serial_number:x}.pem", out / CERTIFICATE_FILE):
        write_bytes(path, certificate.public_bytes(Encoding.PEM))
    for name in (AUTHORITY_FILE, REVOKED_FILE):
        write_bytes(out / name, (authority_folder / name).read_bytes())
    return certificate


def issue(
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    party: str,
    public_key: ec.EllipticCurvePublicKey,
    begins: datetime,
    ends: datetime,
) -> x509.Certificate:
    """Make a party's certificate: valid as TLS client and server under its name, and for nothing else."""
    both_ways = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return (
        _begin_certificate(_subject(party), authority.subject, public_key, begins, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both_ways), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(party)]), critical=False)
        .add_extension(_issuer_key(authority_key), critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def revoke(authority_folder: Path, certificate_file: Path) -> x509.CertificateRevocationList:
    """Add a certificate to the authority's revocation list; one that is on it already keeps its date."""
    authority, _ = _read_authority(authority_folder)
    certificate = read_certificate(certificate_file)
    if not is_signed_by(certificate, authority):
        raise CertificateError(f"{certificate_file} is not signed by the authority in {authority_folder}")
    builder = x509.RevokedCertificateBuilder().serial_number(certificate.serial_number)
    entry = builder.revocation_date(datetime.now(UTC)).build()
    return refresh_revoked(authority_folder, [entry])


def refresh_revoked(
    authority_folder: Path, added: Sequence[x509.RevokedCertificate] = ()
) -> x509.CertificateRevocationList:
    """Write the authority's revocation list again, with today's date, its old entries and the added ones."""
    authority, key = _read_authority(authority_folder)
    path = authority_folder / REVOKED_FILE
    old = read_revoked(path, authority)
    entries = {entry.serial_number: entry for entry in (*added, *old)}
    new = revocation_list(authority, key, entries.values(), made=datetime.now(UTC))
    write_bytes(path, new.public_bytes(Encoding.PEM))
    return new


def revocation_list(
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    entries: Iterable[x509.RevokedCertificate],
    made: datetime,
) -> x509.CertificateRevocationList:
    """Make a revocation list: valid for `LIST_DAYS` from now."""
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.subject)
        .last_update(made)
        .next_update(made + timedelta(days=LIST_DAYS))
        .add_extension(x509.CRLNumber(int(made.timestamp())), critical=False)
        .add_extension(_issuer_key(authority_key), critical=False)
    )
    for entry in entries:
        builder = builder.add_revoked_certificate(entry)
    return builder.sign(authority_key, hashes.SHA256())


def make_trial(folder: Path, parties: Sequence[str], days: int = TRIAL_DAYS) -> None:
    """Make an authority and a ready folder for each party at once; for trials only, since one place holds all keys."""
    names = dict.fromkeys(check_party_name(party) for party in parties)
    make_authority(folder / TRIAL_AUTHORITY, "unpooled trial authority", days)
    for party in names:
        make_request(folder / party, party)
        sign(folder / TRIAL_AUTHORITY, folder / party / REQUEST_FILE, out=folder / party, days=days)


def fingerprint(made: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """Return the SHA-256 of a public key, for two people to compare over the telephone."""
    public_key = made.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(public_key).hexdigest()


def _make_key(path: Path) -> ec.EllipticCurvePrivateKey:
    if path.exists():
        raise CertificateError(f"{path} exists and is not overwritten; choose another folder, or remove it by hand")
    make_folder(path.parent)
    key = ec.generate_private_key(ec.SECP256R1())  # every OpenSSL accepts it, and revocation lists signed with it
    write_bytes(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return key


def _read_authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    authority, key = read_authority(folder), read_key(folder / AUTHORITY_KEY_FILE)
    if key.public_key() != authority.public_key():
        raise CertificateError(f"{folder / AUTHORITY_FILE} does not match {AUTHORITY_KEY_FILE}")
    return authority, key


def _read_request(path: Path) -> tuple[str, ec.EllipticCurvePublicKey]:
    """Read the name and the key from a request; whatever else it asks for is ignored."""

    def parse(content: bytes) -> x509.CertificateSigningRequest:
        request = x509.load_pem_x509_csr(content)
        if not request.is_signature_valid:
            raise ValueError
        return request

    request = read_pem(path, parse, "a request for a certificate, signed with the key that it is for")
    public_key = require_p256(request.public_key(), f"the key in {path}")
    return check_party_name(common_name(request.subject)), public_key


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _begin_certificate(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _issuer_key(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )

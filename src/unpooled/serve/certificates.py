"""A party's own certificate, and the authority, at the one party that signs everybody's.

A request is made beside the certificate that is in use, and replaces it once it was signed. What the authority hands
back is one text: the party's certificate, the authority's, and the revocation list.
"""

from __future__ import annotations

import re
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509

from unpooled import atomic
from unpooled.errors import CertificateError
from unpooled.serve.audit_log import note
from unpooled.serve.context import Context
from unpooled.transport import certificates, trust

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----[^-]+-----END \1-----\n?")
_MOST_BYTES = 2**16


@dataclass(frozen=True)
class OwnCertificate:
    """The state of a party's certificate: until when it is valid, or why it cannot be used."""

    valid_until: str
    fingerprint: str
    authority_fingerprint: str
    problem: str


def own_certificate(context: Context) -> OwnCertificate:
    folder = context.folder.certificates
    try:
        trust.load_identity(folder, context.party)
        certificate = trust.read_certificate(folder / trust.CERTIFICATE_FILE)
        authority = trust.read_authority(folder)
    except CertificateError as error:
        return OwnCertificate("", "", "", str(error))
    ends = certificate.not_valid_after_utc.isoformat(timespec="seconds")
    return OwnCertificate(ends, certificates.fingerprint(certificate), certificates.fingerprint(authority), "")


def pending_request(context: Context) -> tuple[str, str] | None:
    """The request that waits to be signed, and its fingerprint."""
    path = context.folder.next_certificate / certificates.REQUEST_FILE
    if not path.exists():
        return None
    text = path.read_bytes()
    return text.decode(), certificates.fingerprint(x509.load_pem_x509_csr(text))


def make_request(context: Context, by: str) -> None:
    """Make a new key and a request for a certificate; an earlier request that was not signed is forgotten."""
    waiting = context.folder.next_certificate
    if waiting.exists():
        shutil.rmtree(waiting)
    certificates.make_request(waiting, context.party)
    with context.database.transaction() as connection:
        note(connection, by, "made a request for a certificate")


def install(context: Context, by: str, signed: str) -> None:
    """Put what the authority has handed back to use; refused unless peers would accept it.

    It is for the request that waits, or, if there is none, for the key in use, as with a fresh revocation list.
    """
    in_use, waiting = context.folder.certificates, context.folder.next_certificate
    key = (waiting if waiting.exists() else in_use) / trust.KEY_FILE
    if not key.exists():
        raise CertificateError("make a request first, and have it signed")
    fresh = in_use.with_name(f"installed-{secrets.token_hex(4)}")
    atomic.close_folder(fresh)
    try:
        atomic.write_bytes(fresh / trust.KEY_FILE, key.read_bytes())
        for file, text in _sorted(signed).items():
            atomic.write_text(fresh / file, text)
        trust.load_identity(fresh, context.party)
    except BaseException:
        shutil.rmtree(fresh)
        raise
    use(in_use, fresh)
    if waiting.exists():
        shutil.rmtree(waiting)
    with context.database.transaction() as connection:
        note(connection, by, "put a certificate to use", f"valid until {own_certificate(context).valid_until}")


def use(in_use: Path, folder: Path) -> None:
    """Let the name of the folder in use lead to this folder beside it, from one moment to the next."""
    before = in_use.resolve() if in_use.is_symlink() else None
    link = in_use.with_name(f"{in_use.name}-{secrets.token_hex(4)}")
    link.symlink_to(folder.name, target_is_directory=True)
    link.replace(in_use)
    if before and before != folder.resolve():
        shutil.rmtree(before, ignore_errors=True)


def has_authority(context: Context) -> bool:
    return (context.folder.authority / certificates.AUTHORITY_KEY_FILE).exists()


def make_authority(context: Context, by: str, name: str) -> None:
    """Let this party's service sign the certificates of all."""
    certificates.make_authority(context.folder.authority, name)
    with context.database.transaction() as connection:
        note(connection, by, "made an authority", name)


def sign(context: Context, by: str, request: str, days: int = certificates.PARTY_DAYS) -> str:
    """Sign a party's request, and return the text for it to install."""
    if len(request) > _MOST_BYTES:
        raise CertificateError("this is not a request for a certificate: it is too long")
    with TemporaryDirectory(dir=context.folder.root, prefix=".signing-") as name:
        out = Path(name)
        atomic.write_text(out / certificates.REQUEST_FILE, request)
        certificate = certificates.sign(context.folder.authority, out / certificates.REQUEST_FILE, out, days)
        files = (trust.CERTIFICATE_FILE, trust.AUTHORITY_FILE, trust.REVOKED_FILE)
        signed = "".join((out / file).read_text(encoding="ascii") for file in files)
    with context.database.transaction() as connection:
        note(connection, by, "signed a certificate", trust.name_in(certificate))
    return signed


def _sorted(signed: str) -> dict[str, str]:
    """The blocks of a text by the files they belong to: the authority's certificate is the one that signed itself."""
    if len(signed) > _MOST_BYTES:
        raise CertificateError("this is not what an authority hands back: it is too long")
    found: dict[str, str] = {}
    for block in _BLOCK.finditer(signed.replace("\r\n", "\n")):
        text = block[0] if block[0].endswith("\n") else block[0] + "\n"
        if block[1] == "X509 CRL":
            found[trust.REVOKED_FILE] = text
        elif block[1] == "CERTIFICATE":
            try:
                certificate = x509.load_pem_x509_certificate(text.encode())
            except ValueError:
                raise CertificateError("a certificate in this text cannot be read") from None
            own = trust.is_signed_by(certificate, certificate)
            found[trust.AUTHORITY_FILE if own else trust.CERTIFICATE_FILE] = text
    if trust.CERTIFICATE_FILE not in found or trust.AUTHORITY_FILE not in found:
        raise CertificateError("this text must hold the party's certificate and the authority's")
    return found

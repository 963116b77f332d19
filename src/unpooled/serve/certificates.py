"""A party's own certificate, and the authority, at the one party that signs everybody's.

A request is made beside the certificate that is in use, and replaces it once it was signed. What the authority hands
back is one text: the party's certificate, the authority's, and the revocation list. A fresh revocation list alone
replaces the one in use. What only the authority does is in `authority`.
"""

from __future__ import annotations

import re
import secrets
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from unpooled import atomic
from unpooled.errors import CertificateError
from unpooled.serve.context import Context
from unpooled.serve.state.audit_log import note
from unpooled.transport import certificates, trust

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----[^-]+-----END \1-----\n?")
_MOST_BYTES = 2**16


@dataclass(frozen=True)
class OwnCertificate:
    """The state of a party's certificate: until when it and the revocation list are valid, or why it cannot be used."""

    valid_until: str
    list_until: str
    fingerprint: str
    authority_fingerprint: str
    problem: str


def own_certificate(context: Context) -> OwnCertificate:
    folder = context.folder.certificates
    try:
        trust.load_identity(folder, context.party)
        certificate = trust.read_certificate(folder / trust.CERTIFICATE_FILE)
        authority = trust.read_authority(folder)
        revoked = trust.read_revoked(folder / trust.REVOKED_FILE, authority)
    except CertificateError as error:
        return OwnCertificate("", "", "", "", str(error))
    ends = certificate.not_valid_after_utc.isoformat(timespec="seconds")
    until = revoked.next_update_utc.isoformat(timespec="seconds") if revoked.next_update_utc else ""
    prints = certificates.fingerprint(certificate), certificates.fingerprint(authority)
    return OwnCertificate(ends, until, *prints, "")


def days_until(at: str) -> int:
    """How many whole days are left until a time; less than 0 if it has passed."""
    return (datetime.fromisoformat(at) - datetime.now(UTC)).days


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

    It is for the request that waits, or, if there is none or it is just a revocation list, for the key in use.
    """
    in_use, waiting = context.folder.certificates, context.folder.next_certificate
    if not waiting.exists() and not in_use.exists():
        raise CertificateError("make a request first, and have it signed")
    found = _sorted(signed)
    just_list = set(found) == {trust.REVOKED_FILE}
    new_key = waiting.exists() and not just_list
    source = waiting if new_key else in_use
    if not (source / trust.KEY_FILE).exists():
        raise CertificateError("there is no certificate yet that this list could go with")
    fresh = in_use.with_name(f"installed-{secrets.token_hex(4)}")
    atomic.close_folder(fresh)
    try:
        kept = (trust.KEY_FILE, *((trust.CERTIFICATE_FILE, trust.AUTHORITY_FILE) if just_list else ()))
        for file in kept:
            atomic.write_bytes(fresh / file, (source / file).read_bytes())
        for file, text in found.items():
            atomic.write_text(fresh / file, text)
        trust.load_identity(fresh, context.party)
        if just_list:
            _check_not_older(in_use, fresh)
    except BaseException as error:
        shutil.rmtree(fresh)
        if isinstance(error, CertificateError):  # a path that is gone says nothing
            raise CertificateError(str(error).replace(f"{fresh}/", "").replace(str(fresh), "this")) from None
        raise
    use(in_use, fresh)
    if new_key:
        shutil.rmtree(waiting)
    own = own_certificate(context)
    with context.database.transaction() as connection:
        if just_list:
            note(connection, by, "put a revocation list to use", f"valid until {own.list_until}")
        else:
            note(connection, by, "put a certificate to use", f"valid until {own.valid_until}")


def use(in_use: Path, folder: Path) -> None:
    """Let the name of the folder in use lead to this folder beside it, from one moment to the next."""
    before = in_use.resolve() if in_use.is_symlink() else None
    link = in_use.with_name(f"{in_use.name}-{secrets.token_hex(4)}")
    link.symlink_to(folder.name, target_is_directory=True)
    link.replace(in_use)
    if before and before != folder.resolve():
        shutil.rmtree(before, ignore_errors=True)


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
    whole = {trust.CERTIFICATE_FILE, trust.AUTHORITY_FILE} <= set(found)
    if not whole and set(found) != {trust.REVOKED_FILE}:
        raise CertificateError("this text must hold the party's certificate and the authority's, or a revocation list")
    return found


def _check_not_older(in_use: Path, fresh: Path) -> None:
    """An older list would admit those that were revoked since."""
    if not (in_use / trust.REVOKED_FILE).exists():
        return
    authority = trust.read_authority(fresh)
    before, after = (trust.read_revoked(folder / trust.REVOKED_FILE, authority) for folder in (in_use, fresh))
    if after.last_update_utc < before.last_update_utc:
        raise CertificateError("this revocation list is older than the one in use")

"""The authority, at the one party that signs everybody's certificates, and what it revokes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509

from unpooled import atomic
from unpooled.errors import CertificateError
from unpooled.serve.certificates import install, make_request, own_certificate, pending_request
from unpooled.serve.context import Context
from unpooled.serve.state.audit_log import note
from unpooled.transport import certificates, trust

_MOST_CHARACTERS = 2**16


@dataclass(frozen=True)
class Issued:
    """A certificate that the authority has signed; `revoked` is when it was revoked, if it was."""

    party: str
    number: str
    fingerprint: str
    valid_until: str
    revoked: str


def has_authority(context: Context) -> bool:
    return (context.folder.authority / certificates.AUTHORITY_KEY_FILE).exists()


def authority_fingerprint(context: Context) -> str:
    """What everybody compares with the authority's fingerprint that the own service shows."""
    return certificates.fingerprint(trust.read_authority(context.folder.authority))


def make_authority(context: Context, by: str, name: str) -> None:
    """Let this party's service sign the certificates of all."""
    if has_authority(context):
        raise CertificateError("there is an authority here already")
    certificates.make_authority(context.folder.authority, name)
    with context.database.transaction() as connection:
        note(connection, by, "made an authority", name)


def request_in(request: str) -> tuple[str, str]:
    """For which party a request is, and the fingerprint of its key: to be compared before it is signed."""
    try:
        found = x509.load_pem_x509_csr(request.encode())
        return trust.check_party_name(trust.common_name(found.subject)), certificates.fingerprint(found)
    except ValueError:
        raise CertificateError("this is not a request for a certificate") from None


def sign(context: Context, by: str, request: str, days: int = certificates.PARTY_DAYS) -> str:
    """Sign a party's request, and return the number of the certificate; `handed_back` has the text to install."""
    if len(request) > _MOST_CHARACTERS:
        raise CertificateError("this is not a request for a certificate: it is too long")
    with TemporaryDirectory(dir=context.folder.root, prefix=".signing-") as name:
        out = Path(name)
        atomic.write_text(out / certificates.REQUEST_FILE, request)
        made = certificates.sign(context.folder.authority, out / certificates.REQUEST_FILE, out, days)
    with context.database.transaction() as connection:
        note(connection, by, "signed a certificate", trust.name_in(made))
    return f"{made.serial_number:x}"


def handed_back(context: Context, number: str) -> tuple[str, str]:
    """For whom a certificate is, and the text for that party to install, with a fresh revocation list."""
    found, folder = _existing(context, number), context.folder.authority
    certificates.refresh_revoked(folder)
    files = (_file(context, found), folder / trust.AUTHORITY_FILE, folder / trust.REVOKED_FILE)
    return found.party, "".join(file.read_text(encoding="ascii") for file in files)


def certify_itself(context: Context, by: str) -> None:
    """Give the party whose service has the authority a certificate of its own."""
    make_request(context, by)
    pending = pending_request(context)
    assert pending is not None
    install(context, by, handed_back(context, sign(context, by, pending[0]))[1])


def issued(context: Context) -> list[Issued]:
    """All certificates that the authority has signed, those that are valid longest first."""
    folder = context.folder.authority
    revoked = trust.read_revoked(folder / trust.REVOKED_FILE, trust.read_authority(folder))
    found = []
    for path in (folder / certificates.ISSUED_FOLDER).glob("*.pem"):
        one = trust.read_certificate(path)
        entry = revoked.get_revoked_certificate_by_serial_number(one.serial_number)
        when = entry.revocation_date_utc.isoformat(timespec="seconds") if entry else ""
        ends = one.not_valid_after_utc.isoformat(timespec="seconds")
        found.append(Issued(trust.name_in(one), f"{one.serial_number:x}", certificates.fingerprint(one), ends, when))
    return sorted(found, key=lambda each: (each.valid_until, each.party), reverse=True)


def revoke(context: Context, by: str, number: str) -> None:
    """Revoke a certificate: whoever installs the revocation list refuses it from then on, and this party at once."""
    found = _existing(context, number)
    certificates.revoke(context.folder.authority, _file(context, found))
    with context.database.transaction() as connection:
        note(connection, by, "revoked a certificate", f"{found.party}, number {number}")
    _use_here(context, by)


def fresh_list(context: Context, by: str) -> str:
    """A revocation list with today's date, for all parties to install; it is used here at once."""
    certificates.refresh_revoked(context.folder.authority)
    with context.database.transaction() as connection:
        note(connection, by, "made a fresh revocation list")
    _use_here(context, by)
    return current_list(context)


def current_list(context: Context) -> str:
    """The revocation list as it is."""
    if not has_authority(context):
        raise CertificateError("the authority is not at this party")
    return (context.folder.authority / trust.REVOKED_FILE).read_text(encoding="ascii")


def _existing(context: Context, number: str) -> Issued:
    found = {one.number: one for one in issued(context)} if has_authority(context) else {}
    if number not in found:
        raise CertificateError("the authority here has signed no such certificate")
    return found[number]


def _file(context: Context, one: Issued) -> Path:
    return context.folder.authority / certificates.ISSUED_FOLDER / f"{one.party}-{one.number}.pem"


def _use_here(context: Context, by: str) -> None:
    own = own_certificate(context)
    if own.authority_fingerprint == authority_fingerprint(context):
        install(context, by, current_list(context))

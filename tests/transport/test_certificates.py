"""Making keys, requests, certificates and revocation lists."""

from __future__ import annotations

import os
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store
from hypothesis import given
from hypothesis import strategies as st

from unpooled.errors import CertificateError
from unpooled.transport import certificates, trust

DAY = timedelta(days=1)


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    certificates.make_authority(tmp_path / "authority", "test authority")
    return tmp_path / "authority"


def signed_party(authority: Path, party: str) -> Path:
    """Make a party's folder beside the authority's and let the authority sign its request."""
    folder = authority.parent / party
    certificates.make_request(folder, party)
    certificates.sign(authority, folder / "request.pem", out=folder)
    return folder


def write_request(
    path: Path, attributes: list[tuple[x509.ObjectIdentifier, str]], key: ec.EllipticCurvePrivateKey
) -> None:
    subject = x509.Name([x509.NameAttribute(kind, value) for kind, value in attributes])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    path.write_bytes(request.public_bytes(Encoding.PEM))


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such rights")
def test_only_the_owner_can_read_keys_and_certificates(tmp_path: Path) -> None:
    certificates.make_trial(tmp_path, ["bank", "telco"])
    for folder in tmp_path.iterdir():
        assert rights(folder) == 0o700
        for path in folder.glob("*.pem"):
            assert rights(path) == 0o600, path.name


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such rights")
def test_a_key_is_never_readable_by_others_even_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, seen = Path.write_bytes, []

    def watch(path: Path, content: bytes) -> int:
        size = write(path, content)
        if b"PRIVATE KEY" in content:
            seen.append(rights(path))
        return size

    monkeypatch.setattr(Path, "write_bytes", watch)
    before = os.umask(0)
    try:
        certificates.make_request(tmp_path / "bank", "bank")
    finally:
        os.umask(before)
    assert seen == [0o600]


def test_every_file_of_a_trial_is_where_it_belongs(tmp_path: Path) -> None:
    certificates.make_trial(tmp_path, ["bank", "telco", "bank"])
    party_files = {"key.pem", "request.pem", "certificate.pem", "authority.pem", "revoked.pem"}
    assert {path.name for path in tmp_path.iterdir()} == {"trial_authority", "bank", "telco"}
    assert {path.name for path in (tmp_path / "bank").iterdir()} == party_files
    issued = [path.name for path in (tmp_path / "trial_authority" / "issued").iterdir()]
    assert sorted(name.split("-")[0] for name in issued) == ["bank", "telco"]


def test_a_trial_with_one_impossible_name_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="Telco"):
        certificates.make_trial(tmp_path / "trial", ["bank", "Telco"])
    assert not (tmp_path / "trial").exists()


def test_a_certificate_passes_the_verifier_of_the_cryptography_package(authority: Path) -> None:
    folder = signed_party(authority, "bank")
    certificate = trust.read_certificate(folder / "certificate.pem")
    policy = PolicyBuilder().store(Store([trust.read_authority(folder)]))
    as_server = policy.build_server_verifier(x509.DNSName("bank")).verify(certificate, [])
    as_client = policy.build_client_verifier().verify(certificate, [])
    assert as_server[0] == as_client.chain[0] == certificate
    assert as_client.subjects == [x509.DNSName("bank")]


def test_a_certificate_says_what_it_is_for(authority: Path) -> None:
    extensions = trust.read_certificate(signed_party(authority, "bank") / "certificate.pem").extensions
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value.digital_signature
    assert not usage.value.key_cert_sign
    both_ways = {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert set(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == both_ways
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert not constraints.value.ca


def test_validity_allows_for_clocks_and_ends_with_the_authority(tmp_path: Path) -> None:
    certificates.make_authority(tmp_path, "short-lived", days=2)
    certificates.make_request(tmp_path / "bank", "bank")
    certificate = certificates.sign(tmp_path, tmp_path / "bank" / "request.pem", out=tmp_path / "out", days=300)
    assert certificate.not_valid_before_utc < datetime.now(UTC) - timedelta(minutes=4)
    assert certificate.not_valid_after_utc == trust.read_authority(tmp_path).not_valid_after_utc


def test_signing_again_renews_with_a_new_serial_for_the_same_key(authority: Path) -> None:
    folder = signed_party(authority, "bank")
    first = trust.read_certificate(folder / "certificate.pem")
    second = certificates.sign(authority, folder / "request.pem", out=folder)
    assert first.serial_number != second.serial_number
    assert first.public_key() == second.public_key()
    assert trust.load_identity(folder, "bank").party == "bank"


def test_keys_are_never_overwritten(authority: Path) -> None:
    folder = signed_party(authority, "bank")
    keys = [folder / "key.pem", authority / "authority-key.pem"]
    before = [key.read_bytes() for key in keys]
    with pytest.raises(CertificateError, match=r"bank.key\.pem"):
        certificates.make_request(folder, "bank")
    with pytest.raises(CertificateError, match=r"authority-key\.pem"):
        certificates.make_authority(authority, "again")
    assert [key.read_bytes() for key in keys] == before


@pytest.mark.parametrize("name", ["", "x" * 65])
def test_an_authority_needs_a_name_that_fits(tmp_path: Path, name: str) -> None:
    with pytest.raises(CertificateError, match="64"):
        certificates.make_authority(tmp_path, name)


def test_extensions_asked_for_in_a_request_are_not_granted(authority: Path) -> None:
    asking = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bank")]))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("telco")]), critical=False)
        .sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    )
    path = authority.parent / "request.pem"
    path.write_bytes(asking.public_bytes(Encoding.PEM))
    certificate = certificates.sign(authority, path, out=authority.parent / "out")
    assert trust.name_in(certificate) == "bank"
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_a_request_with_a_forged_signature_is_refused(authority: Path) -> None:
    path = authority.parent / "request.pem"
    write_request(path, [(NameOID.COMMON_NAME, "bank")], ec.generate_private_key(ec.SECP256R1()))
    der = x509.load_pem_x509_csr(path.read_bytes()).public_bytes(Encoding.DER).replace(b"bank", b"shop")
    path.write_bytes(ssl.DER_cert_to_PEM_cert(der).replace("CERTIFICATE", "CERTIFICATE REQUEST").encode())
    with pytest.raises(CertificateError, match="signed"):
        certificates.sign(authority, path, out=authority.parent / "out")
    assert not (authority.parent / "out").exists()


@pytest.mark.parametrize(
    "attributes",
    [
        [],
        [(NameOID.COMMON_NAME, "Bank of Nowhere")],
        [(NameOID.COMMON_NAME, "bank"), (NameOID.COMMON_NAME, "telco")],
        [(NameOID.COMMON_NAME, "bank"), (NameOID.ORGANIZATION_NAME, "telco")],
    ],
)
def test_a_request_must_name_one_party_and_nothing_else(
    authority: Path, attributes: list[tuple[x509.ObjectIdentifier, str]]
) -> None:
    path = authority.parent / "request.pem"
    write_request(path, attributes, ec.generate_private_key(ec.SECP256R1()))
    with pytest.raises(CertificateError, match="name"):
        certificates.sign(authority, path, out=authority.parent / "out")


def test_a_request_for_another_kind_of_key_is_refused(authority: Path) -> None:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bank")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    path = authority.parent / "request.pem"
    path.write_bytes(builder.sign(ed25519.Ed25519PrivateKey.generate(), None).public_bytes(Encoding.PEM))
    with pytest.raises(CertificateError, match="P-256"):
        certificates.sign(authority, path, out=authority.parent / "out")


def test_an_expired_authority_signs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "CLOCK_SKEW", 10 * DAY)
    certificates.make_authority(tmp_path, "old", days=-1)
    certificates.make_request(tmp_path / "bank", "bank")
    with pytest.raises(CertificateError, match=r"authority.*expired"):
        certificates.sign(tmp_path, tmp_path / "bank" / "request.pem", out=tmp_path / "out")


@given(st.text())
def test_a_party_s_name_is_checked_letter_by_letter(name: str) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    allowed = 1 <= len(name) <= 32 and name[0] in letters and set(name) <= set(letters + "0123456789-")
    if allowed:
        assert trust.check_party_name(name) == name
    else:
        with pytest.raises(CertificateError):
            trust.check_party_name(name)


@given(name=st.from_regex(trust.PARTY_NAME, fullmatch=True))
def test_every_allowed_name_is_allowed(name: str) -> None:
    assert trust.check_party_name(name) == name
    with pytest.raises(CertificateError):
        trust.check_party_name(f"{name}\n")


def test_an_authority_s_key_must_be_its_own(authority: Path) -> None:
    folder = signed_party(authority, "bank")
    (authority / "authority-key.pem").write_bytes((folder / "key.pem").read_bytes())
    with pytest.raises(CertificateError, match=r"authority\.pem"):
        certificates.sign(authority, folder / "request.pem", out=folder)


def test_revoking_keeps_the_first_date_and_what_was_revoked_before(authority: Path) -> None:
    bank, telco = (signed_party(authority, party) / "certificate.pem" for party in ("bank", "telco"))
    first = certificates.revoke(authority, bank)
    again = certificates.revoke(authority, bank)
    last = certificates.revoke(authority, telco)
    serials = {trust.read_certificate(path).serial_number for path in (bank, telco)}
    assert [len(revoked) for revoked in (first, again, last)] == [1, 1, 2]
    assert {entry.serial_number for entry in last} == serials
    assert again[0].revocation_date_utc == first[0].revocation_date_utc
    assert trust.read_revoked(authority / "revoked.pem", trust.read_authority(authority)) == last


def test_refreshing_keeps_the_entries_and_moves_the_end(authority: Path) -> None:
    bank = signed_party(authority, "bank") / "certificate.pem"
    certificates.revoke(authority, bank)
    key = trust.read_key(authority / "authority-key.pem")
    old = trust.read_revoked(authority / "revoked.pem", trust.read_authority(authority))
    aged = certificates.revocation_list(trust.read_authority(authority), key, old, made=datetime.now(UTC) - 100 * DAY)
    (authority / "revoked.pem").write_bytes(aged.public_bytes(Encoding.PEM))
    fresh = certificates.refresh_revoked(authority)
    assert [entry.serial_number for entry in fresh] == [trust.read_certificate(bank).serial_number]
    assert fresh.next_update_utc is not None
    assert fresh.next_update_utc > datetime.now(UTC) + 89 * DAY


def test_a_lost_revocation_list_is_not_silently_begun_anew(authority: Path) -> None:
    (authority / "revoked.pem").unlink()
    with pytest.raises(CertificateError, match=r"revoked\.pem"):
        certificates.refresh_revoked(authority)


def test_a_stranger_s_certificate_cannot_be_revoked(authority: Path, tmp_path: Path) -> None:
    certificates.make_trial(tmp_path / "elsewhere", ["bank"])
    with pytest.raises(CertificateError, match="signed"):
        certificates.revoke(authority, tmp_path / "elsewhere" / "bank" / "certificate.pem")


def openssl_handshake(server_folder: Path, client_folder: Path) -> object:
    """Shake hands in memory, OpenSSL's way of using the revocation list included; return whom the client has seen."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF | ssl.VERIFY_X509_STRICT
    for context, folder in ((server, server_folder), (client, client_folder)):
        context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
        context.load_verify_locations(folder / "authority.pem")
        context.load_verify_locations(folder / "revoked.pem")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    calling = client.wrap_bio(to_client, to_server, server_hostname=server_folder.name)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (calling, answering, calling):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return (calling.getpeercert() or {})["subjectAltName"]


def test_openssl_understands_certificates_and_revocation_lists(authority: Path) -> None:
    bank, telco = signed_party(authority, "bank"), signed_party(authority, "telco")
    assert openssl_handshake(server_folder=telco, client_folder=bank) == (("DNS", "telco"),)
    certificates.revoke(authority, telco / "certificate.pem")
    (bank / "revoked.pem").write_bytes((authority / "revoked.pem").read_bytes())
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate revoked"):
        openssl_handshake(server_folder=telco, client_folder=bank)

"""Checking keys and certificates: every refusal, the proof of the accepting side, and what is said when TLS fails."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given
from hypothesis import strategies as st

from unpooled.errors import CertificateError
from unpooled.transport import certificates, trust

DAY = timedelta(days=1)
BOTH_WAYS = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    certificates.make_trial(tmp_path / "trial", ["bank", "telco"])
    return tmp_path / "trial"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """The same parties under another authority of the same name."""
    certificates.make_trial(tmp_path / "elsewhere", ["bank", "telco"])
    return tmp_path / "elsewhere"


@pytest.fixture
def bank(trial: Path) -> trust.Identity:
    return trust.load_identity(trial / "bank", "bank")


def authority_of(trial: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    folder = trial / "trial_authority"
    return trust.read_authority(folder), trust.read_key(folder / "authority-key.pem")


def certificate_of(trial: Path, party: str) -> bytes:
    return (trial / party / "certificate.pem").read_bytes()


def reissue(trial: Path, party: str, begins: timedelta, ends: timedelta) -> bytes:
    """Give a party a new certificate for its old key, valid between two moments relative to now."""
    authority, key = authority_of(trial)
    public_key, now = trust.read_key(trial / party / "key.pem").public_key(), datetime.now(UTC)
    content = certificates.issue(authority, key, party, public_key, now + begins, now + ends).public_bytes(Encoding.PEM)
    (trial / party / "certificate.pem").write_bytes(content)
    return content


def odd_certificate(
    trial: Path,
    common_names: tuple[str, ...] = ("telco",),
    dns_names: tuple[str, ...] = ("telco",),
    usage: tuple[x509.ObjectIdentifier, ...] = BOTH_WAYS,
) -> bytes:
    """Make what the authority never would: a certificate with other names or uses than a party's."""
    authority, key = authority_of(trial)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in common_names]))
        .issuer_name(authority.subject)
        .public_key(ec.generate_private_key(ec.SECP256R1()).public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - DAY)
        .not_valid_after(datetime.now(UTC) + DAY)
    )
    if dns_names:
        alternative_names = x509.SubjectAlternativeName([x509.DNSName(name) for name in dns_names])
        builder = builder.add_extension(alternative_names, critical=False)
    if usage:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def revoke(trial: Path, party: str, at: str) -> None:
    """Revoke a party's certificate and give the new list to the party `at`."""
    certificates.revoke(trial / "trial_authority", trial / party / "certificate.pem")
    shutil.copy(trial / "trial_authority" / "revoked.pem", trial / at / "revoked.pem")


def test_a_fresh_folder_is_in_order(trial: Path, bank: trust.Identity) -> None:
    assert bank.party == "bank"
    assert bank.folder == trial / "bank"
    assert bank.certificate_pem == certificate_of(trial, "bank")
    assert bank.revoked is not None
    assert len(bank.revoked) == 0
    assert "PRIVATE" not in repr(bank)
    (trial / "bank" / "revoked.pem").unlink()
    assert trust.load_identity(trial / "bank", "bank").revoked is None


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("key.pem", "`unpooled certs request` makes it"),
        ("certificate.pem", "the authority makes it"),
        ("authority.pem", "the authority sends it"),
    ],
)
def test_a_missing_file_is_named_with_its_origin(trial: Path, name: str, advice: str) -> None:
    (trial / "bank" / name).unlink()
    with pytest.raises(CertificateError, match=rf"^bank cannot use .*{name} is missing; {advice}"):
        trust.load_identity(trial / "bank", "bank")


@pytest.mark.parametrize("name", ["key.pem", "certificate.pem", "authority.pem", "revoked.pem"])
def test_a_damaged_file_is_named(trial: Path, name: str) -> None:
    (trial / "bank" / name).write_bytes(b"-----BEGIN NOTHING-----\n")
    with pytest.raises(CertificateError, match=rf"^bank cannot use .*{name} is not a"):
        trust.load_identity(trial / "bank", "bank")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such rights")
@pytest.mark.parametrize("rights", [0o640, 0o604, 0o660, 0o601])
def test_a_key_that_others_can_reach_is_refused_with_the_cure(trial: Path, rights: int) -> None:
    key = trial / "bank" / "key.pem"
    key.chmod(rights)
    with pytest.raises(CertificateError, match=rf"type: chmod 600 {key}$"):
        trust.load_identity(trial / "bank", "bank")


def test_a_key_of_another_kind_is_refused(trial: Path) -> None:
    path, locked = trial / "bank" / "key.pem", BestAvailableEncryption(b"secret")
    under_a_password = trust.read_key(path).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)
    for content in (under_a_password, trust.key_pem(ec.generate_private_key(ec.SECP384R1()))):
        path.write_bytes(content)
        with pytest.raises(CertificateError, match="is not a P-256 private key without a password"):
            trust.load_identity(trial / "bank", "bank")


def test_a_certificate_for_another_key_is_refused(trial: Path) -> None:
    (trial / "bank" / "key.pem").write_bytes((trial / "telco" / "key.pem").read_bytes())
    with pytest.raises(CertificateError, match=r"certificate\.pem is not for the key in key\.pem"):
        trust.load_identity(trial / "bank", "bank")


def test_another_party_s_folder_is_refused(trial: Path) -> None:
    with pytest.raises(CertificateError, match=r"shop was expected, but the certificate .* names bank"):
        trust.load_identity(trial / "bank", "shop")


def test_a_party_s_certificate_is_no_authority(trial: Path) -> None:
    shutil.copy(trial / "bank" / "certificate.pem", trial / "bank" / "authority.pem")
    with pytest.raises(CertificateError, match="is not an authority's certificate"):
        trust.load_identity(trial / "bank", "bank")


def test_one_s_own_certificate_must_come_from_one_s_own_authority(trial: Path, elsewhere: Path) -> None:
    for name in ("authority.pem", "revoked.pem"):
        shutil.copy(elsewhere / "bank" / name, trial / "bank" / name)
    with pytest.raises(CertificateError, match="is not signed by the authority that bank trusts"):
        trust.load_identity(trial / "bank", "bank")


@pytest.mark.parametrize(
    ("begins", "ends", "complaint"), [(-9 * DAY, -DAY, "expired on"), (DAY, 9 * DAY, "is the clock right?")]
)
def test_one_s_own_certificate_must_be_valid_today(
    trial: Path, begins: timedelta, ends: timedelta, complaint: str
) -> None:
    reissue(trial, "bank", begins, ends)
    with pytest.raises(CertificateError, match=rf"^bank cannot use .* bank's certificate .*{complaint}"):
        trust.load_identity(trial / "bank", "bank")


def test_one_s_own_certificate_must_not_be_revoked(trial: Path) -> None:
    revoke(trial, "bank", at="bank")
    with pytest.raises(CertificateError, match=r"bank's certificate .* was revoked on"):
        trust.load_identity(trial / "bank", "bank")


def test_a_revocation_list_forged_by_another_authority_is_refused(trial: Path, elsewhere: Path) -> None:
    shutil.copy(elsewhere / "bank" / "revoked.pem", trial / "bank" / "revoked.pem")
    with pytest.raises(CertificateError, match=r"revoked\.pem is not a revocation list signed by the authority"):
        trust.load_identity(trial / "bank", "bank")


def test_a_stale_revocation_list_is_refused(trial: Path) -> None:
    old = certificates.revocation_list(*authority_of(trial), (), made=datetime.now(UTC) - 91 * DAY)
    (trial / "bank" / "revoked.pem").write_bytes(old.public_bytes(Encoding.PEM))
    with pytest.raises(CertificateError, match=r"revoked\.pem of .* is too old .* ask the authority"):
        trust.load_identity(trial / "bank", "bank")


def test_a_peer_is_who_its_certificate_names(trial: Path, bank: trust.Identity) -> None:
    assert trust.check_peer(bank, certificate_of(trial, "telco")) == "telco"
    assert trust.check_peer(bank, certificate_of(trial, "telco"), expected="telco") == "telco"
    with pytest.raises(CertificateError, match=r"shop was expected, but the certificate .* names telco"):
        trust.check_peer(bank, certificate_of(trial, "telco"), expected="shop")


def test_a_peer_of_another_authority_is_refused_though_all_names_agree(elsewhere: Path, bank: trust.Identity) -> None:
    with pytest.raises(CertificateError, match="shown by telco is not signed by the authority that bank trusts"):
        trust.check_peer(bank, certificate_of(elsewhere, "telco"), expected="telco")


def test_a_peer_cannot_sign_for_others(trial: Path, bank: trust.Identity) -> None:
    telco_key = trust.read_key(trial / "telco" / "key.pem")
    telco = trust.read_certificate(trial / "telco" / "certificate.pem")
    now = datetime.now(UTC)
    forged = certificates.issue(telco, telco_key, "shop", telco_key.public_key(), now - DAY, now + DAY)
    with pytest.raises(CertificateError, match="is not signed by the authority"):
        trust.check_peer(bank, forged.public_bytes(Encoding.PEM))


def test_a_peer_s_certificate_holds_until_its_last_moment(trial: Path, bank: trust.Identity) -> None:
    shown = reissue(trial, "telco", -DAY, DAY)
    certificate = x509.load_pem_x509_certificate(shown)
    last, second = certificate.not_valid_after_utc, timedelta(seconds=1)
    assert trust.check_peer(bank, shown, now=last - DAY) == "telco"
    assert trust.check_peer(bank, shown, now=last) == "telco"
    with pytest.raises(CertificateError, match=rf"telco's certificate .* expired on {last:%Y-%m-%d}"):
        trust.check_peer(bank, shown, now=last + second)
    with pytest.raises(CertificateError, match=r"telco's certificate .* is valid only from"):
        trust.check_peer(bank, reissue(trial, "telco", DAY, 2 * DAY))


def test_nobody_is_trusted_once_the_authority_has_expired(trial: Path, bank: trust.Identity) -> None:
    shown = reissue(trial, "telco", -DAY, 60 * DAY)
    with pytest.raises(CertificateError, match="the authority's certificate expired"):
        trust.check_peer(bank, shown, now=datetime.now(UTC) + 40 * DAY)


def test_a_list_that_grows_stale_during_a_run_is_noticed(tmp_path: Path) -> None:
    certificates.make_trial(tmp_path / "long", ["bank", "telco"], days=300)
    bank = trust.load_identity(tmp_path / "long" / "bank", "bank")
    with pytest.raises(CertificateError, match="is too old"):
        trust.check_peer(bank, certificate_of(tmp_path / "long", "telco"), now=datetime.now(UTC) + 91 * DAY)


def test_a_revoked_peer_is_refused_with_serial_and_date(trial: Path) -> None:
    revoke(trial, "telco", at="bank")
    bank = trust.load_identity(trial / "bank", "bank")
    serial = trust.read_certificate(trial / "telco" / "certificate.pem").serial_number
    complaint = rf"^telco's certificate \(serial …{serial & 0xFFFF:04x}\) was revoked on \d{{4}}-\d\d-\d\d$"
    with pytest.raises(CertificateError, match=complaint):
        trust.check_peer(bank, certificate_of(trial, "telco"))
    renewed = reissue(trial, "telco", -DAY, DAY)
    assert trust.check_peer(bank, renewed) == "telco"


@pytest.mark.parametrize(
    ("common_names", "dns_names"),
    [
        (("telco",), ()),
        (("telco",), ("telco", "shop")),
        (("telco",), ("shop",)),
        (("telco", "telco"), ("telco",)),
        ((), ("telco",)),
        (("Telco",), ("Telco",)),
        (("télco",), ("telco",)),
    ],
)
def test_a_certificate_with_no_name_or_several_is_refused(
    trial: Path, bank: trust.Identity, common_names: tuple[str, ...], dns_names: tuple[str, ...]
) -> None:
    with pytest.raises(CertificateError, match="name"):
        trust.check_peer(bank, odd_certificate(trial, common_names, dns_names))


@pytest.mark.parametrize("usage", [(), BOTH_WAYS[:1], BOTH_WAYS[1:]])
def test_a_certificate_must_be_for_both_ends_of_a_call(
    trial: Path, bank: trust.Identity, usage: tuple[x509.ObjectIdentifier, ...]
) -> None:
    with pytest.raises(CertificateError, match="not made for both calling and being called"):
        trust.check_peer(bank, odd_certificate(trial, usage=usage))


def test_something_that_is_no_certificate_is_refused(bank: trust.Identity) -> None:
    with pytest.raises(CertificateError, match="the peer showed something that is not a certificate"):
        trust.check_peer(bank, b"hello")


def test_the_proof_convinces_the_dialler_it_was_made_for_and_nobody_else(trial: Path, bank: trust.Identity) -> None:
    telco = trust.load_identity(trial / "telco", "telco")
    proof = trust.prove(telco, b"nonce", dialler="bank")
    trust.check_proof(bank, telco.certificate_pem, proof, b"nonce", acceptor="telco")

    for_another = trust.prove(telco, b"nonce", dialler="shop")
    for signature, nonce in ((for_another, b"nonce"), (proof, b"another"), (proof[:-1], b"nonce"), (b"", b"nonce")):
        with pytest.raises(CertificateError, match="telco did not prove that it holds the key"):
            trust.check_proof(bank, telco.certificate_pem, signature, nonce, acceptor="telco")


def test_a_proof_made_with_another_key_does_not_convince(trial: Path, bank: trust.Identity) -> None:
    proof = trust.prove(bank, b"nonce", dialler="bank")
    with pytest.raises(CertificateError, match="telco did not prove"):
        trust.check_proof(bank, certificate_of(trial, "telco"), proof, b"nonce", acceptor="telco")
    with pytest.raises(CertificateError, match=r"telco was expected, but the certificate .* names bank"):
        trust.check_proof(bank, bank.certificate_pem, proof, b"nonce", acceptor="telco")


def test_a_proof_under_a_revoked_certificate_does_not_convince(trial: Path) -> None:
    telco = trust.load_identity(trial / "telco", "telco")
    revoke(trial, "telco", at="bank")
    bank = trust.load_identity(trial / "bank", "bank")
    with pytest.raises(CertificateError, match="was revoked on"):
        trust.check_proof(bank, telco.certificate_pem, trust.prove(telco, b"n", "bank"), b"n", acceptor="telco")


@given(st.binary(), st.text(), st.text(), st.binary(), st.text(), st.text())
def test_different_calls_have_different_proofs(
    nonce: bytes, dialler: str, acceptor: str, other_nonce: bytes, other_dialler: str, other_acceptor: str
) -> None:
    one = trust._proof_message(nonce, dialler=dialler, acceptor=acceptor)
    other = trust._proof_message(other_nonce, dialler=other_dialler, acceptor=other_acceptor)
    same = (nonce, dialler, acceptor) == (other_nonce, other_dialler, other_acceptor)
    assert (one == other) == same


@contextmanager
def grpc_server(folder: Path) -> Iterator[int]:
    """Serve with the key and certificate in a folder; the one method answers with the caller's certificate."""

    def whoami(_: bytes, context: grpc.ServicerContext) -> bytes:
        return bytes(context.auth_context()["x509_pem_cert"][0])

    pair = ((folder / "key.pem").read_bytes(), (folder / "certificate.pem").read_bytes())
    credentials = grpc.ssl_server_credentials([pair], (folder / "authority.pem").read_bytes(), require_client_auth=True)
    server = grpc.server(ThreadPoolExecutor(2))
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(whoami)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", {"whoami": handler}),))
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


def explain(folder: Path, port: int, peer: str = "telco", timeout: float = 5) -> str:
    """Ask for an explanation as the party in a folder, which need not be in order."""
    key, certificate, authority = (
        (folder / name).read_bytes() for name in ("key.pem", "certificate.pem", "authority.pem")
    )
    identity = trust.Identity("bank", folder, key, certificate, authority, revoked=None)
    return trust.explain_refusal(identity, "127.0.0.1", port, peer, timeout).text


def test_two_trial_parties_shake_hands_over_grpc(trial: Path, bank: trust.Identity) -> None:
    credentials = grpc.ssl_channel_credentials(bank.authority_pem, bank.key_pem, bank.certificate_pem)
    with (
        grpc_server(trial / "telco") as port,
        grpc.secure_channel(
            f"127.0.0.1:{port}", credentials, options=[("grpc.ssl_target_name_override", "telco")]
        ) as channel,
    ):
        whoami: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/test/whoami")
        seen = whoami(b"", timeout=10)
    telco = trust.load_identity(trial / "telco", "telco")
    assert trust.check_peer(telco, seen) == "bank"


def test_explained_all_is_well_but_for_the_name(trial: Path) -> None:
    with grpc_server(trial / "telco") as port:
        assert "both sides accept each other's certificate" in explain(trial / "bank", port)
        assert "shop was expected, but the certificate" in explain(trial / "bank", port, peer="shop")


def test_explained_nobody_listens(trial: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert f"nobody listens at 127.0.0.1:{port}" in explain(trial / "bank", port)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b"])
def test_explained_impossible_address(bank: trust.Identity, host: str) -> None:
    assert f"{host}:443 cannot be reached" in trust.explain_refusal(bank, host, 443, "telco", timeout=5).text


def test_explained_not_tls(trial: Path) -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    assert f"something answers at 127.0.0.1:{port}, but not with TLS" in explain(trial / "bank", port)
    server.stop(None).wait()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert "but not with TLS" in explain(trial / "bank", silent.getsockname()[1], timeout=0.2)


@pytest.mark.parametrize(
    ("begins", "ends", "fault"), [(-9 * DAY, -DAY, "has expired"), (DAY, 9 * DAY, "is not valid yet")]
)
def test_explained_peer_out_of_date(trial: Path, begins: timedelta, ends: timedelta, fault: str) -> None:
    reissue(trial, "telco", begins, ends)
    with grpc_server(trial / "telco") as port:
        assert f"the certificate shown by telco at 127.0.0.1:{port} {fault}" in explain(trial / "bank", port)


def test_explained_peer_of_another_authority(trial: Path, elsewhere: Path) -> None:
    with grpc_server(elsewhere / "telco") as port:
        assert "is not signed by the authority that bank trusts" in explain(trial / "bank", port)


def test_explained_revoked_peer(trial: Path) -> None:
    revoke(trial, "telco", at="bank")
    bank = trust.load_identity(trial / "bank", "bank")
    with grpc_server(trial / "telco") as port:
        assert "was revoked on" in trust.explain_refusal(bank, "127.0.0.1", port, "telco", timeout=5).text


@pytest.mark.parametrize("fault", ["expired", "another authority"])
def test_explained_peer_refuses_us(trial: Path, elsewhere: Path, fault: str) -> None:
    if fault == "expired":
        reissue(trial, "bank", -9 * DAY, -DAY)
    else:
        shutil.copy(elsewhere / "bank" / "key.pem", trial / "bank" / "key.pem")
        shutil.copy(elsewhere / "bank" / "certificate.pem", trial / "bank" / "certificate.pem")
    with grpc_server(trial / "telco") as port:
        said = explain(trial / "bank", port)
    assert f"telco at 127.0.0.1:{port} hung up on seeing bank's certificate" in said


def test_explained_alert_of_a_server_that_sends_one(trial: Path, elsewhere: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(trial / "telco" / "certificate.pem", trial / "telco" / "key.pem")
    context.load_verify_locations(elsewhere / "telco" / "authority.pem")
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        said = pool.submit(explain, trial / "bank", listener.getsockname()[1])
        connection, _ = listener.accept()
        with connection, pytest.raises(ssl.SSLError):
            context.wrap_socket(connection, server_side=True)
        assert "alert" in said.result()
        assert "hung up on seeing bank's certificate" in said.result()


def test_explained_own_files_gone(trial: Path, bank: trust.Identity) -> None:
    (trial / "bank" / "key.pem").unlink()
    with grpc_server(trial / "telco") as port:
        said = trust.explain_refusal(bank, "127.0.0.1", port, "telco", timeout=5).text
    assert "bank's own key and certificate" in said

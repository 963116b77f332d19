"""Checking keys and certificates: every refusal."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

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
        ("key.pem", "unpooled certs request"),
        ("certificate.pem", "authority"),
        ("authority.pem", "authority"),
    ],
)
def test_a_missing_file_is_named_with_its_origin(trial: Path, name: str, advice: str) -> None:
    (trial / "bank" / name).unlink()
    with pytest.raises(CertificateError, match=rf"bank.*{name}.*{advice}"):
        trust.load_identity(trial / "bank", "bank")


@pytest.mark.parametrize("name", ["key.pem", "certificate.pem", "authority.pem", "revoked.pem"])
def test_a_damaged_file_is_named(trial: Path, name: str) -> None:
    (trial / "bank" / name).write_bytes(b"-----BEGIN NOTHING-----\n")
    with pytest.raises(CertificateError, match=rf"bank.*{name}"):
        trust.load_identity(trial / "bank", "bank")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such rights")
@pytest.mark.parametrize("rights", [0o640, 0o604, 0o660, 0o601])
def test_a_key_that_others_can_reach_is_refused_with_the_cure(trial: Path, rights: int) -> None:
    key = trial / "bank" / "key.pem"
    key.chmod(rights)
    with pytest.raises(CertificateError, match=f"chmod 600 {key}"):
        trust.load_identity(trial / "bank", "bank")


def test_a_key_of_another_kind_is_refused(trial: Path) -> None:
    path, locked = trial / "bank" / "key.pem", BestAvailableEncryption(b"secret")
    under_a_password = trust.read_key(path).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)
    other_curve = ec.generate_private_key(ec.SECP384R1())
    for content in (under_a_password, other_curve.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())):
        path.write_bytes(content)
        with pytest.raises(CertificateError, match=r"key\.pem.*P-256"):
            trust.load_identity(trial / "bank", "bank")


def test_a_certificate_for_another_key_is_refused(trial: Path) -> None:
    (trial / "bank" / "key.pem").write_bytes((trial / "telco" / "key.pem").read_bytes())
    with pytest.raises(CertificateError, match=r"certificate\.pem.*key\.pem"):
        trust.load_identity(trial / "bank", "bank")


def test_another_party_s_folder_is_refused(trial: Path) -> None:
    with pytest.raises(CertificateError, match=r"shop.*bank"):
        trust.load_identity(trial / "bank", "shop")


def test_a_party_s_certificate_is_no_authority(trial: Path) -> None:
    shutil.copy(trial / "bank" / "certificate.pem", trial / "bank" / "authority.pem")
    with pytest.raises(CertificateError, match=r"authority\.pem"):
        trust.load_identity(trial / "bank", "bank")


def test_one_s_own_certificate_must_come_from_one_s_own_authority(trial: Path, elsewhere: Path) -> None:
    for name in ("authority.pem", "revoked.pem"):
        shutil.copy(elsewhere / "bank" / name, trial / "bank" / name)
    with pytest.raises(CertificateError, match=r"signed.*bank"):
        trust.load_identity(trial / "bank", "bank")


@pytest.mark.parametrize(("begins", "ends", "complaint"), [(-9 * DAY, -DAY, "expired"), (DAY, 9 * DAY, "clock")])
def test_one_s_own_certificate_must_be_valid_today(
    trial: Path, begins: timedelta, ends: timedelta, complaint: str
) -> None:
    reissue(trial, "bank", begins, ends)
    with pytest.raises(CertificateError, match=rf"bank's certificate .*{complaint}"):
        trust.load_identity(trial / "bank", "bank")


def test_one_s_own_certificate_must_not_be_revoked(trial: Path) -> None:
    revoke(trial, "bank", at="bank")
    with pytest.raises(CertificateError, match=r"bank's certificate .*revoked"):
        trust.load_identity(trial / "bank", "bank")


def test_a_revocation_list_forged_by_another_authority_is_refused(trial: Path, elsewhere: Path) -> None:
    shutil.copy(elsewhere / "bank" / "revoked.pem", trial / "bank" / "revoked.pem")
    with pytest.raises(CertificateError, match=r"revoked\.pem"):
        trust.load_identity(trial / "bank", "bank")


def test_a_stale_revocation_list_is_refused(trial: Path) -> None:
    old = certificates.revocation_list(*authority_of(trial), (), made=datetime.now(UTC) - 91 * DAY)
    (trial / "bank" / "revoked.pem").write_bytes(old.public_bytes(Encoding.PEM))
    with pytest.raises(CertificateError, match=r"revoked\.pem.*old"):
        trust.load_identity(trial / "bank", "bank")


def test_a_peer_is_who_its_certificate_names(trial: Path, bank: trust.Identity) -> None:
    assert trust.check_peer(bank, certificate_of(trial, "telco")) == "telco"
    assert trust.check_peer(bank, certificate_of(trial, "telco"), expected="telco") == "telco"
    with pytest.raises(CertificateError, match=r"shop.*telco"):
        trust.check_peer(bank, certificate_of(trial, "telco"), expected="shop")


def test_a_peer_of_another_authority_is_refused_though_all_names_agree(elsewhere: Path, bank: trust.Identity) -> None:
    with pytest.raises(CertificateError, match=r"telco.*signed.*bank"):
        trust.check_peer(bank, certificate_of(elsewhere, "telco"), expected="telco")


def test_a_peer_cannot_sign_for_others(trial: Path, bank: trust.Identity) -> None:
    telco_key = trust.read_key(trial / "telco" / "key.pem")
    telco = trust.read_certificate(trial / "telco" / "certificate.pem")
    now = datetime.now(UTC)
    forged = certificates.issue(telco, telco_key, "shop", telco_key.public_key(), now - DAY, now + DAY)
    with pytest.raises(CertificateError, match="signed"):
        trust.check_peer(bank, forged.public_bytes(Encoding.PEM))


def test_a_peer_s_certificate_holds_until_its_last_moment(trial: Path, bank: trust.Identity) -> None:
    shown = reissue(trial, "telco", -DAY, DAY)
    certificate = x509.load_pem_x509_certificate(shown)
    last, second = certificate.not_valid_after_utc, timedelta(seconds=1)
    assert trust.check_peer(bank, shown, now=last - DAY) == "telco"
    assert trust.check_peer(bank, shown, now=last) == "telco"
    with pytest.raises(CertificateError, match=rf"telco's certificate .*{last:%Y-%m-%d}"):
        trust.check_peer(bank, shown, now=last + second)
    with pytest.raises(CertificateError, match=r"telco's certificate"):
        trust.check_peer(bank, reissue(trial, "telco", DAY, 2 * DAY))


def test_nobody_is_trusted_once_the_authority_has_expired(trial: Path, bank: trust.Identity) -> None:
    shown = reissue(trial, "telco", -DAY, 60 * DAY)
    with pytest.raises(CertificateError, match=r"authority.*expired"):
        trust.check_peer(bank, shown, now=datetime.now(UTC) + 40 * DAY)


def test_a_list_that_grows_stale_during_a_run_is_noticed(tmp_path: Path) -> None:
    certificates.make_trial(tmp_path / "long", ["bank", "telco"], days=300)
    bank = trust.load_identity(tmp_path / "long" / "bank", "bank")
    with pytest.raises(CertificateError, match="old"):
        trust.check_peer(bank, certificate_of(tmp_path / "long", "telco"), now=datetime.now(UTC) + 91 * DAY)


def test_a_revoked_peer_is_refused_with_serial_and_date(trial: Path) -> None:
    revoke(trial, "telco", at="bank")
    bank = trust.load_identity(trial / "bank", "bank")
    serial = trust.read_certificate(trial / "telco" / "certificate.pem").serial_number
    complaint = rf"telco.*{serial & 0xFFFF:04x}.*revoked.*\d{{4}}-\d\d-\d\d"
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
    with pytest.raises(CertificateError, match="call"):
        trust.check_peer(bank, odd_certificate(trial, usage=usage))


def test_something_that_is_no_certificate_is_refused(bank: trust.Identity) -> None:
    with pytest.raises(CertificateError):
        trust.check_peer(bank, b"hello")

"""Certificates in the console: an authority at one party, requests of all, renewal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import pytest

from unpooled.errors import CertificateError
from unpooled.serve import authority, certificates
from unpooled.serve.context import Context
from unpooled.serve.folder import StateFolder
from unpooled.serve.settings import ServiceSettings
from unpooled.serve.state.audit_log import acts
from unpooled.serve.state.database import open_database
from unpooled.transport import certificates as transport_certificates
from unpooled.transport.trust import CERTIFICATE_FILE, KEY_FILE, REVOKED_FILE, check_peer, load_identity


@pytest.fixture
def service_of(tmp_path: Path) -> Iterator[Callable[[str], Context]]:
    made = []

    def make(party: str) -> Context:
        folder = StateFolder(tmp_path / party)
        folder.make()
        made.append(Context(ServiceSettings(party=party), folder, open_database(folder.database)))
        return made[-1]

    yield make
    for context in made:
        context.database.close()


def request_of(context: Context) -> str:
    certificates.make_request(context, "ann")
    found = certificates.pending_request(context)
    assert found
    return found[0]


def signed(context: Context, request: str) -> str:
    """What an authority hands back."""
    return authority.handed_back(context, authority.sign(context, "ann", request))[1]


def test_from_request_to_use(service_of: Callable[[str], Context]) -> None:
    shop, bank = service_of("shop"), service_of("bank")
    assert "missing" in certificates.own_certificate(bank).problem
    with pytest.raises(CertificateError, match="make a request first"):
        certificates.install(bank, "ben", "")
    authority.make_authority(shop, "ann", "shop and friends")
    for context in (shop, bank):
        certificates.install(context, "ben", signed(shop, request_of(context)))
        assert load_identity(context.folder.certificates, context.party).party == context.party
        assert not certificates.own_certificate(context).problem
        assert certificates.pending_request(context) is None
    assert [act.what for act in acts(bank.database)] == ["put a certificate to use", "made a request for a certificate"]
    assert [act.about for act in acts(shop.database)][-2:] == ["", "shop and friends"]


def test_a_renewed_certificate_has_another_key(service_of: Callable[[str], Context]) -> None:
    shop = service_of("shop")
    authority.make_authority(shop, "ann", "authority")
    certificates.install(shop, "ann", signed(shop, request_of(shop)))
    first = (shop.folder.certificates / KEY_FILE).read_bytes()
    request = request_of(shop)
    assert (shop.folder.certificates / KEY_FILE).read_bytes() == first  # in use until the new one is there
    certificates.install(shop, "ann", signed(shop, request))
    assert (shop.folder.certificates / KEY_FILE).read_bytes() != first
    assert load_identity(shop.folder.certificates, "shop")
    assert len(list(shop.folder.certificates.parent.iterdir())) == 2  # the link, and where it leads


def test_what_is_not_for_this_party_is_refused(service_of: Callable[[str], Context]) -> None:
    shop, bank = service_of("shop"), service_of("bank")
    authority.make_authority(shop, "ann", "authority")
    request_of(bank)
    for text, why in (
        (signed(shop, request_of(shop)), "shop"),
        ("nonsense", "must hold"),
        ("x" * 70_000, "too long"),
        ("-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n", "cannot be read"),
    ):
        with pytest.raises(CertificateError, match=why):
            certificates.install(bank, "ben", text)
    assert certificates.own_certificate(bank).problem
    assert [path.name for path in bank.folder.certificates.parent.iterdir()] == ["next"]
    with pytest.raises(CertificateError, match="not a request"):
        authority.sign(shop, "ann", "nonsense")


def test_a_revoked_certificate_is_refused_by_whoever_has_the_list(service_of: Callable[[str], Context]) -> None:
    shop, bank = service_of("shop"), service_of("bank")
    authority.make_authority(shop, "ann", "authority")
    with pytest.raises(CertificateError, match="already"):
        authority.make_authority(shop, "ann", "another")
    for context in (shop, bank):
        certificates.install(context, "ben", signed(shop, request_of(context)))
    own = certificates.own_certificate(bank)
    shown = (bank.folder.certificates / CERTIFICATE_FILE).read_bytes()
    assert check_peer(load_identity(shop.folder.certificates, "shop"), shown) == "bank"
    first = authority.fresh_list(shop, "ann")
    issued = {one.party: one for one in authority.issued(shop)}
    assert issued["bank"].fingerprint == own.fingerprint
    authority.revoke(shop, "ann", issued["bank"].number)
    assert {one.party: bool(one.revoked) for one in authority.issued(shop)} == {"bank": True, "shop": False}
    with pytest.raises(CertificateError, match="revoked"):
        check_peer(load_identity(shop.folder.certificates, "shop"), shown)
    with pytest.raises(CertificateError, match="revoked"):
        certificates.install(bank, "ben", authority.fresh_list(shop, "ann"))
    certificates.install(bank, "ben", first)
    assert acts(bank.database)[0].what == "put a revocation list to use"
    with pytest.raises(CertificateError, match="no such certificate"):
        authority.revoke(shop, "ann", "../../x")


def test_a_revocation_list_that_is_older_or_of_another_authority_is_refused(
    service_of: Callable[[str], Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, other = service_of("shop"), service_of("other")
    for context in (shop, other):
        authority.make_authority(context, "ann", context.party)
    certificates.install(shop, "ann", signed(shop, request_of(shop)))
    waiting = request_of(shop)
    before = (shop.folder.authority / REVOKED_FILE).read_text()

    class Later(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(minutes=2)

    monkeypatch.setattr(transport_certificates, "datetime", Later)
    authority.fresh_list(shop, "ann")
    with pytest.raises(CertificateError, match="older"):
        certificates.install(shop, "ann", before)
    with pytest.raises(CertificateError, match="revocation list signed by the authority"):
        certificates.install(shop, "ann", authority.fresh_list(other, "ann"))
    pending = certificates.pending_request(shop)
    assert pending
    assert pending[0] == waiting, "a list alone leaves the request that waits"

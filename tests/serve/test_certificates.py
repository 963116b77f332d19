"""Certificates in the console: an authority at one party, requests of all, renewal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unpooled.errors import CertificateError
from unpooled.serve import certificates
from unpooled.serve.audit_log import acts
from unpooled.serve.context import Context
from unpooled.serve.database import open_database
from unpooled.serve.folder import StateFolder
from unpooled.serve.settings import ServiceSettings
from unpooled.transport.trust import KEY_FILE, load_identity


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


def test_from_request_to_use(service_of: Callable[[str], Context]) -> None:
    shop, bank = service_of("shop"), service_of("bank")
    assert "missing" in certificates.own_certificate(bank).problem
    with pytest.raises(CertificateError, match="make a request first"):
        certificates.install(bank, "ben", "")
    certificates.make_authority(shop, "ann", "shop and friends")
    for context in (shop, bank):
        certificates.install(context, "ben", certificates.sign(shop, "ann", request_of(context)))
        assert load_identity(context.folder.certificates, context.party).party == context.party
        assert not certificates.own_certificate(context).problem
        assert certificates.pending_request(context) is None
    assert [act.what for act in acts(bank.database)] == ["put a certificate to use", "made a request for a certificate"]
    assert [act.about for act in acts(shop.database)][-2:] == ["", "shop and friends"]


def test_a_renewed_certificate_has_another_key(service_of: Callable[[str], Context]) -> None:
    shop = service_of("shop")
    certificates.make_authority(shop, "ann", "authority")
    certificates.install(shop, "ann", certificates.sign(shop, "ann", request_of(shop)))
    first = (shop.folder.certificates / KEY_FILE).read_bytes()
    request = request_of(shop)
    assert (shop.folder.certificates / KEY_FILE).read_bytes() == first  # in use until the new one is there
    certificates.install(shop, "ann", certificates.sign(shop, "ann", request))
    assert (shop.folder.certificates / KEY_FILE).read_bytes() != first
    assert load_identity(shop.folder.certificates, "shop")
    assert len(list(shop.folder.certificates.parent.iterdir())) == 2  # the link, and where it leads


def test_what_is_not_for_this_party_is_refused(service_of: Callable[[str], Context]) -> None:
    shop, bank = service_of("shop"), service_of("bank")
    certificates.make_authority(shop, "ann", "authority")
    request_of(bank)
    for text, why in (
        (certificates.sign(shop, "ann", request_of(shop)), "shop"),
        ("nonsense", "must hold"),
        ("x" * 70_000, "too long"),
        ("-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n", "cannot be read"),
    ):
        with pytest.raises(CertificateError, match=why):
            certificates.install(bank, "ben", text)
    assert certificates.own_certificate(bank).problem
    assert [path.name for path in bank.folder.certificates.parent.iterdir()] == ["next"]
    with pytest.raises(CertificateError, match="not a request"):
        certificates.sign(shop, "ann", "nonsense")

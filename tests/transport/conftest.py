"""Certificates, a mailbox, and who reads a connection; tests that need others have their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from unpooled.ledger import Ledger
from unpooled.transport import certificates, listening
from unpooled.transport.mailbox import Mailbox


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs") / "certs"
    certificates.make_trial(folder, ["bank", "telco"])
    return folder


@pytest.fixture
def mailbox(tmp_path: Path) -> Iterator[Mailbox]:
    """The bank's, once the plan is agreed on."""
    ledger = Ledger(tmp_path / "ledger.jsonl", "bank", "abc")
    box = Mailbox("bank", ("telco", "shop"), ledger)
    box.agreed()
    yield box
    ledger.close()


@pytest.fixture(scope="module", params=["the party reads too", "a thread reads"])
def who_reads(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "a thread reads":
            patch.setattr(listening, "alarm", lambda: None)
        yield

"""Products row by row: shares that add up to each row's products, and results that are shown to nobody."""

from __future__ import annotations

import numpy as np
import pytest

from unpooled.errors import InputError, ProtocolError
from unpooled.run.simulate import simulate_roles
from unpooled.secure.calls import RING, Call, Inputs, RowByRow, check_call
from unpooled.secure.engine import Rules, Serving, open_engine
from unpooled.secure.product import finish, product_shares, serve
from unpooled.secure.randomness import SEED_BYTES
from unpooled.secure.shares import dealer
from unpooled.session import Session

PARTIES = ("telco", "bank")
CALL = Call((("telco", "bank"),), "telco", 5, RowByRow(3, RING), 2, RING)


@pytest.mark.parametrize("engine", ["plain", "shares"])
def test_shares_add_up(engine: str) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.integers(-(2**63), 2**63 - 1, (5, 3)), rng.integers(-(2**63), 2**63 - 1, (5, 2))

    def role(session: Session) -> list[np.ndarray]:
        opened = open_engine(session, Rules(engine), PARTIES, "bank", "coordinator")  # type: ignore[arg-type]
        held = Inputs(x=x) if session.party == "telco" else Inputs(y=y)
        found = [product_shares(opened, [(CALL, held)])[0] for _ in range(2)]
        finish(opened)
        return found

    def coordinator(session: Session) -> None:
        serve(open_engine(session, Rules(engine), PARTIES, "bank", "coordinator"))  # type: ignore[arg-type]

    results = simulate_roles({"telco": role, "bank": role, "coordinator": coordinator}).results
    expected = x.view(np.uint64)[:, :, np.newaxis] * y.view(np.uint64)[:, np.newaxis, :]
    for ours, theirs in zip(results["telco"], results["bank"], strict=True):
        assert np.array_equal(ours + theirs, expected)
    if engine == "shares":
        assert not np.array_equal(*results["telco"])


def test_it_is_not_shown() -> None:
    with pytest.raises(InputError, match="row by row"):
        check_call(CALL, PARTIES)


def test_what_the_coordinator_deals() -> None:
    item = dealer.DealItem("telco", "bank", "row by row", 5, 3, 2, 8, "x", "y", 1)
    sent, memory = dealer.bytes_of([item])
    assert sent >= 8 * 30
    assert memory - sent == 8 * (15 + 10 + 30)
    dealer.checked(dealer.Deal((item,), bytes(SEED_BYTES)), "coordinator", "bank", PARTIES, Serving())
    odd = dealer.DealItem("telco", "bank", "row", 5, 3, 2, 8, "x", "y", 1)
    with pytest.raises(ProtocolError, match="bank"):
        dealer.checked(dealer.Deal((odd,), bytes(SEED_BYTES)), "coordinator", "bank", PARTIES, Serving())

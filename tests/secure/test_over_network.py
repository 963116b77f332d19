"""Products over real TLS: the same integers as in memory, and no product without protection."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unpooled.errors import PlanError, ProtocolError
from unpooled.ledger import Ledger, Record, read_ledger, reconcile
from unpooled.run.conversation import converse
from unpooled.run.simulate import original
from unpooled.secure.calls import LARGEST, Call, Dense, OneHot
from unpooled.secure.engine import Rules
from unpooled.session import Session
from unpooled.transport.certificates import make_trial
from unpooled.transport.mailbox import Mailbox
from unpooled.transport.network import Addresses, NetworkTransport
from unpooled.transport.trust import load_identity

ALL = ("telco", "shop", "bank")
TIMEOUT = 60.0

Make = Callable[..., Any]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_trial(folder, [*ALL, "coordinator"])
    return folder


def free_address(host: str = "127.0.0.1") -> str:
    with socket.create_server((host, 0)) as listener:
        return f"{host}:{listener.getsockname()[1]}"


def over_network(roles: Mapping[str, Callable[[Session], None]], certificates: Path, folder: Path) -> dict[str, Record]:
    """Run one function per party, linked by TLS; their ledgers, or the error that the others followed from."""
    order = list(roles)
    addresses = {party: free_address() for party in order}
    errors: dict[str, BaseException] = {}

    def run(party: str) -> None:
        peers = tuple(peer for peer in order if peer != party)
        dial = {peer: addresses[peer] for peer in order[: order.index(party)]}
        with closing(Ledger(folder / f"{party}.jsonl", party, "plan")) as ledger:
            identity = load_identity(certificates / party, party)
            mailbox = Mailbox(party, peers, ledger)
            transport = NetworkTransport(identity, mailbox, Addresses(addresses[party], dial), TIMEOUT)
            try:
                converse(Session(transport, ledger, seed=1, timeout=TIMEOUT), {}, roles[party])
            except BaseException as error:
                errors[party] = error

    with ThreadPoolExecutor(len(order)) as pool:
        list(pool.map(run, order))
    if errors:
        raise original(errors)
    return {party: read_ledger(folder / f"{party}.jsonl") for party in order}


def problems(made: Make) -> list[list[Any]]:
    """Both forms, both directions, private terms, several peers, extreme numbers, no rows, hidden nodes, names."""
    dense = Call((("telco", "bank"),), "bank", 50, Dense(4, 100), 2, 1000, y="g")
    hot = Call((("telco", "bank"),), "bank", 50, OneHot((4, 1, 5), 6), 2, 1000, y="g h")
    several = replace(hot, terms=(("telco", "bank"), ("shop", "bank"), ("bank", "shop")), y="", added=(("telco", 9),))
    first = [
        dense,
        replace(dense, receiver="telco"),
        replace(dense, receiver="telco", y="", added=(("bank", 5), ("telco", 2**40))),
        replace(dense, rows=0, y="", added=(("telco", 5),)),
        replace(dense, rows=1, y="", left=Dense(1, LARGEST), bound=1),
    ]
    second = [
        hot,
        replace(hot, receiver="telco"),
        replace(hot, left=OneHot((3, 2), 3, True), y=""),
        several,
        replace(several, receiver="shop", left=Dense(3, 2**20)),
    ]
    _, shared = made(dense)
    batches = []
    for calls in (first, second):
        batch = []
        for seed, call in enumerate(calls):
            _, held = made(call, seed, extreme=call.bound == 1)
            if call.y:
                held["bank"] = replace(held["bank"], y=shared["bank"].y)
            batch.append((call, held))
        batches.append(batch)
    return batches


def test_results_are_the_same_over_a_network_as_in_memory(
    protecting: Rules,
    multiply: Make,
    roles_of: Make,
    new_run: Make,
    made: Make,
    expected: Make,
    certificates: Path,
    tmp_path: Path,
) -> None:
    batches = problems(made)
    in_memory, run = multiply(protecting, batches, ALL), new_run()
    ledgers = over_network(roles_of(run, protecting, batches, ALL), certificates, tmp_path)
    wanted = [problem for batch in batches for problem in batch]
    for party in ALL:
        for problem, here, there in zip(wanted, in_memory.results(party), run.results(party), strict=True):
            assert (here is None) == (there is None) == (party != problem[0].receiver)
            if there is not None:
                assert (there == here).all()
                assert (there == expected(problem)).all()
    for party, record in ledgers.items():
        assert record.closed
        assert all(reconcile(record, other) == [] for peer, other in ledgers.items() if peer != party)


def test_plain_refuses_a_network(
    rules_for: Make, roles_of: Make, new_run: Make, made: Make, certificates: Path, tmp_path: Path
) -> None:
    run = new_run()
    with pytest.raises(PlanError, match="plain"):
        over_network(roles_of(run, rules_for("plain"), problems(made), ALL), certificates, tmp_path)
    assert not run.engines


def test_calls_that_differ_end_the_conversation_over_a_network(
    protecting: Rules, roles_of: Make, new_run: Make, made: Make, certificates: Path, tmp_path: Path
) -> None:
    call = Call((("telco", "bank"),), "bank", 50, Dense(4, 100), 2, 1000)
    run = new_run()
    other = {"telco": [[made(replace(call, digest="other rows"))]]}
    roles = roles_of(run, protecting, [[made(call)]], ("telco", "bank"), differing=other)
    with pytest.raises(ProtocolError):
        over_network(roles, certificates, tmp_path)
    assert run.rounds("bank") == 0

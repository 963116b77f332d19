"""Take part in a job as one party, over the network: what each person starts on their own machine."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from unpooled.errors import PlanError
from unpooled.jobs.kinds import Result, parameters_of
from unpooled.jobs.plan import Plan, digest_of, fields_of
from unpooled.jobs.private import Private
from unpooled.jobs.rehearsal import identity_of, rehearse
from unpooled.ledger import Ledger, read_ledger
from unpooled.run import folder as run_folder
from unpooled.run.conversation import converse, guard_of, role_of, seed_of
from unpooled.run.progress import Watcher, nested
from unpooled.session import Session
from unpooled.transport.mailbox import Mailbox
from unpooled.transport.network import Addresses, NetworkTransport


def join(
    plan: Plan, party: str, private: Private, folder: Path, watcher: Watcher | None = None, *, resume: bool = False
) -> Result:
    """Look whether all is in place, link up with the others, do this party's part; what it makes is in `folder`.

    The folder is there already, made by `folder.create`, which refuses one that holds a run, unless that is what is
    to `resume`. `watcher` is told how far this party is.
    """
    with run_folder.taken(folder), run_folder.status_kept(folder, party, plan):
        rehearse(plan, party, private, joins=True)
        identity = identity_of(party, private)
        addresses = addresses_of(plan, party, private)
        fields = fields_of(plan, parameters_of(plan))
        role = role_of(plan, party, private, folder, resume=resume)
        peers = tuple(peer for peer in plan.parties if peer != party)
        path = folder / run_folder.LEDGER
        resumed = resume and path.exists()
        sent = sum(entry.bytes for entry in read_ledger(path).entries if entry.way == "sent") if resumed else 0
        with closing(Ledger(path, party, digest_of(fields), resume=resumed)) as ledger:
            transport = NetworkTransport(identity, Mailbox(party, peers, ledger), addresses, plan.timeout)
            guard = guard_of(party, private.policy, sent)
            seed = run_folder.kept_seed(folder, seed_of(private), resume=resume)
            told = nested(watcher, lambda: session.sent) if watcher else None
            session = Session(transport, ledger, seed=seed, timeout=plan.timeout, guard=guard, watcher=told)
            result = converse(session, fields, role)
        run_folder.write_result(folder, result)
    return result


def addresses_of(plan: Plan, party: str, private: Private) -> Addresses:
    """Where this party listens and whom it dials: of two with an address, the later one in the plan dials."""
    order = list(plan.parties)
    mine = plan.parties[party].address
    dial = {}
    for peer in order:
        address = plan.parties[peer].address
        if peer == party:
            continue
        if address is None and mine is None:
            raise PlanError(f"parties: neither {party} nor {peer} has an address, so they cannot reach each other")
        if address is not None and (mine is None or order.index(peer) < order.index(party)):
            dial[peer] = address
    return Addresses(private.listen or mine, dial)

"""Take part in a job as one party, over the network: what each person starts on their own machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unpooled.budget.places import usual_places
from unpooled.budget.spending import run_in_book
from unpooled.errors import PlanError
from unpooled.jobs.plan import Plan
from unpooled.jobs.preflight import identity_of, loaded, preflight
from unpooled.jobs.private import Private
from unpooled.jobs.work import WORKING, CheckedJob, Result
from unpooled.run.conversation import Linked, take_part
from unpooled.run.forecast import check_memory
from unpooled.run.process import keep_memory
from unpooled.run.progress import Watcher
from unpooled.transport.handover import Through
from unpooled.transport.mailbox import Mailbox
from unpooled.transport.network import Addresses, NetworkTransport


def join(
    job: CheckedJob[Any],
    folder: Path,
    watcher: Watcher | None = None,
    *,
    resume: bool = False,
    through: Through | None = None,
) -> Result:
    """Check that everything is in place, connect to the others, and run this party's role; its files go into `folder`.

    The folder exists: `folder.create` has made it, or it holds the run to `resume`. `watcher` is told of progress. What
    the run discloses is counted in the book of the party's table. A run of a service is connected `through` that.
    """

    def ready() -> tuple[CheckedJob[Any], Linked]:
        with_table = loaded(job, folder / WORKING)
        preflight(with_table, joins=True, resumed=run_in_book(folder) if resume else "")
        check_memory(with_table)
        identity = identity_of(job.party, job.private)
        addresses = addresses_of(job.plan, job.party, job.private, through)
        peers = tuple(peer for peer in job.plan.parties if peer != job.party)
        return with_table, lambda ledger: NetworkTransport(
            identity, Mailbox(job.party, peers, ledger), addresses, job.plan.timeout
        )

    keep_memory()
    return take_part(job, folder, ready, watcher, resume=resume, books=usual_places())


def addresses_of(plan: Plan, party: str, private: Private, through: Through | None = None) -> Addresses:
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
    return Addresses(through.listener, dial, through.preface) if through else Addresses(private.listen or mine, dial)

"""Tables, peers and the audit log by the JSON interface: to look at, not to change."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from unpooled.serve.accounts.tokens import Bearer
from unpooled.serve.console.console import Here
from unpooled.serve.console.interface.models import ActShown, PeerShown, TableShown, act_shown, peer_shown
from unpooled.serve.console.security import NeedsToken
from unpooled.serve.peers import peers_in
from unpooled.serve.state.audit_log import acts
from unpooled.serve.tables import tables_in

router = APIRouter(prefix="/api")

Viewer = Annotated[Bearer, Depends(NeedsToken("viewer"))]
Approver = Annotated[Bearer, Depends(NeedsToken("approver"))]


@router.get("/tables")
def list_tables(console: Here, _bearer: Viewer) -> list[TableShown]:
    """This party's tables, to be named in approvals."""
    return [TableShown(name=table.name, changed=table.changed) for table in tables_in(console.database)]


@router.get("/peers")
def list_peers(console: Here, _bearer: Viewer) -> list[PeerShown]:
    """The other parties, and how the last contact with each went."""
    return [peer_shown(peer) for peer in peers_in(console.database)]


@router.get("/audit-log")
def read_audit_log(console: Here, _bearer: Approver, job: str = "", most: int = 1_000) -> list[ActShown]:
    """The latest entries of the audit log, the last one first."""
    return [act_shown(act) for act in acts(console.database, job, max(1, min(most, 10_000)))]

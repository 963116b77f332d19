"""The audit log as a page, and as a file to keep elsewhere."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from unpooled.errors import LedgerError
from unpooled.serve.console.console import Here
from unpooled.serve.console.rendering import page
from unpooled.serve.console.security import Administrator, Approver
from unpooled.serve.state import audit_log

router = APIRouter()

_SHOWN = 500


@router.get("/audit-log")
def show(request: Request, console: Here, _session: Approver, job: str = "") -> Response:
    return page(request, "audit_log", acts=audit_log.acts(console.database, job, most=_SHOWN), shown=_SHOWN, job=job)


@router.get("/audit-log/check")
def check(request: Request, console: Here, _session: Approver) -> Response:
    try:
        count, problem = audit_log.verify(console.database), ""
    except LedgerError as error:
        count, problem = 0, str(error)
    return page(request, "audit_log_check", count=count, problem=problem)


@router.get("/audit-log.jsonl")
def export(console: Here, _session: Administrator) -> Response:
    headers = {"Content-Disposition": 'attachment; filename="audit-log.jsonl"'}
    return StreamingResponse(audit_log.exported(console.database), headers=headers, media_type="application/jsonl")

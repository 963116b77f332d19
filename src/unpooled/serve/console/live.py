"""The parts of a job's page that change while somebody looks at it, sent to the browser as they change."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from functools import lru_cache

from fastapi.concurrency import run_in_threadpool
from markupsafe import Markup

from unpooled.errors import InputError
from unpooled.report.picture import draw_picture
from unpooled.serve.console.console import Console
from unpooled.serve.console.rendering import part
from unpooled.serve.jobs.views import in_words, needs_decision
from unpooled.serve.running.watching import LOOK_SECONDS, Seen

_LONGEST_SECONDS = 300.0
"""Then the browser asks again, and it is seen whether the person is still signed in."""
_SILENT_SECONDS = 10.0
_FULL_SECONDS = 15


@lru_cache(maxsize=64)
def _shared(seen: _Same, party: str) -> dict[str, Markup]:
    of, job = seen.seen, seen.seen.job
    return {
        "state": part("job_state", job=job, state=of.state, said=in_words(job, party)),
        "progress": part("job_progress", job=job, state=of.state, progress=of.progress, party=party, flows=of.flows),
        "picture": Markup(draw_picture(job.plan, party, of.flows)),  # noqa: S704
        "parties": part("job_parties", job=job, state=of.state, party=party, runs=job.runs_in(job.occurrence)),
        "log": part("job_log", log=of.log),
    }


class _Same:
    """What was seen at one look, told from other looks by identity: comparing it whole would take longer."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    def __hash__(self) -> int:
        return id(self.seen)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.seen is other.seen


def parts_of(seen: Seen, party: str) -> dict[str, Markup]:
    """The parts of a page as HTML; they hold nothing of a person's own, so all viewers share them."""
    return _shared(_Same(seen), party)


def version_of(seen: Seen, party: str) -> str:
    """What a page was made for: with another version, its forms are others."""
    return f"{seen.state}-{int(needs_decision(seen.job, party))}-{seen.job.occurrence}"


async def stream(console: Console, job: str, person: str, version: str) -> AsyncIterator[str]:
    """Events until the page is out of date or the service ends; with too many pages open, how it is now and no more."""
    if not console.streams.begin(person):
        seen = await run_in_threadpool(console.watching.look, job)
        yield f"retry: {_FULL_SECONDS}000\n\n"
        yield _event("parts", parts_of(seen, console.party))
        return
    try:
        sent: dict[str, Markup] = {}
        silent = time.monotonic()
        until = silent + _LONGEST_SECONDS
        yield "retry: 2000\n\n"
        while not console.ending and time.monotonic() < until:
            try:
                seen = await run_in_threadpool(console.watching.look, job)
            except InputError:  # a draft that was removed
                yield _event("changed", {})
                return
            if version_of(seen, console.party) != version:
                yield _event("changed", {})
                return
            parts = await run_in_threadpool(parts_of, seen, console.party)
            if changed := {name: html for name, html in parts.items() if sent.get(name) != html}:
                yield _event("parts", changed)
                sent |= changed
                silent = time.monotonic()
            elif time.monotonic() - silent > _SILENT_SECONDS:
                yield ": still here\n\n"
                silent = time.monotonic()
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        console.streams.end(person)


def _event(name: str, content: dict[str, Markup]) -> str:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n"

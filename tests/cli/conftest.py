"""What the tests of commands share."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from unpooled.cli import jobs
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.run import folder as run_folder
from unpooled.run.progress import Watch
from unpooled.run.simulate import simulate_job


@pytest.fixture
def use_free_ports() -> Callable[[Path], None]:
    """Another program of this machine may have the ports of an example plan."""

    def use(plan: Path) -> None:
        text = plan.read_text()
        for port in re.findall(r"127\.0\.0\.1:(\d+)", text):
            with socket.create_server(("127.0.0.1", 0)) as free:
                text = text.replace(f":{port}", f":{free.getsockname()[1]}")
        plan.write_text(text)

    return use


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """`unpooled run` without a process for each party, for tests of pages and commands rather than of processes."""

    def spawn(plan: Plan, privates: Mapping[str, Private], folder: Path, watch: Watch) -> dict[str, Any]:
        return simulate_job(plan, privates, folder=run_folder.create(folder)).results

    monkeypatch.setattr(jobs, "spawn", spawn)

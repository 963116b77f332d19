"""What the tests of commands share."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest


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

"""Lines of JSON chained by SHA-256: each has the digest of itself and the line before.

A changed, removed or inserted line breaks the chain. Lines cut from the end, or a file rewritten from its first line,
do not: whoever keeps a digest elsewhere sees those.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from unpooled.errors import UnpooledError

START = "0" * 64
_KEY = ', "chain": "'
_END = 64 + len('"}\n')


def chained(previous: str, text: str) -> tuple[bytes, str]:
    """A line, and its digest, from the text of a JSON object without its closing brace."""
    digest = _digest(previous, text)
    return f'{text}{_KEY}{digest}"}}\n'.encode(), digest


def _digest(previous: str, text: str) -> str:
    return hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()


def checked(path: Path, lines: Iterable[str], error: type[UnpooledError]) -> Iterator[tuple[dict[str, Any], str]]:
    """The content of each line, and its digest; `error` at the first line that does not continue the chain."""
    last = START
    for number, line in enumerate(lines, start=1):
        text, found, digest = line.rpartition(_KEY)
        last = _digest(last, text)
        if not found or digest != f'{last}"}}':
            raise error(f"{path} line {number}: the chain is broken: this line or one before it was changed")
        try:
            content = json.loads(text + "}")
        except (ValueError, RecursionError) as fault:
            raise error(f"{path} line {number}: not JSON") from fault
        if not isinstance(content, dict):
            raise error(f"{path} line {number}: not an entry")
        yield content, last


def last_digest(path: Path) -> str:
    """The digest of the last line of an intact file."""
    with path.open("rb") as file:
        file.seek(-_END, os.SEEK_END)
        return file.read()[:-3].decode()

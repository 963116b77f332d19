"""Work that is too long for a request: commands in processes of their own, a few at a time, whose results are kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from unpooled import atomic
from unpooled.jobs.files import write_toml
from unpooled.serve.folder import StateFolder

_AT_ONCE = 2
_MOST_SECONDS = 1800


@dataclass(frozen=True)
class Result:
    """What a command said, or why it failed; or that it is not there yet."""

    state: Literal["none", "working", "done", "failed"]
    found: dict[str, Any] | None = None
    error: str = ""


class Background:
    """Runs commands of this software that say their result as JSON; each result has a file."""

    def __init__(self, folder: StateFolder) -> None:
        self._books = folder.books
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="unpooled-background")
        self._working: set[Path] = set()
        self._children: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()

    def close(self) -> None:
        """End what is being computed."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            for child in self._children:
                child.kill()
        self._pool.shutdown()

    def request(
        self,
        file: Path,
        words: Sequence[str],
        inputs: Mapping[str, BaseModel],
        codes: Sequence[int] = (0,),
        *,
        again: bool = False,
    ) -> None:
        """Begin a command, unless its result is being computed, or is there and not wanted `again`.

        `inputs` are written beside the result; `codes` are the exit codes with which it says one.
        """
        with self._lock:
            if file in self._working or (file.exists() and not again):
                return
            file.unlink(missing_ok=True)
            self._working.add(file)
        self._pool.submit(self._compute, file, words, inputs, codes)

    def result(self, file: Path) -> Result:
        """How far a command is, and what it said."""
        try:
            kept = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            with self._lock:
                return Result("working" if file in self._working else "none")
        if "error" in kept:
            return Result("failed", error=kept["error"])
        return Result("done", kept["found"])

    def _compute(self, file: Path, words: Sequence[str], inputs: Mapping[str, BaseModel], codes: Sequence[int]) -> None:
        try:
            atomic.close_folder(file.parent)
            for name, settings in inputs.items():
                write_toml(file.parent / name, settings)
            atomic.write_text(file, json.dumps(self._computed(words, codes), ensure_ascii=False))
        finally:
            with self._lock:
                self._working.discard(file)

    def _computed(self, words: Sequence[str], codes: Sequence[int]) -> dict[str, Any]:
        child = subprocess.Popen(
            [sys.executable, "-m", "unpooled", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | self._books.environment,
        )
        with self._lock:
            self._children.add(child)
        try:
            said, complaint = child.communicate(timeout=_MOST_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            return {"error": f"it took longer than {_MOST_SECONDS // 60} minutes"}
        finally:
            with self._lock:
                self._children.discard(child)
        if child.returncode not in codes or not said:
            return {"error": complaint.strip().removeprefix("error: ") or "it was ended"}
        return {"found": json.loads(said.strip().splitlines()[-1])}

"""What a party keeps of what it hid and what it received, so that parties who agree to an audit can check each other.

The receiver of a hidden matrix keeps a digest of it, and its sender keeps the seed of the mask. To *open* the matrix is
to tell that seed. An auditor who knows what the matrix should have been hides it again with the seed and compares
digests: they are equal only for that matrix. To pass off another matrix Y' for F = Y - V, a party needs a seed whose
mask is Y' - F. That fixes far more bits than a seed has, so such a seed almost never exists, and finding it means
breaking AES. Each side is dealt a digest of the other's seed (`dealer.Part`), so that nobody can open another seed than
the one that the coordinator used.

Inputs that matrices follow from (labels, weights, columns) are bound by a commitment: a digest with a random salt, sent
before the inputs are used, and opened by telling salt and inputs.

Digests of received matrices are in `audit.jsonl`, beside the ledger. They are of random numbers, or salted, and
disclose nothing. Seeds, salts and inputs are secrets, kept among the working files. `unpooled purge` removes them;
after that nothing can be opened.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled import atomic
from unpooled.errors import InputError, ProtocolError
from unpooled.ledger import mend
from unpooled.secure.randomness import new_seed
from unpooled.session import Session
from unpooled.wire import message

RECEIVED, SECRETS, OWN = "audit.jsonl", "audit", "own"
_OPENINGS = "openings.jsonl"

Line = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


@message(discloses="nothing: a digest, with a random salt, of labels, weights and draws, or of columns")
class Commitment:
    """Binds the inputs that the sender uses from now on; it can be opened in an audit."""

    digest: bytes


class _Lines:
    """A file that lines are added to. It is opened with the first, and the system has each one when `add` returns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def add(self, line: Line) -> None:
        content = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        with atomic.naming(self._path):
            if self._handle is None:
                self._handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, atomic.OWNER_ONLY)
                weakref.finalize(self, os.close, self._handle)
            os.write(self._handle, content)


class Evidence:
    """One party's evidence: `received` is a file beside the ledger, `secrets` a folder among the working files.

    `fit` and `group` are the current position in the job, for descriptions of products.
    """

    def __init__(self, received: Path, secrets: Path) -> None:
        self.fit = self.group = 0
        self._secrets = secrets
        with atomic.naming(secrets):
            atomic.make_folder(secrets)
        mend(received)
        mend(secrets / _OPENINGS)
        self._received, self._openings = _Lines(received), _Lines(secrets / _OPENINGS)

    def keep_received(self, side: str, tag: bytes, sender: str, about: Line, **said: Any) -> None:
        """Keep that a hidden matrix arrived, X or Y of a product."""
        line = {"product": f"{side}-{tag.hex()}", "from": sender, "about": _without_own(about), **said}
        self._received.add(line)

    def keep_asked(self, sender: str, about: Line) -> None:
        """Keep that a matrix that had arrived before was used again."""
        self._received.add({"asked": True, "from": sender, "about": _without_own(about)})

    def keep_opening(self, side: str, tag: bytes, receiver: str, about: Line, **opening: Any) -> None:
        """Keep what opens a hidden matrix that is sent."""
        line = {"product": f"{side}-{tag.hex()}", "to": receiver, "about": about, **opening}
        self._openings.add(line)

    def commit(self, session: Session, receivers: Iterable[str], what: str, inputs: Mapping[str, NDArray[Any]]) -> None:
        """Commit to inputs; the same inputs are stored once."""
        salt, page = new_seed(), f"{what}-{digest_of_inputs(b'', inputs).hex()[:32]}"
        digest = digest_of_inputs(salt, inputs)
        self._keep(page, np.savez_compressed, inputs)
        opening = {"commitment": digest.hex(), "fit": self.fit, "salt": salt.hex(), "page": page}
        self._openings.add(opening)
        for receiver in receivers:
            session.send(receiver, Commitment(digest))

    def take_commitment(self, session: Session, sender: str) -> None:
        """Keep a peer's commitment."""
        digest = session.recv(sender, Commitment).digest
        if len(digest) != hashlib.sha256().digest_size:
            raise ProtocolError(f"invalid Commitment from {sender}: wrong length")
        self._received.add({"commitment": digest.hex(), "from": sender, "fit": self.fit})

    def keep_page(self, name: str, **arrays: NDArray[Any]) -> None:
        """Keep arrays under a name, unless they were kept before an interruption."""
        self._keep(name, np.savez, arrays)

    def _keep(self, name: str, save: Callable[..., None], arrays: Mapping[str, NDArray[Any]]) -> None:
        path = self._secrets / f"{name}.npz"
        if path.exists():
            return
        content = io.BytesIO()
        save(content, allow_pickle=False, **arrays)
        with atomic.naming(path), atomic.replacing(path, lasting=False) as temporary:
            temporary.write_bytes(content.getbuffer())


def digest_of_inputs(salt: bytes, inputs: Mapping[str, NDArray[Any]]) -> bytes:
    """A commitment to inputs; without the salt it discloses nothing."""
    found = hashlib.sha256(b"unpooled commitment v1" + salt)
    for name, values in sorted(inputs.items()):
        found.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
        found.update(np.ascontiguousarray(values).data)
    return found.digest()


def digest_of(*arrays: NDArray[Any]) -> str:
    """A digest of received arrays, or of a set of rows."""
    return digest_of_all(arrays)


def digest_of_all(arrays: Iterable[NDArray[Any]]) -> str:
    """The same one after the other, such as the blocks of a matrix, whose digest is that of the matrix."""
    found = hashlib.sha256()
    for values in arrays:
        found.update(np.ascontiguousarray(values).data)
    return found.hexdigest()


def digest_of_seed(seed: bytes) -> bytes:
    """What the coordinator tells each side about the other's seed."""
    return hashlib.sha256(b"unpooled seed v1" + seed).digest()


def received_in(folder: Path) -> list[Line]:
    """The lines of a party's `audit.jsonl`."""
    return _lines(folder / RECEIVED)


def openings_in(secrets: Path) -> list[Line]:
    """What a party can open."""
    return _lines(secrets / _OPENINGS)


def has_page(secrets: Path, name: str) -> bool:
    return (secrets / f"{name}.npz").exists()


def page_in(secrets: Path, name: str) -> Arrays:
    """Arrays kept under a name."""
    path = secrets / f"{name}.npz"
    try:
        with np.load(path, allow_pickle=False) as page:
            return dict(page)
    except FileNotFoundError:
        raise InputError(f"{path}: file not found: it was purged or never written, so it cannot be opened") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def _without_own(about: Line) -> Line:
    """A product's description without this party's secrets."""
    return {name: value for name, value in about.items() if name != OWN}


def _lines(path: Path) -> list[Line]:
    try:
        written = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: file not found: the plan says audit = false, or the file was removed") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    lines = []
    for number, text in enumerate(written.split("\n")[:-1], start=1):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict):
            raise InputError(f"{path} line {number}: damaged or changed")
        lines.append(line)
    return lines

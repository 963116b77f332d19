"""The state of a training on disk, so that it can be resumed: one .npz file, for its owner alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from unpooled import atomic
from unpooled.errors import ResumeError

_HEADER = "header"
_FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """How far a training is: the state now and, if it may stop early, the best one so far."""

    epoch: int
    best_loss: float
    best_epoch: int
    state: Any
    best: Any


def write_checkpoint(path: Path, about: Mapping[str, str], reached: Checkpoint) -> None:
    """Replace the file, whole or not at all."""
    header = {
        "format": _FORMAT,
        "about": dict(about),
        "epoch": reached.epoch,
        "best": [reached.best_loss.hex(), reached.best_epoch],
    }
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    trees = {"state": reached.state, "best": reached.best}
    arrays = {f"{name}.{place}": leaf for name, tree in trees.items() for place, leaf in enumerate(_leaves(tree))}
    with atomic.naming(path), atomic.replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **{_HEADER: text, **arrays})


def read_checkpoint(path: Path, about: Mapping[str, str], like: Any) -> Checkpoint:
    """What was written of the same training; its arrays must have the shapes of the state that it would begin with."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays.pop(_HEADER).tobytes())
        written, epoch, (best_loss, best_epoch) = header["about"], int(header["epoch"]), header["best"]
        if changed := [name for name in {**about, **written} if about.get(name) != written.get(name)]:
            what = " and the ".join(changed)
            raise ResumeError(f"{path}: the training cannot be resumed: the {what} changed since it began; remove it")
        state, best = (_tree(name, arrays, like) for name in ("state", "best"))
        if header["format"] != _FORMAT or len(arrays) != 2 * len(jax.tree.leaves(like)):
            raise ValueError
        return Checkpoint(epoch, float.fromhex(best_loss), int(best_epoch), state, best)
    except OSError as error:
        raise ResumeError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ResumeError:
        raise
    except Exception:  # zipfile, json and numpy raise many classes of errors for damaged bytes
        raise ResumeError(f"{path}: is no checkpoint of this training, or a damaged one; remove it") from None


def _leaves(tree: Any) -> list[Any]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def _tree(name: str, arrays: Mapping[str, Any], like: Any) -> Any:
    leaves, form = jax.tree.flatten(like)
    found = [arrays[f"{name}.{place}"] for place in range(len(leaves))]
    for one, other in zip(found, leaves, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            raise ValueError
    return jax.tree.unflatten(form, map(jax.numpy.asarray, found))

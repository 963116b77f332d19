"""Whether what a party opens of trees' products is what it sent, and what the learner prescribes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from unpooled.codec import Floats, Ints
from unpooled.errors import InputError
from unpooled.secure import shares
from unpooled.secure.evidence import Arrays, Line, digest_of, digest_of_seed
from unpooled.secure.packing import Slots
from unpooled.vertical.ground import Seedling
from unpooled.vertical.parameters import AnyTrees
from unpooled.vertical.prescribed import gradients, inputs_of
from unpooled.vertical.targets import targets_from
from unpooled.vertical.trail import Leaves, leaves_in, looked_at, name_of


def pages_needed(openings: Sequence[Line]) -> list[str]:
    """Which leaves must be shown along with openings: those of all trees before the last one in question, and its."""
    last: dict[int, int] = {}
    for line in openings:
        fit, group = line["about"]["fit"], line["about"]["group"]
        last[fit] = max(last.get(fit, 0), group)
    return [name_of(fit, group) for fit, most in sorted(last.items()) for group in range(1, most + 1)]


class FitCheck:
    """One fit: its targets as they were opened, the leaves, and all that the checker was sent about it."""

    def __init__(
        self, parameters: AnyTrees, inputs: Arrays, pages: Mapping[str, Arrays], fit: int, received: Sequence[Line]
    ) -> None:
        self._parameters, self._targets = parameters, targets_from(inputs)
        self.leaves: list[list[Leaves]] = []
        while (name := name_of(fit, len(self.leaves) + 1)) in pages:
            self.leaves.append(leaves_in(pages[name]))
        self._received = received

    @cached_property
    def groups(self) -> list[list[Seedling]]:
        """The gradients that the learner prescribes."""
        return gradients(self._parameters, self._targets, self.leaves)

    @cached_property
    def misplaced(self) -> str:
        """Whether leaves put rows into other nodes than the checker was told when the trees grew."""
        for line in self._received:
            about = line["about"]
            if "rows" in about and about["group"] <= len(self.leaves):
                seen = looked_at(self._tree(about)[1], about["nodes"])
                if digest_of(seen.rows) != about["rows"]:
                    return "the leaves that were opened have other rows in a node than were told when the tree grew"
        return ""

    def problem_of(self, line: Line, opening: Line) -> str:
        """What is wrong with a product; nothing if it is in order."""
        about, seed = line["about"], bytes.fromhex(opening["seed"])
        if digest_of_seed(seed).hex() != line["mask"]:
            return "the seed that was opened is not the one that was dealt"
        if self.misplaced:
            return self.misplaced
        seedling, leaves = self._tree(about)
        nodes = about.get("nodes", opening["about"].get("nodes"))
        y, of_rows = inputs_of(seedling, leaves, nodes, line["rows"], part=about["part"])
        folded = of_rows if line["folded"] else None
        if line["folded"] not in (0, len(nodes)):
            return "it was opened for another number of nodes than it had"
        words = shares.words_of(y, Slots(*line["slots"]), folded, line["folded"])
        if digest_of(shares.hidden_by(seed, words)) != line["sha256"]:
            return "what was sent are not the gradients that follow from the labels"
        return ""

    def _tree(self, about: Line) -> tuple[Seedling, Leaves]:
        try:
            group = about["group"] - 1
            return self.groups[group][about["tree"]], self.leaves[group][about["tree"]]
        except IndexError:
            raise InputError("a product is about a tree whose leaves were not opened, or that never grew") from None

    def notes(self) -> list[str]:
        """What labels and weights look like: an audit shows that they were used, not that they are true."""
        weights = np.concatenate([target.weights for target in self._targets if target.weights is not None])
        found = [_described("weights", weights[weights > 0])]
        if not self._parameters.classes:
            found.append(_described("labels", np.concatenate([target.values for target in self._targets])))
        return found


def _described(what: str, values: Floats) -> str:
    """How many rows really count: one that is as large as all others together has their part in every sum."""
    sizes = np.abs(values[np.isfinite(values)])
    counted: Ints = np.unique(sizes)
    effective = float(sizes.sum() ** 2 / (sizes**2).sum()) if sizes.any() else 0.0
    return f"{what}: {len(counted)} different values, {len(sizes)} that count as much as {effective:.0f} equal ones"

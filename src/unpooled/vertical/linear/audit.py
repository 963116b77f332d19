"""Whether what a party opens of linear models' products is what it sent, and what follows from its columns and labels.

The learner's own functions make the products again, from the inputs that were committed to and the weights that the
party says it had. How it came by these weights is its word; but there are few of them, so they leave little choice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unpooled.arrays import Ints
from unpooled.errors import InputError
from unpooled.secure.evidence import OWN, Line, digest_of
from unpooled.secure.reproduction import is_x, is_y
from unpooled.vertical.inputs import COLUMNS as COLUMNS_KEPT
from unpooled.vertical.inputs import TARGETS, Columns
from unpooled.vertical.learner import Audited
from unpooled.vertical.linear.descent import GRADIENT, products_of
from unpooled.vertical.linear.fit_input import FitInput, input_of, page_name, states_of
from unpooled.vertical.linear.loss import loss_of
from unpooled.vertical.linear.parameters import LinearParameters, outputs_of
from unpooled.vertical.linear.residuals import COLUMNS
from unpooled.vertical.linear.row_weights import RowWeighting
from unpooled.vertical.linear.state import FitState, begin_at, own_residuals
from unpooled.vertical.targets import targets_from
from unpooled.vertical.team import Team


def pages_needed(lines: Sequence[Line]) -> list[str]:
    """Which rows take part in the models that are in question."""
    return [page_name(line["about"]["fit"], line["about"]["model"]) for line in lines]


class LinearCheck:
    """What a party put into one fit: its columns, and if it is the active one its targets, as it opens them."""

    notes: Sequence[str] = ()

    def __init__(self, parameters: LinearParameters, audited: Audited) -> None:
        self._parameters, self._party, self._pages = parameters, audited.opener, audited.pages
        self._team = Team(audited.setup.active, audited.setup.owners)
        self._columns: Ints = audited.inputs[COLUMNS_KEPT]["columns"]
        if self._columns.ndim != 2 or self._columns.dtype != np.int64:
            raise InputError("the columns that were opened are not a matrix of whole numbers")
        is_active = self._party == self._team.active
        self._targets = targets_from(audited.inputs[TARGETS]) if is_active else []
        self._states: dict[int, FitState] = {}

    def problem_of(self, line: Line, seed: str, told: Line) -> str:
        """What is wrong with a product, by its seed and the weights that the opener had; nothing if all is well."""
        about, own = line["about"], np.array(told[OWN]["weights"], float)
        if about["model"] not in self._states:
            self._states[about["model"]] = self._state(about)
        state = self._states[about["model"]]
        if own.shape != state.iterate.weights.shape or not np.isfinite(own).all():
            return "it was opened with weights of other columns"
        state.iterate = begin_at(own)
        number, is_gradient = int(about["batch"]), about["what"] == GRADIENT
        residuals = own_residuals(state, state.cut[number])
        products = products_of(state, number, residuals) if is_gradient else [loss_of(state)[1:]]
        _, held = products[about["place"]]
        rows, is_left = slice(*line["part"]), line["product"].startswith("x")
        matrix = held.x if is_left else held.y
        if matrix is None:
            return "it was opened as another matrix than it was"
        opening, of_rows = bytes.fromhex(seed), (matrix[rows], np.empty(0, np.int32))
        page = self._pages.get(line["product"], {})
        fits = is_x(line, opening, *of_rows) if is_left else is_y(line, opening, page, *of_rows)
        return "" if fits else "what was sent does not follow from columns and labels, or it was opened wrongly"

    def _state(self, about: Line) -> FitState:
        """A model at the opener, with the rows and weights that the checker knows too."""
        page, rows, width = self._pages[page_name(about["fit"], about["model"])], *self._columns.shape
        if digest_of(page["taking_part"]) != about["rows"] or digest_of(page["weights"]) != about["weights"]:
            raise InputError("other rows or weights were opened than those that all parties know")
        taking_part = np.unpackbits(page["taking_part"], count=rows).view(bool)
        weighted, shown, heaviest = about["weighing"]
        columns = self._columns
        if self._party == self._team.active:
            ones = np.full((rows, 1), COLUMNS.encode(np.ones(1), "one")[0])
            columns = np.concatenate([columns, ones], axis=1)
            names = tuple(map(str, range(width)))
            target = self._targets[about["model"]]
            given = input_of(self._team, self._parameters, Columns(np.empty((rows, width)), names), target, None)
            if not np.array_equal(given.taking_part, taking_part):
                raise InputError("other rows take part than those that have a weight")
        else:
            known = page["weights"] if shown and weighted else None
            iterate = begin_at(np.zeros((width, outputs_of(self._parameters))))
            given = FitInput(b"", taking_part, RowWeighting(weighted, shown, heaviest, known), iterate)
        (state,) = states_of(self._team, self._party, self._parameters, columns, [given], about["widths"])
        return state

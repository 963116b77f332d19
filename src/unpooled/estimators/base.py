"""What all estimators have in common: tables, parties, and what is to be seen of them afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar, ParamSpec, TypeVar, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import ValidationError
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from unpooled.arrays import Floats
from unpooled.data.columns import Kind, rows_named
from unpooled.data.prepare import Preparation, PrepareSettings
from unpooled.errors import InputError, PlanError, RefusedError
from unpooled.estimators import tables
from unpooled.estimators.apart import Apart, Split, dealt, is_frame
from unpooled.estimators.settings import LEARNER_SETTINGS, with_settings
from unpooled.estimators.together import How, Learned, Parties, Watch, score
from unpooled.evaluate.metrics import probabilities_of
from unpooled.jobs.plan import SAFE_KEY_BITS
from unpooled.settings import faults
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import Learner
from unpooled.vertical.learners import default_parameters, learner_of

P = ParamSpec("P")
R = TypeVar("R")

_SEEDS = 2**31 - 1


def with_value_errors(method: Callable[P, R]) -> Callable[P, R]:
    """What is wrong with an estimator's input or settings is a ValueError, as scikit-learn's users expect."""

    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except (InputError, PlanError, RefusedError) as error:
            raise ValueError(str(error)) from None

    return called


@with_settings
class VerticalEstimator(BaseEstimator):  # type: ignore[misc]
    """Parties that hold columns of the same rows, and learn together.

    X is an `Apart` or a dict of data frames by party; or one polars or pandas data frame or a matrix of numbers, which
    `split` deals to parties. `active` is the party that has the labels, by default the last one.
    `watch` is called with the place in the fit, what is done and out of how much, as the active party gets on.
    All `settings` are keywords, None for the default of the learner.
    """

    setting_names: ClassVar[Sequence[str]] = LEARNER_SETTINGS

    def __init__(
        self,
        *,
        learner: str = default_parameters().learner,
        split: Split | None = None,
        active: str | None = None,
        engine: How = "plain",
        prepare: PrepareSettings | Mapping[str, Any] | None = None,
        types: Mapping[str, Kind] | None = None,
        key_bits: int = SAFE_KEY_BITS,
        watch: Watch | None = None,
        random_state: Any = None,
        **settings: Any,
    ) -> None:
        self.learner = learner
        self.split = split
        self.active = active
        self.engine = engine
        self.prepare = prepare
        self.types = types
        self.key_bits = key_bits
        self.watch = watch
        self.random_state = random_state
        for name in self.setting_names:
            setattr(self, name, settings.pop(name, None))
        if settings:
            raise TypeError(f"{type(self).__name__}() has no parameter '{next(iter(settings))}'")

    ledgers_: dict[str, Any]
    """By party what it sent and received while it learned."""
    bytes_sent_: dict[str, int]
    importances_: dict[str, pl.DataFrame]
    """By party what its columns had a part in; a passive party counts rows only where it is shown nodes."""

    def _begin(self, rows: Apart, learner: Learner) -> tuple[Parties, dict[str, Columns]]:
        """Who takes part, and everybody's columns made ready."""
        active = rows.parties[-1] if self.active is None else self.active
        if active not in rows.parties:
            raise InputError(
                f"active: '{active}' is none of the parties {', '.join(rows.parties)}; a party that has the labels "
                "alone has an empty list in split, or an empty data frame"
            )
        if idle := [name for name, frame in rows.frames.items() if name != active and not len(frame.columns)]:
            raise InputError(f"{idle[0]} has no column to lend: leave it out")
        if self.engine not in get_args(How):
            raise InputError(f"engine: {self.engine!r} is none; there are: {', '.join(get_args(How))}")
        seed = int(check_random_state(self.random_state).randint(_SEEDS))
        parties = Parties(rows.parties, active, self.engine, self.key_bits, seed, self.watch)
        self.preparations_: dict[str, Preparation]
        self.preparations_, columns = tables.learn(rows, self._prepare_settings(), self.types or {}, learner)
        return parties, columns

    def _end(self, learned: Learned) -> None:
        """Keep what was learned, and what there is to see of that."""
        self._learned = learned
        self.active_, self.parties_ = learned.parties.active, learned.parties.owners
        self.ledgers_ = dict(learned.ledgers)
        self.bytes_sent_ = {
            party: sum(entry.bytes for entry in ledger.entries if entry.way == "sent")
            for party, ledger in self.ledgers_.items()
        }
        self.importances_ = {party: pl.DataFrame(told) for party, told in learned.importances().items()}

    def _scores(self, X: Any) -> Floats:  # noqa: N803
        """What the models say of new rows; all parties take part in that, too."""
        check_is_fitted(self)
        rows, learner = self._rows(X, reset=False), learner_of(self._learned.model.parameters)
        return score(self._learned, tables.use(self.preparations_, rows, learner))

    def _probabilities(self, X: Any) -> Floats:  # noqa: N803
        """The same as a probability of each class."""
        found = probabilities_of(self._scores(X))
        return found if found.ndim == 2 else np.stack([1.0 - found, found], axis=1)

    def _rows(self, X: Any, *, reset: bool) -> Apart:  # noqa: N803
        """Rows with their columns where they belong; scikit-learn checks that they are those of the fit."""
        if isinstance(X, Mapping) and not hasattr(X, "shape"):
            X = Apart(X)  # noqa: N806
        if isinstance(X, Apart):
            if reset:
                self.n_features_in_, self.feature_names_in_ = X.shape[1], np.array(X.names, object)
            return X
        if is_frame(X):
            validate_data(self, X, skip_check_array=True, reset=reset)
            if not len(X):
                raise InputError("X has 0 rows, and at least one is needed")
        else:
            matrix = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset)
            X = pl.DataFrame({f"x{place}": cells for place, cells in enumerate(matrix.T)})  # noqa: N806
        return dealt(X, self.split)

    def _prepare_settings(self) -> PrepareSettings:
        try:
            return PrepareSettings.model_validate(self.prepare or {})
        except ValidationError as error:
            raise InputError("; ".join(faults(error, "prepare"))) from None

    def _given(self, names: Sequence[str]) -> dict[str, Any]:
        """The settings of these names that are not left to their defaults."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def labels_of(y: Any, rows: int, *, classes: bool) -> NDArray[Any]:
    """The labels, one for each row and none of them missing; classes or numbers."""
    if y is None:
        raise InputError("the estimator requires y to be passed, but the target y is None")
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    if len(labels) != rows:
        raise InputError(f"X has {rows} rows, and y has {len(labels)} labels: inconsistent numbers of samples")
    if labels.dtype.kind == "f":
        missing = ~np.isfinite(labels)
    else:
        missing = np.array([_is_missing(label) for label in labels.tolist()], bool)
    if missing.any():
        places = (np.flatnonzero(missing) + 1).tolist()
        raise InputError(f"y: {rows_named(places)}: the label is NaN, infinity or missing")
    if classes:
        check_classification_targets(labels)
    return labels


def _is_missing(label: Any) -> bool:
    """None, not-a-number, or what pandas has instead."""
    return label is None or type(label).__name__ == "NAType" or bool(label != label)

"""The methods as scikit-learn estimators; needs the extras `sklearn` and `generate`.

`fit(X, y)`: y is -1 for unlabelled rows, and 0 and 1, or 1 alone, for the others. X is a matrix of numbers, some of
whose columns may be `categories`, or a polars or pandas data frame, whose texts and booleans are categories. What every
method can be set is in `unpooled.semisup.settings`; whatever is not a parameter here goes into `settings`.

>>> rng = np.random.default_rng(1)
>>> X = rng.normal(size=(300, 2))
>>> positive = X[:, 0] > 0
>>> y = np.where(np.arange(300) < 20, positive, -1)
>>> found = FixMatchClassifier(steps=80, random_state=1).fit(X, y)
>>> bool((found.predict(X) == positive).mean() > 0.8)
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import polars as pl
from pydantic import ValidationError
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from unpooled.arrays import Floats
from unpooled.errors import InputError
from unpooled.pu.estimates.elkan_noto import held_out
from unpooled.pu.estimates.prior import best_bin
from unpooled.semisup import rows
from unpooled.semisup.labels import Feeding, Labels, labels_of
from unpooled.semisup.settings import (
    AdaMatchSettings,
    CoMatchSettings,
    FixMatchSettings,
    MixMatchSettings,
    NetworkSettings,
    Preset,
    PseudoLabelSettings,
    SoftMatchSettings,
    SupervisedSettings,
    chosen,
)
from unpooled.settings import faults

_SEEDS = 2**31 - 1
_NEEDED = ("jax", "jaxlib", "optax")
_ROWS = 10_000
"""The most rows that the class prior is estimated from."""
_LEAST = 2
_LOWEST, _HIGHEST = 1e-3, 1 - 1e-3
_OWN = ("network", "steps", "batch_rows", "learning_rate")
"""Settings that are parameters of all estimators."""
_KEPT = ("preset", *_OWN, "feeding", "prior", "negative_fraction", "validation_fraction", "patience")


class _SemisupClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What all have in common."""

    _kind: ClassVar[type[NetworkSettings]]

    def __init__(
        self,
        *,
        preset: Preset = "table",
        network: Literal["mlp", "wrn"] | None = None,
        steps: int | None = None,
        batch_rows: int | None = None,
        learning_rate: float | None = None,
        settings: Mapping[str, Any] | None = None,
        feeding: Feeding = "prior",
        prior: float | None = None,
        negative_fraction: float = 1.0,
        categories: Sequence[int] | None = None,
        validation_fraction: float = 0.0,
        patience: int = 5,
        watch: Callable[[Any], None] | None = None,
        random_state: Any = None,
    ) -> None:
        self.preset = preset
        self.network = network
        self.steps = steps
        self.batch_rows = batch_rows
        self.learning_rate = learning_rate
        self.settings = settings
        self.feeding = feeding
        self.prior = prior
        self.negative_fraction = negative_fraction
        self.categories = categories
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.watch = watch
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Learn from labelled and unlabelled rows."""
        fitting = _fitting()
        settings = self._settings()
        frame, y = self._labelled(X, y)
        labels = labels_of(y)
        rng = np.random.default_rng(int(check_random_state(self.random_state).randint(_SEEDS)))
        self._columns = rows.learn_columns(frame)
        values = rows.values_of(self._columns, frame)
        encoding = rows.encoding_of(self._columns, values)
        self.prior_ = self._prior(labels, encoding.encode(values, rng), rng)
        task = self._task(fitting, labels, rng)
        stop = fitting.Stop(self.validation_fraction, self.patience) if self.validation_fraction else None
        more = {} if self.watch is None else {"watch": self.watch}
        self._trained = fitting.fit(settings, encoding, values, task, rng, stop=stop, **more)
        self._fitted_settings, self.classes_ = settings, labels.classes
        return self

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """The probability of either class."""
        check_is_fitted(self)
        values = rows.values_of(self._columns, self._new(X))
        found = _fitting().score(self._fitted_settings, self._trained, values)
        return np.stack([1.0 - found, found], axis=1)

    def predict(self, X: Any) -> Any:  # noqa: N803
        """The likelier class."""
        likely = self.predict_proba(X)[:, 1] >= 0.5
        return self.classes_[likely.astype(np.int64)]

    def save(self, path: Path | str) -> None:
        """Write what was learned to one .npz file, for its owner alone: it holds values of the table."""
        from unpooled.semisup import files

        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        header = files.Header(
            settings=self._fitted_settings.model_dump(mode="json"),
            columns=self._columns,
            classes=tuple(self.classes_.tolist()),
            names=None if names is None else tuple(names.tolist()),
            parameters={
                **{name: getattr(self, name) for name in _KEPT},
                "settings": None if self.settings is None else dict(self.settings),
                "categories": None if self.categories is None else [int(place) for place in self.categories],
                "prior_": self.prior_,
            },
        )
        files.save(Path(path), header, self._trained)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what `save` wrote, and check it."""
        _fitting()
        from unpooled.semisup import files

        header, settings, trained = files.load(Path(path))
        if not isinstance(settings, cls._kind):
            raise InputError(f"{path}: holds a network of the method '{settings.method}'")
        parameters = dict(header.parameters)
        prior = parameters.pop("prior_", None)
        unknown = parameters.keys() - cls().get_params().keys()
        if unknown or not isinstance(prior, float):
            raise InputError(f"{path}: is no fitted network, or a damaged one")
        made = cls(**parameters)
        made.prior_, made.classes_, made.n_features_in_ = prior, np.array(header.classes), len(header.columns)
        made._columns, made._trained, made._fitted_settings = header.columns, trained, settings
        if header.names is not None:
            made.feature_names_in_ = np.array(header.names, object)
        return made

    def _settings(self) -> NetworkSettings:
        own = {name: getattr(self, name) for name in _OWN}
        try:
            return chosen(self._kind, self.preset, {**own, **(self.settings or {})})
        except ValidationError as error:
            raise ValueError(f"settings: {'; '.join(faults(error))}") from None
        except InputError as error:
            raise ValueError(str(error)) from None

    def _labelled(self, table: Any, y: Any) -> tuple[pl.DataFrame, Any]:
        """Rows to learn from as a data frame whose texts are categories, and their labels."""
        if rows.is_frame(table):
            validate_data(self, table, skip_check_array=True)
            frame = rows.polars_of(table)
            if frame.height < _LEAST:
                raise ValueError(f"there are too few rows: {frame.height}; at least {_LEAST} are needed")
        else:
            matrix, y = validate_data(self, table, y, dtype=np.float64, ensure_min_samples=_LEAST)
            frame = rows.frame_of(matrix, self._categories(matrix.shape[1]))
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if len(y) != frame.height:
            raise ValueError(f"X has {frame.height} rows, y has {len(y)} labels")
        return frame, y

    def _new(self, table: Any) -> pl.DataFrame:
        """Rows to predict as a data frame whose texts are categories."""
        if rows.is_frame(table):
            validate_data(self, table, skip_check_array=True, reset=False)
            return rows.polars_of(table)
        matrix = validate_data(self, table, dtype=np.float64, reset=False)
        return rows.frame_of(matrix, self._categories(matrix.shape[1]))

    def _categories(self, columns: int) -> list[int]:
        found = [int(place) for place in self.categories or ()]
        if wrong := [place for place in found if not 0 <= place < columns]:
            raise ValueError(f"categories: there is no column {wrong[0]}; X has {columns}")
        return found

    def _prior(self, labels: Labels, units: Any, rng: np.random.Generator) -> float:
        """As given; else of the labelled rows, or estimated from known positives."""
        if self.prior is not None:
            if not 0 < self.prior < 1:
                raise ValueError(f"prior must be between 0 and 1, but is {self.prior}")
            return float(self.prior)
        if not labels.positives_only:
            return float(np.clip(labels.known[~labels.unlabelled].mean(), _LOWEST, _HIGHEST))
        from threadpoolctl import threadpool_limits

        from unpooled.pu.pooled.classifiers import PooledClassifiers, small_trees

        some = np.sort(rng.permutation(len(units))[:_ROWS])
        known = labels.known[some] == 1
        try:
            with threadpool_limits(1):  # for so few rows, threads would only wait for each other
                found = held_out(known, PooledClassifiers(units[some], small_trees()), int(rng.integers(_SEEDS)))
        except InputError as error:
            raise ValueError(f"the class prior cannot be estimated, so set `prior`: {error}") from None
        return float(np.clip(best_bin(found.of_known, found.of_unlabelled), _LOWEST, _HIGHEST))

    def _task(self, fitting: Any, labels: Labels, rng: np.random.Generator) -> Any:
        if not labels.positives_only:
            return fitting.semi_supervised(labels, self.prior_)
        if self.feeding == "prior":
            return fitting.by_prior(labels, self.prior_)
        if self.feeding != "negatives":
            raise ValueError(f"feeding must be 'prior' or 'negatives', but is {self.feeding!r}")
        if not 0 < self.negative_fraction <= 1:
            raise ValueError(f"negative_fraction must be above 0 and at most 1, but is {self.negative_fraction}")
        return fitting.by_negatives(labels, self.prior_, self.negative_fraction, rng)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _fitting() -> Any:
    """The module that needs JAX; ImportError with what to install if it is not there."""
    try:
        from unpooled.semisup import fitting
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        raise InputError("semi-supervised networks need: pip install 'unpooled[generate]'") from None
    return fitting


class SupervisedNetworkClassifier(_SemisupClassifier):
    """The network on labelled rows alone, to compare with."""

    _kind = SupervisedSettings


class PseudoLabelClassifier(_SemisupClassifier):
    """Pseudo-labelling (Lee 2013)."""

    _kind = PseudoLabelSettings


class MixMatchClassifier(_SemisupClassifier):
    """MixMatch (Berthelot and others 2019)."""

    _kind = MixMatchSettings


class FixMatchClassifier(_SemisupClassifier):
    """FixMatch (Sohn and others 2020)."""

    _kind = FixMatchSettings


class CoMatchClassifier(_SemisupClassifier):
    """CoMatch (Li, Xiong and Hoi 2021)."""

    _kind = CoMatchSettings


class AdaMatchClassifier(_SemisupClassifier):
    """AdaMatch (Berthelot and others 2022)."""

    _kind = AdaMatchSettings


class SoftMatchClassifier(_SemisupClassifier):
    """SoftMatch (Chen and others 2023)."""

    _kind = SoftMatchSettings


ESTIMATORS: Mapping[str, type[_SemisupClassifier]] = {
    str(each._kind.model_fields["method"].default): each
    for each in (
        SupervisedNetworkClassifier,
        PseudoLabelClassifier,
        MixMatchClassifier,
        FixMatchClassifier,
        CoMatchClassifier,
        AdaMatchClassifier,
        SoftMatchClassifier,
    )
}
"""All of them, by the names of their methods."""

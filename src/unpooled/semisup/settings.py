"""The settings of the semi-supervised methods, and what their presets stand for; nothing here needs JAX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import Field

from unpooled.errors import InputError
from unpooled.settings import Section

Preset = Literal["table", "seed"]

_SEED: Mapping[str, Any] = {
    "network": "wrn",
    "optimiser": "sgd",
    "learning_rate": 0.03,
    "decay": 5e-4,
    "balanced": False,
    "teacher": "student",
    "view": "weak",
}
"""The VFPU paper's network, and what the methods' own papers have in common."""


_CORRUPTION = (
    "the fraction of the columns, rounded down to whole columns, that a strong view draws from another row; a category "
    "as a whole"
)
_WARM_UP = "the fraction of the steps in which that weight rises from 0"
_TEACHER = "who labels unlabelled rows: the network itself, or its averaged weights"


class NetworkSettings(Section):
    """What all methods have in common; each has its own presets: `table` is its fields' defaults."""

    changed: ClassVar[Mapping[str, Any]] = _SEED
    """What the preset `seed` has otherwise."""

    method: str = Field(description="the method")
    network: Literal["mlp", "wrn"] = Field(
        "mlp", description="mlp: dense layers; wrn: WRN-28-2 with the row as a one-dimensional signal"
    )
    hidden: tuple[int, ...] = Field((128, 128), description="units of the dense layers", strict=False, min_length=1)
    steps: int = Field(1_000, description="steps of training", ge=1)
    batch_rows: int = Field(64, description="labelled rows in a step", ge=2)
    optimiser: Literal["adam", "sgd"] = Field("adam", description="adam, or sgd with a Nesterov momentum of 0.9")
    learning_rate: float = Field(2e-3, description="the step size, which falls by a cosine", gt=0, le=1)
    decay: float = Field(1e-3, description="weight decay", ge=0, lt=1)
    ema: float = Field(0.999, description="how much the averaged weights, which predict, keep in a step", ge=0, lt=1)
    weak_noise: float = Field(
        0.1, description="the noise of numbers in a weak view of a row, in standard deviations", ge=0
    )
    strong_noise: float = Field(0.3, description="the same in a strong view", ge=0)
    corruption: float = Field(0.3, description=_CORRUPTION, ge=0, le=1)
    view: Literal["weak", "strong", "both"] = Field("both", description="the views of labelled rows that are learned")
    balanced: bool = Field(
        True,
        description="labelled batches have as many rows of either class, and everything else sees logits shifted by "
        "the class prior",
    )


class SupervisedSettings(NetworkSettings):
    """The network on labelled rows alone."""

    method: Literal["supervised"] = Field("supervised", description="labelled rows alone, to compare with")


class UnlabelledSettings(NetworkSettings):
    """What methods with unlabelled rows have in common."""

    unlabelled_ratio: int = Field(7, description="unlabelled rows in a step for each labelled one", ge=1)
    unlabelled_weight: float = Field(1.0, description="the weight of the loss on unlabelled rows", ge=0)
    warm_up: float = Field(0.4, description=_WARM_UP, ge=0, le=1)
    teacher: Literal["student", "ema"] = Field("ema", description=_TEACHER)


class PseudoLabelSettings(UnlabelledSettings):
    """Pseudo-labelling (Lee 2013)."""

    changed: ClassVar[Mapping[str, Any]] = {**_SEED, "unlabelled_ratio": 1, "threshold": 0.95, "corruption": 0.0}
    method: Literal["pseudo-label"] = Field("pseudo-label", description="pseudo-labelling")
    teacher: Literal["student", "ema"] = Field("student", description=_TEACHER)
    threshold: float = Field(0.95, description="rows with a lower confidence do not count", ge=0, lt=1)


class MixMatchSettings(UnlabelledSettings):
    """MixMatch (Berthelot and others 2019)."""

    changed: ClassVar[Mapping[str, Any]] = {
        **_SEED,
        "unlabelled_ratio": 1,
        "alpha": 0.5,
        "unlabelled_weight": 150.0,
        "warm_up": 0.4,
        "corruption": 0.0,
    }
    method: Literal["mixmatch"] = Field("mixmatch", description="MixMatch")
    unlabelled_ratio: int = Field(1, description="unlabelled rows in a step for each labelled one", ge=1)
    unlabelled_weight: float = Field(3.0, description="the weight of the loss on unlabelled rows", ge=0)
    warm_up: float = Field(0.0, description=_WARM_UP, ge=0, le=1)
    teacher: Literal["student", "ema"] = Field("student", description=_TEACHER)
    temperature: float = Field(0.5, description="guessed labels are sharpened by this", gt=0, le=1)
    views: int = Field(2, description="views of an unlabelled row whose predictions are averaged", ge=1)
    alpha: float = Field(0.2, description="the parameter of the beta distribution that rows are mixed by", gt=0)


class FixMatchSettings(UnlabelledSettings):
    """FixMatch (Sohn and others 2020)."""

    changed: ClassVar[Mapping[str, Any]] = {**_SEED, "threshold": 0.95, "warm_up": 0.0}
    method: Literal["fixmatch"] = Field("fixmatch", description="FixMatch")
    teacher: Literal["student", "ema"] = Field("student", description=_TEACHER)
    warm_up: float = Field(0.0, description=_WARM_UP, ge=0, le=1)
    threshold: float = Field(0.95, description="rows with a lower confidence do not count", ge=0, lt=1)


class CoMatchSettings(UnlabelledSettings):
    """CoMatch (Li, Xiong and Hoi 2021)."""

    changed: ClassVar[Mapping[str, Any]] = {**_SEED, "threshold": 0.95, "warm_up": 0.0}
    method: Literal["comatch"] = Field("comatch", description="CoMatch")
    threshold: float = Field(0.95, description="rows with a lower confidence do not count", ge=0, lt=1)
    temperature: float = Field(0.2, description="similarities of embeddings are divided by this", gt=0)
    contrast: float = Field(0.8, description="rows are alike if their labels agree by at least this", ge=0, le=1)
    contrast_weight: float = Field(1.0, description="the weight of the contrastive loss", ge=0)
    projection: int = Field(64, description="numbers of an embedding", ge=2)
    queue: int = Field(5, description="so many batches are remembered to smooth labels", ge=1)
    smoothing: float = Field(0.9, description="the weight of a row's own label beside its neighbours'", ge=0, le=1)


class AdaMatchSettings(UnlabelledSettings):
    """AdaMatch (Berthelot and others 2022)."""

    changed: ClassVar[Mapping[str, Any]] = {**_SEED, "threshold": 0.9, "warm_up": 0.5, "view": "both"}
    method: Literal["adamatch"] = Field("adamatch", description="AdaMatch")
    threshold: float = Field(
        0.9, description="rows with less than this fraction of the confidence on labelled rows do not count", ge=0, le=1
    )
    distribution_ema: float = Field(0.999, description="how much averages of predictions keep in a step", ge=0, lt=1)


class SoftMatchSettings(UnlabelledSettings):
    """SoftMatch (Chen and others 2023)."""

    changed: ClassVar[Mapping[str, Any]] = {**_SEED, "warm_up": 0.0}
    method: Literal["softmatch"] = Field("softmatch", description="SoftMatch")
    memory: float = Field(0.999, description="how much mean and variance of confidences keep in a step", ge=0, lt=1)
    variance_divisor: float = Field(4.0, description="the variance of confidences is divided by this", gt=0)
    align: Literal["uniform", "prior", "no"] = Field(
        "uniform", description="what the mean prediction is moved to before rows are weighted"
    )


METHODS: tuple[type[UnlabelledSettings], ...] = (
    PseudoLabelSettings,
    MixMatchSettings,
    FixMatchSettings,
    CoMatchSettings,
    AdaMatchSettings,
    SoftMatchSettings,
)
"""The six methods, oldest first."""

ALL: tuple[type[NetworkSettings], ...] = (SupervisedSettings, *METHODS)

Some = TypeVar("Some", bound=NetworkSettings)


def chosen(kind: type[Some], preset: Preset = "table", changes: Mapping[str, Any] | None = None) -> Some:
    """The settings of a preset with changes; a change of None stands for the preset's own."""
    own = {name: value for name, value in (changes or {}).items() if value is not None}
    if preset not in ("table", "seed"):
        raise InputError(f"there is no preset '{preset}'; there are table and seed")
    seed = {name: value for name, value in kind.changed.items() if name in kind.model_fields}
    return kind.model_validate({**(seed if preset == "seed" else {}), **own})


def kind_of(method: str) -> type[NetworkSettings]:
    """The settings of the method with this name."""
    found = {str(kind.model_fields["method"].default): kind for kind in ALL}
    if method not in found:
        raise InputError(f"there is no method '{method}'; there are {', '.join(found)}")
    return found[method]

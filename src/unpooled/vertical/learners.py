"""The learners that there are; no other module knows them by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny

from unpooled.errors import InputError
from unpooled.vertical.learner import Learner, LearnerParameters
from unpooled.vertical.linear.learner import LINEAR
from unpooled.vertical.trees.learner import TREES

LEARNERS: tuple[Learner, ...] = (TREES, LINEAR)


def learner_of(parameters: LearnerParameters) -> Learner:
    """The learner that these parameters are for."""
    return next(learner for learner in LEARNERS if isinstance(parameters, learner.parameters))


def learner_named(name: object) -> Learner:
    """The learner that a model is marked with."""
    for learner in LEARNERS:
        if learner.name == name:
            return learner
    raise InputError(f"its learner must be one of {', '.join(each.name for each in LEARNERS)}")


def default_parameters(*, bags: bool = False, secret_labels: bool = False) -> LearnerParameters:
    """What a job learns with if nothing is said: whole tables or small `bags`, with labels that are a secret or not."""
    first = LEARNERS[0]
    found = first.for_bags if bags and first.for_bags else first.parameters[0].model_validate({})
    return found.model_copy(update=dict(first.for_secret_labels)) if secret_labels else found


def begun_small(settings: Any) -> Any:
    """A section for the default learner, or for none by name, changes what suits small bags, not the defaults."""
    small = default_parameters(bags=True)
    if isinstance(settings, Mapping) and settings.get("learner", small.learner) == small.learner:
        return {**small.model_dump(exclude_defaults=True), **settings}
    return settings


def begun_secret(settings: Any) -> Any:
    """The same where labels are secret, for every learner: what suits small bags, and what hides the labels."""
    kind = _kind_of(settings)
    if kind is None:
        return settings
    learner = next(learner for learner in LEARNERS if kind in learner.parameters)
    small = learner.for_bags.model_dump(exclude_defaults=True) if isinstance(learner.for_bags, kind) else {}
    return {**learner.for_secret_labels, **small, **settings}


def parameter_kinds() -> dict[str, type[LearnerParameters]]:
    """The parameters of every learner, by the name that settings call it."""
    return {kind.model_fields["learner"].default: kind for learner in LEARNERS for kind in learner.parameters}


def _kind_of(settings: Any) -> type[LearnerParameters] | None:
    """The class of the parameters that a section of a plan is for: those of the learner it names, or of the first."""
    kinds = parameter_kinds()
    name = settings.get("learner", next(iter(kinds))) if isinstance(settings, Mapping) else None
    return kinds.get(name) if isinstance(name, str) else None


def _parameters_from(settings: Any) -> Any:
    """A section of a plan as the parameters of the learner that it names, or of the first one."""
    if isinstance(settings, LearnerParameters):
        return settings
    kind = _kind_of(settings)
    if kind is None:
        *others, last = map(repr, parameter_kinds())
        raise ValueError(f"must be a table, its learner {', '.join(others)} or {last}")
    return kind.model_validate(settings)


AnyParameters = Annotated[SerializeAsAny[LearnerParameters], BeforeValidator(_parameters_from)]
"""The parameters of any learner, as a job has them."""

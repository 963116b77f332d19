"""The completers that work by themselves, which ensembles combine; and choosing among completers by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unpooled.complete.completers.completer import Completer, CompleterSettings
from unpooled.complete.completers.copula import COPULA
from unpooled.complete.completers.from_sklearn import ITERATIVE, KNN
from unpooled.complete.completers.hot_deck import HOT_DECK
from unpooled.complete.completers.simple import LEFT_MISSING, MARGINAL, MEDIAN
from unpooled.complete.completers.smote import SMOTE
from unpooled.complete.generators.generators import GENERATORS
from unpooled.complete.imputers.imputers import IMPUTERS

SINGLE: tuple[Completer, ...] = (
    COPULA,
    HOT_DECK,
    SMOTE,
    MARGINAL,
    MEDIAN,
    ITERATIVE,
    KNN,
    LEFT_MISSING,
    *IMPUTERS,
    *GENERATORS,
)


def completer_among(completers: Sequence[Completer], settings: CompleterSettings) -> Completer:
    """The one of these completers that these settings are for."""
    return next(completer for completer in completers if isinstance(settings, completer.settings))


def settings_among(completers: Sequence[Completer], section: Any) -> Any:
    """A section of a file as the settings of the one of these completers that it names, or of the first one."""
    classes = {completer.name: completer.settings for completer in completers}
    if isinstance(section, tuple(classes.values())):
        return section
    name = section.get("completer", next(iter(classes))) if isinstance(section, Mapping) else None
    if not isinstance(name, str) or name not in classes:
        *others, last = map(repr, classes)
        raise ValueError(f"must be a table, its completer {', '.join(others)} or {last}")
    return classes[name].model_validate(section)

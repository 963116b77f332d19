"""The completers that there are; no other module knows them by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny

from unpooled.complete.completers.completer import Completer, CompleterSettings
from unpooled.complete.completers.copula import COPULA
from unpooled.complete.completers.hot_deck import HOT_DECK
from unpooled.complete.completers.imputers import ITERATIVE, KNN
from unpooled.complete.completers.simple import LEFT_MISSING, MARGINAL, MEDIAN
from unpooled.complete.completers.smote import SMOTE
from unpooled.complete.generators.generators import GENERATORS

COMPLETERS: tuple[Completer, ...] = (
    COPULA,
    HOT_DECK,
    SMOTE,
    MARGINAL,
    MEDIAN,
    ITERATIVE,
    KNN,
    LEFT_MISSING,
    *GENERATORS,
)


def completer_of(settings: CompleterSettings) -> Completer:
    """The completer that these settings are for."""
    return next(completer for completer in COMPLETERS if isinstance(settings, completer.settings))


def settings_from(section: Any) -> Any:
    """A section of a file as the settings of the completer that it names, or of the first one."""
    if isinstance(section, CompleterSettings):
        return section
    classes = {completer.name: completer.settings for completer in COMPLETERS}
    name = section.get("completer", next(iter(classes))) if isinstance(section, Mapping) else None
    if not isinstance(name, str) or name not in classes:
        *others, last = map(repr, classes)
        raise ValueError(f"must be a table, its completer {', '.join(others)} or {last}")
    return classes[name].model_validate(section)


AnyCompleter = Annotated[SerializeAsAny[CompleterSettings], BeforeValidator(settings_from)]
"""The settings of any completer, as a file has them."""

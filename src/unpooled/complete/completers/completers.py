"""The completers that there are: `single.py` lists those that work by themselves, ensembles combine these."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny

from unpooled.complete.completers.completer import Completer, CompleterSettings
from unpooled.complete.completers.single import SINGLE, completer_among, settings_among
from unpooled.complete.ensembles.ensembles import ENSEMBLES

COMPLETERS: tuple[Completer, ...] = (*SINGLE, *ENSEMBLES)


def completer_of(settings: CompleterSettings) -> Completer:
    """The completer that these settings are for."""
    return completer_among(COMPLETERS, settings)


def settings_from(section: Any) -> Any:
    """A section of a file as the settings of the completer that it names, or of the first one."""
    return settings_among(COMPLETERS, section)


AnyCompleter = Annotated[SerializeAsAny[CompleterSettings], BeforeValidator(settings_from)]
"""The settings of any completer, as a file has them."""

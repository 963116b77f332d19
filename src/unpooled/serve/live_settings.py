"""The settings that an administrator changes while the service runs; all others need a restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from unpooled.errors import InputError
from unpooled.serve.context import Context
from unpooled.serve.settings import ServiceSettings, load_settings, save_settings
from unpooled.serve.state.audit_log import note
from unpooled.settings import faults

LIVE = ("approvals", "runs_at_once", "automatic_resumes", "purge_after_days")


def change_settings(context: Context, by: str, wanted: Mapping[str, Any]) -> ServiceSettings:
    """Change live settings, in the file and at once, and return those in use.

    What else was written into the file by hand stays there.
    """
    if unknown := set(wanted) - set(LIVE):
        raise InputError(f"{', '.join(sorted(unknown))}: changed in {context.folder.settings.name} by hand only")
    before = load_settings(context.folder)
    try:
        after = ServiceSettings.model_validate({**before.model_dump(exclude_unset=True), **wanted})
    except ValidationError as error:
        raise InputError("; ".join(faults(error))) from None
    changed = {key: getattr(after, key) for key in LIVE if getattr(after, key) != getattr(context.settings, key)}
    about = ", ".join(f"{key}: {getattr(context.settings, key)} → {value}" for key, value in changed.items())
    with context.database.transaction() as connection:
        save_settings(context.folder, after)
        if changed:
            note(connection, by, "changed settings", about)
    context.settings = context.settings.model_copy(update=changed)
    return context.settings


def waiting_for_restart(context: Context) -> list[str]:
    """The settings that differ in the file, where somebody has changed them by hand, from those in use."""
    written = load_settings(context.folder)
    return [key for key in ServiceSettings.model_fields if getattr(written, key) != getattr(context.settings, key)]

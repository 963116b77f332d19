"""The base class of settings: plans, private files, the parameters of a learner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

_WORDS = {
    "extra_forbidden": "unknown key",
    "missing": "this key is missing",
    "tuple_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "path_type": "must be a path",
}
"""What is wrong with a key in the words of a TOML file, where pydantic's are those of Python."""


class Section(BaseModel):
    """A table of a TOML file: unknown keys and wrong types are refused, values are never echoed in errors.

    TOML has no paths and no tuples: such fields need `strict=False`, to be made from a text or a list.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


def tag_by(key: str, default: str) -> Callable[[Any], str]:
    """Tells by a key which type of section settings are for; the brackets keep the tag out of what `faults` names."""

    def tag_of(section: Any) -> str:
        which = section.get(key, default) if isinstance(section, Mapping) else getattr(section, key, "")
        return f"[{which}]"

    return tag_of


def faults(error: ValidationError, prefix: str = "") -> list[str]:
    """What a validation found, a line for each key: what is wrong with it, never its value."""
    found: dict[str, list[str]] = {}
    for fault in error.errors(include_url=False, include_input=False, include_context=False):
        # Where a value may be of several types, pydantic adds the type tried, such as tuple[str, ...], to the key.
        keys = [str(part) for part in (prefix, *fault["loc"]) if part != "" and "[" not in str(part)]
        text = _WORDS.get(fault["type"]) or fault["msg"].removeprefix("Value error, ").replace("Input should", "must")
        found.setdefault(".".join(keys), []).append(text)
    return [": ".join(filter(None, (key, ", or ".join(texts)))) for key, texts in found.items()]

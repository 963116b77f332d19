"""The reference of the public names, from their signatures, docstrings and descriptions: four pages of Markdown."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import unpooled

_LINE = 88
"""The longest signature that stays on one line."""


def write_pages(folder: Path) -> None:
    """Write functions.md, classes.md, settings.md and errors.md: together they have every public name."""
    public = {name: getattr(unpooled, name) for name in unpooled.__all__ if name != "__version__"}
    errors = {name: item for name, item in public.items() if inspect.isclass(item) and issubclass(item, Exception)}
    settings = {name: item for name, item in public.items() if inspect.isclass(item) and issubclass(item, BaseModel)}
    classes = {name: item for name, item in public.items() if inspect.isclass(item)}
    classes = {name: item for name, item in classes.items() if name not in errors and name not in settings}
    functions = {name: item for name, item in public.items() if not inspect.isclass(item)}
    said = f"Of unpooled {unpooled.__version__}, made from its docstrings. [Python](../docs/python.md) has examples."
    pages = {
        "functions": ("Functions", map(_function, functions.values(), functions)),
        "classes": ("Classes", map(_class, classes.values(), classes)),
        "settings": ("Settings", map(_settings, settings.values(), settings)),
        "errors": ("Errors", map(_error, errors.values(), errors)),
    }
    for name, (title, parts) in pages.items():
        text = "\n\n".join([f"# {title}", said, *parts])
        (folder / f"{name}.md").write_text(text + "\n", encoding="utf-8")


def _function(item: Any, name: str) -> str:
    return "\n\n".join([f"## {name}", _signature(item, name), _prose(item)])


def _class(item: type, name: str) -> str:
    parts = [f"## {name}", _signature(item, name), _prose(item)]
    for method, attribute in _attributes_of(item):
        if isinstance(attribute, property):
            parts += [f"### {name}.{method}", _prose(attribute)]
        else:
            function = attribute.__func__ if isinstance(attribute, classmethod | staticmethod) else attribute
            parts += [f"### {name}.{method}", _signature(function, method), _prose(function)]
    return "\n\n".join(parts)


def _settings(item: type[BaseModel], name: str) -> str:
    """A table of the keys, with types, defaults and descriptions."""
    lines = ["| key | type | default | |", "|---|---|---|---|"]
    for key, field in item.model_fields.items():
        default = "" if field.is_required() else f"`{_default(field.get_default(call_default_factory=True))}`"
        description = _linked(" ".join((field.description or "").split())).replace("|", "\\|")
        lines.append(f"| `{key}` | `{_annotation(item, key)}` | {default} | {description} |")
    return "\n\n".join([f"## {name}", _prose(item), "\n".join(lines)])


def _error(item: type, name: str) -> str:
    base = item.__bases__[0].__name__
    kind = f"A [{base}](#{base.lower()})." if base in unpooled.__all__ else f"An `{base}`."
    return "\n\n".join([f"## {name}", kind, _prose(item)])


def _attributes_of(item: type) -> Iterable[tuple[str, Any]]:
    """Public methods and properties that are documented, in the order in which they are written."""
    found = {}
    for owner in reversed(item.__mro__):
        if owner.__module__.startswith("unpooled"):
            found |= vars(owner)
    fields = {field.name for field in dataclasses.fields(item)} if dataclasses.is_dataclass(item) else set()
    for name, attribute in found.items():
        described = isinstance(attribute, property | classmethod | staticmethod) or inspect.isfunction(attribute)
        if not name.startswith("_") and name not in fields and described and inspect.getdoc(attribute):
            yield name, attribute


def _signature(item: Any, name: str) -> str:
    signature = inspect.signature(item)
    parameters, marked = [], False
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not marked:
            parameters, marked = [*parameters, "*"], True
        marked = marked or parameter.kind is inspect.Parameter.VAR_POSITIONAL
        parameters.append(_parameter(parameter))
    returned = signature.return_annotation
    end = "" if returned in (inspect.Signature.empty, None, "None") else f" -> {_type(returned)}"
    line = f"{name}({', '.join(parameters)}){end}"
    if len(line) > _LINE:
        line = f"{name}(\n" + "".join(f"    {parameter},\n" for parameter in parameters) + f"){end}"
    return f"```python\n{line}\n```"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = stars + parameter.name
    typed = parameter.annotation is not inspect.Parameter.empty
    if typed:
        text += f": {_type(parameter.annotation)}"
    if parameter.default is not inspect.Parameter.empty:
        text += f"{' = ' if typed else '='}{_default(parameter.default)}"
    return text


def _annotation(item: type, key: str) -> str:
    """The type of a setting, as it is written in the class that declares it."""
    return next(_type(declared[key]) for declared in map(inspect.get_annotations, item.__mro__) if key in declared)


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: Any) -> str:
    if isinstance(value, BaseModel):
        return f"{type(value).__name__}()"
    return "..." if repr(value).startswith("<") else repr(value)


def _prose(item: Any) -> str:
    """A docstring as Markdown: examples become blocks of code."""
    blocks = re.split(r"\n\s*\n", inspect.getdoc(item) or "")
    return "\n\n".join(f"```pycon\n{block}\n```" if block.startswith(">>>") else _linked(block) for block in blocks)


def _linked(text: str) -> str:
    return re.sub(r"`?\bdocs/(\w+)\.md\b`?", r"[docs/\1.md](../docs/\1.md)", text)

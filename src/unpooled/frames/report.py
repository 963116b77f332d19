"""A run's page, shown inline in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path

from unpooled import atomic

_HEIGHT = 720


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """One HTML page that loads nothing; it is drawn when it is first looked at."""

    about: str
    draw: Callable[[], str]

    def __repr__(self) -> str:
        return f"<Report of {self.about}: .html, .save(path); a notebook shows it>"

    @cached_property
    def html(self) -> str:
        """The whole page."""
        return self.draw()

    def save(self, path: str | Path) -> Path:
        """Write the page whole or not at all, for its owner alone."""
        path = Path(path)
        with atomic.naming(path):
            atomic.write_text(path, self.html)
        return path

    def _repr_html_(self) -> str:
        """The page in a frame: its style stays inside, and nothing in it can run or leave."""
        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="" title="{escape(f"Report of {self.about}")}" '
            f'style="width: 100%; height: {_HEIGHT}px; border: 1px solid #ccc"></iframe>'
        )

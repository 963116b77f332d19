"""Random numbers that were dealt ahead: those for a shape serve any product of that shape, in the order of dealing.

When the same shape comes often, the driver asks for more than it needs now, so that the next products need no round
trip to the coordinator. Its partner counts along, and so knows what was asked for without being told.

>>> stock, shape = Stock(), Shape("telco", "bank", rows=100, width=3, words=1)
>>> [copies for _ in range(20) for _, copies in stock.lacking([shape])]
[1, 1, 1, 1, 1, 1, 1, 1, 8, 8]
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from unpooled.errors import ProtocolError

_MOST_AHEAD, _MOST_BYTES_AHEAD = 8, 2**19


class Shape(NamedTuple):
    """The parties and sizes that decide which random numbers a product needs."""

    left: str
    right: str
    rows: int
    width: int
    words: int

    @property
    def most_ahead(self) -> int:
        """How many are asked for ahead; few where each is large, since some may stay unused."""
        return min(_MOST_AHEAD, _MOST_BYTES_AHEAD // max(8 * self.rows * self.width * self.words, 1))


@dataclass
class Stock:
    """By shape: what was asked for, how much of it is not yet assigned to a product, and what has been dealt."""

    asked: Counter[Shape] = field(default_factory=Counter)
    unpromised: Counter[Shape] = field(default_factory=Counter)
    parts: defaultdict[Shape, deque[Any]] = field(default_factory=lambda: defaultdict(deque), repr=False)

    def lacking(self, shapes: Iterable[Shape]) -> list[tuple[Shape, int]]:
        """Assign numbers to products of these shapes; what must be asked for."""
        found = []
        for shape, count in Counter(shapes).items():
            if (short := count - self.unpromised[shape]) > 0:
                copies = max(short, shape.most_ahead) if self.asked[shape] >= shape.most_ahead else short
                self.asked[shape] += copies
                self.unpromised[shape] += copies
                found.append((shape, copies))
            self.unpromised[shape] -= count
        return found

    def take(self, shape: Shape) -> Any:
        """The next numbers dealt for a shape."""
        if not self.parts[shape]:
            raise ProtocolError(f"a product of {shape.left} and {shape.right} has another shape than announced")
        return self.parts[shape].popleft()

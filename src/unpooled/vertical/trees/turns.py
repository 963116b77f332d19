"""Groups of trees that grow side by side take turns: while one waits for an answer, the others go on.

So a long line is busy all the time. A group is a generator that yields where it would wait. Turns go round, so answers
are taken in the order in which they were asked for, which does not depend on time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from itertools import islice

Turns = Generator[None, None, None]
TakeTurns = Callable[[Iterable[Turns], int], None]


def in_turns(groups: Iterable[Turns], most: int) -> None:
    """Let all groups come to their ends, at most so many of them at a time.

    >>> said = []
    >>> def group(name, turns):
    ...     for turn in range(turns):
    ...         said.append(f"{name}{turn}")
    ...         yield
    >>> in_turns([group("a", 3), group("b", 1), group("c", 2)], 2)
    >>> said
    ['a0', 'b0', 'a1', 'a2', 'c0', 'c1']
    """
    coming = iter(groups)
    waiting = deque(islice(coming, most))
    while waiting:
        group = waiting.popleft()
        try:
            next(group)
        except StopIteration:
            waiting.extend(islice(coming, 1))
        else:
            waiting.append(group)

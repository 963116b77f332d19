"""Noise made ahead: worker processes make it while a party waits or has other work, and each is handed out once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from gmpy2 import mpz

from unpooled.secure.paillier_keys import PublicKey, noise_table, noises
from unpooled.workers import begun, cores

_SMALL, _LARGE = 64, 2048  # about 40 ms and a second at 2048 bits


def made(public: PublicKey, cover: bool, count: int) -> list[mpz]:
    """Fresh noise, from this process's own table."""
    return noises(noise_table(public, cover=cover), count)


class NoiseStock:
    """What there is of one sort of noise; `progress` is told how far it is where some must be waited for."""

    def __init__(self, public: PublicKey, *, cover: bool, progress: Callable[[int, int], None]) -> None:
        self._make = partial(made, public, cover)
        self._progress = progress
        self._coming: deque[Iterator[list[mpz]]] = deque()
        self._arrived: list[mpz] = []
        self._ordered = 0

    def order(self, count: int) -> None:
        """Have so much more made, beside whatever comes next."""
        if count > 0:
            self._ordered += count
            self._coming.append(_begun(self._make, count))

    def expect(self, count: int) -> None:
        """Have made what is missing for so much to be taken soon."""
        self.order(count - self._ordered)

    def take(self, count: int) -> list[mpz]:
        """So much noise, which nobody else is given; waits until it is there."""
        self.expect(count)
        while len(self._arrived) < count:
            part = next(self._coming[0], None)
            if part is None:
                self._coming.popleft()
                continue
            self._arrived += part
            self._progress(min(len(self._arrived), count), count)
        taken, self._arrived = self._arrived[:count], self._arrived[count:]
        self._ordered -= count
        return taken


def _begun(make: Callable[[int], list[mpz]], count: int) -> Iterator[list[mpz]]:
    """Noise in parts, on which the worker processes have set out already; little is not worth a process."""
    if count <= _SMALL:
        return map(make, [count])
    size = max(_SMALL, min(_LARGE, -(-count // (2 * cores()))))
    sizes = [min(size, count - start) for start in range(0, count, size)]
    return begun(make, sizes)

"""Noise made ahead: worker processes, or compiled loops, make it while a party waits or does other work.

Each is used once. It comes from seeds, so that a party can show which noise it used without keeping it (`evidence`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from gmpy2 import mpz

from unpooled.secure.paillier import limbs
from unpooled.secure.paillier.keys import TEETH, PublicKey, exponent_bits, noise_table, noises
from unpooled.secure.randomness import expand_bytes, new_seed
from unpooled.workers import cores, has_cluster, submit_all

_SMALL, _LARGE = 64, 2048  # about 40 ms and a second at 2048 bits


class Span(NamedTuple):
    """Where noise comes from: `length` of what a seed gives, from `start` on."""

    seed: bytes
    start: int
    length: int


def exponents_of(public: PublicKey, span: Span, *, cover: bool = False) -> bytes:
    """The exponents of noise, by which the base is raised."""
    width = exponent_bits(public, cover=cover) // 8
    return expand_bytes(span.seed, b"noise", (span.start + span.length) * width)[span.start * width :]


def made(public: PublicKey, cover: bool, span: Span) -> tuple[Span, list[mpz]]:
    """Noise, from this process's own table."""
    return span, noises(noise_table(public, cover=cover), span.length, exponents_of(public, span, cover=cover))


def made_compiled(public: PublicKey, cover: bool, span: Span) -> tuple[Span, list[mpz]]:
    """The same by compiled loops."""
    return span, limbs.noises(public, exponents_of(public, span, cover=cover), span.length, cover=cover)


class NoiseStock:
    """Noise of one sort; `progress` is called while some must be waited for."""

    def __init__(self, public: PublicKey, *, cover: bool, progress: Callable[[int, int], None]) -> None:
        self._public, self._cover = public, cover
        self._progress = progress
        self._coming: deque[Iterator[tuple[Span, list[mpz]]]] = deque()
        self._arrived: deque[tuple[Span, list[mpz]]] = deque()
        self._ordered = 0

    def order(self, count: int) -> None:
        """Have `count` more made in the background; a small amount is made in this process when it is taken."""
        if count > 0:
            self._ordered += count
            size = max(_SMALL, min(_LARGE, -(-count // (2 * cores()))))
            spans = [Span(new_seed(), 0, min(size, count - start)) for start in range(0, count, size)]
            compiled = limbs.worthwhile(self._public, count * exponent_bits(self._public, cover=self._cover) // TEETH)
            make = partial(made_compiled if compiled else made, self._public, self._cover)
            if threads := compiled and not has_cluster():
                limbs.noise_rows(self._public, cover=self._cover)  # before several threads would each make it
            self._coming.append(map(make, spans) if count <= _SMALL else submit_all(make, spans, threads=threads))

    def expect(self, count: int) -> None:
        """Have made what is missing, so that `count` can be taken soon."""
        self.order(count - self._ordered)

    def take(self, count: int) -> tuple[list[mpz], list[Span]]:
        """Noise that is used nowhere else, and where it comes from; waits until it is made."""
        self.expect(count)
        while (there := sum(span.length for span, _ in self._arrived)) < count:
            part = next(self._coming[0], None)
            if part is None:
                self._coming.popleft()
                continue
            self._arrived.append(part)
            self._progress(min(there + part[0].length, count), count)
        taken, spans = list[mpz](), list[Span]()
        while len(taken) < count:
            span, noise = self._arrived.popleft()
            now = min(span.length, count - len(taken))
            taken += noise[:now]
            spans.append(Span(span.seed, span.start, now))
            if now < span.length:
                self._arrived.appendleft((Span(span.seed, span.start + now, span.length - now), noise[now:]))
        self._ordered -= count
        return taken, spans

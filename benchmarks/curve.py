"""Microseconds of CPU for a point of ristretto255: libsodium, which multiplies one at a time, and compiled loops.

Both do the same points in turns in one process, on one core: hashed and multiplied, multiplied, and checked. Each
figure is the median of the rounds, after a first one that is not counted. `loading` is what importing numba and loading
the loops from their cache takes, in CPU seconds, once they have been compiled on this machine. `--points` is how many
points a round has (4096), `--rounds` how many rounds (7).

numba compiles for the processor it runs on. `NUMBA_CPU_NAME=haswell` with `NUMBA_CPU_FEATURES="+avx,+avx2,+bmi2"` in
the environment shows what one with AVX2 alone would take.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import llvmlite.binding as llvm

from unpooled import compiled
from unpooled.align.ristretto import checked, hashed_and_raised, new_secret, raised
from unpooled.arrays import Bytes

BAR = 2.0

LOADING = """
import time
start = time.process_time()
from unpooled.align import curve
curve.raised_digests(bytes(32), bytes(64))
print(time.process_time() - start)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    secret, keys = new_secret(), [b"%d" % number for number in range(given.points)]
    points = hashed_and_raised(secret, b"", keys)
    steps: dict[str, Callable[[], Bytes]] = {
        "hashed_and_raised": lambda: hashed_and_raised(secret, b"", keys),
        "raised": lambda: raised(secret, "bench", points),
        "checked": lambda: checked("bench", points),
    }
    taken: dict[tuple[str, str], list[float]] = {}
    for _ in range(given.rounds + 1):
        made = {way: {name: timed(step, way) for name, step in steps.items()} for way in ("0", "1")}
        for name in steps:
            for way, found in made.items():
                taken.setdefault((name, way), []).append(found[name][0])
            assert made["0"][name][1] == made["1"][name][1], f"{name} differs"
    micros = {key: statistics.median(seconds[1:]) / given.points * 1e6 for key, seconds in taken.items()}
    figures = {name: {"libsodium": round(micros[name, "0"], 2), "loops": round(micros[name, "1"], 2)} for name in steps}
    loading = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, check=True).stdout
    bars = [
        {"name": f"{name}_libsodium_vs_loops", "value": round(value, 2), "bar": BAR, "holds": value >= BAR}
        for name in steps
        if (value := micros[name, "0"] / micros[name, "1"])
    ]
    processor = os.environ.get("NUMBA_CPU_NAME", llvm.get_host_cpu_name())
    print(json.dumps({"processor": processor, "microseconds": figures, "loading": float(loading), "bars": bars}))


def timed(step: Callable[[], Bytes], way: str) -> tuple[float, bytes]:
    """CPU seconds with (1) or without (0) compiled loops, and what it made."""
    os.environ["UNPOOLED_COMPILED"] = way
    compiled._choice.cache_clear()
    start = time.process_time()
    made = step()
    return time.process_time() - start, made.tobytes()


if __name__ == "__main__":
    main()

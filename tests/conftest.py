"""What all tests have in common."""

import os

# Several tests run side by side, and OpenMP's threads burn time waiting for each other when there are fewer cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

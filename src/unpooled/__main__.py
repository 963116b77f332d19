"""Where a process of the command `unpooled`, or of `python -m unpooled`, begins."""

import gc
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads spin while they wait, and there is little for them
gc.disable()  # what is imported stays, and looking for garbage in it takes a tenth of the time

from unpooled.cli import main  # noqa: E402

gc.freeze()
gc.set_threshold(10_000, 20)  # messages and arrays come and go by the thousand, and hardly any of them is in a cycle
gc.enable()

if __name__ == "__main__":
    main()

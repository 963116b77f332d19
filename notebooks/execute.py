"""Execute the notebooks and keep what they show: make notebooks

A notebook is kept as a fresh kernel shows it. What a cell shows must not differ between runs: `tests/test_notebooks.py`
executes all of them in the same way, and compares.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

FOLDER = Path(__file__).parent
NOTEBOOKS = ("look_alikes", "training", "completing", "what_leaks", "compared")
"""In the order in which to read them."""

SECONDS = 300


def kept(name: str) -> nbformat.NotebookNode:
    """A notebook as it is in the folder."""
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def executed(name: str) -> nbformat.NotebookNode:
    """The same, with what its cells show now, in a kernel of this Python; a cell that fails is an error."""
    notebook = kept(name)
    described = dict(notebook.metadata)
    where = {"metadata": {"path": str(FOLDER)}}
    with tempfile.TemporaryDirectory() as sockets:  # TCP would be open to others on this machine
        config = Config(AsyncKernelManager={"transport": "ipc", "ip": f"{sockets}/kernel"})
        client = NotebookClient(notebook, config=config, timeout=SECONDS, record_timing=False, resources=where)
        client.execute()
    notebook.metadata = described  # the kernel adds which Python it is
    return notebook


def main() -> int:
    """Execute all notebooks, or those that are named, and write them."""
    for name in sys.argv[1:] or NOTEBOOKS:
        nbformat.write(executed(name), FOLDER / f"{name}.ipynb")
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())

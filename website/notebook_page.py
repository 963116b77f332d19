"""A notebook as a page of the site: its text, its code, and what its cells show."""

from __future__ import annotations

import base64
import json
from html import escape
from pathlib import Path
from typing import Any


def write_page(notebook: Path, folder: Path) -> None:
    """Write the page of a notebook into `folder`, with its pictures and the notebook itself, to download."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    parts = []
    for cell in content["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [_shown(output, folder / f"{notebook.stem}-{cell['id']}.png") for output in cell["outputs"]]
    parts.append(f'<a href="{notebook.name}" download>This page as a notebook</a>')
    (folder / notebook.name).write_bytes(notebook.read_bytes())
    (folder / f"{notebook.stem}.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _shown(output: dict[str, Any], picture: Path) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        picture.write_bytes(base64.b64decode(data["image/png"]))
        return f"![What the cell above draws]({picture.name})"
    if "text/html" in data:
        return "".join(data["text/html"])
    text = "".join(data.get("text/plain") or output["text"])
    return f'<pre class="output"><code>{escape(text.rstrip())}</code></pre>'

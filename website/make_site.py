"""Build the site from the repository's Markdown: make docs

    python website/make_site.py [--site FOLDER]

It goes to FOLDER/VERSION; versions that are already in FOLDER stay, and readers can choose between them. Pages keep the
places that they have in the repository, so links are the same there and here. A broken link, or a page that the
navigation lacks, is an error.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from html import escape
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

import reference
from notebook_page import write_page
from unpooled import __version__

HERE = Path(__file__).parent
ROOT = HERE.parent

TOP = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages that are not in a folder; the README is the first one."""

LINKED = ("CITATION.cff", "packaging/unpooled.service")
"""Files that pages link to."""


class SiteError(Exception):
    """The site cannot be made: says why."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the documentation as a site.")
    parser.add_argument("--site", type=Path, default=ROOT / "site", help="folder of all versions")
    site = parser.parse_args().site
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        gather(folder)
        try:
            built = rendered(folder)
        except SiteError as error:
            print(error, file=sys.stderr)
            return 1
        target = site / __version__
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(built, target)
    list_versions(site)
    print(target / "index.html")
    return 0


def rendered(folder: Path) -> Path:
    """The site of what was gathered, if each page has its place and each link leads somewhere."""
    if missing := lacking(folder):
        raise SiteError(f"website/zensical.toml: the navigation lacks {', '.join(missing)}")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    environment = os.environ | {"NO_COLOR": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SiteError(done.stdout + done.stderr.partition("Traceback")[0])
    return folder / "site"


def gather(folder: Path) -> None:
    """The settings of the site, and all pages with what they show, in the places that they have in the repository."""
    content = folder / "content"
    shutil.copy(HERE / "zensical.toml", folder)
    shutil.copytree(HERE / "theme", folder / "theme")
    shutil.copytree(ROOT / "docs", content / "docs", ignore=shutil.ignore_patterns("*.csv"))
    for name in (*TOP, *LINKED):
        (content / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, content / name)
    shutil.copy(ROOT / "README.md", content / "index.md")
    shutil.copy(HERE / "style.css", content)
    (content / "notebooks").mkdir()
    shutil.copy(ROOT / "notebooks" / "README.md", content / "notebooks")
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        write_page(path, content / "notebooks")
    (content / "reference").mkdir()
    reference.write_pages(content / "reference")
    for page in content.rglob("*.md"):
        page.write_text(for_site(page.read_text(encoding="utf-8")), encoding="utf-8")


def for_site(text: str) -> str:
    """What code hosts see by themselves and a site must be told: Python sessions, nested lists, notebooks, README."""
    text = re.sub(r"^```python\n(?=>>> )", "```pycon\n", text, flags=re.MULTILINE)
    text = re.sub(r"^ {3}- ", "    - ", text, flags=re.MULTILINE)
    text = re.sub(r"\]\(((?:\.\./)*)README\.md", r"](\1index.md", text)
    return re.sub(r"\]\(((?:\w+/|\.\./)*\w+)\.ipynb\)", r"](\1.md)", text)


def lacking(folder: Path) -> list[str]:
    """The pages that the navigation does not lead to."""
    settings = tomllib.loads((folder / "zensical.toml").read_text(encoding="utf-8"))
    content, listed = folder / "content", set(_pages(settings["project"]["nav"]))
    return sorted({str(page.relative_to(content)) for page in content.rglob("*.md")} - listed)


def _pages(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    return [page for part in (entry.values() if isinstance(entry, dict) else entry) for page in _pages(part)]


def list_versions(site: Path) -> None:
    """Write versions.json, from which pages make their list of versions, and a first page that leads to the newest."""
    versions = sorted((found.name for found in site.iterdir() if _is_version(found.name)), key=Version, reverse=True)
    listed = [{"version": name, "title": name, "aliases": []} for name in versions]
    listed[0]["aliases"] = ["latest"]
    (site / "versions.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    links = "".join(f'<li><a href="{escape(name)}/index.html">{escape(name)}</a></li>' for name in versions)
    first = f'<meta http-equiv="refresh" content="0; url={escape(versions[0])}/index.html">'
    head = f'<meta charset="utf-8"><title>unpooled</title>{first}'
    page = f'<!doctype html><html lang="en"><head>{head}</head><body><ul>{links}</ul></body></html>\n'
    (site / "index.html").write_text(page, encoding="utf-8")


def _is_version(name: str) -> bool:
    try:
        Version(name)
    except InvalidVersion:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())

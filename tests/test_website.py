"""The site is built without a broken link, has every page and every public name, and loads nothing from elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import make_site
import unpooled

ROOT = Path(__file__).parents[1]
OLDER = "0.0.9"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    (folder / OLDER).mkdir()
    command = [sys.executable, ROOT / "website" / "make_site.py", "--site", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


class Page(HTMLParser):
    """What a page loads, what it links to, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.loads, self.links, self.anchors = set[str](), set[str](), set[str]()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        self.anchors |= {has[name] for name in ("id", "name") if name in has}
        if "src" in has:
            self.loads.add(has["src"])
        if "href" in has:
            (self.links if tag == "a" or has.get("rel") in ("prev", "next") else self.loads).add(has["href"])


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in (site / unpooled.__version__).rglob("*.html") if path.name != "404.html"}


def test_every_page_of_the_repository_is_there(site: Path) -> None:
    built = site / unpooled.__version__
    documents = [f"docs/{path.stem}" for path in (ROOT / "docs").glob("*.md")]
    notebooks = [f"notebooks/{path.stem}" for path in (ROOT / "notebooks").glob("*.ipynb")]
    others = ["index", "notebooks/index", *(path.stem for path in ROOT.glob("*.md") if path.name != "README.md")]
    assert [name for name in (*documents, *notebooks, *others) if not (built / f"{name}.html").is_file()] == []


def test_the_readme_lists_every_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in (ROOT / "docs").glob("*.md") if f"](docs/{path.name})" not in text] == []


def test_no_link_is_broken(pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            missing = target in pages and parts.fragment and unquote(parts.fragment) not in pages[target].anchors
            if not target.is_file() or missing:
                broken.append(f"{path.name}: {link}")
    assert broken == []


def test_nothing_is_loaded_from_another_host(pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        assert [load for load in page.loads if urlsplit(load).netloc] == [], path
        text = path.read_text(encoding="utf-8")
        assert "default-src 'self'" in text, path
        assert "mermaid" not in text, path  # drawn by a script of another host


def test_the_reference_has_every_public_name(pages: dict[Path, Page]) -> None:
    anchors = {anchor for path, page in pages.items() if path.parent.name == "reference" for anchor in page.anchors}
    assert [name for name in unpooled.__all__ if name != "__version__" and name.lower() not in anchors] == []


def test_settings_are_described_with_their_defaults(site: Path) -> None:
    text = (site / unpooled.__version__ / "reference" / "settings.html").read_text(encoding="utf-8")
    row = next(line for line in re.split(r"<tr>", text) if "<code>key_bits</code>" in line)
    assert "<code>2048</code>" in row
    assert unpooled.Plan.model_fields["key_bits"].description in row


def test_readers_can_choose_among_versions(site: Path) -> None:
    listed = json.loads((site / "versions.json").read_text(encoding="utf-8"))
    assert [(each["version"], each["aliases"]) for each in listed] == [(unpooled.__version__, ["latest"]), (OLDER, [])]
    assert f"url={unpooled.__version__}/index.html" in (site / "index.html").read_text(encoding="utf-8")


def test_words_can_be_searched(site: Path) -> None:
    found = (site / unpooled.__version__ / "search.json").read_text(encoding="utf-8")
    assert all(word in found for word in ("ristretto255", "simulate_roles", "neither can see alone"))


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("[gone](gone.md)", "page does not exist"),
        ("[lost](index.md#lost)", "anchor does not exist"),
    ],
)
def test_a_broken_link_is_an_error(tmp_path: Path, page: str, said: str) -> None:
    gathered(tmp_path, {"index.md": f"# Here\n\n{page}\n"}, ["index.md"])
    with pytest.raises(make_site.SiteError, match=said):
        make_site.rendered(tmp_path)


def test_a_page_without_a_place_is_an_error(tmp_path: Path) -> None:
    gathered(tmp_path, {"index.md": "# Here\n", "new.md": "# New\n"}, ["index.md"])
    with pytest.raises(make_site.SiteError, match=r"the navigation lacks new\.md"):
        make_site.rendered(tmp_path)


def gathered(folder: Path, pages: dict[str, str], listed: list[str]) -> None:
    (folder / "content").mkdir()
    for name, text in pages.items():
        (folder / "content" / name).write_text(text, encoding="utf-8")
    settings = f'[project]\nsite_name = "small"\ndocs_dir = "content"\nsite_dir = "site"\nnav = {listed}\n'
    (folder / "zensical.toml").write_text(settings, encoding="utf-8")

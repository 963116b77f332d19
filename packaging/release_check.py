"""Check what is about to be released: make release-check

Empties dist/, builds wheel and source package there, installs each into an empty environment in a temporary folder and
runs the demo in it, with nothing of this checkout on the path. Looks at metadata and at what the packages hold, and
writes the runtime dependencies with their licences beside them (an SBOM, CycloneDX as JSON). Takes minutes and needs a
network. Ends with a line for each check; the exit code is the number of those that failed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from email import message_from_bytes
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PACKAGE = ROOT / "src"
NOT_IN_SDIST = (".ci/",)
ADDED_TO_SDIST = {"PKG-INFO"}
DEMO_SECONDS = 1800


class Failed(Exception):
    """A check that failed, and why."""


def call(*words: str | Path, cwd: Path = ROOT, seconds: float = 900) -> str:
    """What a command prints, without this checkout on its path; Failed with its last lines if it fails."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(words, cwd=cwd, env=ours, capture_output=True, text=True, check=False, timeout=seconds)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()[-15:]
        raise Failed("\n".join((f"{' '.join(map(str, words))} ended with code {done.returncode}", *said)))
    return done.stdout


class Release:
    """What is checked, in a temporary folder; each check returns what it found in a few words, or raises Failed."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.version = re.findall(r'^__version__ = "(.*)"$', _text("src/unpooled/version.py"), re.MULTILINE)[0]
        self.wheel = DIST / f"unpooled-{self.version}-py3-none-any.whl"
        self.sdist = DIST / f"unpooled-{self.version}.tar.gz"
        self.sbom = DIST / f"unpooled-{self.version}.cdx.json"
        self.tools = home / "tools" / "bin"

    def checkout(self) -> str:
        if changes := call("git", "status", "--porcelain").splitlines():
            raise Failed(f"{len(changes)} files differ from the last commit, such as {changes[0].split()[-1]}")
        return f"commit {call('git', 'rev-parse', '--short', 'HEAD').strip()}, nothing changed since"

    def changelog(self) -> str:
        if not re.search(rf"^## \[?{re.escape(self.version)}\b", _text("CHANGELOG.md"), re.MULTILINE):
            raise Failed(f"CHANGELOG.md has no heading for {self.version}")
        if f"\nversion: {self.version}\n" not in _text("CITATION.cff"):
            raise Failed(f"CITATION.cff does not say version {self.version}")
        return f"CHANGELOG.md and CITATION.cff have {self.version}"

    def protocol(self) -> str:
        (number,) = re.findall(r"^PROTOCOL_VERSION = (\d+)$", _text("src/unpooled/version.py"), re.MULTILINE)
        said = _text("tests/golden/protocol.txt").splitlines()[0]
        if not said.startswith(f"protocol {number}, released with "):
            raise Failed(f"tests/golden/protocol.txt says {said!r}: run tests/golden/protocol_shape.py --release")
        return said

    def build(self) -> str:
        call(sys.executable, "-m", "venv", self.home / "tools")
        pip = (self.tools / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        call(*pip, "--constraint", "constraints.txt", "pip")
        call(*pip, "--constraint", "constraints.txt", "--group", "build", "--group", "release")
        shutil.rmtree(DIST, ignore_errors=True)
        call(self.tools / "python", "-m", "build", "--outdir", DIST)
        return ", ".join(f"{path.name} ({path.stat().st_size / 1e6:.1f} MB)" for path in (self.wheel, self.sdist))

    def in_sdist(self) -> str:
        with tarfile.open(self.sdist) as archive:
            files = {name.split("/", 1)[1] for name in archive.getnames()}
        _compare(files - ADDED_TO_SDIST, {name for name in _tracked() if not name.startswith(NOT_IN_SDIST)})
        return f"{len(files)} files: all of the repository but {', '.join(NOT_IN_SDIST)}"

    def in_wheel(self) -> str:
        with zipfile.ZipFile(self.wheel) as archive:
            found = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
        wanted = {name.removeprefix("src/") for name in _tracked() if name.startswith("src/")}
        _compare(set(found), wanted)
        if different := [name for name in found if found[name] != (PACKAGE / name).read_bytes()]:
            raise Failed(f"not as in the repository: {', '.join(different[:5])}")
        kinds = {Path(name).suffix for name in found}
        return f"{len(found)} files, to the byte those of src/: {' '.join(sorted(kinds))}"

    def metadata(self) -> str:
        call(self.tools / "twine", "check", "--strict", self.wheel, self.sdist)
        with zipfile.ZipFile(self.wheel) as archive:
            folder = f"unpooled-{self.version}.dist-info"
            said = message_from_bytes(archive.read(f"{folder}/METADATA"))
            license_text = archive.read(f"{folder}/licenses/LICENSE")
        if said["License-Expression"] != "Apache-2.0" or license_text != (ROOT / "LICENSE").read_bytes():
            raise Failed("the wheel does not have the licence Apache-2.0 and its text")
        if said["Version"] != self.version or not said.get_payload():
            raise Failed(f"the wheel's metadata have version {said['Version']}, or no description")
        return f"twine has no objection, the description can be shown; {said['License-Expression']} with its text"

    def wheel_runs(self) -> str:
        return self._runs(self.wheel)

    def sdist_runs(self) -> str:
        return self._runs(self.sdist)

    def _runs(self, package: Path) -> str:
        """Install a package into an environment with nothing else, and run the demo there."""
        home = self.home / package.name
        call(sys.executable, "-m", "venv", "--without-pip", home)
        python, unpooled = home / "bin" / "python", home / "bin" / "unpooled"
        pip = (self.tools / "python", "-m", "pip", "--python", python, "--quiet", "--disable-pip-version-check")
        call(*pip, "install", package, cwd=self.home)
        call(*pip, "check", cwd=self.home)
        where = call(python, "-c", "import unpooled; print(unpooled.__file__)", cwd=self.home).strip()
        if not Path(where).is_relative_to(home):
            raise Failed(f"{where} was imported, not what was installed in {home}")
        if (said := call(unpooled, "--version", cwd=self.home).strip()) != self.version:
            raise Failed(f"unpooled --version says {said}")
        run = home / "demo"
        call(unpooled, "demo", "--run", run, "--json", cwd=self.home, seconds=DEMO_SECONDS)
        if "<html" not in (run / "report.html").read_text(encoding="utf-8"):
            raise Failed(f"{run / 'report.html'} is not a page")
        ends = {path.parent.name: json.loads(path.read_text())["state"] for path in run.glob("*/status.json")}
        if not ends or set(ends.values()) != {"finished"}:
            raise Failed(f"the demo did not finish: {ends}")
        return f"{package.name} alone, its demo finished at {', '.join(sorted(ends))}"

    def dependencies(self) -> str:
        environment = self.home / self.wheel.name / "bin" / "python"
        project = ("--pyproject", ROOT / "pyproject.toml", "--output-reproducible", "--output-format", "JSON")
        call(self.tools / "cyclonedx-py", "environment", *project, "--output-file", self.sbom, environment)
        content = json.loads(self.sbom.read_text(encoding="utf-8"))
        # pyproject.toml does not say the version: it is read from version.py
        content["metadata"]["component"]["version"] = self.version
        self.sbom.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        if without := [one["name"] for one in content["components"] if not one.get("licenses")]:
            raise Failed(f"no licence is known of: {', '.join(without)}")
        return f"{self.sbom.name} has {len(content['components'])} dependencies, each with its licence"


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _tracked() -> list[str]:
    return call("git", "ls-files").splitlines()


def _compare(found: set[str], wanted: set[str]) -> None:
    for what, names in (("missing", wanted - found), ("not in the repository", found - wanted)):
        if names:
            raise Failed(f"{len(names)} files are {what}, such as {', '.join(sorted(names)[:5])}")


def main() -> int:
    failed, lines = 0, []
    with tempfile.TemporaryDirectory(prefix="unpooled-release-") as home:
        release = Release(Path(home))
        checks: tuple[tuple[str, Callable[[], str]], ...] = (
            ("checkout", release.checkout),
            ("version", release.changelog),
            ("protocol", release.protocol),
            ("build", release.build),
            ("source package", release.in_sdist),
            ("wheel", release.in_wheel),
            ("metadata", release.metadata),
            ("demo from wheel", release.wheel_runs),
            ("demo from source package", release.sdist_runs),
            ("dependencies", release.dependencies),
        )
        for name, check in checks:
            print(f"{name} ...", file=sys.stderr, flush=True)
            try:
                lines.append(f"ok      {name}: {check()}")
            except (Failed, OSError, KeyError, subprocess.TimeoutExpired) as error:
                failed += 1
                lines.append(f"FAILED  {name}: {error}")
    print("\n".join(lines))
    return failed


if __name__ == "__main__":
    sys.exit(main())

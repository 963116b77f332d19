"""The route with pip that the README shows: a wheel, installed in an environment of its own, has all that is needed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

from unpooled.version import __version__

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
OFFLINE = "--quiet --disable-pip-version-check --no-index"
"""As there is no network in a test, what the wheel depends on is taken from this environment."""


def call(*words: str, cwd: Path) -> str:
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(words, cwd=cwd, env=ours, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def readme_commands() -> list[list[str]]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (fence,) = re.findall(r"^```console\n(python -m pip wheel .*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for line in fence.splitlines()]


def test_a_wheel_can_be_installed_and_used(tmp_path: Path) -> None:
    wheel, install, demo = readme_commands()
    assert (wheel[:4], install[:4], demo) == (
        ["python", "-m", "pip", "wheel"],
        ["python", "-m", "pip", "install"],
        ["unpooled", "demo"],
    )
    pip, offline = [sys.executable, "-m", "pip"], OFFLINE.split()
    made = [*wheel[4 : wheel.index("--wheel-dir")], "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT)]
    call(*pip, "wheel", *offline, *made, cwd=tmp_path)
    (built,) = tmp_path.glob(Path(install[-1]).name)
    with zipfile.ZipFile(built) as content:
        names = set(content.namelist())
    needed = {str(path.relative_to(SOURCE)) for path in (SOURCE / "unpooled").rglob("*") if path.is_file()}
    assert {name for name in needed if "__pycache__" not in name} <= names
    call(sys.executable, "-m", "venv", "--without-pip", "fresh", cwd=tmp_path)
    fresh = tmp_path / "fresh" / "bin"
    call(*pip, "--python", str(fresh / "python"), "install", *offline, "--no-deps", str(built), cwd=tmp_path)
    (site,) = (tmp_path / "fresh").glob("lib/python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    unpooled = str(fresh / "unpooled")
    assert call(unpooled, "--version", cwd=tmp_path) == f"{__version__}\n"
    where = call(str(fresh / "python"), "-c", "import unpooled; print(unpooled.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(site)
    call(unpooled, "example", "trial", "--rows", "1000", cwd=tmp_path)
    assert "Nothing was started" in call(unpooled, "run", "trial/job.toml", "--dry-run", cwd=tmp_path)

"""Run tests under every supported Python that is installed: make test-versions

Each has an environment of its own in .venv/versions. Arguments are passed on to pytest; without any, all tests run but
those that start processes or run whole jobs.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13")
FOLDERS = ("align", "data", "evaluate", "golden", "pu", "secure", "transport", "vertical")


def works(python: str | Path, version: str) -> bool:
    """Whether this is a Python of that version: what pyenv puts on the path may only say that it is not chosen."""
    show = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        ran = subprocess.run([python, "-c", show], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return ran.stdout.strip() == version


def find(version: str) -> str | None:
    """The interpreter of a version, on the path or where pyenv has it."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(f"python{version}")
    for python in (*([on_path] if on_path else []), *sorted(pyenv.glob(f"{version}.*/bin/python{version}"))):
        if works(python, version):
            return str(python)
    return None


def environment(version: str, python: str) -> Path:
    """The Python of an environment with the package and its tests' dependencies, made if it is not there."""
    home = ROOT / ".venv" / "versions" / version
    made, inside = home / ".set-up", home / "bin" / "python"
    wanted = "".join((ROOT / name).read_text() for name in ("pyproject.toml", "constraints.txt"))
    if not made.exists() or made.read_text() != wanted:
        pip = [inside, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt"]
        subprocess.run([python, "-m", "venv", "--clear", home], check=True)
        subprocess.run([*pip, "pip"], check=True)
        subprocess.run([*pip, "--editable", ".", "--group", "test"], check=True, cwd=ROOT)
        made.write_text(wanted)
    return inside


def main() -> int:
    default = [*(f"tests/{folder}" for folder in FOLDERS), *sorted(str(p) for p in (ROOT / "tests").glob("test_*.py"))]
    failed = []
    for version in VERSIONS:
        python = find(version)
        if python is None:
            print(f"Python {version}: not installed here, so nothing was run")
            continue
        print(f"Python {version}: {python}", flush=True)
        pytest = [environment(version, python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        if subprocess.run([*pytest, *(sys.argv[1:] or ["-n", "auto", *default])], check=False, cwd=ROOT).returncode:
            failed.append(version)
    print(f"failed under: {', '.join(failed)}" if failed else "no failures")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())

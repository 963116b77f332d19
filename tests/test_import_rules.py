"""Imports go one way: a module may use what stands before it in this list, never what stands behind it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "unpooled"
ARCHITECTURE = Path(__file__).parents[1] / "ARCHITECTURE.md"

ORDER = [
    "version",
    "errors",
    "settings",
    "arrays",
    "compiled",
    "workers",
    "atomic",
    "on_disk",
    "codec",
    "checkpoint",
    "wire",
    "control",
    "chain",
    "ledger",
    "transport",
    "session",
    "data",
    "evaluate",
    "networks",
    "secure",
    "align",
    "vertical",
    "information",
    "pu",
    "tuning",
    "semisup",
    "complete",
    "budget",
    "drawing",
    "jobs",
    "run",
    "estimators",
    "attacks",
    "report",
    "tracking",
    "frames",
    "serve",
    "experiments",
    "cli",
    "__main__",
]
NEVER = {
    "data": {"transport", "session", "wire", "control", "ledger"},
    "secure": {"transport"},
    "align": {"transport"},
    "vertical": {"transport", "align"},
    "information": {"transport", "align"},
    "tuning": {"transport", "align"},
    "semisup": {"transport", "session", "wire", "control", "ledger", "secure", "align"},
    "complete": {"transport"},
    "budget": {"transport", "session", "wire", "control", "ledger", "vertical", "pu", "tuning", "complete"},
    "evaluate": {"transport", "session", "vertical"},
    "networks": {"transport", "session", "wire", "control", "ledger", "evaluate"},
    "drawing": {
        "transport",
        "session",
        "wire",
        "control",
        "ledger",
        "secure",
        "align",
        "vertical",
        "pu",
        "tuning",
        "complete",
        "budget",
    },
    "report": {"transport", "session"},
    "tracking": {"transport", "session"},
    "frames": {"transport", "session"},
}
"""What a part must not use although it comes earlier."""


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imported_parts(path: Path) -> set[str]:
    """The parts of the package that a module imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} uses a relative import"
            names |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    inside = {name.split(".")[1] for name in names if name.startswith("unpooled.")}
    return inside & set(ORDER)


MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def test_imports_go_one_way() -> None:
    wrong = {}
    for path in MODULES:
        part = part_of(path)
        assert part in ORDER, f"{part} has no place in the order: give it one here and in ARCHITECTURE.md"
        later = set(ORDER[ORDER.index(part) + 1 :])
        if found := imported_parts(path) & (later | NEVER.get(part, set())):
            wrong[str(path.relative_to(SOURCE))] = found
    assert wrong == {}


def test_no_module_unpickles() -> None:
    for path in MODULES:
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        assert not names & {"pickle", "marshal", "shelve", "eval", "exec"}, path


def test_the_architecture_states_the_same_order() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("`version` →"))
    assert [word.strip(" `") for word in line.split("→")] == ORDER[:-1]


LEARNERS = SOURCE / "vertical" / "learners.py"
POOLED = SOURCE / "pu" / "pooled" / "trees.py"
"""The pooled run of trees is one of trees by its name."""
ATTACKS = SOURCE / "attacks"
"""Attacks are about the messages of a learner."""
PRESETS = SOURCE / "experiments" / "lookalike" / "presets.py"
"""The VFPU paper's settings are of learners by their names."""


def imported_modules(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return names | {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}


@pytest.mark.parametrize("learner", ["trees", "linear"])
def test_a_learner_is_known_to_the_list_of_learners_alone(learner: str) -> None:
    inside, name = SOURCE / "vertical" / learner, f"unpooled.vertical.{learner}"
    users = {path for path in MODULES if any(module.startswith(name) for module in imported_modules(path))}
    outside = {path for path in users if inside not in path.parents and ATTACKS not in path.parents}
    assert outside - {POOLED, PRESETS} == {LEARNERS}


def test_no_job_branches_on_a_learner() -> None:
    names = {"trees", "linear", "gbdt", "xgb", "lgb", "rf"}
    for path in (path for path in MODULES if part_of(path) in ("jobs", "pu", "run", "cli")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            compared = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            compared += [node.value] if isinstance(node, ast.MatchValue) else []
            texts = {one.value for one in compared if isinstance(one, ast.Constant)}
            assert not texts & names, f"{path}:{getattr(node, 'lineno', 0)}"


def test_the_command_loads_no_optional_package() -> None:
    """Every party is a process of its own, and installations without extras have none of these."""
    optional = {"jax", "lightgbm", "matplotlib", "mlflow", "optax", "psycopg", "ray", "scipy", "sklearn", "xgboost"}
    found = subprocess.run(
        [sys.executable, "-c", f"import sys, unpooled.cli; print(*{optional!r} & sys.modules.keys())"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert found.stdout.split() == []

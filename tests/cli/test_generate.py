"""`unpooled generate`: files, models, seeds, what Ctrl-C leaves, and what is refused before anything is learned."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from unpooled.cli import app, generate
from unpooled.cli.output.training import stoppable, training_bar
from unpooled.complete.generators import generators
from unpooled.complete.generators.sampling import SAMPLERS
from unpooled.data import example
from unpooled.errors import InputError, Interrupted, ResumeError
from unpooled.networks.training import Progress

SHORT = ("--epochs", "3")


def run(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, ["generate", *words])


def done(*words: str) -> dict[str, Any]:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output + repr(result.exception)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    example.write(tmp_path, rows=1000)
    return tmp_path


def test_rows_and_a_page_are_written_beside_the_table(folder: Path) -> None:
    result = run("bank.csv", "--rows", "120", *SHORT)
    assert result.exit_code == 0, result.output + repr(result.exception)
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "left out as ids: id" in result.stdout
    assert "not anonymous" in result.stdout
    assert re.search(r"nearest records: \d+\.\d % of 120 generated rows", result.stdout)
    assert re.search(r"training tvae: epoch 3 of 3, loss \d", result.stderr)
    rows, real = (pl.read_csv(folder / f"bank{end}.csv", try_parse_dates=True) for end in ("-generated", ""))
    assert rows.height == 120
    assert rows.columns == real.columns[1:]
    page = (folder / "bank-generated.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    written = sorted(path.name for path in folder.glob("bank-*"))
    assert written == ["bank-generated.csv", "bank-generated.html"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.glob("bank-*"))


@pytest.mark.parametrize("model", ["marginal", "copula", "hot-deck", "smote"])
def test_plain_models_need_no_training(model: str) -> None:
    found = done("bank.csv", "--model", model, "--out", "rows.parquet", "--report", "page.html")
    assert found["rows"] == pl.read_parquet("rows.parquet").height == pl.read_csv("bank.csv").height
    assert Path("page.html").exists()
    assert found["memorised"] or model in ("marginal", "copula")
    assert (found["copies"] > 0.9 * found["rows"]) == (model == "hot-deck")


def test_the_same_seed_gives_the_same_rows_also_from_a_kept_model(folder: Path) -> None:
    first = done("bank.csv", *SHORT, "--out", "one.csv", "--save", "bank.npz")
    second = done("bank.csv", "--load", "bank.npz", "--out", "two.csv")
    assert Path("one.csv").read_bytes() == Path("two.csv").read_bytes()
    assert first["nearest"] == second["nearest"]
    done("bank.csv", "--load", "bank.npz", "--out", "three.csv", "--seed", "2")
    assert Path("one.csv").read_bytes() != Path("three.csv").read_bytes()
    alone = done("--load", "bank.npz", "--rows", "7")
    assert (alone["out"], alone["report"]) == ("bank-generated.csv", None)
    pl.read_csv("bank.csv").head(500).write_csv("other.csv")
    assert done("other.csv", "--load", "bank.npz")["report"] is None
    assert "no page: the model has learned from other rows" in run("other.csv", "--load", "bank.npz", "--force").stdout


def test_no_rows_need_be_held_out() -> None:
    found = done("bank.csv", "--model", "marginal", "--held-out", "0")
    assert (found["held_out"], found["nearest"]) == (0, None)
    assert found["training"] == pl.read_csv("bank.csv").height


def test_a_private_file_says_how_to_read_the_table(folder: Path) -> None:
    Path("own.toml").write_text('[table]\npath = "bank.csv"\nid = "id"\ncolumns = ["age", "branch"]\n')
    found = done("--private", "own.toml", "--model", "marginal")
    assert (found["columns"], found["out"]) == (["age", "branch"], "own-generated.csv")
    assert found["left_out"] == ["id"]


def test_columns_that_may_be_ids_are_named() -> None:
    frame = pl.DataFrame({"code": range(10**6, 10**6 + 60), "name": [f"n{n // 2 if n < 40 else n}" for n in range(60)]})
    frame.with_columns(x=pl.Series(np.random.default_rng(1).normal(size=60))).write_csv("odd.csv", separator=";")
    found = done("odd.csv", "--model", "marginal")
    assert [re.findall("'(.*)'", one)[0] for one in found["warnings"]] == ["code", "name"]
    assert done("odd.csv", "--model", "marginal", "--id", "code", "--id", "name", "--force")["warnings"] == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "name a table"),
        (["--load", "absent.npz", "--rows", "3"], "absent.npz"),
        (["--model", "marginal", "--id", "id"], "name the table"),
        (["absent.csv"], "absent.csv: there is no such file"),
        (["bank.csv", "--model", "gan"], "no model 'gan'.*tvae"),
        (["bank.csv", "--model", "copula", "--epochs", "3"], "epochs: unknown key"),
        (["bank.csv", "--set", "learning_rate=fast"], "learning_rate"),
        (["bank.csv", "--set", "learning_rate"], "--set: must be KEY=VALUE"),
        (["bank.csv", "--held-out", "1.5"], "held_out"),
        (["bank.csv", "--id", "nobody"], "'nobody': there is no such column"),
        (["bank.csv", "--out", "rows.xlsx"], "--out.*csv or .parquet"),
        (["bank.csv", "--out", "absent/rows.csv"], "no such folder"),
        (["bank.csv", "--out", "bank.csv", "--force"], "the table itself"),
        (["bank.csv", "--out", "a.csv", "--report", "a.csv"], "different files"),
        (["bank.csv", "--load", "x.npz", "--model", "tvae"], "--load: .*learned already"),
        (["bank.csv", "--private", "own.toml"], "--private"),
        (["few.csv"], "few.csv: at least 10 rows"),
        (["ids.csv"], "no column to learn"),
    ],
)
def test_wrong_calls_are_refused_before_anything_is_learned(words: list[str], reason: str) -> None:
    pl.read_csv("bank.csv").head(12).write_csv("few.csv")
    pl.DataFrame({"id": [f"person {number}" for number in range(50)]}).write_csv("ids.csv")
    before = sorted(Path.cwd().iterdir())
    result = run(*words)
    assert isinstance(result.exception, InputError), result.output
    assert re.search(reason, str(result.exception))
    assert sorted(Path.cwd().iterdir()) == before


def test_the_help_names_every_model() -> None:
    words = re.findall(r"[\w-]+", " ".join(run("--help").stdout.replace("│", " ").split()))
    assert [name for name in SAMPLERS if name not in words] == []


def test_files_are_replaced_only_if_told() -> None:
    done("bank.csv", "--model", "marginal", "--rows", "5")
    result = run("bank.csv", "--model", "marginal", "--rows", "6")
    assert re.search("bank-generated.csv exists.*--force", str(result.exception))
    assert pl.read_csv("bank-generated.csv").height == 5
    done("bank.csv", "--model", "marginal", "--rows", "6", "--force")
    assert pl.read_csv("bank-generated.csv").height == 6


def test_without_jax_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Any:
        raise ModuleNotFoundError("No module named 'jax'", name="jax")

    monkeypatch.setattr(generators, "_MODELS", dict.fromkeys(generators._MODELS, absent))
    assert "pip install 'unpooled[generate]'" in str(run("bank.csv").exception)
    assert done("bank.csv", "--model", "copula")["model"] == "copula"


def test_a_full_disk_is_said_and_the_training_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise InputError("bank-generated.csv: cannot be written: No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(generate, "write_frame", full)
        assert "No space left" in str(run("bank.csv", *SHORT).exception)
    assert Path("bank-generated.checkpoint").exists()
    again = run("bank.csv", *SHORT)
    assert again.exit_code == 0
    assert "training" not in again.stderr  # the last epoch was kept
    assert not Path("bank-generated.checkpoint").exists()


def test_ctrl_c_keeps_a_checkpoint_and_the_same_command_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes while the second epoch is shown, and is noticed after it."""
    epochs: list[int] = []
    shown = generate.training_bar

    def interrupting(console: Console, model: str, quiet: bool) -> Any:
        class Bar:
            def __enter__(self) -> Any:
                return watch

            def __exit__(self, *_: object) -> None:
                pass

        def watch(progress: Progress) -> None:
            epochs.append(progress.epoch)
            if progress.epoch == 2:
                os.kill(os.getpid(), signal.SIGINT)

        return Bar()

    monkeypatch.setattr(generate, "training_bar", interrupting)
    result = run("bank.csv", "--epochs", "4")
    assert result.exit_code == 130
    assert "the same command goes on from bank-generated.checkpoint" in result.stderr
    assert not Path("bank-generated.csv").exists()
    monkeypatch.setattr(generate, "training_bar", shown)
    other = run("bank.csv", "--epochs", "4", "--seed", "2")
    assert isinstance(other.exception, ResumeError)
    again = run("bank.csv", "--epochs", "4")
    assert again.exit_code == 0, repr(again.exception)
    assert epochs == [1, 2]
    assert "epoch 3 of 4" in again.stderr
    assert "epoch 2 of 4" not in again.stderr
    resumed = Path("bank-generated.csv").read_bytes()
    assert run("bank.csv", "--epochs", "4", "--force").exit_code == 0
    assert Path("bank-generated.csv").read_bytes() == resumed
    assert not Path("bank-generated.checkpoint").exists()


def test_a_second_signal_ends_at_once() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stoppable(Console(stderr=True)) as stop:
        stop()
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted) as first:
            stop()
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), signal.SIGTERM)
    assert first.value.code == 143
    assert signal.getsignal(signal.SIGTERM) == before


def test_progress_is_a_bar_on_a_terminal_and_some_lines_elsewhere(tmp_path: Path) -> None:
    with (tmp_path / "said").open("w+") as file:
        with training_bar(Console(file=file), "tvae", False) as watch:
            for epoch in range(1, 101):
                watch(Progress(epoch, 100, 1.5, 120.0))
        lines = Path(file.name).read_text().splitlines()
    assert lines[:2] == [
        "training tvae: epoch 1 of 100, loss 1.5",
        "training tvae: epoch 10 of 100, loss 1.5, about 2 min left",
    ]
    assert len(lines) == 11
    terminal = Console(force_terminal=True, width=80, record=True, file=(tmp_path / "drawn").open("w"))
    with training_bar(terminal, "tvae", False) as watch:
        watch(Progress(50, 100, 1.5, 120.0))
    assert "50/100" in terminal.export_text()
    with training_bar(terminal, "tvae", True) as watch:
        watch(Progress(1, 2, 1.0, 1.0))
    terminal.file.close()

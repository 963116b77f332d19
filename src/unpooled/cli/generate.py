"""`unpooled generate`: a model learns a table at one party alone, draws rows like its own, and is judged by a page."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich.console import Console

from unpooled.cli.options import Json, Quiet
from unpooled.cli.output.messages import wrapped
from unpooled.cli.output.training import stoppable, training_bar
from unpooled.cli.tables import (
    THIS_TABLE,
    Columns,
    Dates,
    Decimal,
    Encoding,
    IdColumns,
    Missing,
    Separator,
    Thousands,
    Types,
    Unfit,
    by_name,
    given_settings,
    validated,
)
from unpooled.complete.completers import files
from unpooled.complete.completers.completer import CompleterSettings
from unpooled.complete.completers.filling import Fitted
from unpooled.complete.generators.sampling import (
    Learned,
    check_learnable,
    doubtful_columns,
    fit_generator,
    learned_from,
    load_generator,
    restored_frame,
    sample_rows,
    sampler_settings,
    split,
    without_ids,
)
from unpooled.complete.generators.settings import GeneratorSettings
from unpooled.data.coding import check_kind
from unpooled.data.sources import RowsSettings, load
from unpooled.data.table import Table
from unpooled.drawing.measures import figure
from unpooled.drawing.words import listed, many
from unpooled.errors import InputError, Interrupted
from unpooled.evaluate.generated import GeneratedRows, judge_generated
from unpooled.jobs.complete.table_files import Format, write_frame
from unpooled.jobs.files import load_private
from unpooled.report.generated import NOT_ANONYMOUS, Generation, memorised, nearest_words, write_generated

MODEL = "tvae"
HELD_OUT = 0.25
_FORMATS: Mapping[str, Format] = {".csv": "csv", ".parquet": "parquet"}
_SHORT = {"ks": "KS", "total_variation": "total variation", "wasserstein": "Wasserstein", "association": "association"}


def generate_command(
    table: Annotated[
        Path | None,
        typer.Argument(
            metavar="TABLE", help="A .csv, .csv.gz or .parquet file; or use --private, or --load and --rows."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="vae, tvae, ctgan, tablegan, ctab-gan or tabddpm; or a plain one: marginal, copula, hot-deck or "
            f"smote. Default: {MODEL}.",
        ),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many rows. Default: as many as the table has.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write them: .csv or .parquet. Default: TABLE-generated.csv."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Where to write the page. Default: beside the rows.")
    ] = None,
    preset: Annotated[
        Literal["fast", "paper"] | None,
        typer.Option(help="fast, or paper: the settings of the model's authors. Default: fast."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How often every row is learned from. Default: the preset's.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Another setting of the model; several times if several."),
    ] = None,
    held_out: Annotated[
        float, typer.Option(metavar="FRACTION", help="The fraction of the rows that is held out to judge by; 0: none.")
    ] = HELD_OUT,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same rows.")] = 1,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to keep the model: a .npz file.")] = None,
    load_from: Annotated[
        Path | None, typer.Option("--load", metavar="FILE", help="A model that --save has kept, instead of learning.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    private: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A party's private file, whose [table] is used.")
    ] = None,
    id_columns: IdColumns = None,
    columns: Columns = None,
    types: Types = None,
    missing: Missing = None,
    unfit: Unfit = 0.0,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    dates: Dates = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Generate a table: a model learns yours and draws new rows like its own, with the same columns and types.

    Nothing leaves this machine. Writes the rows, and a page with every column real against generated, associations,
    and how near generated rows are to rows that were learned from: generated rows are not anonymous by themselves. Id
    columns (--id), and texts that differ in nearly every row, are left out. After Ctrl-C the same command goes on from
    where it was. docs/generators.md explains the models; some need: pip install 'unpooled[generate]'
    """
    given = given_settings(
        table,
        id_columns,
        columns,
        types,
        missing,
        unfit,
        separator,
        encoding,
        decimal,
        thousands,
        dates,
    )
    own = {"preset": preset, "epochs": epochs, **_values(settings or [])}
    own = {key: value for key, value in own.items() if value is not None}
    if load_from is not None and (model or own or save):
        words = "leave out --model, --preset, --epochs, --set and --save"
        raise InputError(f"--load: the model has learned already: {words}")
    kept = load_generator(load_from) if load_from is not None else None
    chosen = None if kept else sampler_settings(model or MODEL, {"held_out": held_out, **own})
    source = _table(given, private)
    if source is None and (kept is None or rows is None):
        raise InputError("name a table, or a private file with --private; with --load, a table or --rows")
    where = _files(_named_after(table, private, load_from), out, page, save)
    _check_free([where.rows, *([where.page] if source else []), *([save] if save else [])], table, force=force)
    for_fit, for_rows, for_page = np.random.default_rng(seed).spawn(3)
    if kept is not None:
        fitted, learned = kept, learned_from(kept, _same_columns(kept, source.table)) if source else None
    else:
        assert source is not None
        assert chosen is not None
        learned = _to_learn(source.table, held_out)
        fitted = _fit(chosen, learned.training, for_fit, where.checkpoint, silent=quiet or as_json)
        if save is not None:
            files.save(fitted, save)
    drawn = sample_rows(fitted, rows or (source.table.frame.height if source else 1), for_rows)
    write_frame(where.rows, restored_frame(fitted, drawn), _FORMATS[where.rows.suffix.lower()])
    found = judge_generated(drawn, learned.training, learned.held_out, for_page) if learned else None
    if found and source:
        write_generated(found, _about(fitted, source, where.rows), where.page)
    where.checkpoint.unlink(missing_ok=True)
    if as_json:
        typer.echo(json.dumps(_as_json(fitted, drawn, source, found, where)))
    elif not quiet:
        typer.echo(wrapped(_said(fitted, drawn, source, found, where)))


@dataclass(frozen=True, eq=False)
class _Source:
    """A table without ids, what was left out of it, and what its owner should know."""

    table: Table
    left_out: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Files:
    """Where everything is written; the checkpoint of a training that was interrupted is beside the rows."""

    rows: Path
    page: Path
    checkpoint: Path


def _values(given: Sequence[str]) -> dict[str, Any]:
    """Settings as a TOML file has them; what is no value there is a text."""
    found: dict[str, Any] = {}
    for name, value in by_name(given, "--set", "KEY=VALUE").items():
        try:
            found[name] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[name] = value
    return found


def _table(given: Mapping[str, Any], private: Path | None) -> _Source | None:
    """The table that was named, if any."""
    if private is not None:
        if given:
            raise InputError("--private: the file has the table's settings; give either, not both")
        settings = load_private(private).table
        if settings is None:
            raise InputError(f"{private}: table: there is none")
        whole = load(settings, private.stem)
    elif "path" in given:
        whole = load(validated(RowsSettings, given), THIS_TABLE)
    elif given:
        raise InputError("name the table that these settings are about")
    else:
        return None
    table, left_out = without_ids(whole)
    notes = [note for note in (*whole.notes, *doubtful_columns(table)) if note.level == "warning"]
    return _Source(table, left_out, tuple(map(str, notes)))


def _named_after(table: Path | None, private: Path | None, model: Path | None) -> Path:
    named = table or private or model
    assert named is not None
    return named.with_name(named.name.split(".")[0]) if named is table else Path(named.stem)


def _files(stem: Path, out: Path | None, page: Path | None, save: Path | None) -> _Files:
    rows = out or stem.with_name(f"{stem.name}-generated.csv")
    if rows.suffix.lower() not in _FORMATS:
        raise InputError(f"--out: {rows}: the file's name must end in {' or '.join(_FORMATS)}")
    found = _Files(rows, page or rows.with_suffix(".html"), rows.with_suffix(".checkpoint"))
    named = [path.absolute() for path in (found.rows, found.page, found.checkpoint, save) if path]
    if len(set(named)) < len(named):
        raise InputError("--out, --report and --save must be different files")
    return found


def _check_free(paths: Sequence[Path], table: Path | None, *, force: bool) -> None:
    """Before anything is learned: every file can be written, and none is replaced that should stay."""
    for path in paths:
        if not path.parent.is_dir():
            raise InputError(f"{path}: there is no such folder")
        if table is not None and path.absolute() == table.absolute():
            raise InputError(f"{path}: this is the table itself")
        if path.exists() and (path.is_dir() or not force):
            raise InputError(f"{path} exists; name another file, or replace it with --force")


def _to_learn(table: Table, held_out: float) -> Learned:
    training, others = split(table, held_out)
    check_learnable(training)
    return Learned(training, others if others.frame.height else None)


def _same_columns(fitted: Fitted, table: Table) -> Table:
    """The table with the columns that a model has learned."""
    for column in fitted.columns:
        check_kind(column.name, column.kind, table)
    kinds = {column.name: column.kind for column in fitted.columns}
    return replace(table, kinds=kinds, frame=table.frame.select(*kinds))


def _fit(
    settings: CompleterSettings,
    training: Table,
    rng: np.random.Generator,
    checkpoint: Path,
    *,
    silent: bool,
) -> Fitted:
    if not isinstance(settings, GeneratorSettings):
        return fit_generator(settings, training, rng)
    console = Console(stderr=True, soft_wrap=True)
    try:
        with stoppable(console) as stop, training_bar(console, settings.completer, silent) as show:

            def watch(progress: Any) -> None:
                show(progress)
                stop()

            return fit_generator(settings, training, rng, watch, checkpoint)
    except Interrupted as interrupted:
        if checkpoint.exists():
            typer.echo(f"{interrupted}: the same command goes on from {checkpoint}", err=True)
        raise typer.Exit(interrupted.code) from None


def _about(fitted: Fitted, source: _Source, rows: Path) -> Generation:
    settings = fitted.settings
    shown = {name: str(getattr(settings, name)) for name in type(settings).model_fields if name != "completer"}
    if isinstance(settings, GeneratorSettings):
        shown |= {name: f"{value:g}" for name, value in asdict(settings.schedule).items()}
    return Generation(source.table.origin, settings.completer, shown, rows.name, source.left_out, source.notes)


def _said(
    fitted: Fitted, drawn: Table, source: _Source | None, found: GeneratedRows | None, where: _Files
) -> list[str]:
    size = f"{many(drawn.frame.height, 'row')}, {many(len(drawn.kinds), 'column')}"
    said = [f"rows: {where.rows}: {size}, by {fitted.settings.completer}"]
    if source and source.left_out:
        said.append(f"left out as ids: {listed(source.left_out)}")
    said += [f"warning: {note}" for note in (source.notes if source else ())]
    if found is None:
        why = "the model has learned from other rows" if source else "no table to compare them with"
        return [*said, f"no page: {why}", f"{NOT_ANONYMOUS}."]
    for name, (distance, floor) in found.means.items():
        beside = "" if floor is None else f" (held-out rows: {figure(floor)})"
        said.append(f"{_SHORT[name]}: {figure(distance)} from the rows learned from{beside}")
    said += [f"nearest records: {sentence}" for sentence in nearest_words(found)]
    if memorised(found):
        said.append("warning: the model has memorised some of the rows that it learned from")
    return [
        *said,
        f"{NOT_ANONYMOUS}: read 'Nearest records' on the page before you pass them on.",
        f"report: {where.page}",
    ]


def _as_json(
    fitted: Fitted, drawn: Table, source: _Source | None, found: GeneratedRows | None, where: _Files
) -> dict[str, Any]:
    told: dict[str, Any] = {
        "out": str(where.rows),
        "model": fitted.settings.completer,
        "rows": drawn.frame.height,
        "columns": list(drawn.kinds),
        "left_out": list(source.left_out) if source else [],
        "warnings": list(source.notes) if source else [],
        "report": None,
    }
    if found is None:
        return told
    return told | {
        "report": str(where.page),
        "training": found.training,
        "held_out": found.held_out,
        "distances": {name: {"generated": one, "held_out": two} for name, (one, two) in found.means.items()},
        "nearest": None if found.nearest is None else asdict(found.nearest),
        "copies": found.copies,
        "held_out_copies": found.held_out_copies,
        "memorised": memorised(found),
    }

"""One party of a job from Python, over the network, with a data frame in place of its table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unpooled.data.columns import Kind
from unpooled.errors import InputError, UnpooledError, resumable
from unpooled.frames.inputs import as_files, framed
from unpooled.frames.kept import kept_in
from unpooled.frames.models import ModelPart
from unpooled.frames.outcome import PartyOutcome
from unpooled.jobs.checks import checked
from unpooled.jobs.files import load_plan, load_private
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.ledger import read_ledger
from unpooled.report.page import write_report
from unpooled.run import folder as run_folder
from unpooled.run import join as network
from unpooled.run.progress import Watcher
from unpooled.run.simulate import tables_of
from unpooled.tracking.mlflow_store import log_run


def join(
    plan: Plan | str | Path,
    party: str,
    private: Private | str | Path,
    frame: Any = None,
    *,
    id: str | Sequence[str] | None = None,
    types: Mapping[str, Kind] | None = None,
    hashed: bool | None = None,
    handles: Any = None,
    book: str | None = None,
    model: ModelPart | None = None,
    earlier: PartyOutcome | None = None,
    exclude: Any = None,
    folder: str | Path | None = None,
    resume: bool = False,
    watcher: Watcher | None = None,
) -> PartyOutcome:
    """Take part in a job as one party, over the network, and hand back what this party has at the end.

    A `frame` (polars or pandas) takes the place of the source in `[table]`; `id`, `types`, `hashed`, `handles` and
    `book` are as there, and what the private settings say of them holds if they are not given. `model`, `earlier` and
    `exclude` are as for a `Member`. The run is kept in `folder` (runs/KIND-PARTY-DATE-TIME), as by the command. An
    interrupted one goes on with `resume`, its `folder` and the same frame. `watcher` is told of progress.
    """
    if resume and folder is None:
        raise InputError(f"{party}: resume: name the folder of the run that goes on")
    agreed = plan if isinstance(plan, Plan) else load_plan(Path(plan))
    own = private if isinstance(private, Private) else load_private(Path(private))
    table = {"id": id, "types": types, "hashed": hashed, "handles": handles, "book": book}
    if frame is not None:
        own = own.model_copy(update={"table": framed(party, own.table, frame, **table)})
    with as_files(party, own, model=model, earlier=earlier, exclude=exclude) as settings:
        job = checked(agreed, party, settings)
        home = Path(folder) if folder is not None else run_folder.new_folder(f"{agreed.kind}-{party}")
        if resume:
            run_folder.plan_in(home)  # refuses a folder that is not of a run
        else:
            run_folder.create(home)
            if not isinstance(private, Private):
                run_folder.keep_private(home, Path(private))
        try:
            result = network.join(job, home, watcher, resume=resume)
        except BaseException as error:
            again = "; once the cause is gone, go on with this folder and resume=True" if resumable(error) else ""
            error.add_note(f"the files of this run are in {home}{again}")
            raise
        write_report(home)
        if settings.tracking.mlflow is not None:
            try:
                log_run(home, settings.tracking)
            except UnpooledError as error:  # the run has finished all the same
                warnings.warn(f"{error}; log_run({str(home)!r}, …) logs it later", stacklevel=2)
        return PartyOutcome(
            party,
            agreed,
            result,
            read_ledger(home / run_folder.LEDGER),
            tables_of(job, home),
            kept_in(home, party, copied=False),
        )

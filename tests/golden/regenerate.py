"""Write the golden files anew: .venv/bin/python tests/golden/regenerate.py

Only where a format is meant to change; `docs/formats.md` says what may change, and which number is raised then.
"""

import json
import re
import runpy
import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl

from unpooled.align.opening import Opening
from unpooled.align.ring import CommonRows
from unpooled.arrays import Bools, Bytes, Floats, Ints, Ints32, Ring
from unpooled.budget.book import Book
from unpooled.budget.limits import OverRuns
from unpooled.budget.places import Places
from unpooled.budget.spending import About, begin_spending
from unpooled.checkpoint import Notebook, open_checkpoint
from unpooled.complete import screening
from unpooled.complete.screening import Screening, Strength
from unpooled.control import Abort, Goodbye, PlanOffer
from unpooled.data.sources import TableSettings
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.ledger import Ledger
from unpooled.run.simulate import simulate_job
from unpooled.secure.mod64 import to_bytes
from unpooled.secure.shares.opening import Hidden
from unpooled.serve.messages import ExchangeHello
from unpooled.wire import disclosure_of, encode, kind_of, message

FOLDER = Path(__file__).parent
BOOK = FOLDER / "book.jsonl"
FRAMES, LEDGER, CHECKPOINT, MODELS = (FOLDER / name for name in ("frames.json", "ledger.jsonl", "checkpoint", "models"))
SCREENING = FOLDER / "screening.json"
SCOPE = "fit/tree 3"
PARTY, PLAN = "bank", "0" * 64
ABOUT = {"plan": PLAN, "data": "1" * 64}

TREES = {"trees": 2, "depth": 2}
LEARNERS = {
    "gbdt": TREES,
    "xgb": TREES,
    "lgb": TREES,
    "rf": TREES,
    "linear": {"epochs": 2, "insecure_batch": True, "reveal": "gradients"},
}
ROLES = {"bank": "active", "telco": "passive", "coordinator": "coordinator"}
OWNERS = ("bank", "telco")
NAME = f'"name":"{0:032}"'
"""In place of a model's random name, so that nothing but the format changes the files."""


@message(discloses="nothing: it has a field of every type")
class Everything:
    __module__ = "golden"

    yes: bool
    number: int
    real: float
    text: str
    raw: bytes
    there: float | None
    absent: int | None
    numbers: tuple[int, ...]
    gaps: tuple[int | None, ...]
    words: tuple[tuple[str, ...], ...]
    ring: Ring
    ints: Ints
    ints32: Ints32
    floats: Floats
    mask: Bools
    octets: Bytes
    array_absent: Floats | None
    arrays: tuple[Floats, ...]


def messages() -> dict[str, object]:
    """A message of every type of field, and some of the package's own."""
    everything = Everything(
        yes=True,
        number=-(3**50),
        real=0.1,
        text="naïve",
        raw=b"\0\xff",
        there=-1.5,
        absent=None,
        numbers=(0, 7**30, -1),
        gaps=(None, 5),
        words=(("a", ""), ()),
        ring=np.array([[0, 2**64 - 1], [1, 2]], np.uint64),
        ints=np.arange(3),
        ints32=np.zeros((2, 0), np.int32),
        floats=np.array(0.5),
        mask=np.array([True, False]),
        octets=np.arange(5, dtype=np.uint8),
        array_absent=None,
        arrays=(np.ones(2), np.zeros((1, 1))),
    )
    own = [
        Abort("telco", "it failed"),
        Goodbye(),
        PlanOffer(1, ("kind", "engine"), (b"12345678", b"abcdefgh")),
        Opening(b"n" * 32, 1000, 2, 30),
        CommonRows(b"e" * 32, b"s" * 32, np.array([3, 0, 2])),
        ExchangeHello(1, "0" * 32, "", 3, "f" * 64, 2),
        Hidden((b"t" * 16,), (to_bytes(np.array([[1, 2**39]], np.uint64), 5),)),
    ]
    return {type(made).__name__: made for made in (everything, *own)}


def frames() -> dict[str, str]:
    """The messages as they travel, in hexadecimal digits."""
    return {name: encode(made, SCOPE).joined().hex() for name, made in messages().items()}


def write_ledger(path: Path) -> None:
    """A ledger of a run that was interrupted once; its clock ticks a second for each line."""
    with mock.patch("time.time", side_effect=map(float, count(1_700_000_000))):
        for resume in (False, True):
            with Ledger(path, PARTY, PLAN, resume=resume) as ledger:
                for way, kind in (("sent", Opening), ("received", CommonRows)):
                    ledger.record(way, "telco", kind_of(kind), "common/größe", 107, disclosure_of(kind))


def write_book(folder: Path) -> Book:
    """The book of a table, with a run that was killed; its clock ticks too, and its key is no secret."""
    book = Book("customers", Places(folder / "books", folder / "anchors"))
    about = About(PARTY, "train", PLAN, {"telco": "passive"})
    clock = mock.patch("time.time", side_effect=map(float, count(1_700_000_000)))
    draws = mock.patch.multiple("secrets", token_bytes=bytes, token_hex="07".__mul__)
    with clock, draws:
        spending = begin_spending(folder, book, OverRuns(), about, resume=False)
        spending.opened("pair", {PARTY: 50, "telco": 70})
        spending.found(["telco"], pl.DataFrame({"id": ["Ada", "Zoë"]}), "digest")
        spending.show_gradients(["telco"], "digest", "cut")
        spending.count("bits_per_row", 0.1, None)
    return book


def arrays() -> Iterator[dict[str, np.ndarray]]:
    """What the pages of a checkpoint hold."""
    for number in range(2):
        yield {"numbers": np.arange(number + 2), "text": np.frombuffer(b"{}", np.uint8), "scores": np.ones((2, 1)) / 3}


def write_checkpoint(folder: Path) -> None:
    """A checkpoint of two pages."""
    notebook = Notebook(open_checkpoint(folder, PARTY, ABOUT, resume=False) / "book")
    for page in arrays():
        notebook.write(**page)


def screened() -> Screening:
    """A list of two columns."""
    strong = Strength(column="größe", strength=0.625, significant=True)
    return Screening(measure="max", rows=130, columns=(strong, Strength(column="ward", strength=1 / 3)))


def write_tables(folder: Path, rows: int = 120) -> None:
    """Two parties' tables of the same people."""
    rng = np.random.default_rng(1)
    calls, age = rng.integers(0, 100, rows), rng.integers(18, 90, rows)
    buys = np.where(calls / 100 + age / 90 + rng.random(rows) > 1.5, "yes", "no")
    bank = [f"{i:03},{a},{b}" for i, (a, b) in enumerate(zip(age, buys, strict=True))]
    telco = [f"{i:03},{c},{'plus' if c % 3 else 'basic'}" for i, c in enumerate(calls)]
    (folder / "bank.csv").write_text("\n".join(["id,age,buys", *bank]) + "\n")
    (folder / "telco.csv").write_text("\n".join(["id,calls,tariff", *telco]) + "\n")


def run_job(kind: str, learner: str, folder: Path) -> Path:
    """Train, or predict with the golden model; the bank's predictions."""
    model = {"learner": learner, **LEARNERS[learner]}
    parameters = {"train": {"model": model}, "predict": {}}[kind]
    parties = {party: {"role": role} for party, role in ROLES.items()}
    plan = Plan.model_validate({"kind": kind, "engine": "plain", "parties": parties, "parameters": parameters})
    privates = {
        party: Private(
            seed=number,
            table=TableSettings(path=MODELS / f"{party}.csv", id="id"),
            target="buys" if party == "bank" else None,
            model=MODELS / learner / party if kind == "predict" else None,
        )
        for number, party in enumerate(OWNERS)
    }
    simulate_job(plan, privates, folder=folder)
    return folder / "bank" / "predictions.csv"


def write_models() -> None:
    """A model of each learner, each party's part, and what it predicts."""
    shutil.rmtree(MODELS, ignore_errors=True)
    MODELS.mkdir()
    write_tables(MODELS)
    for learner in LEARNERS:
        with tempfile.TemporaryDirectory() as temporary:
            run_job("train", learner, Path(temporary) / "train")
            for party in OWNERS:
                (MODELS / learner / party).mkdir(parents=True)
                for name in ("model.json", "preparation.json"):
                    content = (Path(temporary) / "train" / party / name).read_text()
                    (MODELS / learner / party / name).write_text(re.sub('"name":"[0-9a-f]{32}"', NAME, content))
            predictions = run_job("predict", learner, Path(temporary) / "predict")
            (MODELS / learner / "predictions.csv").write_text(by_id(predictions))


def by_id(predictions: Path) -> str:
    """Predictions in the order of ids: that of rows is random."""
    heading, *lines = predictions.read_text().splitlines()
    return "\n".join([heading, *sorted(lines)]) + "\n"


def main() -> None:
    FRAMES.write_text(json.dumps(frames(), indent=1) + "\n")
    LEDGER.unlink(missing_ok=True)
    write_ledger(LEDGER)
    LEDGER.chmod(0o644)
    with tempfile.TemporaryDirectory() as temporary:
        BOOK.write_bytes(write_book(Path(temporary)).path.read_bytes())
    write_checkpoint(CHECKPOINT)
    write_models()
    screening.save(screened(), SCREENING)
    SCREENING.chmod(0o644)
    runpy.run_path(str(FOLDER / "protocol_shape.py"), run_name="__main__")


if __name__ == "__main__":
    main()

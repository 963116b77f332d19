"""Files and frames of today's formats are read, and written as they were; `regenerate.py` makes them anew."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import regenerate as golden
from unpooled.budget.accounts import WithPeer, account_of
from unpooled.checkpoint import Notebook, open_checkpoint
from unpooled.complete import screening
from unpooled.jobs.learning.model_files import load, load_preparation, save
from unpooled.jobs.private import Private
from unpooled.ledger import Ledger, read_ledger
from unpooled.wire import encode, kind_of, read_body, read_header


def test_messages_are_written_to_the_same_bytes() -> None:
    assert golden.frames() == json.loads(golden.FRAMES.read_text())


def test_frames_are_read() -> None:
    for name, digits in json.loads(golden.FRAMES.read_text()).items():
        original = golden.messages()[name]
        data = bytes.fromhex(digits)
        header = read_header(data)
        assert (header.kind, header.scope) == (kind_of(type(original)), golden.SCOPE)
        found = read_body(header, type(original))
        assert encode(found, golden.SCOPE).joined() == data, name
        for field, value in vars(original).items():
            np.testing.assert_equal(getattr(found, field), value, f"{name}.{field}")


def test_a_ledger_is_written_to_the_same_bytes(tmp_path: Path) -> None:
    golden.write_ledger(tmp_path / "ledger.jsonl")
    assert (tmp_path / "ledger.jsonl").read_bytes() == golden.LEDGER.read_bytes()


def test_a_book_is_written_to_the_same_bytes_and_adds_up(tmp_path: Path) -> None:
    book = golden.write_book(tmp_path)
    assert book.path.read_bytes() == golden.BOOK.read_bytes()
    account = account_of(book.read())
    assert (account.peers["telco"], account.amount("bits_per_row")) == (WithPeer(alignments=1, ids=70, fits=1), 0.2)


def test_a_ledger_is_read_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(golden.LEDGER.read_bytes())
    record = read_ledger(path)
    assert (record.party, record.plan, record.resumed, record.closed) == (golden.PARTY, golden.PLAN, (2,), True)
    assert [(e.way, e.peer, e.scope, e.bytes) for e in record.entries] == [
        ("sent", "telco", "common/größe", 107),
        ("received", "telco", "common/größe", 107),
    ] * 2
    Ledger(path, golden.PARTY, golden.PLAN, resume=True).close()
    assert read_ledger(path).resumed == (2, 4)


def test_a_checkpoint_is_read_and_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    (folder / "book").mkdir(parents=True)
    for path in ("header.json", "book/page-00000.npz", "book/page-00001.npz"):
        (folder / path).write_bytes((golden.CHECKPOINT / path).read_bytes())
    assert open_checkpoint(folder, golden.PARTY, golden.ABOUT, resume=True) == folder
    book = Notebook(folder / "book")
    assert len(book) == 2
    for page, wanted in zip(book.pages(), golden.arrays(), strict=True):
        assert page.keys() == wanted.keys()
        for name, values in wanted.items():
            assert page[name].dtype == values.dtype, name
            np.testing.assert_array_equal(page[name], values)


def test_a_checkpoint_has_the_same_header_and_pages(tmp_path: Path) -> None:
    """The header to the byte; of a page its names and files: how it is zipped is numpy's business."""
    golden.write_checkpoint(tmp_path / "checkpoint")
    written = {path.relative_to(tmp_path / "checkpoint") for path in (tmp_path / "checkpoint").rglob("*.*")}
    assert written == {path.relative_to(golden.CHECKPOINT) for path in golden.CHECKPOINT.rglob("*.*")}
    header = (tmp_path / "checkpoint" / "header.json").read_bytes()
    assert header == (golden.CHECKPOINT / "header.json").read_bytes()


@pytest.mark.parametrize("learner", golden.LEARNERS)
def test_models_are_read_and_written_to_the_same_bytes(tmp_path: Path, learner: str) -> None:
    for party in golden.OWNERS:
        home = golden.MODELS / learner / party
        part, preparation = load(Private(model=home), party, active=party == golden.OWNERS[0])
        assert preparation == load_preparation(Private(model=home), party)
        (tmp_path / party).mkdir()
        save(part, preparation, tmp_path / party)
        for name in ("model.json", "preparation.json"):
            assert (tmp_path / party / name).read_bytes() == (home / name).read_bytes(), name


@pytest.mark.parametrize("learner", golden.LEARNERS)
def test_models_of_earlier_versions_are_read_and_written_to_the_same_bytes(tmp_path: Path, learner: str) -> None:
    """Under the same number they lack fields that were added later: `cover` of trees, `means` of linear models."""
    for party in golden.OWNERS:
        home = golden.MODELS / learner / party
        now = (home / "model.json").read_text()
        text = re.sub(r',"(cover|means)":\[[^]]*\]', "", now)
        assert text != now or (learner != "linear" and party != golden.OWNERS[0])
        (tmp_path / party).mkdir()
        (tmp_path / party / "model.json").write_text(text)
        (tmp_path / party / "preparation.json").write_bytes((home / "preparation.json").read_bytes())
        earlier = Private(model=tmp_path / party)
        save(*load(earlier, party, active=party == golden.OWNERS[0]), tmp_path / party)
        assert (tmp_path / party / "model.json").read_text() == text


@pytest.mark.parametrize("learner", golden.LEARNERS)
def test_models_predict_what_they_predicted(tmp_path: Path, learner: str) -> None:
    found = golden.by_id(golden.run_job("predict", learner, tmp_path / "run"))
    assert found == (golden.MODELS / learner / "predictions.csv").read_text()


def test_a_list_of_a_screening_is_read_and_written_to_the_same_bytes(tmp_path: Path) -> None:
    assert screening.load(golden.SCREENING) == golden.screened()
    screening.save(golden.screened(), tmp_path / "screening.json")
    assert (tmp_path / "screening.json").read_bytes() == golden.SCREENING.read_bytes()

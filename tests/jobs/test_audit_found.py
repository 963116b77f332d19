"""Whatever a party put in that is not what it committed to and what the learner prescribes is found by an audit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unpooled.errors import InputError
from unpooled.jobs.work import WORKING
from unpooled.pu.bags import is_bag
from unpooled.run import audit, audit_files
from unpooled.run.folder import purge
from unpooled.secure.evidence import SECRETS, Evidence
from unpooled.vertical.trees import boosting, ensemble
from unpooled.vertical.trees.audit.trail import leaves_in, page_of
from unpooled.vertical.trees.grower import passive

TWO = ("telco", "bank", "coordinator")
NO_GRADIENTS = "what was sent are not the gradients that follow from the labels, or it was opened wrongly"
NO_COLUMNS = "what was sent are not the columns that were committed to, or it was opened wrongly"
NOT_COMMITTED = "the opened inputs are not those that the party committed to"
MISPLACED = "the leaves that were opened have other rows in a node than were told when the tree grew"


@pytest.fixture
def run(learning: Any) -> Callable[..., Path]:
    """A small run, in which a party may deviate."""

    def made(**settings: Any) -> Path:
        learning.run(learning.plan(parties=TWO, model={"trees": 2, "depth": 2, "min_rows": 5} | settings))
        folder: Path = learning.root / "run"
        return folder

    return made


def problems(run: Path, checker: str = "telco", opener: str = "bank") -> set[str]:
    """What is wrong with any product."""
    return set(audit.trial(run / checker, run / opener, None).wrong.values())


def changed(request: audit_files.Request, **fields: Any) -> audit_files.Request:
    return request.model_copy(update=fields)


def shelf(run: Path, party: str = "bank") -> Path:
    return run / party / WORKING / SECRETS


def edit_lines(path: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Change the first line that can be changed."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    next(line for line in lines if edit(line))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def edit_page(path: Path, edit: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    with np.load(path) as page:
        changed = edit(dict(page))
    np.savez(path, **changed)


# while the run goes on


def powers_of_two(values: Any, bits: int, *_: Any) -> Any:
    """Gradients whose sums tell which rows are in a bin."""
    y = np.ones(values.shape, np.int64)
    y[:bits, 0] = 2 ** np.arange(bits)
    return y, [0] * values.shape[1]


def test_powers_of_two_as_gradients(run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(boosting, "to_short_integers", powers_of_two)
        folder = run()
    verdict = audit.trial(folder / "telco", folder / "bank", None)
    assert len(verdict.wrong) == verdict.of > 2
    assert set(verdict.wrong.values()) == {NO_GRADIENTS}
    assert len(audit.trial(folder / "telco", folder / "bank", 1).wrong) == 1


def test_a_label_that_was_changed(run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The labels that are learned from are not those that were committed to."""

    def other_label(targets: Any) -> Any:
        inputs = honest(targets)
        row = np.flatnonzero(inputs["weights"][0])[0]
        inputs["values"][0, row] = 1 - inputs["values"][0, row]
        return inputs

    honest = ensemble.inputs_of
    monkeypatch.setattr(ensemble, "inputs_of", other_label)
    assert problems(run()) == {NO_GRADIENTS}


@pytest.mark.parametrize("settings", [{}, {"hide_nodes": True}], ids=str)
def test_other_columns_than_were_committed_to(
    run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    def others(own: Any) -> Any:
        kept = honest(own)
        return kept | {"columns": np.roll(kept["columns"], 1, axis=0)}

    honest = passive.columns_kept
    monkeypatch.setattr(passive, "columns_kept", others)
    folder = run(**settings)
    assert problems(folder, "bank", "telco") == {NO_COLUMNS}
    assert problems(folder) == set()


# afterwards


def test_another_label_than_was_committed_to(run: Callable[..., Path]) -> None:
    folder = run()
    (page,) = shelf(folder).glob("targets-*.npz")
    edit_page(page, lambda inputs: inputs | {"values": 1 - inputs["values"]})
    assert problems(folder) == {NOT_COMMITTED}


def test_leaves_that_are_not_those_of_the_nodes(run: Callable[..., Path]) -> None:
    folder = run()

    def mixed(page: dict[str, Any]) -> dict[str, Any]:
        return page_of([replace(tree, where=tree.where[::-1]) for tree in leaves_in(page)])

    edit_page(shelf(folder) / "leaves-0-1.npz", mixed)
    assert problems(folder) == {MISPLACED}


@pytest.mark.parametrize("settings", [{}, {"hide_nodes": True}], ids=str)
def test_a_wrong_seed(run: Callable[..., Path], settings: dict[str, Any]) -> None:
    folder = run(**settings)
    edit_lines(shelf(folder) / "openings.jsonl", lambda line: "seed" in line and not line.update(seed="00" * 32))
    verdict = audit.trial(folder / "telco", folder / "bank", None)
    assert list(verdict.wrong.values()) == [NO_GRADIENTS]
    edit_lines(shelf(folder, "telco") / "openings.jsonl", lambda line: "seed" in line and not line.update(seed="ab"))
    assert len(problems(folder, "bank", "telco")) == 1


def test_evidence_that_was_edited(run: Callable[..., Path]) -> None:
    folder = run()
    evidence = folder / "telco" / "audit.jsonl"
    edit_lines(evidence, lambda line: "sha256" in line and not line.update(sha256="00" * 32))
    assert list(audit.trial(folder / "telco", folder / "bank", None).wrong.values()) == [NO_GRADIENTS]
    edit_lines(evidence, lambda line: "commitment" in line and not line.update(commitment="00" * 32))
    assert problems(folder) == {NOT_COMMITTED}
    evidence.write_text("{}\nbroken\n")
    with pytest.raises(InputError, match=r"audit\.jsonl line 2: "):
        problems(folder)


# questions and answers that cannot be


def test_products_that_never_were(run: Callable[..., Path]) -> None:
    folder = run()
    request = audit.ask(folder / "telco", "bank", 1)
    with pytest.raises(InputError, match=r"bank .*telco.* y-00"):
        audit.answer(folder / "bank", changed(request, products=("y-00", *request.products)))
    with pytest.raises(InputError, match="telco"):
        audit.answer(folder / "telco", request)
    with pytest.raises(InputError, match=r"bank.*plan"):
        audit.answer(folder / "bank", changed(request, plan="00"))
    with pytest.raises(InputError, match="coordinator"):
        audit.ask(folder / "telco", "coordinator", 1)


def test_an_answer_to_another_question(run: Callable[..., Path]) -> None:
    folder = run()
    request = audit.ask(folder / "telco", "bank", 1)
    other = changed(request, products=request.products * 2)
    with pytest.raises(InputError, match="request"):
        audit.check(folder / "telco", other, audit.answer(folder / "bank", request))
    answered = audit.answer(folder / "bank", request)
    verdict = audit.check(folder / "telco", request, replace(answered, openings={}))
    (wrong,) = verdict.wrong.values()
    assert "not opened" in wrong
    assert len(audit.check(folder / "telco", request, replace(answered, salts=())).wrong) == 1
    fewer = {name: page for name, page in answered.pages.items() if not name.startswith("leaves")}
    assert len(audit.check(folder / "telco", request, replace(answered, pages=fewer)).wrong) == 1


@pytest.mark.parametrize(("checker", "opener"), [("telco", "bank"), ("bank", "telco")])
def test_numbers_that_make_no_sense(run: Callable[..., Path], checker: str, opener: str) -> None:
    """They are deviations, or change nothing that matters; the audit goes on."""
    folder = run()
    request = audit.ask(folder / checker, opener, None)
    answered = audit.answer(folder / opener, request)
    for page, name in [(page, name) for page, arrays in answered.pages.items() for name in arrays]:
        values = answered.pages[page][name]
        for other in (
            values[:0],
            values[:-1],
            np.concatenate([values, values]),
            values.astype(str),
            np.full(values.shape, 2**62),
        ):
            pages = answered.pages | {page: answered.pages[page] | {name: other}}
            verdict = audit.check(folder / checker, request, replace(answered, pages=pages))
            assert verdict.wrong or page.startswith("leaves")


def test_files_that_are_none(run: Callable[..., Path], tmp_path: Path) -> None:
    for content in (b"", b"[]", b"{}", b'{"audit": 1, "plan": "a", "checker": "b", "opener": "c", "products": [1]}'):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(InputError, match="file: "):
            audit_files.read_request(tmp_path / "file")
        with pytest.raises(InputError, match="file: "):
            audit_files.read_answer(tmp_path / "file")
    with (tmp_path / "file").open("wb") as file:
        np.savez(file, audit=np.array([object()]))
    with pytest.raises(InputError, match=r"file: .*answer"):
        audit_files.read_answer(tmp_path / "file")


def test_what_was_purged_cannot_be_opened(run: Callable[..., Path]) -> None:
    folder = run()
    purge(folder)
    request = audit.ask(folder / "telco", "bank", 1)
    with pytest.raises(InputError, match=r"openings\.jsonl: "):
        audit.answer(folder / "bank", request)


def test_where_nothing_can_be_kept_the_error_names_the_file(tmp_path: Path) -> None:
    evidence = Evidence(tmp_path / "audit.jsonl", tmp_path / "secrets")
    (tmp_path / "audit.jsonl").mkdir()
    with pytest.raises(InputError, match=r"audit\.jsonl: .*Is a directory"):
        evidence.keep_asked("bank", {})


# bags


def test_weights_that_are_not_those_of_a_bag() -> None:
    labels = np.array([1.0, 1.0, 0.0, 0.0, 0.0])
    for weights in ([1, 1, 2, 0, 0], [1, 1, 1, 1, 1], [1.5, 1.5, 1, 1, 1], [1, 0, 1, 1, 1]):
        assert is_bag(labels, np.array(weights, float))
    for weights in ([1, 2, 1, 1, 1], [1, 1, 4, 2, 1], [1, 1, 0.5, 1, 0.5], [0, 0, 1, 1, 1]):
        assert not is_bag(labels, np.array(weights, float))
    assert not is_bag(np.array([1, 2.0]), np.ones(2))

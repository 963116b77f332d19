"""Plans and private settings as files: a round trip through TOML, and what is refused with file and key named."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from unpooled.complete.completers.completer import Completer
from unpooled.complete.completers.completers import COMPLETERS
from unpooled.errors import PlanError
from unpooled.jobs.files import load_job, load_plan, load_private, write_toml
from unpooled.jobs.kinds import parameters_of
from unpooled.jobs.plan import Plan, digest_of, fields_of
from unpooled.jobs.private import Private

PLAN: dict[str, Any] = {
    "kind": "check",
    "parties": {"bank": {"role": "active"}, "telco": {"role": "passive"}, "helper": {"role": "coordinator"}},
}
PRIVATE: dict[str, Any] = {
    "bank": {"table": {"path": "bank.csv", "id": "id"}},
    "telco": {"table": {"path": "telco.csv", "id": "id"}, "seed": 7},
    "helper": {},
}


def write(folder: Path, name: str, content: dict[str, Any]) -> Path:
    path = folder / name
    path.write_text(tomli_w.dumps(content), encoding="utf-8")
    return path


def digest(plan: Plan) -> str:
    return digest_of(fields_of(plan, parameters_of(plan)))


plans = st.fixed_dictionaries(
    {
        "kind": st.just("check"),
        "parties": st.just(PLAN["parties"])
        | st.just({"b": {"role": "active", "address": "[::1]:1"}, "a-1": {"role": "seeker"}}),
    },
    optional={
        "engine": st.sampled_from(["shares", "paillier", "plain"]),
        "key_bits": st.integers(2048, 8192),
        "insecure": st.booleans(),
        "timeout": st.floats(0.001, 86_400) | st.integers(1, 86_400),
        "parameters": st.fixed_dictionaries({}, optional={"megabytes": st.integers(1, 1000)}),
    },
)
# TOML has no lone surrogates, and no control characters besides those it escapes.
texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
names = st.lists(texts, unique=True, max_size=3)
privates = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.integers(0, 2**63 - 1),
        "certificates": st.sampled_from(["/certs", "/my certs/bänk"]),
        "listen": st.just("0.0.0.0:7433"),
        "table": st.fixed_dictionaries(
            {"id": texts.map(lambda text: f"id {text}"), "path": st.sampled_from(["/people.csv.gz", "/p.parquet"])},
            optional={
                "columns": names,
                "types": st.dictionaries(texts, st.sampled_from(["number", "date", ["low", "high"]]), max_size=2),
                "missing": names,
            },
        ),
        "prepare": st.fixed_dictionaries(
            {},
            optional={
                "missing": st.sampled_from(["impute", "drop", "keep"]),
                "standardise": st.booleans(),
                "limits": st.dictionaries(texts, st.sampled_from([[0, 1], [-1.5, float("inf")]]), max_size=2),
            },
        ),
        "policy": st.fixed_dictionaries(
            {}, optional={"never_send": names, "maximum_sent_megabytes": st.floats(0.1, 1e6)}
        ),
    },
)


@given(plans)
def test_a_plan_comes_back_from_its_file(content: dict[str, Any]) -> None:
    plan = Plan.model_validate(content)
    with tempfile.TemporaryDirectory() as folder:
        write_toml(Path(folder) / "plan.toml", plan)
        loaded = load_plan(Path(folder) / "plan.toml")
    assert loaded == plan
    assert digest(loaded) == digest(plan)


@given(privates)
def test_private_settings_come_back_from_their_file(content: dict[str, Any]) -> None:
    private = Private.model_validate(content)
    with tempfile.TemporaryDirectory() as folder:
        write_toml(Path(folder) / "bank.toml", private)
        assert load_private(Path(folder) / "bank.toml") == private


@given(privates, privates)
def test_private_settings_do_not_enter_the_digest(first: dict[str, Any], second: dict[str, Any]) -> None:
    table = {"table": {"path": "/t.csv", "id": "id"}}
    digests = []
    with tempfile.TemporaryDirectory() as folder:
        for own in (first, second):
            certificates = {"certificates": own["certificates"]} if "certificates" in own else {}
            job = PLAN | {"private": {"bank": table | own, "telco": table | certificates, "helper": certificates}}
            digests.append(digest(load_job(write(Path(folder), "job.toml", job)).plan))
    assert digests == [digest(Plan.model_validate(PLAN))] * 2


def test_a_job_holds_the_plan_and_every_partys_settings(tmp_path: Path) -> None:
    job = load_job(write(tmp_path, "job.toml", PLAN | {"private": PRIVATE}))
    assert job.plan == Plan.model_validate(PLAN)
    assert job.privates == {name: Private.model_validate(own).at(tmp_path) for name, own in PRIVATE.items()}


def test_relative_paths_are_taken_from_the_files_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    write(tmp_path / "here", "bank.toml", {"certificates": "../certs", "table": {"path": "bank.csv", "id": "id"}})
    monkeypatch.chdir(tmp_path)
    private = load_private(Path("here/bank.toml"))
    assert private.certificates == Path("here/../certs")
    assert private.table is not None
    assert private.table.path == Path("here/bank.csv")
    job = load_job(write(tmp_path / "here", "job.toml", PLAN | {"private": PRIVATE}))
    assert job.privates["bank"].table is not None
    assert job.privates["bank"].table.path == tmp_path / "here" / "bank.csv"


def test_a_private_file_can_be_kept_from_others(tmp_path: Path) -> None:
    write_toml(tmp_path / "bank.toml", Private(seed=1))
    assert stat.S_IMODE((tmp_path / "bank.toml").stat().st_mode) == 0o600


def test_a_shared_plan_with_private_sections_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "plan.toml", PLAN | {"private": PRIVATE})
    with pytest.raises(PlanError, match=r"plan\.toml: private: "):
        load_plan(path)


@pytest.mark.parametrize("load", [load_plan, load_private, load_job])
def test_files_that_cannot_be_read_are_named(load: Any, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"absent\.toml: "):
        load(tmp_path / "absent.toml")
    with pytest.raises(PlanError, match=rf"{tmp_path.name}: "):
        load(tmp_path)
    (tmp_path / "broken.toml").write_text("kind = check\n")
    with pytest.raises(PlanError, match=r"broken\.toml: .*TOML.*line 1"):
        load(tmp_path / "broken.toml")
    (tmp_path / "latin.toml").write_bytes(b'kind = "\xe4"\n')
    with pytest.raises(PlanError, match=r"latin\.toml: .*utf-8"):
        load(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"colour": 1}, "colour"),
        ({"kind": "none"}, "kind"),
        ({"parameters": {"depth": 1}}, "parameters.depth"),
        (
            {"parties": PLAN["parties"] | {"bank": {"role": "active", "adress": "x"}}},
            "parties.bank.adress",
        ),
        ({"private": "none"}, "private"),
        ({"private": {"shop": {}}}, "private.shop"),
        ({"private": PRIVATE | {"bank": 3}}, "private.bank"),
        ({"private": PRIVATE | {"bank": {"sede": 3}}}, "private.bank.sede"),
        ({"private": PRIVATE | {"bank": {"table": {"id": "i", "file": "x"}}}}, "private.bank.table.file"),
        ({"private": PRIVATE | {"bank": {"prepare": {"x": 3}}}}, "private.bank.prepare.x"),
        ({"private": PRIVATE | {"bank": {"policy": {"x": 3}}}}, "private.bank.policy.x"),
    ],
)
def test_faults_in_a_job_name_file_and_key(change: dict[str, Any], key: str, tmp_path: Path) -> None:
    path = write(tmp_path, "job.toml", PLAN | {"private": PRIVATE} | change)
    with pytest.raises(PlanError, match=f"^{path}: {key}\\b"):
        load_job(path)


def test_all_faults_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, "plan.toml", {"kind": 1, "engine": "x", "parties": {"bank": {"role": "x"}}})
    with pytest.raises(PlanError) as caught:
        load_plan(path)
    assert [line.split(": ")[:2] for line in str(caught.value).splitlines()] == [
        [str(path), key] for key in ("kind", "engine", "parties.bank.role")
    ]


def test_a_job_without_private_sections_is_sent_to_join(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"private: .*join"):
        load_job(write(tmp_path, "plan.toml", PLAN))


@pytest.mark.parametrize("key", ["kind", "engine", "key_bits", "timeout", "parameters", "parties"])
def test_a_value_in_a_wrong_place_of_a_plan_is_never_repeated(key: str, tmp_path: Path) -> None:
    path = write(tmp_path, "plan.toml", PLAN | {key: "hunter2"})
    with pytest.raises(PlanError) as caught:
        load_plan(path)
    assert f"{path}: {key}: " in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("completer", COMPLETERS, ids=lambda completer: completer.name)
def test_a_private_file_says_which_completer_it_has(completer: Completer, tmp_path: Path) -> None:
    section = {"completer": completer.name}
    private = Private.model_validate(
        {"generate": {"completer": section, "groups": [{"columns": ["lab"], "completer": section}]}}
    )
    write_toml(tmp_path / "clinic.toml", private)
    again = load_private(tmp_path / "clinic.toml")
    assert again == private
    assert [one.completer for one in (again.generate.completer, again.generate.groups[0].completer)] == [
        completer.name
    ] * 2

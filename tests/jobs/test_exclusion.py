"""People excluded by a party's own file: an owner's rows never take part, and a seeker's list is without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from unpooled.align.normalise import IdRules, comparable
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError, PlanError
from unpooled.jobs.checks import check_fits
from unpooled.jobs.exclusion import excluded_people, rows_left
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private

EXACT = IdRules()
PLAIN = {"engine": "plain"}


def written(path: Path, **columns: list[Any]) -> Path:
    pl.DataFrame(columns).write_csv(path)
    return path


def test_rows_left_keep_their_order(tmp_path: Path) -> None:
    table = table_from_frame(pl.DataFrame({"id": ["b", "a", "É", "d"], "x": range(4)}), "id", "bank")
    path = written(tmp_path / "out.csv", more=[1, 2, 3], id=["a", " a ", "É"])
    assert rows_left(table, path, EXACT, hashed=False).tolist() == [0, 3]
    assert rows_left(table, None, EXACT, hashed=False).tolist() == [0, 1, 2, 3]
    path = written(tmp_path / "out.csv", id=["A", "é", "B"])
    assert rows_left(table, path, EXACT, hashed=False).tolist() == [0, 1, 2, 3]
    rules = IdRules.model_validate({"normalise": "case"})
    assert rows_left(table, path, rules, hashed=False).tolist() == [3]


def test_a_list_of_hashes_is_compared_with_ids_and_with_hashes(tmp_path: Path) -> None:
    rules = IdRules.model_validate({"normalise": "case", "hash": "sha256", "salt": "s"})
    plain = table_from_frame(pl.DataFrame({"id": ["ann", "bob", "cid"]}), "id", "shop")
    hashes = comparable(plain, rules)["id"].to_list()
    table = Table("shop", "the list", ("id",), {}, pl.DataFrame({"id": hashes}), hashed=True)
    assert rows_left(table, written(tmp_path / "out.csv", id=["Bob"]), rules, hashed=False).tolist() == [0, 2]
    assert rows_left(table, written(tmp_path / "out.csv", id=hashes[:1]), rules, hashed=True).tolist() == [1, 2]


def test_ids_of_several_columns_are_compared_as_a_whole(tmp_path: Path) -> None:
    table = table_from_frame(pl.DataFrame({"a": ["1", "1"], "b": ["2", "3"]}), ("a", "b"), "bank")
    path = written(tmp_path / "out.csv", b=["3", "1"], a=["1", "2"])
    assert rows_left(table, path, EXACT, hashed=False).tolist() == [0]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("customer\n1\n", "column 'id'"),
        ("id,name\n1,x\n,y\n", "column 'id': row 2"),
        ('id\n"1\n', ""),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: str, fault: str) -> None:
    path = tmp_path / "out.csv"
    path.write_text(content)
    table = table_from_frame(pl.DataFrame({"id": ["1"]}), "id", "bank")
    with pytest.raises(InputError, match=f"bank: .*out.csv: {fault}"):
        rows_left(table, path, EXACT, hashed=False)


def test_the_dry_run_looks_at_it(tmp_path: Path) -> None:
    assert excluded_people(written(tmp_path / "out.csv", id=["1"]), ("id",), "bank", EXACT, hashed=False) == {("1",)}
    for path in (tmp_path / "absent.csv", tmp_path / "out.txt", written(tmp_path / "other.csv", person=["1"])):
        with pytest.raises(InputError, match=rf"bank: .*{path.name}"):
            excluded_people(path, ("id",), "bank", EXACT, hashed=False)


def test_an_owners_people_never_take_part(seeking: Any, tmp_path: Path) -> None:
    plan = seeking.plan(top=20, **PLAIN)
    before = seeking.run(plan, "before").results["bank"]
    first = seeking.reliable("before")["id"].head(2).to_list()
    path = written(tmp_path / "out.csv", id=first)
    results = seeking.run(plan, telco={"exclude": path}).results
    assert results["telco"]["excluded_rows"] == 2
    assert results["bank"]["common"] == before["common"] - 2
    assert "excluded_rows" not in results["bank"]
    aligned = pl.read_csv(seeking.root / "run" / "bank" / "aligned.csv")["id"]
    assert not set(aligned) & set(first)


def test_a_seekers_list_is_without_them(seeking: Any, tmp_path: Path) -> None:
    plan = seeking.plan(top=20, **PLAIN)
    seeking.run(plan, "before")
    before = seeking.reliable("before")
    path = written(tmp_path / "out.csv", id=before["id"].gather([0, 5]).to_list())
    results = seeking.run(plan, shop={"exclude": path}).results
    found = seeking.reliable()
    assert found["id"].to_list() == before["id"].gather([*range(1, 5), *range(6, 20)]).to_list()
    assert found["rank"].to_list() == list(range(1, 19))
    assert (results["shop"]["excluded"], results["shop"]["listed"], results["bank"]["listed"]) == (2, 18, 20)


def test_a_coordinator_has_none() -> None:
    parties = {"telco": {"role": "passive"}, "bank": {"role": "active"}, "helper": {"role": "coordinator"}}
    plan = Plan.model_validate({"kind": "align", "parties": parties})
    with pytest.raises(PlanError, match=r"helper is the coordinator.*exclude"):
        check_fits(plan, "helper", Private.model_validate({"exclude": "out.csv"}))

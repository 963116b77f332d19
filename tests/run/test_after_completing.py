"""A clinic completes its table with a registry, then both learn from it together: the registry by handle."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.frames.simulate import Member, simulate
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.ledger import read_ledger
from unpooled.report.page import write_report
from unpooled.run.simulate import simulate_job
from unpooled.run.spawn import spawn

ROWS, KNOWN, NEW = 200, 80, 7
COMPLETING: dict[str, Any] = {
    "columns": ["sugar", "ill"],
    "predict": {"folds": 2},
    "model": {"trees": 3, "depth": 2},
}
CONFIDENCE = {"weight": "confidence"}
LENDING = {"found": True, "weights": True}
LEARNING: dict[str, Any] = {"compare": "handles", "model": {"trees": 3, "depth": 2}}
ROLES = {"registry": "passive", "clinic": "active", "coordinator": "coordinator"}


def patients() -> tuple[pl.DataFrame, pl.DataFrame]:
    """All patients as the registry has them, and those of the clinic, every type of column among its own."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(ROWS, 3)).round(3)
    ids = pl.Series("patient", [f"{number:05}" for number in rng.permutation(10_000)[:ROWS]])
    registry = pl.DataFrame({"patient": ids, "age": x[:, 0], "weight": x[:, 1], "visits": rng.integers(0, 9, ROWS)})
    clinic = pl.DataFrame(
        {
            "patient": ids,
            "sampled": [date(2024, 1, 1) + timedelta(days=int(30 * day)) for day in x[:, 2]],
            "sugar": (5 + x[:, 0] + 0.2 * x[:, 2]).round(1),
            "ward": pl.Series(["a", "b", "c"]).gather(rng.integers(0, 3, ROWS)).cast(pl.Categorical),
            "smoker": x[:, 2] > 0,
            "ill": pl.Series(np.where(x[:, 0] + x[:, 1] > 0, "yes", "no")),
        }
    )
    return registry, clinic[rng.permutation(ROWS)[:KNOWN]]


def plan_of(kind: str, **parameters: Any) -> Plan:
    parties = {party: {"role": role} for party, role in ROLES.items()}
    return Plan.model_validate({"kind": kind, "parameters": parameters, "parties": parties, "timeout": 600.0})


def private(folder: Path, name: str, key: str, **settings: Any) -> Private:
    more = settings.pop("table", {})
    return Private.model_validate({"table": {"path": name, "id": key} | more} | settings).at(folder)


def test_train_on_a_completed_table_over_tls(tmp_path: Path) -> None:
    registry, clinic = patients()
    registry.write_csv(tmp_path / "registry.csv")
    clinic.write_parquet(tmp_path / "clinic.parquet")
    completing = {
        "registry": private(tmp_path, "registry.csv", "patient", seed=1, consent={"values": True}),
        "clinic": private(
            tmp_path, "clinic.parquet", "patient", seed=2, consent={"rows": True}, generate={"weight": "confidence"}
        ),
        "coordinator": Private(),
    }
    spawn(plan_of("complete", **COMPLETING), completing, tmp_path / "complete")
    newcomers = registry.head(NEW).with_columns(patient=pl.lit("new-") + pl.col("patient"))
    pl.concat([newcomers, registry]).write_csv(tmp_path / "registry.csv")
    learning = {
        "registry": private(
            tmp_path, "registry.csv", "patient", seed=3, table={"handles": "complete/registry/handles.csv"}
        ),
        "clinic": private(
            tmp_path, "complete/clinic/completed.parquet", "handle", seed=4, target="ill", weight="confidence"
        ),
        "coordinator": Private(),
    }
    plan = plan_of("train", **LEARNING)
    results = spawn(plan, learning, tmp_path / "train")
    assert {results[party]["common"] for party in ("registry", "clinic")} == {ROWS}
    assert (results["registry"]["rows"], results["registry"]["rows_without_handle"]) == (ROWS, NEW)
    page = " ".join(write_report(tmp_path / "train").read_text().split())
    assert f"{NEW} of its rows have no handle." in page
    assert "Handles were compared by ECDH" in page
    assert f"{ROWS - KNOWN} of {ROWS} values of the target &#39;ill&#39; are not real" in page
    assert "Columns that were generated with it" not in page, "it was predicted"
    assert "are not real: completing the table filled them" in (tmp_path / "train" / "clinic" / "log.txt").read_text()

    found = pl.read_csv(tmp_path / "train" / "clinic" / "predictions.csv", infer_schema=False)
    aligned = pl.read_csv(tmp_path / "train" / "registry" / "aligned.csv", infer_schema=False)
    handles = pl.read_csv(tmp_path / "complete" / "registry" / "handles.csv", infer_schema=False)
    assert aligned.join(handles, on="patient", how="left", maintain_order="left")["handle"].equals(found["handle"])
    truth = clinic.join(handles, on="patient").select("handle", "ill")
    real = found.join(truth, on="handle")
    assert len(real) == KNOWN
    assert real["label"].equals(real["ill"], check_names=False)
    completed = pl.read_parquet(tmp_path / "complete" / "clinic" / "completed.parquet")
    weights = completed.join(truth, on="handle", how="left")
    assert weights.filter(pl.col("ill_right").is_not_null())["confidence"].unique().to_list() == [1.0]
    assert weights.filter(pl.col("ill_right").is_null())["confidence"].max() < 1.0  # type: ignore[operator]

    plain = plan.model_copy(update={"engine": "plain"})
    simulated = simulate_job(plain, learning, folder=tmp_path / "simulated").results
    again = pl.read_csv(tmp_path / "simulated" / "clinic" / "predictions.csv", infer_schema=False)
    assert found.equals(again)
    assert simulated["clinic"]["metrics"] == results["clinic"]["metrics"]
    unweighted = learning | {"clinic": learning["clinic"].model_copy(update={"weight": None})}
    simulate_job(plain, unweighted, folder=tmp_path / "unweighted")
    other = pl.read_csv(tmp_path / "unweighted" / "clinic" / "predictions.csv", infer_schema=False)
    assert not found["score"].equals(other["score"])
    for party in ROLES:
        assert read_ledger(tmp_path / "train" / party / "ledger.jsonl").closed
    others = set(registry["patient"]) - set(clinic["patient"])
    for path in (tmp_path / name / "clinic" for name in ("complete", "train")):
        words = {word for file in path.glob("*.csv") for word in file.read_text().replace(",", "\n").split()}
        assert not others & words, "the clinic has no id that it did not have before"


def test_look_alikes_in_a_completed_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    registry, clinic = patients()
    done = simulate(
        "complete",
        {
            "registry": Member("passive", registry, "patient", private=_agreed(1, values=True)),
            "clinic": Member("active", clinic, "patient", private=_agreed(2, generate=CONFIDENCE, rows=True)),
            "coordinator": Member("coordinator"),
        },
        **COMPLETING,
    )
    ill = registry.filter((pl.col("age") + pl.col("weight") > 0.3) & (pl.col("visits") > 0)).select("patient")
    completed, handles = done.tables["clinic"]["completed"], done.tables["registry"]["handles"]
    members = {
        "study": Member("seeker", ill, "patient", private=_agreed(3, positives=True)),
        "registry": Member("active", registry, "patient", private=_agreed(4, found=True), handles=handles),
        "clinic": Member("passive", completed, "handle", private=_agreed(5, weight="confidence", **LENDING)),
        "coordinator": Member("coordinator"),
    }
    small = {"method": {"name": "bagging", "bags": 2}, "estimate": False, "top": 20, "model": {"trees": 3, "depth": 2}}
    found = simulate("lookalike", members, compare="handles", weights="clinic", **small)
    assert (found.results["registry"]["common"], found.results["registry"]["positives"]) == (ROWS, len(ill))
    assert set(found.tables["study"]["look-alikes"]["patient"]) <= set(registry["patient"]) - set(ill["patient"])
    assert set(found.tables["clinic"]["aligned"]["handle"]) == set(done.tables["clinic"]["completed"]["handle"])

    confidence = handles.join(completed.select("handle", "confidence"), on="handle").drop("handle")
    own = registry.join(confidence, on="patient")
    others = members | {
        "registry": Member(
            "active", own, "patient", private=_agreed(4, weight="confidence", found=True), handles=handles
        ),
        "clinic": Member("passive", completed.drop("confidence"), "handle", private=_agreed(5, found=True)),
    }
    same = simulate("lookalike", others, compare="handles", weights="registry", **small)
    assert same.tables["registry"]["ranking"].equals(found.tables["registry"]["ranking"])
    others["registry"] = members["registry"]
    unweighted = simulate("lookalike", others, compare="handles", **small)
    assert not unweighted.tables["registry"]["ranking"]["score"].equals(found.tables["registry"]["ranking"]["score"])


def _agreed(seed: int, *, weight: str | None = None, generate: Any = None, **consent: bool) -> Private:
    given = {"seed": seed, "weight": weight, "consent": consent} | ({"generate": generate} if generate else {})
    return Private.model_validate(given)

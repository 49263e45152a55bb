"""Rates at which the archive stores traces: of new, unchanged and changed routes, and of traces that come late.

On a database as in `tests.bench.archive`. Each batch has a round of traces of a site. The reach is 1,000 sites with 100
targets every ten minutes.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import django
import msgspec
from django.core.management import call_command

from probes.contract import Outcome
from probes.site.wire import Batch, Delivered
from probes.trace.spec import Hop, TraceRun
from tests.bench import Row
from tests.bench.archive import database, seconds

if TYPE_CHECKING:
    from monitor.mesh.models import Host

SITES = 5
PATHS = 100  # of each site
HOPS = 15
SILENT_RATIO = 0.1
ROUNDS = 12
REACH = "167 traces/s"
NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
ROUND = timedelta(minutes=10)


def run() -> list[Row]:
    """Traces stored per second, and the bytes of each."""
    with database() as name:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
        django.setup()
        call_command("migrate", verbosity=0)
        return [Row(f"{SITES} sites, {PATHS} paths each, {HOPS} hops, 3 probes a hop", name), *_measure()]


def _measure() -> Iterable[Row]:
    from django.db import connection

    paths_of = _make_mesh()
    traces = SITES * PATHS
    steps = (
        ("the first round: all routes are new", [1], False),
        (f"rounds without a change, {SILENT_RATIO:.0%} of hops silent", [*range(3, ROUNDS)], False),
        ("a round in which every route changed", [ROUNDS], True),
        ("a round that comes late", [2], False),
    )
    for number, (step, rounds, is_changed) in enumerate(steps):
        bodies = [
            (
                site_id,
                msgspec.msgpack.encode(_batch(paths, round_, is_changed=is_changed, number=number * ROUNDS + round_)),
            )
            for round_ in rounds
            for site_id, paths in paths_of.items()
        ]
        used_s = _processor_s()
        took_s = seconds(lambda bodies=bodies: _receive_all(bodies))
        used_s, stored = _processor_s() - used_s, traces * len(rounds)
        value = f"{stored / took_s:,.0f} traces/s, {stored / used_s:,.0f} per processor second of client and server"
        yield Row(step, value, REACH)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_total_relation_size('route') + pg_total_relation_size('path_route')")
        (routes_bytes,) = cursor.fetchone()
        cursor.execute("SELECT avg(pg_column_size(trace.*)), count(*) FROM trace")
        trace_bytes, count = cursor.fetchone()
    assert count == traces * ROUNDS
    yield Row("a row of a trace, without indexes", f"{trace_bytes:.0f} bytes")
    yield Row("routes and their periods, for each path", f"{routes_bytes / traces:.0f} bytes")
    connection.close()


def _processor_s() -> float:
    """Processor time of this process and of its connection's server process."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    *_, user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:13]
    return time.process_time() + (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _receive_all(bodies: list[tuple[int, bytes]]) -> None:
    """Store the batches, decoding included."""
    from monitor.archive.ingest.arrivals import MESSAGE_PACK, read
    from monitor.archive.ingest.store_batch import receive

    for site_id, body in bodies:
        receive(site_id, read(body, MESSAGE_PACK), NOW)


def _batch(paths: list[int], round_: int, *, is_changed: bool, number: int) -> Batch:
    at = NOW - (ROUNDS + 1 - round_) * ROUND
    results = (
        Delivered(
            sequence=number * PATHS + place,
            path_id=path_id,
            test="routes",
            result=_trace(path_id, at, is_changed=is_changed),
        )
        for place, path_id in enumerate(paths, 1)
    )
    return Batch(spool="bench", number=number, agent_version="bench", sent_at=NOW, results=tuple(results))


def _trace(path_id: int, at: datetime, *, is_changed: bool) -> TraceRun:
    rng = random.Random(f"{path_id} {at}")
    hops = []
    for ttl in range(1, HOPS + 1):
        other = 100 if is_changed and ttl == HOPS // 2 else 0
        is_silent = ttl < HOPS and rng.random() < SILENT_RATIO
        hops.append(
            Hop(
                ttl=ttl,
                address=None if is_silent else f"10.{ttl + other}.{path_id % 256}.{path_id // 256}",
                rtts_ms=(None,) * 3 if is_silent else tuple(ttl + rng.random() for _ in range(3)),
            )
        )
    return TraceRun(
        target="far",
        address=hops[-1].address,
        family=4,
        started_at=at,
        outcome=Outcome.MEASURED,
        flow=path_id % 65_536,
        reached=True,
        hops=tuple(hops),
    )


def _make_mesh() -> dict[int, list[int]]:
    """Sites with paths to hosts of each other; the paths of each site."""
    from monitor.mesh.models import Host, Path, Site

    hosts: list[Host] = []
    for number in range(PATHS + 1):
        site = Site.objects.create(
            name=f"s{number}", title="", latitude_deg=0, longitude_deg=0, country="CH", region="", has_agent=True
        )
        hosts.append(Host.objects.create(site=site, name=f"s{number}", address=f"192.0.2.{number}", family=4))
    return {
        source.site_id: [
            path.pk
            for path in Path.objects.bulk_create(
                Path(source=source, destination=destination, family=4) for destination in hosts if destination != source
            )
        ]
        for source in hosts[:SITES]
    }

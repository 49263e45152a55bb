"""Processor time of an agent's requests: a plan that it has, deliveries without results, of bursts, and of a cycle.

Gunicorn as `manage.py up` runs it, with PostgreSQL and Redis of its own. The time is that of the web processes and of
all of PostgreSQL's, from the kernel's counts; the clients' own is not in it. Each request comes on its own connection,
as agents send it, and from another site than the one before: a single agent that asked so often would be counted in
Redis. The last row says how many requests were: none, as of agents that ask every ten seconds.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from io import StringIO
from itertools import count
from pathlib import Path

import django
from django.core.management import call_command

from probes.contract import Outcome
from probes.packets.spec import Burst
from probes.site.delivery.centre import encode_batch
from probes.site.health import Health
from probes.site.wire import (
    ABILITIES_HEADER,
    ON_DEMAND_PINGS,
    ON_DEMAND_TRACES,
    PROTOCOL,
    PROTOCOL_HEADER,
    Account,
    Batch,
    Delivered,
)
from tests.bench import Row
from tests.bench.archive import database, wake
from tests.bench.faults import redis
from tests.bench.processes import cpu_s, descendants
from tests.bench.serving import web_server
from tests.bench.steady.agents import CYCLE_S, TRACED_IN_CYCLES, Agent
from tests.bench.wide_mesh import write_mesh

SITES, PATHS = 20, 100
REQUESTS = 300
WARM_UP = 50
RESULTS = 20
ABLE = {ABILITIES_HEADER: f"{ON_DEMAND_PINGS}, {ON_DEMAND_TRACES}"}
SPEAKS = {PROTOCOL_HEADER: str(PROTOCOL)}
PLAN, RESULTS_URL = "/api/agent/plan", "/api/agent/results"


def run() -> list[Row]:
    """Milliseconds of each request: of the web server, of PostgreSQL."""
    with database(), redis(), tempfile.TemporaryDirectory(prefix="soundings-requests-") as folder:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
        os.environ["SOUNDINGS_LOCAL_READ"] = "1"
        django.setup()
        call_command("migrate", verbosity=0)
        call_command("mesh", "apply", str(write_mesh(Path(folder), SITES, PATHS)), stdout=StringIO())
        return list(_measure())


def _measure() -> Iterator[Row]:
    from django.db import connection

    from monitor.agents.models import issue_token
    from monitor.mesh.models import Path as MeshPath
    from monitor.mesh.models import Site

    now = datetime.now(UTC)
    agents, headers = [], []
    for site in Site.objects.filter(has_agent=True).order_by("pk"):
        path_ids = MeshPath.objects.filter(source__site=site).order_by("pk").values_list("pk", flat=True)
        agents.append(Agent(site.pk, issue_token(site.pk, now), list(path_ids)))
        headers.append(
            {"Authorization": f"Bearer {agents[-1].token}", "Soundings-Agent": f"{site.pk:016x}.1", **ABLE, **SPEAKS}
        )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        cursor.execute("SHOW data_directory")
        postmaster = int((Path(cursor.fetchone()[0]) / "postmaster.pid").read_text().split()[0])
    connection.close()
    with web_server(wake) as port, _server_of(port) as web:

        def ask(
            number: int, method: str, path: str, more: dict[str, str], body: bytes | None = None
        ) -> tuple[int, str]:
            client = HTTPConnection("127.0.0.1", port)
            client.request(method, path, body, {**headers[number % len(agents)], **more})
            answer = client.getresponse()
            answer.read()
            client.close()
            return answer.status, answer.getheader("ETag") or ""

        def used_s() -> tuple[float, float]:
            # Without the processes that draw the charts of pages when the server starts.
            return cpu_s(web, with_children=False), cpu_s(descendants(postmaster))

        def measured(name: str, request: Callable[[int], int], reach: str, *, requests: int = REQUESTS) -> Row:
            for number in range(WARM_UP):
                request(number)
            before_s = used_s()
            statuses = {request(WARM_UP + number) for number in range(requests)}
            own_ms, server_ms = (
                1000 * (after_s - begun_s) / requests for after_s, begun_s in zip(used_s(), before_s, strict=True)
            )
            value = f"{own_ms + server_ms:.2f} ms: {own_ms:.2f} web, {server_ms:.2f} PostgreSQL"
            return Row(f"{name}, answered {', '.join(map(str, sorted(statuses)))}", value, reach)

        etags = [ask(number, "GET", PLAN, {})[1] for number in range(len(agents))]
        numbers, sequences = count(1), count(1)
        first_cycle = int(now.timestamp()) // CYCLE_S - REQUESTS

        def ask_again(number: int) -> int:
            return ask(number, "GET", PLAN, {"If-None-Match": etags[number % len(agents)]})[0]

        def deliver(number: int, results: int) -> int:
            path_ids = agents[number % len(agents)].path_ids
            more, body = encode_batch(_batch(next(numbers), [next(sequences) for _ in range(results)], path_ids))
            return ask(number, "POST", RESULTS_URL, more, body)[0]

        def deliver_cycle(number: int) -> int:
            more, body = encode_batch(agents[number % len(agents)].batch(first_cycle + number // len(agents)))
            return ask(number, "POST", RESULTS_URL, more, body)[0]

        yield measured("/health", lambda number: ask(number, "GET", "/health", {})[0], "")
        yield measured("a plan that it has", ask_again, "0.3 ms")
        yield measured(
            f"a plan of {PATHS} paths", lambda number: ask(number, "GET", PLAN, {})[0], "20 ms", requests=100
        )
        yield measured("an empty delivery", lambda number: deliver(number, 0), "1 ms")
        yield measured(f"a delivery of {RESULTS} results", lambda number: deliver(number, RESULTS), "")
        yield measured("a delivery of 200 results", lambda number: deliver(number, 200), "")
        # Beforehand all paths are traced once, since a new route costs more than one that is known.
        for number in range(TRACED_IN_CYCLES * len(agents)):
            deliver_cycle(number)
        first_cycle += TRACED_IN_CYCLES
        yield measured("a cycle: 200 bursts in columns, 10 traces", deliver_cycle, "")
        yield Row("requests that were counted in Redis", str(_counted()), "0")


def _counted() -> int:
    from monitor.redis_client import centre

    commands = centre().command("info", "commandstats")
    return sum(int(commands.get(f"cmdstat_{name}", {"calls": 0})["calls"]) for name in ("eval", "evalsha"))


def _batch(number: int, sequences: list[int], path_ids: list[int]) -> Batch:
    now = datetime.now(UTC)
    bursts = [
        Delivered(
            sequence=sequence,
            path_id=path_ids[sequence // 2 % len(path_ids)],
            test="pinger",
            every_s=60,
            cycle=int(now.timestamp()) // 60 - sequence // 2 // len(path_ids) % 2,
            result=Burst(
                target="beacon",
                address="10.9.0.1",
                family=4,
                packet_bytes=(100, 1000)[sequence % 2],
                started_at=now - timedelta(microseconds=sequence % 1000),
                outcome=Outcome.MEASURED,
                sent=10,
                received=10,
                rtts_ms=tuple(170 + 0.37 * packet for packet in range(10)),
                ttl=57,
                stamp="kernel",
            ),
        )
        for sequence in sequences
    ]
    return Batch(
        spool="bench",
        number=number,
        agent_version="0.1.0",
        sent_at=now,
        results=tuple(bursts),
        health=Health(),
        account=Account(until=now),
    )


@contextmanager
def _server_of(port: int) -> Iterator[list[int]]:
    from tests.e2e.centre import listening

    yield sorted(listening(port) - {os.getpid()})  # which holds the socket too


if __name__ == "__main__":
    for row in run():
        print(f"{row.measure:<45} {row.value}   {row.reach}")

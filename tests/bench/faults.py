"""200 agents reconnect at once after an outage with 100,000 results each: whether the centre stays up, and its memory.

Simulated agents (`tests.crowd`) deliver to Gunicorn as `manage.py up` runs it, with its own Redis and PostgreSQL; all
share the machine. 20 million bursts take about 10 GB of disk and six minutes on two cores. As a module of its own,
`python -m tests.bench.faults --agents 20 --results 10000` runs a fraction of it. Rollups do not run meanwhile.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import django
from django.core.management import call_command

from monitor.stack import broker
from tests.bench import Row
from tests.bench.archive import database, wake
from tests.bench.serving import web_server

AGENTS, RESULTS = 200, 100_000
PATHS = 100
LARGEST_MB = 400
DEADLINE_S = 6 * 3600


def run(agents: int = AGENTS, results: int = RESULTS) -> list[Row]:
    """The time until all results are stored, the answers, page load times meanwhile, and the memory of the largest web
    process."""
    with database() as name, redis(), tempfile.TemporaryDirectory(prefix="soundings-crowd-") as folder:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
        os.environ["SOUNDINGS_LOCAL_READ"] = "1"
        django.setup()
        call_command("migrate", verbosity=0)
        return [Row(f"{agents} agents with {results:,} results each", name), *_measure(Path(folder), agents, results)]


def _measure(folder: Path, agents: int, results: int) -> list[Row]:
    from django.db import connection

    from monitor.archive.models import Burst, ReceivedBatch
    from tests.crowd import drain, make_crowd
    from tests.e2e.centre import largest_bytes, listening

    spools = make_crowd(folder, agents, results, paths=min(PATHS, results))
    connection.close()
    with web_server(wake) as port:
        before = listening(port)  # all of them: each has been asked for a page
        idle_bytes = largest_bytes(port)
        drained = drain(f"http://127.0.0.1:{port}", spools, DEADLINE_S)
        peak_bytes = largest_bytes(port)
        stayed = listening(port) == before
    stored, batches = Burst.objects.count(), ReceivedBatch.objects.count()
    connection.close()
    if stored != agents * results or drained.refused:
        raise SystemExit(f"{stored:,} of {agents * results:,} stored, {len(drained.refused)} refused: not as sent")
    answers = ", ".join(f"{count:,} × {status or 'none'}" for status, count in drained.answers.most_common())
    pages_s = sorted(drained.pages_s)
    return [
        Row("all stored, each once", f"{stored:,} in {drained.took_s:,.0f} s, {stored / drained.took_s:,.0f}/s", "all"),
        Row("batches; answers to deliveries", f"{batches:,}; {answers}"),
        Row("web processes that died", "none" if stayed else "some", "none"),
        Row("largest web process, idle", f"{idle_bytes / 1e6:.0f} MB"),
        Row("largest web process, ever", f"{peak_bytes / 1e6:.0f} MB", f"≤ {LARGEST_MB} MB"),
        Row("sites page meanwhile: median, longest", f"{pages_s[len(pages_s) // 2]:.2f} s, {pages_s[-1]:.2f} s"),
    ]


@contextmanager
def redis() -> Iterator[None]:
    """The centre's Redis, so that rate limits apply as usual."""
    with tempfile.TemporaryDirectory(prefix="soundings-redis-") as folder:
        path = Path(folder) / "redis.sock"
        process = subprocess.Popen(broker.command(path), stdout=subprocess.DEVNULL)
        try:
            deadline_s = time.monotonic() + 30
            while not broker.answers(path):
                if time.monotonic() > deadline_s:
                    raise SystemExit("Redis does not answer")
                time.sleep(0.1)
            os.environ["SOUNDINGS_REDIS_URL"] = f"redis+socket://{path}"
            yield
        finally:
            process.terminate()
            process.wait()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.faults", description=__doc__)
    parser.add_argument("--agents", type=int, default=AGENTS)
    parser.add_argument("--results", type=int, default=RESULTS, help="of each agent")
    args = parser.parse_args(arguments)
    for row in run(args.agents, args.results):
        print(f"{row.measure:<45} {row.value}   {row.reach}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

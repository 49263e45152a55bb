"""Many agents that reconnect at once after an outage, each with a long queue: simulated, over real HTTP.

Delivery is the agents' own (`probes.site.delivery.deliver`): its batches, pauses and spreading. The spool is simulated:
its results are generated on demand, since 200 real spools would be 12 GB of disk. Used by the fault tests with few
agents and short queues, and by `python -m tests.bench faults`.
"""

from __future__ import annotations

import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from probes.contract import Outcome
from probes.packets.spec import Burst
from probes.site.delivery.centre import Centre, CentreError
from probes.site.delivery.deliver import DeliveryLoop
from probes.site.runner.schedule import spread
from probes.site.wire import Batch, Delivered, Plan, Receipt, Refusal

TASK_EVERY_S = 0.5
"""How often an agent checks whether it may deliver; a real agent does so every 5 s."""
RESULT_BYTES = 600
"""Size of a spooled result as JSON."""
PAGE_EVERY_S = 2.0
RTTS_MS = tuple(170 + 0.37 * n for n in range(10))


class GeneratedSpool:
    """The queue of an agent: result n is of path n % paths, n

    paths minutes after the start.
    """

    def __init__(self, name: str, path_ids: Sequence[int], results: int, since: datetime) -> None:
        self.id = name
        self._path_ids = path_ids
        self._since = since
        self._results = results
        self._first = 0
        self._number = 1
        self._size: int | None = None
        self.refused: list[Refusal] = []

    @property
    def left(self) -> int:
        return self._results - self._first

    def next_batch(
        self,
        *,
        max_results: int,
        max_bytes: int,
        now: datetime,
        agent_version: str,
        only: int | None = None,
        without: Collection[int] = (),
    ) -> Batch | None:
        assert not without, f"no result here makes a batch fail, but {without} are left out"
        assert only is None, f"no result here makes a batch fail, but {only} is requested alone"
        if self.left == 0:
            return None
        if self._size is None:
            self._size = min(max_results, max(1, max_bytes // RESULT_BYTES), self.left)
        return Batch(
            spool=self.id,
            number=self._number,
            agent_version=agent_version,
            sent_at=now,
            results=tuple(self._result(n) for n in range(self._first, self._first + self._size)),
            queued=self.left - self._size,
        )

    def acknowledge(self, number: int, refused: Sequence[Refusal] = ()) -> None:
        assert number == self._number
        assert self._size is not None
        self.refused += refused
        self._first += self._size
        self._number += 1
        self._size = None

    def halve_batch(self, number: int, reason: str) -> int:
        assert self._size is not None
        self._size = max(1, self._size // 2)
        return self._size

    def _result(self, number: int) -> Delivered:
        minutes, place = divmod(number, len(self._path_ids))
        burst = Burst(
            target="beacon",
            address="10.9.0.1",
            family=4,
            packet_bytes=100,
            started_at=self._since + timedelta(minutes=minutes),
            outcome=Outcome.MEASURED,
            sent=len(RTTS_MS),
            received=len(RTTS_MS),
            rtts_ms=RTTS_MS,
            ttl=57,
            stamp="kernel",
        )
        return Delivered(sequence=number + 1, path_id=self._path_ids[place], test="pinger", result=burst)


class CountedCentre(Centre):
    """Counts the answers to deliveries by their status; None is no answer."""

    def __init__(self, url: str, token_file: Path, answers: Counter[int | None]) -> None:
        super().__init__(url, token_file)
        self._answers = answers

    def deliver(self, batch: Batch) -> Receipt:
        try:
            receipt = super().deliver(batch)
        except CentreError as error:
            self._answers[error.status] += 1
            raise
        self._answers[200] += 1
        return receipt


@dataclass(slots=True)
class DrainReport:
    """The outcome of a drain: the time until the last queue was empty, the answers by status, page load times
    meanwhile, and refused results."""

    took_s: float
    answers: Counter[int | None] = field(default_factory=Counter)
    pages_s: list[float] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)


def drain(url: str, spools: Sequence[tuple[Path, GeneratedSpool]], deadline_s: float) -> DrainReport:
    """Let the agents, each with the file of its token, deliver all at once, and wait until all queues are empty. Raises
    AssertionError if they are not empty in time."""
    began_s = time.monotonic()
    done = threading.Event()
    answers: Counter[int | None] = Counter()

    def work(token_file: Path, spool: GeneratedSpool) -> None:
        plan = Plan(version="v1", site=spool.id, mesh="crowd")
        centre = CountedCentre(url, token_file, answers)
        delivery = DeliveryLoop(spool, centre, spread=lambda: spread(plan))  # type: ignore[arg-type]
        while spool.left:
            delivery.run()
            left_s = began_s + deadline_s - time.monotonic()
            assert left_s > 0, f"{spool.id}: {spool.left} results left; answers so far: {dict(answers)}"
            done.wait(TASK_EVERY_S if spool.left else 0)

    with ThreadPoolExecutor(len(spools) + 1) as threads:
        watching = threads.submit(_look_at_pages, url, done)
        try:
            for future in [threads.submit(work, *spool) for spool in spools]:
                future.result()
        finally:
            took_s = time.monotonic() - began_s
            done.set()
        return DrainReport(
            took_s, answers, watching.result(), [refusal for _, spool in spools for refusal in spool.refused]
        )


def _look_at_pages(url: str, done: threading.Event) -> list[float]:
    """Measure the load time of the sites page repeatedly. A page that does not load raises URLError."""
    rss_bytes = []
    while not done.wait(PAGE_EVERY_S if rss_bytes else 0):
        began_s = time.monotonic()
        with urllib.request.urlopen(f"{url}/sites/", timeout=120) as answer:
            answer.read()
        rss_bytes.append(time.monotonic() - began_s)
    return rss_bytes


def make_crowd(folder: Path, agents: int, results: int, *, paths: int) -> list[tuple[Path, GeneratedSpool]]:
    """Create sites with so many paths each in the database, and their queues; write the tokens into `folder`."""
    from monitor.agents.models import issue_token
    from monitor.mesh.models import Host, Site
    from monitor.mesh.models import Path as MeshPath

    now = datetime.now(UTC)
    since = now - timedelta(minutes=-(-results // paths) + 10)
    place = {"latitude_deg": 0.0, "longitude_deg": 0.0, "country": "CH", "region": "Europe"}
    beacons = Site.objects.create(name="beacons", title="Beacons", has_agent=False, **place)
    sites = Site.objects.bulk_create(
        Site(name=f"agent-{n}", title=f"Agent {n}", has_agent=True, **place) for n in range(agents)
    )
    far = Host.objects.bulk_create(
        Host(site=beacons, name=f"beacon-{n}", address=f"10.9.{n // 250}.{n % 250 + 1}", family=4) for n in range(paths)
    )
    near = Host.objects.bulk_create(
        Host(site=site, name=site.name, address=f"10.8.{n // 250}.{n % 250 + 1}", family=4)
        for n, site in enumerate(sites)
    )
    mesh_paths = MeshPath.objects.bulk_create(
        MeshPath(source=host, destination=beacon, family=4) for host in near for beacon in far
    )
    spools = []
    for n, site in enumerate(sites):
        token_file = folder / f"{site.name}.token"
        token_file.write_text(issue_token(site.pk, now))
        path_ids = [path.pk for path in mesh_paths[n * paths : (n + 1) * paths]]
        spools.append((token_file, GeneratedSpool(site.name, path_ids, results, since)))
    return spools

"""Simulated agents in one process: `python -m tests.bench.steady.agents FILE`, which `measure` writes.

Each agent asks for its plan every ten seconds with the version that it has, and delivers the bursts of each minute in
columns, both packet sizes together, as an agent does after a cycle; with them come the traces of a tenth of its paths,
so that each is traced every ten minutes. Requests are spread over the minute as those of real sites, and each has a
connection of its own.
"""

from __future__ import annotations

import heapq
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import msgspec
import numpy as np

from probes.contract import Outcome
from probes.packets.columns import EPOCH, LOST_NS, NONE, RECORD, STAMPS
from probes.site.delivery.centre import encode_batch
from probes.site.health import Health
from probes.site.wire import ABILITIES_HEADER, Account, Batch, BurstBlock, Delivered
from probes.trace.spec import Hop, TraceRun

CYCLE_S = 60
PLAN_EVERY_S = 10
TRACED_IN_CYCLES = 10
SIZES = (100, 1000)
PACKETS = 10
HOPS = 12
THREADS = 12
LOST_RATIO = 0.001
NOTE_EVERY_S = 5


@dataclass(slots=True)
class Report:
    """Times of requests in seconds since the epoch, with their length in milliseconds, by purpose; answers by purpose
    and status; seconds by which the newest request was late."""

    took_ms: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: {"deliver": [], "plan": []})
    answers: dict[str, int] = field(default_factory=dict)
    bursts: int = 0
    traces: int = 0
    late_s: float = 0.0


@dataclass(slots=True)
class Agent:
    """A site's agent and its state between requests."""

    number: int
    token: str
    path_ids: list[int]
    etag: str = "none"
    batches: int = 0
    sequence: int = 0
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.number)

    def batch(self, cycle: int) -> Batch:
        """The bursts and traces of a cycle."""
        began = datetime.fromtimestamp(cycle * CYCLE_S + self.number % 20 / 10, UTC)
        block = self._block(began, cycle)
        traced = self.path_ids[cycle % TRACED_IN_CYCLES :: TRACED_IN_CYCLES]
        results = [self._trace(path_id, began) for path_id in traced]
        self.batches += 1
        return Batch(
            spool=f"bench-{self.number}",
            number=self.batches,
            agent_version="0.1.0",
            sent_at=datetime.now(UTC),
            results=tuple(results),
            blocks=(block,),
            health=Health(load_1min=0.3, cpus=2, clock_offset_s=0.001, clock_uncertainty_s=0.01, stamp="kernel"),
            account=Account(until=datetime.now(UTC)),
        )

    def _block(self, began: datetime, cycle: int) -> BurstBlock:
        paths = np.repeat(self.path_ids, len(SIZES))
        sizes = np.tile(SIZES, len(self.path_ids))
        rtts_ns = (1e6 * (5 + paths[:, np.newaxis] % 200 + self.rng.random((len(paths), PACKETS)))).astype("<i8")
        rtts_ns[self.rng.random(rtts_ns.shape) < LOST_RATIO] = LOST_NS
        records = np.zeros(len(paths), RECORD)
        started_us = (began - EPOCH) // timedelta(microseconds=1) + paths % 1_000_000
        values = {"path_id": paths, "packet_bytes": sizes, "started_us": started_us, "sent": PACKETS}
        replies = {"received": (rtts_ns != LOST_NS).sum(axis=1), "ttl": 57, "stamp": STAMPS.index("kernel")}
        for name, value in (values | replies | {"rate_limited": NONE, "flow": NONE}).items():
            records[name] = value
        self.sequence += len(paths)
        return BurstBlock(
            first=self.sequence - len(paths) + 1,
            test="pinger",
            family=4,
            clock_source="tsc",
            bursts=records.tobytes(),
            rtts_ns=rtts_ns.tobytes(),
            targets=("far",) * len(paths),
            addresses=("10.9.0.1",) * len(paths),
            source_addresses=("10.9.0.2",) * len(paths),
            every_s=CYCLE_S,
            cycle=cycle,
        )

    def _trace(self, path_id: int, began: datetime) -> Delivered:
        addresses = [f"10.{100 + ttl}.{path_id % 50}.{path_id // 50 % 250}" for ttl in range(1, HOPS + 1)]
        hops = [
            Hop(ttl=ttl, address=address, rtts_ms=tuple((ttl + self.rng.random(3)).tolist()))
            for ttl, address in enumerate(addresses, 1)
        ]
        run = TraceRun(
            target="far",
            address=addresses[-1],
            family=4,
            started_at=began,
            outcome=Outcome.MEASURED,
            flow=path_id % 65_536,
            reached=True,
            hops=tuple(hops),
        )
        self.sequence += 1
        return Delivered(sequence=self.sequence, path_id=path_id, test="routes", result=run)


class Agents:
    """All agents; `run` returns at `until_s`."""

    def __init__(self, port: int, agents: list[Agent], until_s: float, report_file: Path) -> None:
        self._port = port
        self._until_s = until_s
        self._report_file = report_file
        self._report = Report()
        self._lock = threading.Lock()
        self._events: list[tuple[float, int, str, Agent]] = []
        now_s = time.time()
        for agent in agents:
            phase = agent.number / len(agents)
            cycle_s = now_s // CYCLE_S * CYCLE_S
            heapq.heappush(self._events, (now_s + PLAN_EVERY_S * phase, agent.number, "plan", agent))
            due_s = cycle_s + 15 + 40 * phase
            due_s += 0 if due_s > now_s else CYCLE_S
            heapq.heappush(self._events, (due_s, len(agents) + agent.number, "deliver", agent))

    def run(self) -> None:
        noted_s = time.time()
        with ThreadPoolExecutor(THREADS) as pool:
            slots = threading.BoundedSemaphore(4 * THREADS)
            while time.time() < self._until_s:
                due_s, order, purpose, agent = self._events[0]
                if due_s > time.time():
                    time.sleep(min(due_s - time.time(), 0.05))
                else:
                    every_s = PLAN_EVERY_S if purpose == "plan" else CYCLE_S
                    heapq.heapreplace(self._events, (due_s + every_s, order, purpose, agent))
                    slots.acquire()
                    future = pool.submit(self._request, agent, purpose, due_s)
                    future.add_done_callback(lambda _: slots.release())
                if time.time() > noted_s + NOTE_EVERY_S:
                    noted_s = time.time()
                    self._write()
        self._write()

    def _request(self, agent: Agent, purpose: str, due_s: float) -> None:
        if purpose == "plan":
            headers = {"If-None-Match": agent.etag, ABILITIES_HEADER: "on-demand-pings, on-demand-traces"}
            self._ask(agent, "plan", "GET", "/api/agent/plan", {**headers, "Accept-Encoding": "gzip"}, None)
        else:
            batch = agent.batch(int(due_s) // CYCLE_S)
            headers, body = encode_batch(batch)
            if self._ask(agent, "deliver", "POST", "/api/agent/results", headers, body) == 200:
                with self._lock:
                    self._report.bursts += len(SIZES) * len(agent.path_ids)
                    self._report.traces += len(batch.results)
        self._report.late_s = time.time() - due_s

    def _ask(
        self, agent: Agent, purpose: str, method: str, path: str, headers: dict[str, str], body: bytes | None
    ) -> int | None:
        own = {"Authorization": f"Bearer {agent.token}", "Soundings-Agent": f"{agent.number:016x}.1"}
        client = HTTPConnection("127.0.0.1", self._port, timeout=30)
        began_s = time.time()
        status, reason = None, ""
        try:
            client.request(method, path, body, {**own, **headers})
            response = client.getresponse()
            response.read()
            status = response.status
            if purpose == "plan":
                agent.etag = response.getheader("ETag") or "none"
        except (OSError, HTTPException) as error:
            reason = type(error).__name__
        finally:
            client.close()
        with self._lock:
            self._report.took_ms[purpose].append((began_s, 1000 * (time.time() - began_s)))
            answer = f"{purpose} {status or reason}"
            self._report.answers[answer] = self._report.answers.get(answer, 0) + 1
        return status

    def _write(self) -> None:
        with self._lock:
            encoded = msgspec.json.encode(self._report)
        new = self._report_file.with_suffix(".new")
        new.write_bytes(encoded)
        new.replace(self._report_file)


def main(file: Path) -> None:
    """Run the agents that a file describes."""
    told = json.loads(file.read_text())
    agents = [Agent(number, token, path_ids) for number, (token, path_ids) in enumerate(told["agents"])]
    Agents(told["port"], agents, told["until_s"], Path(told["report"])).run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

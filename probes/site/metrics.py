"""`--metrics ADDRESS:PORT`: metrics for Prometheus, cached for seconds.

Plain HTTP without a password: use loopback or a trusted network.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from probes.site.spool.spool import SpoolError
from probes.site.status import AgentStatus, read_status
from probes.supervision.supervise import StartError

KEPT_S = 5.0

Labels = Mapping[str, str]


@contextlib.contextmanager
def served(given: str, data: Path) -> Iterator[str]:
    """Serve `/metrics` during the context; yields its URL. Raises `StartError` if listening fails."""
    address, port = parse_address(given)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(AgentCollector(data))
    try:
        server, thread = start_http_server(port, addr=address, registry=registry)
    except OSError as error:
        raise StartError(f"--metrics {given}: {error.strerror}; give another address of this machine") from error
    try:
        shown = f"[{address}]" if ":" in address else address
        yield f"http://{shown}:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def parse_address(given: str) -> tuple[str, int]:
    """Parse 127.0.0.1:9375 or [::1]:9375. Raises `StartError`."""
    try:
        parts = urlsplit(f"//{given}")
        address, port = parts.hostname, parts.port
    except ValueError:
        address, port = None, None
    if not address or port is None or parts.netloc != given:
        raise StartError(f"--metrics {given}: write ADDRESS:PORT, as 127.0.0.1:9375 or [::1]:9375")
    return address, port


class AgentCollector(Collector):
    def __init__(self, data: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._data = data
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._families: list[Metric] = []

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            if self._read_at is None or self._clock() - self._read_at > KEPT_S:
                self._families = self._read()
                self._read_at = self._clock()
            yield from self._families

    def _read(self) -> list[Metric]:
        try:
            status = read_status(self._data, datetime.now(UTC))
        except (SpoolError, OSError) as error:
            print(f"site: metrics: {error}", file=sys.stderr, flush=True)
            return [gauge("up", "Whether the agent works", {}, 0)]
        return list(families(status))


def families(status: AgentStatus) -> Iterator[Metric]:
    """All metrics of an agent, with the label `site`, empty before a plan."""
    site = {"site": status.plan.site if status.plan is not None else ""}
    yield gauge("up", "Whether the agent works and the centre accepts its results", site, status.works)
    if status.plan is not None:
        targets = sum(len(kind.targets(task)) for kind, task in status.plan.cycles if not kind.one_at_a_time)
        yield gauge("plan_info", "Version of the plan", {**site, "version": status.plan.version}, 1)
        yield gauge("plan_targets", "Targets of tests that measure all paths at once, such as ping", site, targets)
    if status.state is not None:
        yield from _of_state(status, site)
    if status.spool is not None:
        spool = status.spool
        yield gauge("spool_results", "Backlog: results in the spool", site, spool.queued)
        yield gauge("set_aside_results", "Quarantined results: the centre rejected them", site, spool.set_aside)
        dropped = CounterMetricFamily(
            "soundings_site_dropped_results",
            "Results dropped from the spool in total",
            labels=[*site, "kind", "reason"],
        )
        for dropped_results in spool.dropped_for:
            dropped.add_metric([*site.values(), dropped_results.kind, dropped_results.reason], dropped_results.count)
        yield dropped


def _of_state(status: AgentStatus, site: Labels) -> Iterator[Metric]:
    state, health = status.state, status.state.health if status.state is not None else None
    assert state is not None
    yield gauge("build_info", "Version of the agent", {**site, "version": state.agent_version}, 1)
    trouble_at = None if state.last_trouble is None else state.last_trouble.at
    for name, said, at in (
        ("start", "Start of the worker", state.started_at),
        ("state", "Time of the worker's last heartbeat", state.written_at),
        ("accepted", "Time of the latest accepted delivery", state.last_accepted_at),
        ("trouble", "Time of the latest warning or error", trouble_at),
    ):
        yield gauge(f"{name}_timestamp_seconds", said, site, None if at is None else at.timestamp())
    yield gauge("running_cycles", "Cycles in progress", site, len(state.running))
    if health is not None:
        clock = health.kernel_clock
        yield gauge("clock_offset_seconds", "Offset of this clock from the centre's", site, health.clock_offset_s)
        yield gauge("clock_uncertainty_seconds", "Uncertainty of the clock offset", site, health.clock_uncertainty_s)
        yield gauge(
            "clock_synchronised",
            "Whether the clock is synchronised, as the kernel reports",
            site,
            None if clock is None else clock.is_synchronised,
        )
        lost = CounterMetricFamily("soundings_site_lost_cycles", "Missed cycles since the start", labels=list(site))
        lost.add_metric(list(site.values()), health.lost_ticks)
        yield lost
        bugs = CounterMetricFamily("soundings_site_bugs", "Unexpected errors since the start", labels=list(site))
        bugs.add_metric(list(site.values()), health.bugs)
        yield bugs


def gauge(name: str, said: str, labels: Labels, value: Any) -> Metric:
    """soundings_site_`name`, without a sample where the value is None."""
    family = GaugeMetricFamily(f"soundings_site_{name}", said, labels=list(labels))
    if value is not None:
        family.add_metric(list(labels.values()), float(value))
    return family

"""Health of the agents, stored in one transaction with their deliveries; invalid health does not affect a delivery."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import msgspec
from django.db import Error, InterfaceError, OperationalError, transaction
from django.db.models import F
from django.db.models.functions import Greatest, Least
from psycopg.types.json import Jsonb

from monitor.agents.models import AgentHealth, ClockOffPeriod
from monitor.agents.problems import AgentProblem, ProblemKind
from monitor.archive.ingest.arrivals import ParsedBatch
from monitor.archive.ingest.checks import EARLIEST
from monitor.archive.ingest.failing_results import CANNOT_BE_STORED, reason_of
from monitor.archive.ingest.jsonb import for_jsonb
from monitor.archive.ingest.store_batch import LATEST, receive
from monitor.archive.upkeep import trouble
from monitor.prepared import SqlStatement, run_prepared, single_statement
from probes.site.delivery.centre_clock import CLOCK_OFF_S
from probes.site.health import SAME_OFFSET_S, ClockOff, Health
from probes.site.wire import Receipt

# Closer periods of about the same clock error are merged.
SAME_PERIOD = timedelta(minutes=5)
DROPS_EVERY_S = 60
# Interval and retention of the counters of dropped packets, which only grow.
DROPS_KEPT_S = 3600
# Load per CPU above which an agent runs late.
LOAD_PER_CPU = 2.0
# In results: the size of a delivery.
SPOOL_IS_BEHIND = 1000

RECORD = (Path(__file__).parent / "sql" / "record_health.sql").read_text()

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AgentReport:
    site_id: int
    site: str
    accepted_at: datetime
    accepted_ago: timedelta
    agent_version: str
    queued: int
    dropped: int
    health: Health | None  # None where the agent reported none
    drops_past: tuple[tuple[float, int], ...] = field(default=(), compare=False)

    def interface_drops(self, since: datetime) -> int:
        """Packets that NICs dropped since `since`, an hour back at most, as far as reported."""
        before = [dropped for at_s, dropped in self.drops_past if at_s <= since.timestamp()]
        counts = [*before[-1:], *(dropped for at_s, dropped in self.drops_past if at_s > since.timestamp())]
        return sum(max(after - before, 0) for before, after in pairwise(counts))

    def problems(self, since: datetime) -> tuple[AgentProblem, ...]:
        """Problems since `since`, empty where unknown. No other code judges an agent's health."""
        problems = []
        dropped = self.interface_drops(since)
        if dropped:
            problems.append(AgentProblem(ProblemKind.NIC_DROPS, f"{dropped:,} NIC drops"))
        if self.clock_is_off and self.health is not None:
            problems.append(AgentProblem(ProblemKind.CLOCK, f"clock offset {self.health.clock_offset_s:+.1f} s"))
        load, cpus = (self.health.load_1min, self.health.cpus) if self.health else (None, None)
        if load is not None and cpus and load > LOAD_PER_CPU * cpus:
            on = f"{cpus} CPU{'s' if cpus > 1 else ''} (above {LOAD_PER_CPU:g} per CPU)"
            problems.append(AgentProblem(ProblemKind.LOAD, f"load {load:.1f} on {on}"))
        if self.queued >= SPOOL_IS_BEHIND:
            problems.append(AgentProblem(ProblemKind.BACKLOG, f"backlog of {self.queued:,} results"))
        return tuple(problems)

    def troubles(self, since: datetime) -> tuple[str, ...]:
        return tuple(problem.text for problem in self.problems(since))

    @property
    def clock_is_off(self) -> bool:
        """Whether its clock is over a second off ours, measurement error considered."""
        if self.health is None or self.health.clock_offset_s is None:
            return False
        return abs(self.health.clock_offset_s) - (self.health.clock_uncertainty_s or 0.0) > CLOCK_OFF_S


@dataclass(frozen=True, slots=True)
class ClockWasOff:
    """Period of a site's results, by stored start time, measured with a clock error."""

    site_id: int
    since: datetime
    until: datetime
    offset_s: float


def receive_with_health(site_id: int, arrival: ParsedBatch, now: datetime) -> Receipt:
    """Store a delivery with its health. Raises as `receive`; invalid health is left out."""
    health = arrival.health()
    try:
        receipt = receive(site_id, arrival, now, _statement(site_id, arrival, health, now))
    except CANNOT_BE_STORED as error:
        if reason_of(error) is None:
            raise
        receipt = receive(site_id, arrival, now)
        record(site_id, arrival, now)
        return receipt
    if health is not None and health.periods_off:
        record(site_id, arrival, now)
    return receipt


def record(site_id: int, arrival: ParsedBatch, now: datetime) -> None:
    """Store a delivery's health. Idempotent; never raises: the next delivery brings newer health."""
    health = arrival.health()
    try:
        _record(site_id, arrival, health, now)
    except (Error, *CANNOT_BE_STORED) as error:
        logger.warning("site %d: its health is not stored: %s", site_id, error)
        if isinstance(error, OperationalError | InterfaceError):
            trouble.record_trouble(trouble.kind_of(error))
        if health is not None and reason_of(error) is not None:
            _record(site_id, arrival, None, now)


def _record(site_id: int, arrival: ParsedBatch, health: Health | None, now: datetime) -> None:
    with single_statement():
        run_prepared(*_statement(site_id, arrival, health, now))
    if health is not None and health.periods_off:
        with transaction.atomic():
            for period in health.periods_off:
                _note_clock_off(site_id, period)


def _statement(site_id: int, arrival: ParsedBatch, health: Health | None, now: datetime) -> SqlStatement:
    envelope = arrival.envelope
    return SqlStatement(
        RECORD,
        {
            "site_id": site_id,
            "accepted_at": now,
            "agent_version": envelope.agent_version,
            "queued": envelope.queued,
            "dropped": envelope.dropped,
            "health": None if health is None else Jsonb(for_jsonb(msgspec.to_builtins(health))),
            "drops": None if health is None else sum(interface.received + interface.sent for interface in health.drops),
            "at_s": now.timestamp(),
            "every_s": DROPS_EVERY_S,
            "kept_s": DROPS_KEPT_S,
        },
    )


def _note_clock_off(site_id: int, off: ClockOff) -> None:
    if not EARLIEST <= off.since <= off.until <= LATEST:
        logger.warning("site %d: invalid period of clock error from %s to %s", site_id, off.since, off.until)
        return
    near = ClockOffPeriod.objects.filter(
        site_id=site_id,
        since__lte=off.until + SAME_PERIOD,
        until__gte=off.since - SAME_PERIOD,
        offset_s__range=(off.offset_s - SAME_OFFSET_S, off.offset_s + SAME_OFFSET_S),
    ).first()
    if near is None:
        ClockOffPeriod.objects.create(site_id=site_id, since=off.since, until=off.until, offset_s=off.offset_s)
        return
    ClockOffPeriod.objects.filter(pk=near.pk).update(
        since=Least(F("since"), off.since),
        until=Greatest(F("until"), off.until),
        offset_s=max(near.offset_s, off.offset_s, key=abs),
    )


class Iperf3OfSites(Mapping[int, str]):
    """iperf3's version by site id, where agents reported it; read on first use."""

    @cached_property
    def _versions(self) -> dict[int, str]:
        told = AgentHealth.objects.values_list("site_id", "health__iperf3")
        return {site_id: version for site_id, version in told if version is not None}

    def __getitem__(self, site_id: int) -> str:
        return self._versions[site_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._versions)

    def __len__(self) -> int:
        return len(self._versions)


def agent_reports(now: datetime) -> list[AgentReport]:
    """Newest report of each site that ever delivered, by site name."""
    rows = AgentHealth.objects.order_by("site__name").values_list(
        "site_id", "site__name", "accepted_at", "agent_version", "queued", "dropped", "health", "drops_past"
    )
    return [
        AgentReport(
            site_id=site_id,
            site=site,
            accepted_at=accepted_at,
            accepted_ago=now - accepted_at,
            agent_version=agent_version,
            queued=queued,
            dropped=dropped,
            health=None if health is None else msgspec.convert(health, Health),
            drops_past=tuple((at_s, drops) for at_s, drops in drops_past),
        )
        for site_id, site, accepted_at, agent_version, queued, dropped, health, drops_past in rows
    ]


def clock_off_periods(since: datetime, until: datetime, *, site_ids: Sequence[int] | None = None) -> list[ClockWasOff]:
    """Clock errors of results begun in [since, until), oldest first."""
    rows = ClockOffPeriod.objects.filter(since__lt=until, until__gte=since).order_by("since", "pk")
    if site_ids is not None:
        rows = rows.filter(site__in=site_ids)
    return [ClockWasOff(row.site_id, row.since, row.until, row.offset_s) for row in rows]

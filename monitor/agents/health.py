"""How the sites' agents are, by what came with their deliveries.

`record` is called for each delivery that was stored; the newest of a site is kept, and when its clock was wrong. What
others ask are `agent_reports`, `iperf3_of_sites` and `clock_off_periods`. A health that cannot be read or stored spoils
no delivery.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

import msgspec
from django.db import Error, InterfaceError, OperationalError, transaction
from django.db.models import F
from django.db.models.functions import Greatest, Least

from monitor.agents.models import AgentHealth, ClockOffPeriod
from monitor.archive.ingest.arrivals import Arrival, for_jsonb
from monitor.archive.ingest.batches import LATEST
from monitor.archive.ingest.checks import EARLIEST
from monitor.archive.ingest.culprits import CANNOT_BE_STORED, reason_of
from monitor.archive.upkeep import trouble
from probes.site.delivery.centre_clock import CLOCK_OFF_S
from probes.site.health import ClockOff, Health

SAME_PERIOD = timedelta(minutes=5)
"""Stretches with a wrong clock that are no further apart are one."""
DROPS_EVERY_S = 60
DROPS_KEPT_S = 3600
"""How far apart, and for how long, the counts of dropped packets are kept: they only count up."""
LOAD_PER_CPU = 2.0
"""With more processes that want to run than so many a CPU, an agent is late."""
SPOOL_IS_BEHIND = 1000
"""Results that wait in an agent's spool; one delivery takes as many."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AgentReport:
    """One site's agent at its newest delivery. `health` is None for an agent that told none."""

    site_id: int
    site: str
    accepted_at: datetime
    accepted_ago: timedelta
    agent_version: str
    queued: int
    dropped: int
    health: Health | None
    drops_past: tuple[tuple[float, int], ...] = field(default=(), compare=False)

    def interface_drops(self, since: datetime) -> int:
        """Packets that the interfaces of its machine dropped from `since` on, an hour back at most, as far as known."""
        before = [dropped for at_s, dropped in self.drops_past if at_s <= since.timestamp()]
        counts = [*before[-1:], *(dropped for at_s, dropped in self.drops_past if at_s > since.timestamp())]
        return sum(max(after - before, 0) for before, after in pairwise(counts))

    def troubles(self, since: datetime) -> tuple[str, ...]:
        """What was wrong with the agent or its machine from `since` on, in words; empty where nothing is known."""
        found = []
        dropped = self.interface_drops(since)
        if dropped:
            found.append(f"its own interfaces dropped {dropped:,} packets")
        if self.clock_is_off and self.health is not None:
            found.append(f"its clock is {self.health.clock_offset_s:+.1f} s off")
        load, cpus = (self.health.load_1min, self.health.cpus) if self.health else (None, None)
        if load is not None and cpus and load > LOAD_PER_CPU * cpus:
            found.append(f"its load is {load:.1f} on {cpus} CPU{'s' if cpus > 1 else ''}")
        if self.queued >= SPOOL_IS_BEHIND:
            found.append(f"{self.queued:,} results wait in its spool")
        return tuple(found)

    @property
    def clock_is_off(self) -> bool:
        """Whether its clock was more than a second from ours, surely."""
        if self.health is None or self.health.clock_offset_s is None:
            return False
        return abs(self.health.clock_offset_s) - (self.health.clock_uncertainty_s or 0.0) > CLOCK_OFF_S


@dataclass(frozen=True, slots=True)
class ClockWasOff:
    """Results of a site that are stored as begun from `since` to `until`, and were measured with its clock off."""

    site_id: int
    since: datetime
    until: datetime
    offset_s: float


def record(site_id: int, arrival: Arrival, now: datetime) -> None:
    """Keep the health of a delivery that was accepted `now`. Doing it again changes nothing.

    The delivery is stored already, so nothing is raised: a health that cannot be stored is left out, and where the
    database is away the next delivery brings a newer one.
    """
    health = arrival.health()
    try:
        _record(site_id, arrival, health, now)
    except (Error, *CANNOT_BE_STORED) as error:
        logger.warning("site %d: its health is not kept: %s", site_id, error)
        if isinstance(error, OperationalError | InterfaceError):
            trouble.note(trouble.kind_of(error))
        if health is not None and reason_of(error) is not None:
            _record(site_id, arrival, None, now)


def _record(site_id: int, arrival: Arrival, health: Health | None, now: datetime) -> None:
    envelope = arrival.envelope
    fields = {
        "accepted_at": now,
        "agent_version": envelope.agent_version,
        "queued": envelope.queued,
        "dropped": envelope.dropped,
        "health": None if health is None else for_jsonb(msgspec.to_builtins(health)),
    }
    with transaction.atomic():
        AgentHealth.objects.bulk_create([AgentHealth(site_id=site_id, **fields)], ignore_conflicts=True)
        # Deliveries of a site wait for each other here.
        AgentHealth.objects.filter(site_id=site_id, accepted_at__lte=now).update(**fields)
        if health is not None:
            _note_drops(site_id, sum(one.received + one.sent for one in health.drops), now)
        if health is not None and health.clock_off is not None:
            _note_clock_off(site_id, health.clock_off)


def _note_drops(site_id: int, dropped: int, now: datetime) -> None:
    """Keep the count, at most one in `DROPS_EVERY_S`, so that a rise can be told from what was dropped long ago."""
    past = AgentHealth.objects.values_list("drops_past", flat=True).get(site_id=site_id)
    at_s = now.timestamp()
    if past and at_s - past[-1][0] < DROPS_EVERY_S:
        return
    kept = [one for one in past if one[0] >= at_s - DROPS_KEPT_S]
    AgentHealth.objects.filter(site_id=site_id).update(drops_past=[*kept, [at_s, dropped]])


def _note_clock_off(site_id: int, off: ClockOff) -> None:
    """Widen the period that this one belongs to, or begin one."""
    if not EARLIEST <= off.since <= off.until <= LATEST:
        logger.warning("site %d: a period with a wrong clock from %s to %s is none", site_id, off.since, off.until)
        return
    near = ClockOffPeriod.objects.filter(
        site_id=site_id, since__lte=off.until + SAME_PERIOD, until__gte=off.since - SAME_PERIOD
    ).first()
    if near is None:
        ClockOffPeriod.objects.create(site_id=site_id, since=off.since, until=off.until, offset_s=off.offset_s)
        return
    ClockOffPeriod.objects.filter(pk=near.pk).update(
        since=Least(F("since"), off.since),
        until=Greatest(F("until"), off.until),
        offset_s=max(near.offset_s, off.offset_s, key=abs),
    )


def iperf3_of_sites() -> dict[int, str]:
    """The version of iperf3 of each site whose agent told one, by the site's id."""
    told = AgentHealth.objects.values_list("site_id", "health__iperf3")
    return {site_id: version for site_id, version in told if version is not None}


def agent_reports(now: datetime) -> list[AgentReport]:
    """The newest of each site that ever delivered, by the site's name."""
    rows = AgentHealth.objects.select_related("site").order_by("site__name")
    return [
        AgentReport(
            site_id=row.site_id,
            site=row.site.name,
            accepted_at=row.accepted_at,
            accepted_ago=now - row.accepted_at,
            agent_version=row.agent_version,
            queued=row.queued,
            dropped=row.dropped,
            health=None if row.health is None else msgspec.convert(row.health, Health),
            drops_past=tuple((at_s, dropped) for at_s, dropped in row.drops_past),
        )
        for row in rows
    ]


def clock_off_periods(since: datetime, until: datetime, *, site_ids: Sequence[int] | None = None) -> list[ClockWasOff]:
    """When results that began in [since, until) were measured with a wrong clock, oldest first."""
    rows = ClockOffPeriod.objects.filter(since__lt=until, until__gte=since).order_by("since", "pk")
    if site_ids is not None:
        rows = rows.filter(site__in=site_ids)
    return [ClockWasOff(row.site_id, row.since, row.until, row.offset_s) for row in rows]

"""How the sites' agents are, by what came with their deliveries.

`record` is called for each delivery that was stored; the newest of a site is kept, and when its clock was wrong. What
others ask are `agent_reports` and `clock_off_periods`. A health that cannot be read spoils no delivery.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Greatest, Least

from monitor.api.models import AgentHealth, ClockOffPeriod
from monitor.archive.arrivals import Arrival, for_jsonb
from probes.site.centre_clock import CLOCK_OFF_S
from probes.site.health import ClockOff, Health

SAME_PERIOD = timedelta(minutes=5)
"""Stretches with a wrong clock that are no further apart are one."""
LAST_YEAR = 9000

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
    """Keep the health of a delivery that was accepted `now`. Doing it again changes nothing."""
    health = arrival.health()
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
        if health is not None and health.clock_off is not None:
            _note_clock_off(site_id, health.clock_off)


def _note_clock_off(site_id: int, off: ClockOff) -> None:
    """Widen the period that this one belongs to, or begin one."""
    if off.since > off.until or off.until.year > LAST_YEAR:
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
        )
        for row in rows
    ]


def clock_off_periods(since: datetime, until: datetime, *, site_ids: Sequence[int] | None = None) -> list[ClockWasOff]:
    """When results that began in [since, until) were measured with a wrong clock, oldest first."""
    rows = ClockOffPeriod.objects.filter(since__lt=until, until__gte=since).order_by("since", "pk")
    if site_ids is not None:
        rows = rows.filter(site__in=site_ids)
    return [ClockWasOff(row.site_id, row.since, row.until, row.offset_s) for row in rows]

"""The tests during which the packets of a path do not count, as planned.

In: a path and a period. Out: begin and end of the tests of the source's site, whose agent measures, and of those that
load the destination (`destination_tests`). `probes.site.runner.cycle` tells the packets apart when they are sent.
"""

from __future__ import annotations

from datetime import UTC, datetime

from django.db.models import Q

from monitor.mesh.models import Host, Path, SlotHost
from monitor.mesh.schedule.slots import arrangement_at

Period = tuple[datetime, datetime]


def path_tests(path_id: int, since: datetime, until: datetime) -> list[Period]:
    """The tests in [since, until), oldest first: those that are planned, and those that would be planned at `since`.
    So a new mesh has its first tests before its agents have come."""
    path = Path.objects.select_related("source", "destination").get(pk=path_id)
    there = Q(site=path.destination.site_id, uplink=path.destination.uplink_id)
    host_ids = set(Host.objects.filter(Q(site=path.source.site_id) | there).values_list("pk", flat=True))
    planned = SlotHost.objects.filter(host__in=host_ids, ends_at__gt=since, starts_at__lt=until)
    to_plan = [
        (datetime.fromtimestamp(placement.start_s, UTC), datetime.fromtimestamp(placement.end_s, UTC))
        for placement in arrangement_at(since).placements
        if placement.fits and not host_ids.isdisjoint(placement.job.hosts)
    ]
    periods = {*planned.values_list("starts_at", "ends_at"), *(period for period in to_plan if period[0] < until)}
    return sorted(periods)

"""Versions of plans, stored with all that can change them, so that an agent's question costs a look at one row.

In: a site. Out: the version of its plan, None where it must be built; or the plan, whose version is stored.

A plan is made of the mesh (`plan_epoch`), of rows that concern few sites (`plan_change`), of the code and the secret
key (`maker`), and of the time: `valid_until` is when a slot enters or leaves it, or the window of destination tests
ends. Triggers note changes in the transaction that makes them (migration `0012_site_plan`). `build` takes the marks
away, and reads the epoch, before it reads anything else: a change that is committed meanwhile leaves a mark or a later
epoch behind, and the plan is built again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Min

import probes
from monitor.mesh.models import PlanEpoch, Site, SitePlan, Slot
from monitor.mesh.plan import plan_for
from monitor.mesh.schedule.destination_tests import WINDOW_S
from monitor.mesh.schedule.slots import HORIZON_S
from probes.site.wire import Plan

LONGEST = timedelta(hours=1)
"""A plan is built again after this time at the latest."""
CODE = (Path(__file__).resolve().parent, Path(probes.__file__).resolve().parent)

JOIN_VALID = """
LEFT JOIN site_plan
    ON site_plan.site_id = {site_id}
    AND site_plan.maker = %(maker)s
    AND site_plan.valid_until > %(now)s
    AND site_plan.epoch = (SELECT plan_epoch.epoch FROM plan_epoch)
    AND NOT EXISTS (SELECT FROM plan_change WHERE plan_change.site_id = {site_id})
"""
"""For statements that read the version of a valid plan, null where there is none, in the snapshot of all else."""

LOCK = """
INSERT INTO site_plan (site_id, maker, epoch, valid_until) VALUES (%(site_id)s, '', 0, '2000-01-01Z')
ON CONFLICT (site_id) DO UPDATE SET version = NULL
"""

TAKE_MARKS = """
DELETE FROM plan_change WHERE (site_id, xact) IN (
    SELECT site_id, xact FROM plan_change WHERE site_id = %(site_id)s FOR UPDATE SKIP LOCKED
)
"""
"""A mark that a change holds stays, and the plan is not valid until the change is committed: nobody waits for it."""


def build(site: Site, now: datetime, iperf3_of: Mapping[int, str]) -> Plan:
    """Build the plan of a site for an agent with all abilities, and store its version.

    Builders of the same site wait for each other: none stores a plan that is older than another's.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(LOCK, {"site_id": site.pk})
            cursor.execute(TAKE_MARKS, {"site_id": site.pk})
        epochs = PlanEpoch.objects.first()
        site.refresh_from_db()
        plan = plan_for(site, now, iperf3_of)
        until = None if epochs is None else _valid_until(site, plan, epochs, now)
        if epochs is not None and until is not None:
            SitePlan.objects.filter(pk=site.pk).update(
                version=plan.version, maker=maker(), epoch=epochs.epoch, valid_until=until
            )
    return plan


def _valid_until(site: Site, plan: Plan, epochs: PlanEpoch, now: datetime) -> datetime | None:
    """Time at which the plan changes by itself; None while it holds a request that waits for its agent."""
    if plan.pings_to_send or plan.traces_to_run:
        return None
    times = [now + LONGEST, *(slot.ends_at for slot in plan.slots)]
    if epochs.slots_epoch:
        times.append(datetime.fromtimestamp((int(now.timestamp()) // WINDOW_S + 1) * WINDOW_S, UTC))
        horizon = timedelta(seconds=HORIZON_S)
        later = Slot.objects.of_site(site.pk).filter(outcome=None, starts_at__gte=now + horizon)
        enters_at = later.aggregate(first=Min("starts_at"))["first"]
        if enters_at is not None:
            times.append(enters_at - horizon)
    return min(times)


@cache
def maker() -> str:
    """Digest of all that makes plans and is not in the database: a release may change them, and the keys of slots are
    derived from the secret key."""
    digest = hashlib.sha256(settings.SECRET_KEY.encode())
    for folder in CODE:
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]

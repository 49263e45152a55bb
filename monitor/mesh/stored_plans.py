"""Store versions of plans, so that an agent's query reads a single row.

Triggers mark changes in their transaction; `build` removes the marks and reads the epoch first, so that a concurrent
change forces a rebuild.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from django.conf import settings
from django.db import transaction

import probes
from monitor.mesh.plan import make_plan
from monitor.mesh.plan_rows import PlanState, read_state
from monitor.mesh.schedule.destination_tests import WINDOW_S
from monitor.mesh.schedule.horizon import HORIZON_S
from monitor.prepared import run_prepared
from probes.site.wire import Plan

# A plan is built again after this time at the latest.
LONGEST = timedelta(hours=1)
CODE = (Path(__file__).resolve().parent, Path(probes.__file__).resolve().parent)

# For statements that read a valid plan's version, or null, in the snapshot of all else.
JOIN_VALID = """
LEFT JOIN site_plan
    ON site_plan.site_id = {site_id}
    AND site_plan.maker = %(maker)s
    AND site_plan.valid_until > %(now)s
    AND site_plan.epoch = (SELECT plan_epoch.epoch FROM plan_epoch)
    AND NOT EXISTS (SELECT FROM plan_change WHERE plan_change.site_id = {site_id})
"""

# Waits for another builder and removes its marks, without waiting for uncommitted changes or for the disk.
# Not waiting for the disk is safe: a version lost in a crash is built again.
TAKE_TURN = """
WITH taken AS (
    DELETE FROM plan_change WHERE (site_id, xact) IN (
        SELECT site_id, xact FROM plan_change WHERE site_id = %(site_id)s FOR UPDATE SKIP LOCKED
    )
)
SELECT
    pg_advisory_xact_lock(hashtext('soundings.plan'), %(site_id)s),
    set_config('synchronous_commit', 'off', TRUE)
"""

STORE = """
INSERT INTO site_plan (site_id, version, maker, epoch, valid_until)
VALUES (%(site_id)s, %(version)s, %(maker)s, %(epoch)s, %(valid_until)s)
ON CONFLICT (site_id) DO UPDATE SET
    version = excluded.version, maker = excluded.maker, epoch = excluded.epoch, valid_until = excluded.valid_until
"""


def build(site_id: int, now: datetime, iperf3_of: Mapping[int, str]) -> Plan:
    """Build a site's plan for an agent with all abilities, and store its version.

    Builders of a site wait for each other, so none stores an older plan.
    """
    with transaction.atomic():
        run_prepared(TAKE_TURN, {"site_id": site_id})
        state = read_state(site_id, now)
        plan = make_plan(state, now, iperf3_of)
        if state.epoch is not None:
            until = _valid_until(state, plan, now)
            run_prepared(
                STORE,
                {
                    "site_id": site_id,
                    "version": None if until is None else plan.version,
                    "maker": maker(),
                    "epoch": state.epoch,
                    "valid_until": now if until is None else until,
                },
            )
    return plan


def _valid_until(state: PlanState, plan: Plan, now: datetime) -> datetime | None:
    """When the plan changes by itself; None while a request waits."""
    if plan.pings_to_send or plan.traces_to_run:
        return None
    times = [now + LONGEST, *(slot.ends_at for slot in plan.slots)]
    if state.slots_epoch:
        times.append(datetime.fromtimestamp((int(now.timestamp()) // WINDOW_S + 1) * WINDOW_S, UTC))
    if state.enters_at is not None:
        times.append(state.enters_at - timedelta(seconds=HORIZON_S))
    return min(times)


@cache
def maker() -> str:
    """Digest of plan inputs outside the database: release and secret key."""
    digest = hashlib.sha256(settings.SECRET_KEY.encode())
    for folder in CODE:
        for file in sorted(folder.rglob("*")):
            if file.suffix in (".py", ".sql"):
                digest.update(file.read_bytes())
    return digest.hexdigest()[:16]

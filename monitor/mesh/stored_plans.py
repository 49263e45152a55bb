"""Versions of plans, stored with all that can change them, so that an agent's question costs a look at one row.

In: a site. Out: the version of its plan, None where it must be built; or the plan, whose version is stored.

A plan is made of the mesh (`plan_epoch`), of rows that concern few sites (`plan_change`), of the code and the secret
key (`maker`), and of the time: `valid_until` is when a slot enters or leaves it, or the window of destination tests
ends. Triggers note changes in the transaction that makes them (migration `0002_squashed_0014_plans`). `build` takes the
marks away, and reads the epoch, before it reads anything else: a change that is committed meanwhile leaves a mark or a
later epoch behind, and the plan is built again.
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
"""Waits for another builder of the site, and takes its marks away. A mark that a change holds stays, and the plan is
not valid until the change is committed: nobody waits for it. The disk is not waited for: a version that is lost in a
crash, and with it all that came after, is built again."""

STORE = """
INSERT INTO site_plan (site_id, version, maker, epoch, valid_until)
VALUES (%(site_id)s, %(version)s, %(maker)s, %(epoch)s, %(valid_until)s)
ON CONFLICT (site_id) DO UPDATE SET
    version = excluded.version, maker = excluded.maker, epoch = excluded.epoch, valid_until = excluded.valid_until
"""


def build(site_id: int, now: datetime, iperf3_of: Mapping[int, str]) -> Plan:
    """Build the plan of a site for an agent with all abilities, and store its version.

    Builders of the same site wait for each other: none stores a plan that is older than another's.
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
    """Time at which the plan changes by itself; None while it holds a request that waits for its agent."""
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
    """Digest of all that makes plans and is not in the database: a release may change them, and the keys of slots are
    derived from the secret key."""
    digest = hashlib.sha256(settings.SECRET_KEY.encode())
    for folder in CODE:
        for file in sorted(folder.rglob("*")):
            if file.suffix in (".py", ".sql"):
                digest.update(file.read_bytes())
    return digest.hexdigest()[:16]

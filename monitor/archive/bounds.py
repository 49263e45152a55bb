"""Retention bound of each database table: the days after which its rows are deleted, or the reason it cannot grow.

`BOUNDS` names every table; a test fails for a table that is missing. Its keys are those of `settings.RETENTION_DAYS`,
each set by a variable SOUNDINGS_RETENTION_…_DAYS. `retention` deletes measurements, `records` everything else.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bound:
    """Bound of a table. `key` names the retention setting, None where rows are not deleted by age; `text` is shown to
    users."""

    key: str | None
    text: str

    @property
    def variable(self) -> str | None:
        """Environment variable that sets the days."""
        return None if self.key is None else f"SOUNDINGS_RETENTION_{self.key.upper()}_DAYS"


_MESH = "the size of the mesh, with what has left mesh.toml"
_PEOPLE = "how many accounts there are"
_RELEASE = "the release"
_WAITING = "the backlog: rows are deleted once processed"
_WITH_SLOT = Bound("slots", "with its slot")
_WITH_INCIDENT = Bound("incidents", "with its incident")


def _per_period(rows_a_year: str, of: str) -> Bound:
    return Bound(None, f"the calendar: at most {rows_a_year} a year for each {of}, kept for ever")


BOUNDS = {
    # Measurements and their summaries.
    "burst": Bound("bursts", "after that time, when its hour has its summary"),
    "throughput_test": Bound("throughput", "after that time, when its hour has its summary"),
    "disk_to_disk_test": Bound("throughput", "after that time"),
    "capacity_result": Bound("capacity", "after that time"),
    "burst_hour": _per_period("8,784 rows", "path and packet size"),
    "burst_day": _per_period("366 rows", "path and packet size"),
    "burst_month": _per_period("12 rows", "path and packet size"),
    "burst_year": _per_period("1 row", "path and packet size"),
    "throughput_hour": _per_period("8,784 rows", "path"),
    "throughput_day": _per_period("366 rows", "path"),
    "throughput_month": _per_period("12 rows", "path"),
    "throughput_year": _per_period("1 row", "path"),
    "undiagnosed_test": Bound(None, _WAITING),
    "dirty_hour": Bound(None, _WAITING),
    "dirty_summary": Bound(None, _WAITING),
    "throughput_sweep": Bound("throughput", "after that time, unless a cell of it still waits or runs"),
    "throughput_sweep_cell": Bound("throughput", "with its sweep"),
    # Deliveries, missing results and the reasons.
    "received_batch": Bound("deliveries", "after that time; the newest of a site stays"),
    "refused_result": Bound("refused", "after that time; the newest 10,000 of a site"),
    "cycle_day": Bound("ledger", "after that time, by whole days"),
    "agent_gap": Bound("ledger", "after that time"),
    "agent_account": Bound(None, "one row a site"),
    "delivered_day": _per_period("366 rows", "site and spool"),
    "clock_off_period": Bound("ledger", "after that time"),
    "centre_sample": Bound("deliveries", "after that time"),
    "table_size": Bound("deliveries", "after that time"),
    "kept_since": Bound(None, "one row a key"),
    "last_run": Bound(None, "one row for each kind of work"),
    # The mesh and its slots.
    "mesh": Bound(None, "one row"),
    "site": Bound(None, _MESH),
    "uplink": Bound(None, _MESH),
    "host": Bound(None, _MESH),
    "path": Bound(None, _MESH),
    "test": Bound(None, _MESH),
    "site_group": Bound(None, _MESH),
    "site_group_sites": Bound(None, _MESH),
    "measurement": Bound(None, _MESH),
    "measurement_period": Bound(None, "how often mesh.toml changes a schedule"),
    "slot": Bound("slots", "after that time, by whole years (UTC), unless it is still awaited"),
    "slot_request": _WITH_SLOT,
    "slot_host": _WITH_SLOT,
    "slot_uplink": _WITH_SLOT,
    # Incidents and notifications.
    "incident": Bound("incidents", "after that time from its end; an open one stays"),
    "incident_path": _WITH_INCIDENT,
    "incident_evidence": _WITH_INCIDENT,
    "incident_turn": _WITH_INCIDENT,
    "notification": _WITH_INCIDENT,
    "judged_path": Bound(None, "one row a path"),
    "quiet": Bound("incidents", "after that time from its end; one that comes again without an end stays"),
    "deed": Bound("deeds", "after that time, but not before the incident or silence that it is about"),
    "report_subscriber": Bound("reports", "after that time from its end; one that lasts stays"),
    "report_delivery": Bound("reports", "after that time, when it was sent or given up"),
    # Accounts and tokens.
    "agent_token": Bound("access", "after that time from its revocation"),
    "user_token": Bound("access", "after that time from its revocation"),
    "enrolment_code": Bound("access", "after that time from its use or its end"),
    "agent_health": Bound(None, "one row a site"),
    "django_session": Bound(None, "the length of a session, two weeks: what has ended goes each day"),
    "auth_user": Bound(None, _PEOPLE),
    "auth_user_groups": Bound(None, _PEOPLE),
    "auth_user_user_permissions": Bound(None, _PEOPLE),
    "auth_group": Bound(None, _RELEASE),
    "auth_group_permissions": Bound(None, _RELEASE),
    "auth_permission": Bound(None, _RELEASE),
    "django_content_type": Bound(None, _RELEASE),
    "django_migrations": Bound(None, _RELEASE),
}

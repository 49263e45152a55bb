"""Retention bound of each database table: days until deletion, or why it cannot grow. A test requires every table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bound:
    key: str | None  # retention setting; None where rows are not deleted by age
    text: str  # shown to users
    # Whether its rows are results as delivered by agents.
    is_raw: bool = False

    @property
    def variable(self) -> str | None:
        return None if self.key is None else f"SOUNDINGS_RETENTION_{self.key.upper()}_DAYS"


_MESH = "the size of the mesh, retired entries included"
_PEOPLE = "the number of accounts"
_RELEASE = "the release"
_WAITING = "the backlog: rows are deleted once processed"
_WITH_SLOT = Bound("slots", "with its slot")
_WITH_INCIDENT = Bound("incidents", "with its incident")


def raw_tables() -> dict[str, str]:
    return {table: bound.key for table, bound in BOUNDS.items() if bound.is_raw and bound.key is not None}


def _per_period(rows_a_year: str, of: str) -> Bound:
    return Bound(None, f"the calendar: at most {rows_a_year} a year for each {of}, kept forever")


BOUNDS = {
    # Measurements and their summaries.
    "burst": Bound("bursts", "by age, once its hour is summarized", is_raw=True),
    "throughput_test": Bound("throughput", "by age, once its hour is summarized", is_raw=True),
    "disk_to_disk_test": Bound("throughput", "by age", is_raw=True),
    "policer_result": Bound("throughput", "by age", is_raw=True),
    "idle_restart": Bound("throughput", "by age", is_raw=True),
    "request_response": Bound("throughput", "by age", is_raw=True),
    "aggregate_member": Bound("throughput", "by age", is_raw=True),
    "aggregate_run": Bound("throughput", "by age"),
    "capacity_result": Bound("capacity", "by age", is_raw=True),
    "interface_result": Bound("interfaces", "by age", is_raw=True),
    "cold_file": Bound("bursts", "by age, with its file; one row for two million bursts of a day"),
    "interface_week": _per_period("53 rows", "path and interface"),
    "direction_burst": Bound("directions", "by age, once its hour is summarized", is_raw=True),
    "trace": Bound("traces", "by age", is_raw=True),
    "path_route": Bound("routes", "by age from its end, but not before its traces; present routes are kept"),
    "route": Bound("routes", "with its last period"),
    "path_track": Bound(None, _MESH),
    "burst_hour": _per_period("8,784 rows", "path and packet size"),
    "burst_day": _per_period("366 rows", "path and packet size"),
    "burst_month": _per_period("12 rows", "path and packet size"),
    "burst_year": _per_period("1 row", "path and packet size"),
    "throughput_hour": _per_period("8,784 rows", "path"),
    "throughput_day": _per_period("366 rows", "path"),
    "throughput_month": _per_period("12 rows", "path"),
    "throughput_year": _per_period("1 row", "path"),
    "direction_hour": _per_period("8,784 rows", "path"),
    "direction_day": _per_period("366 rows", "path"),
    "direction_month": _per_period("12 rows", "path"),
    "direction_year": _per_period("1 row", "path"),
    "host_inventory": Bound("throughput", "by age of its newest test"),
    "throughput_capture": Bound("captures", "by age"),
    "undiagnosed_test": Bound(None, _WAITING),
    "dirty_hour": Bound(None, _WAITING),
    "dirty_summary": Bound(None, _WAITING),
    "throughput_sweep": Bound("throughput", "by age, unless a test of it is pending or running"),
    "throughput_sweep_cell": Bound("throughput", "with its sweep"),
    # Deliveries, missing results and the reasons.
    "received_batch": Bound("deliveries", "by age; the newest of each site is kept"),
    "refused_result": Bound("refused", "by age; at most the newest 10,000 of each site"),
    "cycle_day": Bound("ledger", "by age, in whole days"),
    "agent_gap": Bound("ledger", "by age"),
    "agent_account": Bound(None, "one row per site"),
    "delivered_day": _per_period("366 rows", "site and spool"),
    "clock_off_period": Bound("ledger", "by age"),
    "centre_sample": Bound("deliveries", "by age"),
    "table_size": Bound("deliveries", "by age"),
    "kept_since": Bound(None, "one row per key"),
    "weekly_report": Bound(None, "the calendar: at most 53 rows a year, kept forever"),
    "weekly_report_file": Bound(None, "the calendar: at most 106 rows a year, kept forever"),
    "centre_answer": Bound(None, "one row for each other centre"),
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
    "measurement_period": Bound(None, "the number of schedule changes in mesh.toml"),
    "slot": Bound("slots", "by age, in whole years (UTC), unless it is pending"),
    "slot_request": _WITH_SLOT,
    "slot_host": _WITH_SLOT,
    "slot_uplink": _WITH_SLOT,
    "plan_epoch": Bound(None, "one row"),
    "plan_change": Bound(None, "a few rows per site, deleted once its plan is built"),
    "site_plan": Bound(None, "one row per site"),
    "ping_request": Bound("on_demand_pings", "by age"),
    "trace_request": Bound("traces", "by age"),
    "ping_run": Bound("on_demand_pings", "with its request"),
    # Names of routers.
    "loaded_table": Bound(None, "one row per table"),
    "reverse_name": Bound("reverse_names", "by age since its address was last on a route"),
    # Incidents and notifications.
    "incident": Bound("incidents", "by age from its end; open incidents are kept"),
    "incident_path": _WITH_INCIDENT,
    "incident_evidence": _WITH_INCIDENT,
    "incident_turn": _WITH_INCIDENT,
    "notification": _WITH_INCIDENT,
    "judged_path": Bound(None, "one row per path"),
    "judged_delays": Bound(None, "one row per path"),
    "annotation": Bound(None, "the number of annotations that operators make"),
    "quiet": Bound("incidents", "by age from its end; recurring maintenance without an end is kept"),
    "deed": Bound("deeds", "by age, but not before its incident or silence"),
    "report_subscriber": Bound("reports", "by age from its end; active subscriptions are kept"),
    "report_delivery": Bound("reports", "by age, once sent or given up"),
    # Accounts and tokens.
    "agent_token": Bound("access", "by age from its revocation"),
    "user_token": Bound("access", "by age from its revocation"),
    "enrolment_code": Bound("access", "by age from its use or expiry"),
    "shared_link": Bound("access", "by age from its revocation or expiry"),
    "agent_health": Bound(None, "one row per site"),
    "django_session": Bound(None, "sessions of two weeks; expired sessions are deleted daily"),
    "auth_user": Bound(None, _PEOPLE),
    "auth_user_groups": Bound(None, _PEOPLE),
    "auth_user_user_permissions": Bound(None, _PEOPLE),
    "user_preferences": Bound(None, _PEOPLE),
    "single_sign_on_identity": Bound(None, _PEOPLE),
    "read_limit": Bound(None, "the number of limits that administrators set"),
    "read_limit_sites": Bound(None, "the number of limits that administrators set"),
    "read_limit_groups": Bound(None, "the number of limits that administrators set"),
    "auth_group": Bound(None, _RELEASE),
    "auth_group_permissions": Bound(None, _RELEASE),
    "auth_permission": Bound(None, _RELEASE),
    "django_content_type": Bound(None, _RELEASE),
    "django_migrations": Bound(None, _RELEASE),
}

"""Delete old records (slots, ledger, incidents, tokens, reports, sessions) after `settings.RETENTION_DAYS`, never
active records.

Batches are short transactions and skip locked rows; `kept_since` is recorded first.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime

from django.conf import settings
from django.db import connection

from monitor.archive.periods import start_of
from monitor.archive.statements import statement
from probes.contract import Deadline

# Rows per batch: some tens of milliseconds, cascades included.
ROWS_AT_ONCE = 2000

# Sent reports are looked up this long, while they may still be sent and retried.
LEAST_DAYS = {"reports": 60}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExpiringRows:
    """Rows deleted after the days of `key`, by an SQL file or condition."""

    table: str
    key: str
    condition: str | None = None

    @property
    def batch(self) -> str:
        if self.condition is None:
            return statement(f"delete_{self.table}")
        return statement("delete_rows", table=self.table, condition=self.condition)


_NEWER_BATCH = (
    "EXISTS (SELECT FROM received_batch AS newer"
    " WHERE newer.site_id = received_batch.site_id AND newer.received_at > received_batch.received_at)"
)
_NO_REPORTS = "NOT EXISTS (SELECT FROM report_delivery AS sent WHERE sent.subscriber_id = report_subscriber.id)"
_BEFORE = "%(before)s::timestamptz"
_OF_OLD_REQUEST = f"(SELECT asked_at FROM ping_request WHERE ping_request.id = ping_run.request_id) < {_BEFORE}"
_NO_RUNS = "NOT EXISTS (SELECT FROM ping_run WHERE ping_run.request_id = ping_request.id)"
_TRACES_KEPT = (
    "EXISTS (SELECT FROM trace WHERE trace.path_id = path_route.path_id"
    " AND trace.measured_at >= path_route.since AND trace.measured_at < path_route.until)"
)
_NO_PERIOD = "NOT EXISTS (SELECT FROM path_route WHERE path_route.route_id = route.id)"
# Incidents and silences before the deeds about them, reports before their subscribers, the periods of
# routes before the routes.
RECORDS = (
    ExpiringRows("received_batch", "deliveries", f"received_at < {_BEFORE} AND {_NEWER_BATCH}"),
    ExpiringRows("centre_sample", "deliveries", f"at < {_BEFORE}"),
    ExpiringRows("table_size", "deliveries", f"at < {_BEFORE}"),
    ExpiringRows("refused_result", "refused", f"refused_at < {_BEFORE}"),
    ExpiringRows("slot", "slots"),
    ExpiringRows("ping_run", "on_demand_pings", _OF_OLD_REQUEST),
    ExpiringRows("ping_request", "on_demand_pings", f"asked_at < {_BEFORE} AND {_NO_RUNS}"),
    ExpiringRows("reverse_name", "reverse_names", f"seen_at < {_BEFORE}"),
    ExpiringRows("trace_request", "traces", f"asked_at < {_BEFORE}"),
    ExpiringRows("path_route", "routes", f"until < {_BEFORE} AND NOT {_TRACES_KEPT}"),
    ExpiringRows("route", "routes", f"first_at < {_BEFORE} AND {_NO_PERIOD}"),
    ExpiringRows("cycle_day", "ledger", f"day < ({_BEFORE} AT TIME ZONE 'UTC')::date"),
    ExpiringRows("agent_gap", "ledger", f"until <= {_BEFORE}"),
    ExpiringRows("clock_off_period", "ledger", f"until < {_BEFORE}"),
    ExpiringRows("throughput_sweep", "throughput"),
    ExpiringRows("aggregate_run", "throughput", f"starts_at < {_BEFORE}"),
    ExpiringRows("host_inventory", "throughput", f"last_at < {_BEFORE} - interval '2 days'"),
    ExpiringRows("throughput_capture", "captures", f"captured_at < {_BEFORE}"),
    ExpiringRows("incident", "incidents"),
    ExpiringRows("quiet", "incidents"),
    ExpiringRows("deed", "deeds", f"at < {_BEFORE} AND incident_id IS NULL AND quiet_id IS NULL"),
    ExpiringRows("report_delivery", "reports", f"due_at < {_BEFORE}"),
    ExpiringRows("report_subscriber", "reports", f"ended_at < {_BEFORE} AND {_NO_REPORTS}"),
    ExpiringRows("agent_token", "access", f"revoked_at < {_BEFORE}"),
    ExpiringRows("user_token", "access", f"revoked_at < {_BEFORE}"),
    ExpiringRows("shared_link", "access", f"least(revoked_at, expires_at) < {_BEFORE}"),
    ExpiringRows("enrolment_code", "access", f"least(used_at, expires_at) < {_BEFORE}"),
)
SESSIONS = ExpiringRows("django_session", "sessions", f"expire_date < {_BEFORE}")


def delete_old(now: datetime, deadline: Deadline) -> dict[str, int]:
    """Delete records past retention, until the deadline; return rows by table."""
    deleted = {}
    for records in RECORDS:
        before = keeps_from(records.key, now)
        if before is not None:
            _note_kept_since(records.key, before)
            deleted[records.table] = _delete(records, before, deadline)
    deleted[SESSIONS.table] = _delete(SESSIONS, now, deadline)
    for table, count in deleted.items():
        if count:
            logger.info("retention: %d rows deleted from %s", count, table)
    return deleted


def keeps_from(key: str, now: datetime) -> datetime | None:
    """Start of a key's retention, in whole days (slots: years, for yearly summaries); None: all is kept."""
    days = settings.RETENTION_DAYS[key]
    if not days:
        return None
    return start_of("year" if key == "slots" else "day", _days_before(now, max(days, LEAST_DAYS.get(key, 0))))


def _days_before(now: datetime, days: int) -> datetime:
    """`now` minus days, limited to the year 1000."""
    seconds = now.timestamp() - days * 86_400
    return datetime.fromtimestamp(max(seconds, datetime(1000, 1, 1, tzinfo=UTC).timestamp()), UTC)


def _note_kept_since(key: str, since: datetime) -> None:
    if key in ("ledger", "slots"):
        with connection.cursor() as cursor:
            cursor.execute(statement("note_kept_since"), {"key": key, "since": since})


def _delete(records: ExpiringRows, before: datetime, deadline: Deadline) -> int:
    deleted = 0
    while not deadline.passed:
        with connection.cursor() as cursor:
            cursor.execute(records.batch, {"before": before, "most": ROWS_AT_ONCE})
            (count,) = cursor.fetchone()
        deleted += count
        if count < ROWS_AT_ONCE:
            break
    return deleted

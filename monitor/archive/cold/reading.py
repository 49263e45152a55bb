"""Run statements on a path's raw bursts, including bursts in files, as a common table expression `burst`.

Readers with limits get only visible paths.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from django.conf import settings
from django.utils import timezone

from monitor.archive.cold import days
from monitor.archive.models import Burst, ColdFile
from monitor.archive.statements import Names, Rows, run_text, statement

_BOTH = """WITH burst AS (
    SELECT stored.* FROM burst AS stored
    WHERE stored.path_id = %(path_id)s
        AND stored.measured_at >= %(since)s::timestamptz AND stored.measured_at < %(until)s::timestamptz
    UNION ALL
    SELECT DISTINCT ON (measured_at, packet_bytes) cold.*
    FROM jsonb_populate_recordset(NULL::burst, %(cold)s::jsonb) AS cold
    WHERE EXISTS (SELECT FROM path WHERE path.id = cold.path_id) AND NOT EXISTS (
        SELECT FROM burst AS stored
        WHERE stored.path_id = cold.path_id AND stored.measured_at = cold.measured_at
            AND stored.packet_bytes = cold.packet_bytes
    )
)
"""


def run_burst_statement(name: str, parts: dict[str, str] | None = None, /, **parameters: Any) -> tuple[Names, Rows]:
    """Run a statement without WITH that reads the table `burst`, by `path_id`, `since` and `until`. Raises
    `ColdFileError`."""
    text = statement(name, **(parts or {}))
    cold = _rows(parameters["path_id"], parameters["since"], parameters["until"])
    if cold:
        text = _BOTH + text
        parameters["cold"] = msgspec.json.encode(cold).decode()
    return run_text(text, parameters)


def _rows(path_id: int, since: datetime, until: datetime) -> list[dict[str, Any]]:
    if not settings.COLD_BURSTS or since > timezone.now() - timedelta(days=settings.COLD_BURSTS_DAYS):
        return []
    files = ColdFile.objects.filter(
        day__gte=since.astimezone(UTC).date(),
        day__lte=until.astimezone(UTC).date(),
        first_path_id__lte=path_id,
        last_path_id__gte=path_id,
    ).order_by("pk")
    names = list(files.values_list("name", flat=True))
    place = days.place() if names else None
    if place is None:
        return []
    defaults = {field.attname: field.db_default for field in Burst._meta.concrete_fields if field.has_db_default()}
    return [_as_row(row, defaults) for name in names for row in place.bursts(name, path_id, since, until)]


def _as_row(row: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Fill in columns that are newer than the file."""
    row = {**defaults, **row}
    row["errors"] = None if row["errors"] is None else msgspec.json.decode(row["errors"])
    return row

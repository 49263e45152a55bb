"""Results of a path over a period, of a kind of `monitor.archive.kinds`: a record of its `point` for each."""

from __future__ import annotations

from datetime import datetime

from monitor.archive.kinds import RESULT_KINDS
from monitor.archive.kinds.kind import Point
from monitor.archive.statements import check_period, columns, records, run_statement


def kind_series(kind: str, path_id: int, since: datetime, until: datetime) -> list[Point]:
    """All results of a path that began in the period, oldest first, whatever their outcome."""
    return _select(kind, "ASC", path_id, since, until, None)


def newest_of_kind(kind: str, path_id: int, since: datetime, until: datetime, most: int) -> list[Point]:
    """The newest results of the period, newest first, whatever their outcome."""
    return _select(kind, "DESC", path_id, since, until, most)


def _select(kind: str, order: str, path_id: int, since: datetime, until: datetime, most: int | None) -> list[Point]:
    check_period(since, until)
    result_kind = RESULT_KINDS[kind]
    parts = {**columns(result_kind.point), "table": result_kind.table._meta.db_table, "order": order}
    parameters = {"path_id": path_id, "since": since, "until": until, "most": most}
    return records(result_kind.point, *run_statement("kind_series", parts, **parameters))

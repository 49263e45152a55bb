"""Store each path's newest judged RTT burst and STAMP cycle; concurrent writers never move a time back."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import connection

from monitor.alerts.models import JudgedDelays, JudgedPath

JudgedModel = type[JudgedPath] | type[JudgedDelays]

_WRITE = """
    INSERT INTO {table} (path_id, judged_s)
    SELECT * FROM unnest(%(path_ids)s::bigint[], %(judged_s)s::double precision[])
    ON CONFLICT (path_id) DO UPDATE SET judged_s = greatest({table}.judged_s, excluded.judged_s)
"""


def read(judged: JudgedModel = JudgedPath) -> dict[int, float]:
    """Read the time of the newest judged burst by path, in seconds since the epoch."""
    return dict(judged.objects.values_list("path_id", "judged_s"))


def write(judged_s: Mapping[int, float], judged: JudgedModel = JudgedPath) -> None:
    """Store the time of the newest judged burst of these paths."""
    if not judged_s:
        return
    with connection.cursor() as cursor:
        statement = _WRITE.format(table=judged._meta.db_table)
        cursor.execute(statement, {"path_ids": list(judged_s), "judged_s": list(judged_s.values())})

"""Up to which burst the round trips of each path have been judged. Never goes back, whoever writes last."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import connection

from monitor.alerts.models import JudgedPath

_WRITE = """
    INSERT INTO judged_path (path_id, judged_s)
    SELECT * FROM unnest(%(path_ids)s::bigint[], %(judged_s)s::double precision[])
    ON CONFLICT (path_id) DO UPDATE SET judged_s = greatest(judged_path.judged_s, excluded.judged_s)
"""


def read() -> dict[int, float]:
    """The time, in seconds since the epoch, of the newest burst that was judged, by path."""
    return dict(JudgedPath.objects.values_list("path_id", "judged_s"))


def write(judged_s: Mapping[int, float]) -> None:
    """Note the newest burst that was judged of these paths."""
    if not judged_s:
        return
    with connection.cursor() as cursor:
        cursor.execute(_WRITE, {"path_ids": list(judged_s), "judged_s": list(judged_s.values())})

"""Paths whose newest bursts all have a longer RTT than those before them, without a proof so far: they are not called
normal while the rule `rtt` collects its samples. Stored beside the newest judged burst of each path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from django.db import connection

from monitor.alerts.detect.rtt_windows import WINDOWS_AT_ONCE, TripWindows
from monitor.alerts.detect.rules.round_trips import RoundTripRule
from monitor.alerts.models import JudgedPath
from monitor.analysis.changes.raised import raised
from monitor.mesh.document.alert_rules import RuleSettings

FIGURES = ("minimum", "median")
"""The last that is raised is stored."""

_WRITE = """
    UPDATE judged_path SET before_ms = rtt.before_ms, raised_ms = rtt.raised_ms
    FROM unnest(%(path_ids)s::bigint[], %(before_ms)s::double precision[], %(raised_ms)s::double precision[])
        AS rtt (path_id, before_ms, raised_ms)
    WHERE judged_path.path_id = rtt.path_id AND (judged_path.raised_ms IS NOT NULL OR rtt.raised_ms IS NOT NULL)
"""


@dataclass(frozen=True, slots=True)
class RaisedRtt:
    """The RTT of the newest bursts of a path, and of those before them."""

    before_ms: float
    raised_ms: float


def of_windows(trips: TripWindows, settings: Mapping[int, RuleSettings]) -> dict[int, RaisedRtt | None]:
    """Of each path with new windows: its raised RTT, by the least rise of its rule `rtt`; None where it is not raised,
    or the path has no such rule."""
    windows = np.flatnonzero(np.diff(trips.path_id, append=-1))
    path_ids = trips.path_id[windows].tolist()
    rules = [cast("RoundTripRule | None", settings.get(path_id)) for path_id in path_ids]
    least_ms = [np.inf if rule is None else rule.least_rise_ms for rule in rules]
    least_ratio = [0.0 if rule is None else rule.least_rise_ratio for rule in rules]
    rtts: dict[int, RaisedRtt | None] = dict.fromkeys(path_ids)
    for figure in FIGURES:
        for first in range(0, len(windows), WINDOWS_AT_ONCE):
            part = slice(first, first + WINDOWS_AT_ONCE)
            values_ms = trips.values_ms(figure, windows[part])
            counts = raised(values_ms, least_ms[part], least_ratio[part])
            for row in np.flatnonzero(counts).tolist():
                before_ms, raised_ms = np.split(values_ms[row], [-counts[row]])
                rtts[path_ids[first + row]] = RaisedRtt(float(np.median(before_ms)), float(np.median(raised_ms)))
    return rtts


def write(rtts: Mapping[int, RaisedRtt | None]) -> None:
    """Store the raised RTT of these paths, and that the others have none."""
    columns: dict[str, Any] = {
        "path_ids": list(rtts),
        "before_ms": [None if rtt is None else rtt.before_ms for rtt in rtts.values()],
        "raised_ms": [None if rtt is None else rtt.raised_ms for rtt in rtts.values()],
    }
    with connection.cursor() as cursor:
        cursor.execute(_WRITE, columns)


def levels() -> dict[int, RaisedRtt]:
    """The raised RTTs of paths, by path."""
    rows = JudgedPath.objects.filter(raised_ms__isnull=False).values_list("path_id", "before_ms", "raised_ms")
    return {
        path_id: RaisedRtt(cast("float", before_ms), cast("float", raised_ms)) for path_id, before_ms, raised_ms in rows
    }


def read() -> dict[int, tuple[str, RaisedRtt]]:
    """The paths in use with a raised RTT, with their names."""
    rows = JudgedPath.objects.filter(raised_ms__isnull=False, path__retired_at=None).order_by("path_id")
    rows = rows.select_related("path__source__site", "path__destination__site")
    return {
        row.path_id: (str(row.path), RaisedRtt(cast("float", row.before_ms), cast("float", row.raised_ms)))
        for row in rows
    }

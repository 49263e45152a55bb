"""Correct incidents by results that arrived after their detection; no incident opens or ends by it.

Exactly the period that the finding counted is judged again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Max

from monitor.alerts.detect.rules.by_direction import DIRECTION, way_text
from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.detect.rules.finding import NOT_FIRED, LateResults
from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import IncidentPath
from monitor.analysis.directions import LostDirection
from monitor.archive.queries.directions import direction_counts
from monitor.archive.queries.paths import LossWindow, loss_windows
from monitor.mesh.models import KindName, Measurement

WITHIN = timedelta(days=1)
# How long after its end the results of a cycle are usually on their way.
DELIVERY_S = 30


def correct(now: datetime) -> int:
    """Judge recent findings again; returns the number of new corrections."""
    names = [name for name, rule in RULES.items() if rule.late_results is not None]
    rows = IncidentPath.objects.filter(rule__in=names, added_at__gte=now - WITHIN, added_at__lte=now)
    corrections: dict[int, list[str]] = {}
    void: Counter[int] = Counter()
    every_s = _intervals_s(rows.values_list("path_id", flat=True))
    for row in rows.select_related("path__source", "path__destination").order_by("pk"):
        sentence = _corrected(row, every_s.get(row.path_id, 0))
        if sentence is not None:
            corrections.setdefault(row.incident_id, []).append(f"{row.path}: {sentence}")
            void[row.incident_id] += sentence.endswith(NOT_FIRED)
    of_all = IncidentPath.objects.filter(incident__in=corrections).values_list("incident_id").annotate(Count("pk"))
    findings = dict(of_all.order_by())
    return sum(
        lifecycle.correct(incident_id, "; ".join(sentences), now, is_void=void[incident_id] == findings[incident_id])
        for incident_id, sentences in corrections.items()
    )


def _intervals_s(path_ids: Iterable[int]) -> dict[int, int]:
    kinds = [*KindName.PING.alternatives, KindName.STAMP]
    rows = Measurement.objects.filter(path__in=set(path_ids), retired_at=None, test__kind__in=kinds)
    return dict(rows.values_list("path_id").annotate(Max("test__every_s")).order_by("path_id"))


def _corrected(row: IncidentPath, every_s: int) -> str | None:
    late = RULES[row.rule].late_results
    period = None if late is None else late.period(row.figures)
    if late is None or period is None:
        return None
    direction = row.figures.get(DIRECTION)
    if direction is not None:
        return _corrected_direction(row, direction, late, every_s, *period)
    counted = loss_windows(*period, path_ids=[row.path_id])
    if not counted or _is_in_time(row.figures, counted[0], every_s, period):
        return None
    return late.correct(row.figures, counted[0])


def _is_in_time(
    figures: Mapping[str, Any], counted: LossWindow, every_s: int, period: tuple[datetime, datetime]
) -> bool:
    """Whether only the cycle then in transit has arrived since."""
    if "sent" not in figures or "window_s" not in figures:
        return False
    share = (every_s + DELIVERY_S) / (period[1] - period[0]).total_seconds()
    return 0 <= counted.sent - figures["sent"] <= share * counted.sent


def _corrected_direction(
    row: IncidentPath, direction: str, late: LateResults, every_s: int, since: datetime, until: datetime
) -> str | None:
    counts = direction_counts(since, until, [row.path_id]).get(row.path_id)
    if counts is None:
        return None
    way = counts.forward if direction == LostDirection.FORWARD else counts.reverse
    counted = LossWindow(row.path_id, way.bursts, way.sent, way.sent - way.lost, way.lossy)
    is_in_time = _is_in_time(row.figures, counted, every_s, (since, until))
    sentence = None if is_in_time else late.correct(row.figures, counted)
    return None if sentence is None else f"{way_text(str(row.path), direction)} {sentence}"

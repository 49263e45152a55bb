"""Correct incidents by results that arrived after their detection.

In: the findings of incidents that last or ended within a day, and the archive's present data of the judged time. Out:
the sentence `correction` of each incident whose figures have changed. A correction opens and ends no incident: the
rules do that by present data. Loss and no data are judged again; RTTs are judged once, in the order of arrival.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from django.db.models import Count

from monitor.alerts.detect.rules import loss
from monitor.alerts.detect.snapshot import RECENT_S
from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import IncidentPath
from monitor.archive.queries.paths import loss_windows
from monitor.archive.statements import LONGEST_RAW

WITHIN = timedelta(days=1)
WOULD_NOT = "below threshold"
BEFORE_LOOKS_COUNTED = 0.05
"""The probability of error for findings of an old version, which did not store it."""


def correct(now: datetime) -> int:
    """Judge recent findings again; returns how many incidents have a new correction."""
    rows = IncidentPath.objects.filter(rule__in=("loss", "no_data"), added_at__gte=now - WITHIN, added_at__lte=now)
    corrections: dict[int, list[str]] = {}
    void: Counter[int] = Counter()
    for row in rows.select_related("path__source", "path__destination").order_by("pk"):
        sentence = _corrected_loss(row) if row.rule == "loss" else _corrected_no_data(row)
        if sentence is not None:
            corrections.setdefault(row.incident_id, []).append(f"{row.path}: {sentence}")
            void[row.incident_id] += sentence.endswith(WOULD_NOT)
    of_all = IncidentPath.objects.filter(incident__in=corrections).values_list("incident_id").annotate(Count("pk"))
    findings = dict(of_all.order_by())
    return sum(
        lifecycle.correct(incident_id, "; ".join(sentences), now, is_void=void[incident_id] == findings[incident_id])
        for incident_id, sentences in corrections.items()
    )


def _corrected_loss(row: IncidentPath) -> str | None:
    if "until" not in row.figures:
        return None  # of an old version, which did not store it
    until, window_s = datetime.fromisoformat(row.figures["until"]), row.figures["window_s"]
    for counted in loss_windows(until - timedelta(seconds=window_s), until, path_ids=[row.path_id]):
        counts = (counted.bursts, counted.lossy_bursts, counted.sent, counted.received)
        late = loss.loss_window(counts, row.figures["threshold_ratio"], window_s)
        holds = late.fires(row.figures.get("most_chance", BEFORE_LOOKS_COUNTED))
        # Hourly rollups, the source of longer windows, lag a little behind the bursts.
        is_as_found = (late.sent, late.lost) == (row.figures["sent"], row.figures["lost"])
        if not is_as_found and not (holds and window_s > RECENT_S):
            outcome = "still above threshold" if holds else WOULD_NOT
            return f"with late results {loss.describe(late, until)}, {outcome}"
    return None


def _corrected_no_data(row: IncidentPath) -> str | None:
    """Bursts of the time without data that were measured, but delivered late."""
    found_at = datetime.fromisoformat(row.figures["found"])
    since = max(datetime.fromisoformat(row.figures["since"]) + timedelta(microseconds=1), found_at - LONGEST_RAW)
    late = loss_windows(since, found_at, path_ids=[row.path_id])
    if not late:
        return None
    return f"{late[0].bursts} bursts of that time arrived late: the path was measured, its results were delayed"

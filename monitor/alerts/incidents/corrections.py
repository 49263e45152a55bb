"""What results that came late say of an incident that was found without them.

In: the findings of incidents that last or ended within a day, and what is stored now of the time that was judged. Out:
the sentence `correction` of each incident whose ground has changed. A correction opens and ends nothing: the rules do
that by what is true now. Loss and missing measurements are looked at again; round trips are judged once, in the order
in which they come.
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
WOULD_NOT = "which would not have opened it"
BEFORE_LOOKS_COUNTED = 0.05
"""With what chance of error a version proved loss that did not keep it with its figures."""


def correct(now: datetime) -> int:
    """Look again at what was found lately; returns how many incidents have a new correction."""
    rows = IncidentPath.objects.filter(rule__in=("loss", "no_data"), added_at__gte=now - WITHIN, added_at__lte=now)
    found: dict[int, list[str]] = {}
    void: Counter[int] = Counter()
    for row in rows.select_related("path__source", "path__destination").order_by("pk"):
        sentence = _of_loss(row) if row.rule == "loss" else _of_no_data(row)
        if sentence is not None:
            found.setdefault(row.incident_id, []).append(f"{row.path}: {sentence}")
            void[row.incident_id] += sentence.endswith(WOULD_NOT)
    of_all = IncidentPath.objects.filter(incident__in=found).values_list("incident_id").annotate(Count("pk"))
    findings = dict(of_all.order_by())
    return sum(
        lifecycle.correct(incident_id, "; ".join(sentences), now, is_void=void[incident_id] == findings[incident_id])
        for incident_id, sentences in found.items()
    )


def _of_loss(row: IncidentPath) -> str | None:
    if "until" not in row.figures:
        return None  # found by a version that did not keep it
    until, window_s = datetime.fromisoformat(row.figures["until"]), row.figures["window_s"]
    for one in loss_windows(until - timedelta(seconds=window_s), until, path_ids=[row.path_id]):
        counts = (one.bursts, one.lossy_bursts, one.sent, one.received)
        late = loss.loss_window(counts, row.figures["threshold_ratio"], window_s)
        holds = late.fires(row.figures.get("most_chance", BEFORE_LOOKS_COUNTED))
        # The summaries of hours, which longer windows are made of, come a little after the bursts themselves.
        is_as_found = (late.sent, late.lost) == (row.figures["sent"], row.figures["lost"])
        if not is_as_found and not (holds and window_s > RECENT_S):
            outcome = "which proves the same" if holds else WOULD_NOT
            return f"with results that came late {loss.describe(late, until)}, {outcome}"
    return None


def _of_no_data(row: IncidentPath) -> str | None:
    """Missing measurements that were made after all, while their results could not be delivered."""
    found_at = datetime.fromisoformat(row.figures["found"])
    since = max(datetime.fromisoformat(row.figures["since"]) + timedelta(microseconds=1), found_at - LONGEST_RAW)
    late = loss_windows(since, found_at, path_ids=[row.path_id])
    if not late:
        return None
    return f"{late[0].bursts} bursts of that time came late: it was measured, and the results could not be delivered"

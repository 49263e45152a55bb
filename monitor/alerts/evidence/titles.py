"""The stored title of each incident, for dashboards, which read rows only.

In: the incidents that lasted when an evaluation began. Out: `Incident.title`, the words of pages and messages.
"""

from __future__ import annotations

from collections.abc import Iterable

from monitor.alerts.evidence.words import headline
from monitor.alerts.models import Incident


def update_titles(lasting: Iterable[Incident]) -> None:
    """Store the present titles; that of an incident which has ended meanwhile has its peak only."""
    of_id = {incident.pk: incident for incident in lasting}
    stored = Incident.objects.filter(pk__in=of_id).values_list(
        "pk", "closed_at", "toward", "toward_by", "began_at", "began_within_s", "cause", "ended_at"
    )
    changed = []
    for pk, closed_at, toward, toward_by, began_at, began_within_s, cause, ended_at in stored:
        incident = of_id[pk]
        incident.ended_at, incident.toward_by, incident.began_within_s = ended_at, toward_by, began_within_s
        incident.closed_at, incident.toward, incident.began_at, incident.cause = closed_at, toward, began_at, cause
        title = headline(incident)
        if title != incident.title:
            incident.title = title
            changed.append(incident)
    Incident.objects.bulk_update(changed, ["title"])

"""Store the title and onset of incidents at each evaluation, from their tracks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db.models import Q

from monitor.alerts.evidence.dating.onsets import onset_of, onset_of_untracked
from monitor.alerts.evidence.likely_cause import cause_place
from monitor.alerts.evidence.stated import BY_STAMP
from monitor.alerts.evidence.words import figure_text, period
from monitor.alerts.incidents.gravest import active_findings, gravest_first, of_gravest_rule
from monitor.alerts.incidents.own_present import is_over, lasting_rows, load_present, over_since, own_present
from monitor.alerts.incidents.own_track import normal_since
from monitor.alerts.models import Incident
from monitor.mesh.models import Path
from monitor.present import words
from monitor.present.conditions import Condition
from monitor.present.read import PresentPath
from monitor.present.track import Signal

# Columns that are written when any of them has changed.
STORED = ("title", "over_since", "toward", "toward_by", "began_at", "began_within_s")
# New incidents without tracks in an evaluation: dating each takes three queries.
MOST_AT_ONCE = 20


def update_titles(incidents: Sequence[Incident], now: datetime) -> None:
    """Store changed titles, onsets and ends: two queries, one more for each site with dead paths."""
    present, changed = load_present(incidents), []
    new = [incident.pk for incident in incidents if now in (incident.opened_at, incident.reopened_at)][:MOST_AT_ONCE]
    for incident in incidents:
        own, before = own_present(incident, present), [getattr(incident, name) for name in STORED]
        told = _direction(incident, own)
        if told:
            incident.toward, incident.toward_by = told, BY_STAMP
        if incident.closed_at is None:
            _date(incident, present, now, is_new=incident.pk in new)
        incident.title = title_of(incident, own, now)
        incident.over_since = over_since(own) if incident.closed_at is None else None
        if before != [getattr(incident, name) for name in STORED]:
            changed.append(incident)
    Incident.objects.bulk_update(changed, STORED)


def _date(incident: Incident, present: Mapping[int, PresentPath], now: datetime, *, is_new: bool) -> None:
    began, rows = onset_of(incident, present), of_gravest_rule(incident)
    if began is None and is_new and rows:
        of_bursts = onset_of_untracked(rows[0], now)
        began = None if of_bursts.earliest is None else of_bursts
    if began is not None:
        incident.began_at, incident.began_within_s = began.at, began.width_s


def title_of(incident: Incident, own: Sequence[PresentPath], now: datetime) -> str:
    """`ornl → slac loses 3% since 13:34:02 UTC`; once ended `ornl → slac lost 3%, from … to …`."""
    place = place_of(incident)
    worst = max((path.condition for path in own), default=Condition.NORMAL)
    of_paths = _paths_of(place) if worst is Condition.DEAD else None
    if incident.closed_at is not None:
        return f"{words.past(place, own) or _found(incident, place)}, {period(incident)}"
    is_followed = any(track.trouble for path in own for track in path.tracks)
    if not is_followed or (worst is Condition.BAD and max(own, key=_condition).worst.signal > Signal.RTT):
        ends = [end for row in lasting_rows(incident) if (end := normal_since(row)) is not None]
        if own and ends and is_over(own):
            figure, since = _found(incident, place).removeprefix(f"{place}: "), words.moment(max(ends).timestamp(), now)
            return f"{place}: normal again since {since}; {figure} {period(incident, 'from')}"
        return f"{_found(incident, place)} {period(incident)}"
    return words.clause(place, own, of_paths, now)


def place_of(incident: Incident) -> str:
    """The direction that tests tell, else the place of the cause."""
    return incident.toward if " → " in incident.toward else cause_place(incident.cause)


def _direction(incident: Incident, own: Sequence[PresentPath]) -> str:
    ends = {row.path_id: (row.path.source.site.name, row.path.destination.site.name) for row in incident.paths.all()}
    told = {words.place(path, *ends[path.path_id]) for path in own if path.way and path.path_id in ends}
    is_between_two = len({frozenset(of_path) for of_path in ends.values()}) == 1
    return told.pop() if is_between_two and len(told) == 1 else ""


def _condition(path: PresentPath) -> Condition:
    return path.condition


def _found(incident: Incident, place: str) -> str:
    rows = gravest_first(active_findings(incident)) or list(incident.paths.all())
    return f"{place}: {figure_text(rows[0].rule, rows[0].figures) if rows else incident.summary}"


def _paths_of(place: str) -> int:
    ends = Q(source__site__name=place) | Q(destination__site__name=place)
    return Path.objects.filter(ends, retired_at=None).count()

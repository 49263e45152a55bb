"""The onset of incidents, from track segments or else by the bursts of the gravest path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Q

from monitor.alerts.detect import packet_times
from monitor.alerts.detect.packet_times import NO_SPACING
from monitor.alerts.detect.rules.by_direction import DIRECTION
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import LOSSY, BurstLevel, Effect, Trouble
from monitor.alerts.evidence import episode
from monitor.alerts.evidence.facts import TESTS, Beginning
from monitor.alerts.incidents.gravest import of_gravest_rule
from monitor.alerts.incidents.own_present import track_of
from monitor.alerts.models import Incident, IncidentPath
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.analysis.segments.segment import Moment
from monitor.analysis.segments.stretches import DEAD
from monitor.archive.queries.around import bursts_around
from monitor.archive.queries.present.lost_order import lost_order
from monitor.archive.queries.throughput.series import rates_of_paths
from monitor.archive.statements import LONGEST_RAW
from monitor.mesh.models import Path
from monitor.present.followed_loss import ALL_SIZES
from monitor.present.loss_tracks import SHORT, onset_in
from monitor.present.read import PresentPath
from monitor.present.track import AnySegment

PATHS_IN_DETAIL = 8
LEAST_SEARCH = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class PathPair:
    """A path of an incident with its findings, and the reverse path."""

    path: Path
    rows: tuple[IncidentPath, ...]
    back: Path | None

    @property
    def path_ids(self) -> list[int]:
        return [self.path.pk] if self.back is None else [self.path.pk, self.back.pk]


def path_pairs(rows: Sequence[IncidentPath]) -> list[PathPair]:
    """The gravest paths, each paired with its reverse path."""
    of_path: dict[int, list[IncidentPath]] = {}
    for row in rows:
        of_path.setdefault(row.path_id, []).append(row)
    chosen = [path_rows[0].path for path_rows in of_path.values()][: 2 * PATHS_IN_DETAIL]
    ends = Q(pk__in=[])
    for path in chosen:
        ends |= Q(source_id=path.destination_id, destination_id=path.source_id)
    backs = {
        (path.source_id, path.destination_id): path
        for path in Path.objects.filter(ends).select_related("source__site", "destination__site")
    }
    pairs: list[PathPair] = []
    shown: set[int] = set()
    for path in chosen:
        if path.pk not in shown and len(pairs) < PATHS_IN_DETAIL:
            back = backs.get((path.destination_id, path.source_id))
            pairs.append(PathPair(path, tuple(of_path[path.pk]), back))
            shown.update(pairs[-1].path_ids)
    return pairs


def onset_of(incident: Incident, present: Mapping[int, PresentPath]) -> Beginning | None:
    """Date the onset by the track with the narrowest interval; None without tracks."""
    begun = [
        (segment, str(row.path)) for row in of_gravest_rule(incident) if (segment := _begun(incident, row, present))
    ]
    first = min(begun, key=lambda of: (of[0].since.width_s, of[0].since.at_s), default=None)
    return None if first is None else _beginning(*first)


def _begun(incident: Incident, row: IncidentPath, present: Mapping[int, PresentPath]) -> AnySegment | None:
    track = track_of(row, present.get(row.path_id))
    if track is None:
        return None
    found_at = max(row.added_at, incident.reopened_at or row.added_at)
    trouble = track.trouble_at(found_at.timestamp())
    silent = [of for of in trouble if isinstance(of, LossSegment) and of.state == DEAD]
    is_unreachable = rule_of(row.rule).effect is Effect.UNREACHABLE
    first = silent[0] if silent and is_unreachable else next(iter(trouble), None)
    if first is None or first.since.is_bounded:
        return first
    # A loss track begins with the bursts of the last hour: a younger one begins with the first burst of its path.
    age_s = found_at.timestamp() - first.since.at_s
    return first if isinstance(first, LossSegment) and age_s < SHORT.total_seconds() / 2.0 else None


def _beginning(segment: AnySegment, path: str) -> Beginning:
    if not isinstance(segment, LossSegment):
        return _of_moment(segment.since, path, "RTT")
    is_outage = segment.state == DEAD
    return _of_moment(segment.since, path, "last reply" if is_outage else "loss", is_outage=is_outage)


def _of_moment(since: Moment, path: str, of: str, *, is_outage: bool = False) -> Beginning:
    earliest = datetime.fromtimestamp(since.earliest_s, UTC) if since.is_bounded else None
    at, latest = (datetime.fromtimestamp(at_s, UTC) for at_s in (since.at_s, since.latest_s))
    return Beginning(at, earliest, latest, path, of, is_outage)


def onset_of_untracked(row: IncidentPath, until: datetime) -> Beginning:
    """Date a finding's onset by bursts or tests up to its detection, or by its rule: three queries at most."""
    by_rule, by = Beginning(row.since, None, None, str(row.path), "the rule"), rule_of(row.rule).began_by
    if rule_of(row.rule).trouble is Trouble.THROUGHPUT:
        before = rates_of_paths([row.path_id], row.since - LONGEST_RAW, row.since)
        return Beginning(row.since, before[-1].at, row.since, str(row.path), TESTS) if before else by_rule
    if by is None or (DIRECTION in row.figures and isinstance(by, BurstLevel)):
        return by_rule  # the RTTs of pings need not show a change of a one-way delay
    # Later bursts tell nothing about the onset, and bursts after the end blur it.
    until = min(until, row.added_at)
    searched = max(LEAST_SEARCH, min(row.added_at - row.since, LONGEST_RAW))
    since = min(max(row.since - searched, until - LONGEST_RAW), until)
    spacing = packet_times.spacings([row.path_id]).get(row.path_id, NO_SPACING)
    if by is LOSSY:
        path_ids = path_pairs([row])[0].path_ids
        bursts = lost_order(path_ids, [since.timestamp()] * len(path_ids), until)
        onset = onset_in(bursts, path_ids, ALL_SIZES, spacing.longest_s)
        return by_rule if onset is None else _of_moment(onset, str(row.path), "loss")
    bursts_of_path = bursts_around([row.path_id], since, until)
    return episode.find_beginning(bursts_of_path, str(row.path), by, row.figures, spacing) or by_rule

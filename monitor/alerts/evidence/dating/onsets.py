"""The onset of incidents by the bursts of their paths.

In: an incident with its paths. Out: its `Beginning`. `store_onsets` stores it when the incident is detected, so that
all pages show the same onset from then on. `monitor.alerts.evidence.gather` finds it again with the evidence, when
more paths may have joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db.models import Q

from monitor.alerts.detect import packet_times
from monitor.alerts.detect.packet_times import NO_SPACING, Spacing
from monitor.alerts.detect.rules.by_direction import DIRECTION
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import LOSSY, BurstLevel, Trouble
from monitor.alerts.detect.snapshot import Key
from monitor.alerts.evidence import episode
from monitor.alerts.evidence.dating.earlier_losses import after_earlier_loss
from monitor.alerts.evidence.facts import TESTS, Beginning
from monitor.alerts.incidents.finding_level import level_of
from monitor.alerts.incidents.gravest import gravest_first
from monitor.alerts.incidents.lasting_state import settled_at
from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.queries.around import BurstColumns, bursts_around
from monitor.archive.queries.for_alerts import Columns, newest_directions
from monitor.archive.queries.throughput.series import rates_of_paths
from monitor.archive.statements import LONGEST_RAW
from monitor.mesh.models import Path

PATHS_IN_DETAIL = 8
LEAST_SEARCH = timedelta(hours=1)
MOST_AT_ONCE = 20
"""Incidents of an evaluation: each takes four queries, of a loss five, of an outage six at most."""
PACKETS_NEAR = 2.0
"""Two packets in a row are no further apart than so many spacings, by which even pings vary."""


@dataclass(frozen=True, slots=True)
class PathPair:
    """A path of an incident with its findings, and the reverse path."""

    path: Path
    rows: tuple[IncidentPath, ...]
    back: Path | None

    @property
    def path_ids(self) -> list[int]:
        return [self.path.pk] if self.back is None else [self.path.pk, self.back.pk]

    @property
    def both(self) -> str:
        """The name of both paths."""
        return str(self.path).replace(" → ", " ↔ ")


def store_onsets(incidents: Iterable[Incident], now: datetime) -> None:
    """Store the onset of those of these incidents that were detected or reopened at `now`."""
    new = [incident for incident in incidents if now in (incident.opened_at, incident.reopened_at)]
    for incident in new[:MOST_AT_ONCE]:
        began = _onset(incident, now)
        if began is not None and began.earliest is not None:
            incident.began_at, incident.began_within_s = began.at, began.width_s
            Incident.objects.filter(pk=incident.pk).update(began_at=began.at, began_within_s=began.width_s)


def _onset(incident: Incident, now: datetime) -> Beginning | None:
    rows = gravest_first(row for row in incident.paths.all() if not row.is_over)
    if not rows:
        return None
    pairs = path_pairs(rows)
    path_ids = sorted({path_id for pair in pairs for path_id in pair.path_ids})
    first = max(min(row.since - _search(row) for row in rows), now - LONGEST_RAW)
    settled = settled_at([pair.rows[0] for pair in pairs], first)
    bursts = bursts_around(path_ids, first, max(now, first))
    began = find_onset(pairs, bursts, now, packet_times.spacings(path_ids), settled)
    return None if began is None else after_replies(began, replies_of_levels(rows))


def find_onset(
    pairs: Sequence[PathPair],
    bursts: BurstColumns,
    until: datetime,
    spacings: Mapping[int, Spacing],
    settled: Mapping[Key, datetime],
) -> Beginning | None:
    """The beginning with the narrowest interval, of the paths with the gravest rule, which comes first."""
    gravest = [pair for pair in pairs if pair.rows[0].rule == pairs[0].rows[0].rule]
    stamp = _stamp_packets(gravest, until)
    dated = [_began(pair, bursts, stamp, until, spacings.get(pair.path.pk, NO_SPACING), settled) for pair in gravest]

    def width(began: Beginning) -> timedelta:
        return timedelta.max if began.earliest is None or began.latest is None else began.latest - began.earliest

    narrowest = min(dated, key=width, default=None)
    if narrowest is None:
        return None
    at = [of.at for of in dated if of.is_outage]
    replies = [*at, *_replies_of_tests(gravest, narrowest, spacings)]
    return after_replies(_not_before(narrowest, dated), replies)


def _replies_of_tests(pairs: Sequence[PathPair], began: Beginning, spacings: Mapping[int, Spacing]) -> list[datetime]:
    """The last replies of packets of throughput tests on these paths, if an outage began within a burst with some: a
    query, none where it began between two packets."""
    if began.earliest is None or began.latest is None or not began.is_outage:
        return []
    of_pairs = {pair.path.pk: spacings.get(pair.path.pk, NO_SPACING) for pair in pairs}
    width_s = (began.latest - began.earliest).total_seconds()
    if width_s <= max(PACKETS_NEAR * (of.most_s + of.slack_s) for of in of_pairs.values()):
        return []
    longest = timedelta(seconds=max(of.longest_s for of in of_pairs.values()))
    replies = packet_times.loaded_replies(of_pairs, began.earliest - longest, began.latest)
    return [reply.at for reply in replies]


def _not_before(began: Beginning, others: Sequence[Beginning]) -> Beginning:
    """An outage not before the earliest that each path which it cut allows, as far as their intervals overlap."""
    earliest = [of.earliest for of in others if of.is_outage and of.earliest is not None]
    if not began.is_outage or began.latest is None:
        return began
    return replace(began, earliest=max(at for at in earliest if at <= began.latest))


def after_replies(began: Beginning, last_replies: Iterable[datetime]) -> Beginning:
    """An outage with the last of these replies of the paths that it cut as its beginning, as far as that is within its
    interval: the onset wherever it is stated."""
    if not began.is_outage or began.earliest is None or began.latest is None:
        return began
    at = max([began.at, *(at for at in last_replies if at <= began.latest)])
    return replace(began, at=at)


def replies_of_levels(rows: Iterable[IncidentPath]) -> list[datetime]:
    """The last replies before the outages of these findings, as their levels have them for titles."""
    levels = [level for row in rows if (level := level_of(row)) is not None]
    return [level.last_reply for level in levels if level.last_reply is not None]


def path_pairs(rows: Sequence[IncidentPath]) -> list[PathPair]:
    """The gravest paths, each with its reverse path; a path and its reverse are a single pair."""
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


def _between_tests(row: IncidentPath, by_rule: Beginning) -> Beginning:
    """The beginning of a finding on throughput: after the last test before the first low one."""
    before = rates_of_paths([row.path_id], row.since - LONGEST_RAW, row.since)
    return replace(by_rule, earliest=before[-1].at, latest=by_rule.at, of=TESTS) if before else by_rule


def _stamp_packets(pairs: Sequence[PathPair], until: datetime) -> Columns:
    """The packets of the STAMP tests of these paths before their detection, if their rule is one of loss: a query."""
    lossy = [pair for pair in pairs if rule_of(pair.rows[0].rule).began_by is LOSSY]
    path_ids = sorted({path_id for pair in lossy for path_id in pair.path_ids})
    since = min((pair.rows[0].since - _search(pair.rows[0]) for pair in lossy), default=until)
    return newest_directions(path_ids, [since.timestamp()] * len(path_ids), until) if lossy else {}


def _began(
    pair: PathPair,
    bursts: BurstColumns,
    stamp: Columns,
    until: datetime,
    spacing: Spacing,
    settled: Mapping[Key, datetime],
) -> Beginning:
    """When the trouble began on a path by its own bursts up to its detection; otherwise by its rule. The pings of the
    reverse path cross the same links: where those of both do not deny it, a loss that is no outage began on both at
    once, which tells its onset nearer.

    Bursts after the detection tell nothing of the onset, and those after the end would blur it; those of an earlier
    trouble, before the path had settled, and of an earlier loss that had ended are not of this."""
    row = pair.rows[0]
    until = min(until, row.added_at)
    by_rule = Beginning(row.since, None, None, str(pair.path), "the rule")
    by = rule_of(row.rule).began_by
    if rule_of(row.rule).trouble is Trouble.THROUGHPUT:
        return _between_tests(row, by_rule)
    if by is None or (DIRECTION in row.figures and isinstance(by, BurstLevel)):
        return by_rule  # the RTTs of pings need not show a change of a one-way delay
    first = max(row.since - _search(row), settled.get((row.path_id, row.rule), row.since - _search(row)))
    if by is LOSSY:
        first = max(first, after_earlier_loss(row, pair.path_ids, bursts, stamp, first, until))
    near = episode.bursts_between(bursts, pair.path.pk, first, until)
    began = episode.find_beginning(near, str(pair.path), by, row.figures, spacing)
    if by is not LOSSY or pair.back is None or began is None or began.is_outage:
        return began or by_rule
    near = episode.bursts_between(bursts, pair.path_ids, first, until)
    together = episode.find_beginning(near, pair.both, by, row.figures, spacing)
    return began if together is None or not together.overlaps(began) else together


def _search(row: IncidentPath) -> timedelta:
    """The time before the start by the rule in which the onset may be."""
    return max(LEAST_SEARCH, min(row.added_at - row.since, LONGEST_RAW))

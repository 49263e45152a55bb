"""The figures of a week of the mesh, against the week before: what goes into the report, as numbers.

In: an ISO week and the moment of writing. Out: a `WeeklyReport`. What was measured comes from `archive.queries`, what
was planned and how things are called from the mesh, incidents from the alerts. Packet sizes are kept apart. Absence is
None, never 0. No text and no HTML: those are `monitor.reports.page`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Min

from monitor.alerts.models import Incident
from monitor.alerts.queries import incidents_between
from monitor.archive.queries import PathSummary, ThroughputSummary, path_summaries, throughput_summaries
from monitor.mesh.models import Kind, Measurement, Mesh, Path
from monitor.mesh.queries import planned_bursts
from monitor.reports.weeks import Week


@dataclass(frozen=True, slots=True)
class PathWeek:
    """One path in one week at one packet size, and what is known of the week before.

    `summary` and `before` are None where nothing was recorded; `bursts_planned` is None where no plan is known.
    """

    path_id: int
    source: str
    destination: str
    summary: PathSummary | None
    before: PathSummary | None
    bursts_planned: int | None
    throughput: ThroughputSummary | None
    began_at: datetime | None
    retired_at: datetime | None

    @property
    def name(self) -> str:
        return f"{self.source} → {self.destination}"

    @property
    def sent(self) -> int:
        return 0 if self.summary is None else self.summary.sent

    @property
    def lost(self) -> int:
        return 0 if self.summary is None else self.summary.lost

    @property
    def bursts_measured(self) -> int:
        """Bursts that were measured, those beside our own tests included."""
        return 0 if self.summary is None else self.summary.bursts + self.summary.bursts_during_test


@dataclass(frozen=True, slots=True)
class SizeWeek:
    """All pinged paths at one packet size, by name."""

    packet_bytes: int
    paths: tuple[PathWeek, ...]

    @property
    def sent(self) -> int:
        return sum(path.sent for path in self.paths)

    @property
    def lost(self) -> int:
        return sum(path.lost for path in self.paths)

    @property
    def sent_before(self) -> int:
        return sum(path.before.sent for path in self.paths if path.before is not None)

    @property
    def lost_before(self) -> int:
        return sum(path.before.lost for path in self.paths if path.before is not None)

    @property
    def bursts_planned(self) -> int:
        return sum(path.bursts_planned for path in self.paths if path.bursts_planned is not None)

    @property
    def bursts_measured_of_planned(self) -> int:
        """Measured bursts of the paths whose plan is known."""
        return sum(path.bursts_measured for path in self.paths if path.bursts_planned is not None)


@dataclass(frozen=True, slots=True)
class WeeklyReport:
    """The mesh in one week. `sizes` begins with the largest packets; `throughput_only` are paths never pinged."""

    mesh: str
    week: Week
    written_at: datetime
    sizes: tuple[SizeWeek, ...]
    throughput_only: tuple[PathWeek, ...]
    incidents: tuple[Incident, ...]

    @property
    def is_over(self) -> bool:
        return self.written_at >= self.week.until


def collect(week: Week, now: datetime) -> WeeklyReport:
    """The report of `week` from what is stored at `now`. A week that is not over is reported up to `now`."""
    until = min(week.until, max(now, week.since))
    summaries = _by_path_and_size(path_summaries(week.since, until))
    before = _by_path_and_size(path_summaries(week.before.since, week.before.until))
    planned = {key: bursts for key, bursts in planned_bursts(week.since, until).items() if bursts > 0}
    throughput = {one.path_id: one for one in throughput_summaries(week.since, until) if one.tests}
    pinged = summaries.keys() | planned.keys()
    only_tested = {(path_id, 0) for path_id in throughput.keys() - {path_id for path_id, _ in pinged}}
    paths = _describe(pinged | only_tested, summaries, before, planned, throughput)
    mesh = Mesh.objects.first()
    return WeeklyReport(
        mesh="" if mesh is None else mesh.name,
        week=week,
        written_at=now,
        sizes=_by_size(pinged, paths),
        throughput_only=tuple(sorted((paths[key] for key in only_tested), key=_by_name)),
        incidents=tuple(incidents_between(week.since, until)),
    )


Key = tuple[int, int]
"""Path and packet size."""


def _by_path_and_size(summaries: Iterable[PathSummary]) -> dict[Key, PathSummary]:
    return {(one.path_id, one.packet_bytes): one for one in summaries}


def _by_size(pinged: Iterable[Key], paths: Mapping[Key, PathWeek]) -> tuple[SizeWeek, ...]:
    sizes = sorted({packet_bytes for _, packet_bytes in pinged}, reverse=True)
    return tuple(
        SizeWeek(size, tuple(sorted((paths[key] for key in pinged if key[1] == size), key=_by_name))) for size in sizes
    )


def _by_name(path: PathWeek) -> tuple[str, str]:
    return path.source, path.destination


def _describe(
    keys: set[Key],
    summaries: Mapping[Key, PathSummary],
    before: Mapping[Key, PathSummary],
    planned: Mapping[Key, int],
    throughput: Mapping[int, ThroughputSummary],
) -> dict[Key, PathWeek]:
    ids = {path_id for path_id, _ in keys}
    paths = Path.objects.select_related("source", "destination").in_bulk(ids)
    began_at = _began_at(ids)
    return {
        (path_id, packet_bytes): PathWeek(
            path_id=path_id,
            source=paths[path_id].source.name,
            destination=paths[path_id].destination.name,
            summary=summaries.get((path_id, packet_bytes)),
            before=before.get((path_id, packet_bytes)),
            bursts_planned=planned.get((path_id, packet_bytes)),
            throughput=throughput.get(path_id),
            began_at=began_at.get(path_id),
            retired_at=paths[path_id].retired_at,
        )
        for path_id, packet_bytes in keys
    }


def _began_at(path_ids: set[int]) -> dict[int, datetime]:
    """When each path was first to be pinged."""
    first = Measurement.objects.filter(path_id__in=path_ids, test__kind=Kind.PING).values("path_id")
    return dict(first.annotate(began_at=Min("started_at")).values_list("path_id", "began_at"))

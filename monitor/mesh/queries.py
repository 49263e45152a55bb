"""Queries of the mesh: schedule changes, groups and places."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from django.db.models import Min, Q, QuerySet

from monitor.mesh.document.alert_rules import Place
from monitor.mesh.kinds import MESH_KINDS
from monitor.mesh.models import Group, KindName, Measurement, MeasurementPeriod, Mesh, Path, PlanEpoch, Slot

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class TestSchedule:
    """Interval, packet sizes and `pattern` of a test; the latter only for pings."""

    every_s: int
    packet_bytes: tuple[int, ...]
    pattern: str = "burst"


@dataclass(frozen=True, slots=True)
class PlanChange:
    """Schedule change of a path's test; `before` and `after` are None where it did not run."""

    at: datetime
    test: str
    before: TestSchedule | None
    after: TestSchedule | None


def plan_changes(path_id: int, since: datetime, until: datetime) -> list[PlanChange]:
    """Schedule changes in [since, until), oldest first."""
    rows = MeasurementPeriod.objects.filter(
        Q(started_at__gte=since, started_at__lt=until) | Q(ended_at__gte=since, ended_at__lt=until),
        measurement__path=path_id,
    )
    began: dict[tuple[datetime, str], TestSchedule] = {}
    ended: dict[tuple[datetime, str], TestSchedule] = {}
    columns = ("measurement__test__name", "every_s", "packet_bytes", "pattern", "started_at", "ended_at")
    for test, every_s, sizes, pattern, started_at, ended_at in rows.values_list(*columns):
        schedule = TestSchedule(every_s, tuple(sizes), pattern)
        began[started_at, test] = schedule
        if ended_at is not None:
            ended[ended_at, test] = schedule
    moments = sorted((at, test) for at, test in {*began, *ended} if since <= at < until)
    return [PlanChange(*moment, ended.get(moment), began.get(moment)) for moment in moments]


def mesh_version() -> tuple[int, datetime | None]:
    """Version that changes with mesh rows and each `mesh apply`."""
    epoch = PlanEpoch.objects.values_list("epoch", flat=True).first()
    return epoch or 0, Mesh.objects.values_list("applied_at", flat=True).first()


def alerts() -> Mapping[str, Any]:
    """[alerts] table; empty before the first apply."""
    mesh = Mesh.objects.first()
    return {} if mesh is None else mesh.alerts


@dataclass(frozen=True, slots=True)
class MeasuredPath:
    """Path in use measured by tests of a kind, for the alert rules."""

    path_id: int
    source: str
    destination: str
    family: int
    place: Place
    every_s: int  # shortest interval of those tests
    packet_bytes: int | None  # their smallest packet; None except for pings
    started_at: datetime  # earliest start
    uplinks: frozenset[str] = frozenset()  # of its hosts, as in `cern/geant`
    regions: tuple[str, str] = ("", "")  # of its sites

    @property
    def name(self) -> str:
        return f"{self.source} → {self.destination}"


class EqualValues:
    """Share equal values as one object: separate objects take 60 MB for 100,000 paths."""

    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}

    def one(self, value: V) -> V:
        """First value equal to this value."""
        same: V = self._values.setdefault(value, value)
        return same


def place_of(path: Path, groups: Mapping[str, frozenset[str]]) -> Place:
    """Place of a path; `groups` are from `groups_of_sites`."""
    source, destination = path.source.site.name, path.destination.site.name
    within = groups.get(source, frozenset()) & groups.get(destination, frozenset())
    return Place(source, destination, within, (path.source.name, path.destination.name))


def measured_paths(kind: KindName) -> dict[int, MeasuredPath]:
    """Paths in use measured by this kind or a stand-in, ordered by id."""
    groups = groups_of_sites()
    paths: dict[int, MeasuredPath] = {}
    measured_itself: set[int] = set()
    equal = EqualValues()
    for (
        path_id,
        source,
        destination,
        source_site,
        destination_site,
        family,
        source_uplink,
        destination_uplink,
        source_region,
        destination_region,
        every_s,
        sizes,
        started_at,
        kind_of_test,
    ) in _tests(kind):
        source, destination, source_site, destination_site = map(
            equal.one, (source, destination, source_site, destination_site)
        )
        within = equal.one(groups.get(source_site, frozenset()) & groups.get(destination_site, frozenset()))
        smallest = min(sizes_sent(sizes), default=None)
        other = paths.get(path_id)
        if other is not None and kind_of_test != kind and path_id in measured_itself:
            continue
        if kind_of_test == kind:
            measured_itself.add(path_id)
        if other is not None:
            every_s, started_at = min(every_s, other.every_s), min(started_at, other.started_at)
            smallest = min((size for size in (smallest, other.packet_bytes) if size is not None), default=None)
        place = Place(source_site, destination_site, within, (source, destination))
        named = ((source_site, source_uplink), (destination_site, destination_uplink))
        paths[path_id] = MeasuredPath(
            path_id,
            source,
            destination,
            family,
            place,
            every_s,
            smallest,
            equal.one(started_at),
            uplinks=equal.one(frozenset(f"{site}/{uplink}" for site, uplink in named if uplink is not None)),
            regions=equal.one((source_region, destination_region)),
        )
    return paths


def intervals_s(kind: KindName) -> dict[int, int]:
    """Shortest interval of this kind's tests, by path in use."""
    rows = Measurement.objects.filter(retired_at=None, path__retired_at=None, test__kind=kind)
    return dict(rows.values_list("path_id").annotate(Min("test__every_s")).order_by("path_id"))


def ping_parameters(path_ids: Iterable[int]) -> list[tuple[int, dict[str, Any]]]:
    """Path and parameters of the tests that give these paths' bursts."""
    tests = Measurement.objects.filter(
        retired_at=None, path__in=set(path_ids), test__kind__in=KindName.PING.alternatives
    )
    rows = list(tests.order_by("path_id", "test_id").values_list("path_id", "test__kind", "test__parameters"))
    pinged = {path_id for path_id, kind, _ in rows if not MESH_KINDS[kind].stands_in_for_pings}
    return [
        (path_id, parameters)
        for path_id, kind, parameters in rows
        if path_id not in pinged or not MESH_KINDS[kind].stands_in_for_pings
    ]


def sizes_sent(packet_bytes: Sequence[int] | int | None) -> Sequence[int]:
    """Packet sizes of a test by its parameter: several, one or none."""
    if packet_bytes is None:
        return ()
    return (packet_bytes,) if isinstance(packet_bytes, int) else packet_bytes


def _tests(kind: KindName) -> QuerySet[Measurement, Any]:
    ends = (
        "source__name", "destination__name", "source__site__name", "destination__site__name", "family",
        "source__uplink__name", "destination__uplink__name", "source__site__region", "destination__site__region",
    )  # fmt: skip
    return (
        Measurement.objects.filter(retired_at=None, path__retired_at=None, test__kind__in=kind.alternatives)
        .order_by("path_id", "test__kind")
        .values_list(
            "path_id",
            *(f"path__{end}" for end in ends),
            "test__every_s",
            "test__parameters__packet_bytes",
            "started_at",
            "test__kind",
        )
    )


def groups_of_sites() -> dict[str, frozenset[str]]:
    groups: dict[str, set[str]] = defaultdict(set)
    for group, site in Group.objects.filter(retired_at=None).values_list("name", "sites__name"):
        groups[site].add(group)
    return {site: frozenset(names) for site, names in groups.items()}


def next_slot(kind: KindName, now: datetime) -> Slot | None:
    to_come = Slot.objects.filter(outcome=None, starts_at__gt=now, measurement__test__kind=kind)
    ends = ("measurement__path__source", "measurement__path__destination")
    return to_come.select_related(*ends).order_by("starts_at", "pk").first()


def slots_of_hosts(host_ids: Sequence[int], since: datetime, until: datetime, most: int) -> list[Slot]:
    """Newest `most` throughput slots of these hosts that overlap [since, until), oldest first."""
    told = ("measurement__path__source", "measurement__path__destination", "measurement__test", "request")
    within = Slot.objects.filter(hosts__host__in=host_ids, starts_at__lt=until, ends_at__gt=since)
    newest = within.select_related(*told).order_by("-starts_at", "-pk").distinct()[:most]
    return list(reversed(newest))


def measured_by(path_ids: Iterable[int]) -> dict[int, str]:
    """Words for the packets behind loss and RTT, such as "TCP handshake to port 443", by path measured now."""
    rows = Measurement.objects.filter(
        retired_at=None, path__in=list(path_ids), test__kind__in=KindName.PING.alternatives
    )
    return words_for_packets(rows.values_list("path_id", "test__kind", "test__parameters"))


def words_for_packets(measured: Iterable[tuple[int, str, Mapping[str, Any]]]) -> dict[int, str]:
    """As `measured_by`, from each test's path, kind and parameters."""
    words: dict[int, str] = {}
    for path_id, kind, parameters in measured:
        if path_id not in words or not MESH_KINDS[kind].stands_in_for_pings:
            words[path_id] = MESH_KINDS[kind].measured_by(parameters)
    return words


def shortest_cycles_s() -> dict[int, int]:
    """Interval of each measuring site's most frequent test. A query."""
    planned = Measurement.objects.filter(retired_at=None).order_by()
    return dict(planned.values_list("path__source__site_id").annotate(Min("test__every_s")))

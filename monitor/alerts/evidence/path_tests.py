"""Throughput tests of an incident's paths before and since its beginning, and their number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from statistics import median

from django.db.models import Q
from django.db.models.fields.json import KT

from monitor.alerts.evidence.facts import FailedTest, HostTest, PathTests
from monitor.alerts.incidents.earlier_times import LOOK_BACK, EarlierTimes
from monitor.alerts.models import Incident, IncidentEvidence
from monitor.analysis.transfer.queues import QUEUE_FIGURE
from monitor.archive.queries.around import TestAround, diagnosed_tests, tests_around
from monitor.mesh.kinds import filling_s
from monitor.mesh.models import Path, Slot
from monitor.mesh.queries import slots_of_hosts

MOST_OWN_TESTS = 20
# Throughput tests of each path that are compared with those since the beginning.
MOST_TESTS = 40
# Newest tests since the beginning, so that their median is about now.
MOST_TESTS_SINCE = 5
# Longest time from onset to opening, except for slow rules, with evidence that is not urgent.
BEFORE_OPENING = timedelta(hours=1)


def path_tests(paths: Sequence[Path], since: datetime, until: datetime, earlier: EarlierTimes) -> tuple[PathTests, ...]:
    """Tests of paths before and since `since`, the former without tests during earlier incidents."""
    tests: dict[int, tuple[list[TestAround], list[TestAround]]] = {path.pk: ([], []) for path in paths}
    failed: dict[int, list[TestAround]] = {path.pk: [] for path in paths}
    for test in tests_around(list(tests), since - LOOK_BACK, until, MOST_TESTS, QUEUE_FIGURE, since):
        is_after = test.at >= since
        if test.throughput_bps is None:
            failed[test.path_id].append(test)
        elif is_after or not test.is_on_demand:
            tests[test.path_id][is_after].append(test)
    return tuple(
        PathTests(
            source=path.source.name,
            destination=path.destination.name,
            source_site=path.source.site.name,
            destination_site=path.destination.site.name,
            before=len(before),
            before_bps=_median(test.throughput_bps for test in before),
            after=len(after),
            after_bps=_median(test.throughput_bps for test in _counting(after)[:MOST_TESTS_SINCE]),
            before_loss_ratio=_median(_losses(before)),
            after_loss_ratio=_median(_losses(after[:MOST_TESTS_SINCE])),
            after_resent_ratio=_median(test.resent_ratio for test in after[:MOST_TESTS_SINCE]),
            after_at=after[0].at if after else None,
            before_resent_ratio=_median(test.resent_ratio for test in before),
            failed=_newest(failed[path.pk]),
            after_most_bps=_most_bps(after, failed[path.pk]),
        )
        for path in paths
        for before, after in [(earlier.usual_tests(tests[path.pk][0]), tests[path.pk][1])]
        if before or after or failed[path.pk]
    )


def tests_of_incidents(incidents: Iterable[Incident]) -> dict[int, int]:
    """Count diagnosed tests of incidents' paths since shortly before opening, in both directions."""
    paths_of: dict[int, tuple[datetime, set[tuple[int, int]]]] = {
        incident.pk: (
            incident.opened_at - BEFORE_OPENING,
            {
                ends
                for row in incident.paths.all()
                for ends in (
                    (row.path.source_id, row.path.destination_id),
                    (row.path.destination_id, row.path.source_id),
                )
            },
        )
        for incident in incidents
    }
    either = Q(pk__in=[])
    for source_id, destination_id in {ends for _, every in paths_of.values() for ends in every}:
        either |= Q(source_id=source_id, destination_id=destination_id)
    path_ids: dict[tuple[int, int], list[int]] = {}
    for path_id, *ends in Path.objects.filter(either).values_list("pk", "source_id", "destination_id"):
        path_ids.setdefault((ends[0], ends[1]), []).append(path_id)
    return diagnosed_tests(
        [
            (incident_id, path_id, begin)
            for incident_id, (begin, every) in paths_of.items()
            for ends in every
            for path_id in path_ids.get(ends, ())
        ]
    )


def with_newer_tests(incidents: Sequence[Incident]) -> list[Incident]:
    """Incidents with a newer test or result than their evidence has."""
    if not incidents:
        return []
    rows = IncidentEvidence.objects.filter(incident__in=incidents)
    stored = list(rows.values_list("incident_id", KT("facts__tests_seen"), "facts__own_tests"))
    seen = {incident_id: int(count or 0) for incident_id, count, _ in stored}
    awaited = {
        incident_id: {int(test["slot_id"]) for test in own or () if test["outcome"] is None and test.get("slot_id")}
        for incident_id, _, own in stored
    }
    every = set[int]().union(*awaited.values())
    ended = set(Slot.objects.filter(pk__in=every).exclude(outcome=None).values_list("pk", flat=True))
    tests = tests_of_incidents(incidents)
    return [
        incident
        for incident in incidents
        if incident.pk in seen
        and (tests.get(incident.pk, 0) > seen[incident.pk] or not ended.isdisjoint(awaited[incident.pk]))
    ]


def _newest(failed: Sequence[TestAround]) -> FailedTest | None:
    test = next(iter(failed), None)
    return None if test is None else FailedTest(test.at, test.outcome, test.transferred_bytes, test.duration_s)


def _most_bps(measured: Sequence[TestAround], failed: Sequence[TestAround]) -> float | None:
    """Median rate with failed tests at their upper bounds; None unless a failed test counts."""
    tests = sorted((*measured, *failed), key=lambda test: test.at, reverse=True)
    counting = _counting([test for test in tests if test.most_bps is not None])[:MOST_TESTS_SINCE]
    has_failed = any(test.throughput_bps is None for test in counting)
    return _median(test.most_bps for test in counting) if has_failed else None


def _counting(tests: Sequence[TestAround]) -> list[TestAround]:
    # Scheduled tests; tests on demand only without others.
    return [test for test in tests if not test.is_on_demand] or list(tests)


def _losses(tests: Iterable[TestAround]) -> list[float | None]:
    # Retransmitted shares, without tests that filled a queue: even BBR overflows it.
    return [test.resent_ratio for test in tests if not test.has_queue]


def _median(values: Iterable[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return median(measured) if measured else None


def own_tests(host_ids: Sequence[int], since: datetime, until: datetime) -> tuple[HostTest, ...]:
    """The throughput tests on these hosts in the period, each with its sending time, not its slot."""
    slots = slots_of_hosts(host_ids, since, until, MOST_OWN_TESTS)
    return tuple(
        HostTest(
            str(slot.measurement.path),
            slot.starts_at,
            _end_of(slot),
            slot.outcome,
            slot.pk,
            slot.measurement.test.kind,
        )
        for slot in slots
    )


def _end_of(slot: Slot) -> datetime:
    return slot.starts_at + timedelta(seconds=filling_s(slot.measurement.test.kind, slot.parameters))

"""The tests during which the packets of a path do not count: those of its source's site and of its destination."""

from datetime import UTC, datetime, timedelta

import pytest

from monitor.mesh.apply import apply
from monitor.mesh.models import Path, Slot
from monitor.mesh.schedule.path_tests import path_tests
from monitor.mesh.schedule.slots import plan_slots
from tests.db.mesh.test_slots import document

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def of_either_end(slots):
    """Those of slots with s1 or s2, by the rows of the slots."""
    ends = [
        (slot.starts_at, slot.ends_at)
        for slot in slots
        if {"s1", "s2"} & {slot.measurement.path.source.name, slot.measurement.path.destination.name}
    ]
    return sorted(set(ends))


def test_tests_of_either_end_are_known_before_they_are_planned():
    """Of the 20 paths of five sites 14 are with s1 or s2."""
    apply(document(5), NOW)
    path = Path.objects.get(source__name="s1", destination__name="s2")

    before = path_tests(path.pk, NOW, NOW + HOUR)
    plan_slots(NOW)

    slots = list(Slot.objects.filter(starts_at__lt=NOW + HOUR))
    assert len(slots) >= 14
    assert before == path_tests(path.pk, NOW, NOW + HOUR) == of_either_end(slots)
    assert before[0][0] == NOW + timedelta(seconds=30)


def test_tests_that_are_over_are_left_out():
    apply(document(4), NOW)
    path = Path.objects.get(source__name="s1", destination__name="s2")
    plan_slots(NOW)
    first, *later = path_tests(path.pk, NOW, NOW + HOUR)

    assert len(later) >= 5
    assert path_tests(path.pk, first[1], NOW + HOUR) == [period for period in later if period[1] > first[1]]
    assert path_tests(path.pk, NOW, first[0]) == []

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
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)


def of_either_end(slots):
    """Of the slots with s1 12 s, of ten that a test fills its path; else with s2 the whole slot of 15 s, and a second
    before it for the clocks."""
    loaded = set()
    for slot in slots:
        ends = slot.measurement.path.source.name, slot.measurement.path.destination.name
        if "s1" in ends:
            loaded.add((slot.starts_at, slot.starts_at + timedelta(seconds=12)))
        elif "s2" in ends:
            loaded.add((slot.starts_at - SECOND, slot.starts_at + 15 * SECOND))
    return sorted(loaded)


def test_tests_of_either_end_are_known_before_they_are_planned():
    """Of the 20 paths of five sites 14 are with s1 or s2."""
    apply(document(5), NOW)
    path = Path.objects.get(source__name="s1", destination__name="s2")

    before = path_tests(path.pk, NOW, NOW + HOUR)
    plan_slots(NOW)

    slots = list(Slot.objects.filter(starts_at__lt=NOW + HOUR))
    assert len(slots) >= 14
    assert before == path_tests(path.pk, NOW, NOW + HOUR) == of_either_end(slots)
    assert NOW + 29 * SECOND <= before[0][0] <= NOW + 30 * SECOND


def test_tests_that_are_over_are_left_out():
    apply(document(4), NOW)
    path = Path.objects.get(source__name="s1", destination__name="s2")
    plan_slots(NOW)
    every = path_tests(path.pk, NOW, NOW + HOUR)

    assert len(every) >= 8
    assert path_tests(path.pk, every[2][1], NOW + HOUR) == [period for period in every if period[1] > every[2][1]]
    assert path_tests(path.pk, NOW, every[0][0]) == []

"""Minimum RTTs of 5 minutes: in hourly summaries, for late data, and for hours that were summarized without them."""

from datetime import timedelta

import numpy as np
import pytest

from monitor.archive.models import Burst, BurstHour, DirtyHour, KeptSince
from monitor.archive.queries.trends import slot_minima
from monitor.archive.rollup.earlier_minima import mark_earlier_hour
from monitor.archive.rollup.recompute import recompute, roll_up
from monitor.archive.tasks import roll_up as roll_up_task
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
ONE_HOUR = timedelta(hours=1)


@pytest.fixture
def mesh():
    return make_mesh()


def deliver(mesh, *bursts, first=1):
    results = [delivered(mesh.slac_cern, of_path, first + n) for n, of_path in enumerate(bursts)]
    store(mesh.slac.pk, batch(*results, number=first), NOW)
    roll_up(NOW)


def at(minutes, hour=HOUR):
    return hour + timedelta(minutes=minutes)


def minima():
    return list(BurstHour.objects.order_by("packet_bytes", "hour").values_list("slot_minima_ms", flat=True))


def test_each_slot_has_the_minimum_of_its_bursts(mesh):
    deliver(
        mesh,
        burst(12.5, 11.5, None, at=at(0)),
        burst(11.0, 13.0, at=at(4.99)),
        burst(30.0, None, at=at(5)),
        burst(None, None, at=at(11)),
        burst(9.5, at=at(24.99)),
    )

    assert minima() == [[11.0, 30.0, None, None, 9.5, *[None] * 7]]


def test_packets_during_our_own_tests_are_left_out(mesh):
    deliver(mesh, burst(10.0, at=at(0)), burst(12.0, at=at(1), loaded_rtts_ms=(5.0,)))

    assert minima() == [[10.0, *[None] * 11]]


def test_an_hour_without_replies_has_none(mesh):
    deliver(mesh, burst(None, None, at=at(3)))

    assert minima() == [None]


def test_late_data_and_recomputing_give_the_same_rows(mesh):
    early, late = burst(20.0, 21.0, at=at(7)), burst(18.0, at=at(8))
    deliver(mesh, early)
    deliver(mesh, late, first=2)
    delivered_late = minima()

    list(recompute(HOUR, HOUR + ONE_HOUR, NOW))

    assert minima() == delivered_late == [[None, 18.0, *[None] * 10]]


def test_a_series_is_over_all_packet_sizes(mesh):
    deliver(
        mesh,
        burst(20.0, at=at(1), packet_bytes=100),
        burst(25.0, at=at(1), packet_bytes=1000),
        burst(26.0, at=at(6), packet_bytes=1000),
        burst(21.0, at=at(61, HOUR - 2 * ONE_HOUR), packet_bytes=100),
    )

    series = slot_minima([mesh.slac_cern.pk, mesh.slac_anl.pk], HOUR - 2 * ONE_HOUR, HOUR + ONE_HOUR)

    expected = np.full((3, 12), np.nan)
    expected[2, :2], expected[1, 0] = (20.0, 26.0), 21.0
    assert list(series) == [mesh.slac_cern.pk]
    np.testing.assert_array_equal(series[mesh.slac_cern.pk], expected)


class TestEarlierHours:
    """After the migration of a database with hours that have no minima."""

    @pytest.fixture
    def hours(self, mesh):
        """Four hours with bursts; those of the first are deleted."""
        hours = [HOUR - n * ONE_HOUR for n in (4, 3, 2, 1)]
        deliver(mesh, *(burst(10.0 + n, at=at(2, hour)) for n, hour in enumerate(hours)))
        BurstHour.objects.update(slot_minima_ms=None)
        Burst.objects.filter(measured_at__lt=hours[1]).delete()
        KeptSince.objects.create(key="slot_minima", since=HOUR)
        return hours

    def test_they_are_computed_newest_first_while_nothing_else_waits(self, hours, monkeypatch):
        monkeypatch.setattr("monitor.archive.tasks.timezone.now", lambda: NOW)

        roll_up_task()

        assert [of_hour and of_hour[0] for of_hour in minima()] == [None, None, None, 13.0]

    def test_hours_without_raw_bursts_stay_as_they_are(self, hours):
        while mark_earlier_hour(NOW):
            roll_up(NOW)

        assert [of_hour and of_hour[0] for of_hour in minima()] == [None, 11.0, 12.0, 13.0]
        assert not DirtyHour.objects.exists()

    def test_it_ends_at_what_is_needed(self, hours):
        marked = 0
        while mark_earlier_hour(NOW):
            marked += 1

        assert (marked, KeptSince.objects.filter(key="slot_minima").exists()) == (15 * 24, False)
        assert not mark_earlier_hour(NOW)

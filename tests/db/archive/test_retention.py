"""Retention: expired results are deleted by whole days or chunks; summaries and results still to be summarised stay."""

from datetime import timedelta

import pytest
from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.db import NotSupportedError, connection

from monitor import environment
from monitor.archive.models import Burst, BurstHour, ThroughputTest
from monitor.archive.rollup.recompute import roll_up
from monitor.archive.statements import statement
from monitor.archive.upkeep import retention
from probes.contract import Deadline
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh, throughput
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
FOR_EVER = dict.fromkeys(django_settings.RETENTION_DAYS, 0)
DAY = timedelta(days=1)


@pytest.fixture
def mesh():
    return make_mesh()


@pytest.fixture(autouse=True)
def keep(settings):
    settings.RETENTION_DAYS = FOR_EVER

    def days(**days_by_kind):
        settings.RETENTION_DAYS = {**FOR_EVER, **days_by_kind}

    return days


def delete_old(now=NOW, seconds=60.0):
    return retention.delete_old(now, Deadline(seconds))


def a_week(mesh, make=lambda at: burst(1.0, at=at)):
    """A result at noon of each of the last seven days."""
    results = [delivered(mesh.slac_cern, make(HOUR - n * DAY), n + 1) for n in range(7)]
    store(mesh.slac.pk, batch(*results), NOW)


def days_ago(model):
    return sorted((HOUR - at) // DAY for at in model.objects.values_list("measured_at", flat=True))


def test_nothing_is_deleted_where_everything_is_kept_forever(mesh):
    a_week(mesh)
    roll_up(NOW)

    assert set(delete_old().values()) == {0}
    assert Burst.objects.count() == 7


def test_bursts_are_deleted_by_days_and_their_summaries_stay(mesh, keep):
    a_week(mesh)
    roll_up(NOW)
    keep(bursts=3)

    deleted = delete_old()

    # 12:30 less three days is in the fourth day, which is kept whole, and so is the day before it.
    assert days_ago(Burst) == [0, 1, 2, 3, 4]
    assert deleted["burst"] == 2
    assert BurstHour.objects.count() == 7
    assert delete_old()["burst"] == 0


def test_a_day_pending_its_rollup_is_kept_with_all_that_follow(mesh, keep):
    a_week(mesh)
    roll_up(NOW)
    store(
        mesh.slac.pk, batch(delivered(mesh.slac_cern, burst(2.0, at=HOUR - 5 * DAY, packet_bytes=9), 99), number=2), NOW
    )
    keep(bursts=1)

    delete_old()

    assert days_ago(Burst) == [0, 1, 2, 3, 4, 5, 5]
    roll_up(NOW)
    delete_old()
    assert days_ago(Burst) == [0, 1, 2]


def test_results_older_than_the_retention_are_refused(mesh, keep):
    keep(bursts=3)
    at = HOUR - 3 * DAY
    results = [delivered(mesh.slac_cern, burst(1.0, at=at), 1), delivered(mesh.slac_cern, throughput(1e6, at=at), 2)]

    receipt = store(mesh.slac.pk, batch(*results), NOW)

    assert [refusal.sequence for refusal in receipt.refused] == [1]
    assert "the oldest that is kept" in receipt.refused[0].reason


def test_throughput_tests_have_their_own_retention(mesh, keep):
    a_week(mesh, lambda at: throughput(1e6, at=at))
    roll_up(NOW)
    keep(throughput=2)

    delete_old(NOW + 31 * DAY)

    assert not ThroughputTest.objects.exists()


def test_deletion_continues_in_the_next_run_after_a_timeout(mesh, keep):
    a_week(mesh)
    roll_up(NOW)
    keep(bursts=1)

    delete_old(seconds=0.0)
    after_the_first = days_ago(Burst)
    delete_old()

    assert after_the_first in ([0, 1, 2, 3, 4, 5, 6], [0, 1, 2])  # a hypertable drops its chunks at once
    assert days_ago(Burst) == [0, 1, 2]


def test_compression_is_off_where_the_licence_excludes_it(mesh):
    a_week(mesh)

    assert not retention.may_compress()
    assert retention.compress_old(NOW + 365 * DAY) == 0


@pytest.mark.parametrize("statement_name", ["enable_compression", "compress_chunks"])
def test_only_the_licence_prevents_compression(mesh, statement_name):
    """The Apache edition has the same functions, options and views, and refuses at the end."""
    if not retention.is_hypertable("burst"):
        pytest.skip("needs TimescaleDB")
    a_week(mesh)

    with pytest.raises(NotSupportedError, match="license"), connection.cursor() as cursor:
        cursor.execute(statement(statement_name), {"before": NOW} if statement_name == "compress_chunks" else None)


def test_retention_is_a_whole_number_of_days(monkeypatch):
    monkeypatch.setenv("SOUNDINGS_RETENTION_BURSTS_DAYS", "30")
    assert environment.days("SOUNDINGS_RETENTION_BURSTS_DAYS", 730) == 30
    monkeypatch.delenv("SOUNDINGS_RETENTION_BURSTS_DAYS")
    assert environment.days("SOUNDINGS_RETENTION_BURSTS_DAYS", 730) == 730


@pytest.mark.parametrize("value", ["-1", "1.5", "two", "", "40000", "²"])
def test_an_invalid_number_of_days_is_an_error_with_a_fix(monkeypatch, value):
    monkeypatch.setenv("SOUNDINGS_RETENTION_BURSTS_DAYS", value)

    with pytest.raises(ImproperlyConfigured, match=r"RETENTION_BURSTS_DAYS=.* whole days, 0 to 36500; 0 keeps"):
        environment.days("SOUNDINGS_RETENTION_BURSTS_DAYS", 730)

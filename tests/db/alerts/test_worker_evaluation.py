"""Evaluations as the worker runs them: the data kept between them, and the pause after a long one."""

from datetime import UTC, datetime, timedelta

import pytest

from monitor.alerts import tasks
from monitor.alerts.detect.sources import STORED, SourceOfWorker
from monitor.alerts.incidents import corrections, lifecycle
from monitor.alerts.models import Incident
from monitor.archive.models import Burst
from monitor.archive.periods import start_of
from monitor.mesh.models import Mesh, Path, Test
from monitor.present.follow import Follower
from tests.db.alert_rows import make_bursts, make_mesh
from tests.db.merging import roll_up_raw
from tests.facts import lacks

NOW = datetime(2026, 11, 21, 10, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def worker(monkeypatch):
    """A worker that has just started."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    monkeypatch.setattr(tasks, "_source", SourceOfWorker())
    monkeypatch.setattr(tasks, "_rest_until_s", 0.0)
    tasks._scope_of.cache_clear()
    monkeypatch.setattr(tasks, "_baselines", None)


@pytest.fixture
def paths():
    return make_mesh(["slac", "cern", "fnal"], NOW - timedelta(days=30), loss={"above_ratio": 0.01, "window_s": 600})


def evaluate_at(now, monkeypatch):
    """With tracks from raw bursts: planted ones arrive in no batch."""
    monkeypatch.setattr("django.utils.timezone.now", lambda: now)
    monkeypatch.setattr(tasks, "_rest_until_s", 0.0)
    monkeypatch.setattr(tasks, "_follower", Follower())
    tasks.evaluate_rules()


def test_the_next_evaluation_heeds_a_changed_mesh(paths, monkeypatch):
    make_bursts(paths["slac → cern"], [2] * 10, NOW - timedelta(seconds=600))
    alerts = Mesh.objects.get().alerts
    Mesh.objects.update(alerts=alerts | {"loss": {"above_ratio": 0.5}}, applied_at=NOW - HOUR)
    evaluate_at(NOW, monkeypatch)
    before = Incident.objects.count()
    Mesh.objects.update(alerts=alerts, applied_at=NOW)

    evaluate_at(NOW, monkeypatch)

    assert (before, Incident.objects.count()) == (0, 1)


def test_a_retired_path_is_no_longer_evaluated(paths, monkeypatch):
    evaluate_at(NOW - timedelta(minutes=1), monkeypatch)
    make_bursts(paths["slac → cern"], [2] * 10, NOW - timedelta(seconds=600))
    Path.objects.filter(pk=paths["slac → cern"].pk).update(retired_at=NOW)

    evaluate_at(NOW, monkeypatch)

    assert not Incident.objects.exists()


def test_hours_are_read_once_a_minute(paths):
    source, hour = SourceOfWorker(), start_of("hour", NOW)
    period = hour - 3 * HOUR, hour + HOUR
    make_bursts(paths["slac → cern"], [0] * 10, hour - HOUR)
    roll_up_raw(NOW)
    first = source.hourly_counts(*period, NOW)
    make_bursts(paths["slac → fnal"], [0] * 10, hour - HOUR)
    roll_up_raw(NOW)

    kept = source.hourly_counts(*period, NOW + timedelta(seconds=59))
    later = source.hourly_counts(*period, NOW + timedelta(seconds=60))

    assert first["path_id"].tolist() == kept["path_id"].tolist() == [paths["slac → cern"].pk]
    assert set(later["path_id"].tolist()) == {paths["slac → cern"].pk, paths["slac → fnal"].pk}
    assert source.recent_counts(NOW, 60, 60)["bursts"].sum() == STORED.recent_counts(NOW, 60, 60)["bursts"].sum()


def test_another_hour_is_read_at_once(paths):
    source, hour = SourceOfWorker(), start_of("hour", NOW)
    source.hourly_counts(hour - 3 * HOUR, hour, hour - timedelta(seconds=1))
    make_bursts(paths["slac → cern"], [0] * 10, hour)

    assert source.hourly_counts(hour - 2 * HOUR, hour + HOUR, hour + timedelta(minutes=1))["bursts"].sum() > 0


def test_after_a_long_evaluation_it_rests_for_half_as_long(paths, monkeypatch):
    times_s = iter([100.0, 140.0, 159.0, 161.0, 162.0])
    monkeypatch.setattr(tasks, "monotonic", lambda: next(times_s))
    began_at = []
    monkeypatch.setattr(tasks, "evaluate", lambda now, *_: began_at.append(now))

    for _ in range(3):
        tasks.evaluate_rules()

    # The first took 40 s, so nothing at 159 s, and the next at 161 s.
    assert len(began_at) == 2


class TestTimeCounted:
    """The rule's window is 120 s; at 10:05:04 the worker counts it from 10:04:00 on: 64 s, 32 bursts of ten packets. No
    packet is lost before, three of ten from then on."""

    AT = NOW + timedelta(seconds=4)
    MINUTE = timedelta(minutes=1)

    @pytest.fixture
    def path(self, paths, monkeypatch):
        Test.objects.update(every_s=10)
        rules = Mesh.objects.get().alerts
        Mesh.objects.update(alerts=rules | {"loss": {"above_ratio": 0.01, "window_s": 120}})
        path = paths["slac → cern"]
        make_bursts(path, [0] * 120, NOW - 5 * self.MINUTE, every_s=2)
        Burst.objects.filter(measured_at__gte=NOW - self.MINUTE).delete()
        make_bursts(path, [3] * 32, NOW - self.MINUTE, every_s=2)
        evaluate_at(self.AT, monkeypatch)
        return path

    def test_a_finding_names_the_time_that_it_counted(self, path):
        row = Incident.objects.get().paths.get()

        assert lacks(row.sentence, "loss 30% (96 of 320 packets in 64 s to 2026-11-21 10:05:04 UTC;") == []
        assert row.since == NOW - self.MINUTE

    def test_so_does_its_end(self, path, monkeypatch):
        make_bursts(path, [0] * 90, self.AT, every_s=2)

        evaluate_at(self.AT + self.MINUTE, monkeypatch)
        evaluate_at(self.AT + 3 * self.MINUTE, monkeypatch)

        closing = Incident.objects.get().closing
        assert lacks(closing, "normal since 2026-11-21 10:05:0") == [], closing

    def test_packets_before_that_time_are_not_late(self, path):
        assert corrections.correct(self.AT + self.MINUTE) == 0

        make_bursts(path, [0] * 60, NOW - 2 * self.MINUTE, every_s=1, packet_bytes=1000)

        assert corrections.correct(self.AT + self.MINUTE) == 0
        assert Incident.objects.get().correction == ""

    def test_late_packets_of_that_time_are(self, path):
        make_bursts(path, [0] * 64, NOW - self.MINUTE, every_s=1, packet_bytes=1000)

        assert corrections.correct(self.AT + self.MINUTE) == 1
        correction = Incident.objects.get().correction
        assert (
            lacks(correction, "with late results loss 10% (96 of 960 packets in 64 s to 2026-11-21 10:05:04 UTC") == []
        )

"""Each rule from stored measurements to its alarms, with figures computed by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.alerts.detect import rtt_progress
from monitor.alerts.evaluate import evaluate, findings, snapshot_at
from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import Incident
from monitor.alerts.scope import scope_now
from monitor.archive.models import Burst, BurstDay, BurstHour, ThroughputTest
from monitor.archive.periods import start_of
from monitor.mesh.models import Host, KindName, Measurement, Mesh, Path, Uplink
from monitor.mesh.models import Test as MeshTest
from tests.db.alert_rows import make_mesh, only, start_pinging
from tests.db.copied_rows import copy_rows
from tests.db.finding_levels import level_of
from tests.facts import lacks

NOW = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def confirmed_at_once(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)


def mesh_with(**rules):
    return make_mesh(["slac", "cern", "fnal"], NOW - timedelta(days=60), **rules)


def found(now=NOW):
    scope = scope_now()
    return findings(snapshot_at(now, scope, rtt_progress.read()), scope)


def store(path, at, *, lost=0, rtts_ms=None, size=100, **fields):
    rtts = ([20.0] * 10 if rtts_ms is None else list(rtts_ms))[: 10 - lost]
    values = {
        "outcome": "measured",
        "sent": 10,
        "received": 10 - lost,
        "duplicates": 0,
        "reordered": 0,
        "during_test": False,
        "ttl": 57,
        "rtts_ms": [None] * lost + rtts,
    }
    return Burst(path_id=path.pk, packet_bytes=size, measured_at=at, **{**values, **fields})


def every_minute(path, minutes, until=NOW, **fields):
    """A burst at every full minute before `until`; a field may be a function of the minute's number."""
    copy_rows(
        store(
            path,
            until - (minutes - number) * MINUTE,
            **{key: value(number) if callable(value) else value for key, value in fields.items()},
        )
        for number in range(minutes)
    )


def summary(model, path, at, *, bursts, lossy, lost, **fields):
    (starts,) = {"hour", "day"} & {field.name for field in model._meta.concrete_fields}
    return model(
        path_id=path.pk,
        packet_bytes=100,
        **{starts: at},
        bursts=bursts,
        bursts_all_lost=0,
        bursts_none_lost=bursts - lossy,
        bursts_during_test=0,
        bursts_not_measured=0,
        sent=10 * bursts,
        received=10 * bursts - lost,
        duplicates=0,
        reordered=0,
        **fields,
    )


def history(path, *, lossy_an_hour=0):
    """28 days and more of 60 bursts an hour up to the running hour, each lossy burst with a single lost packet."""
    hour = start_of("hour", NOW)
    BurstHour.objects.bulk_create(
        summary(BurstHour, path, hour - number * HOUR, bursts=60, lossy=lossy_an_hour, lost=lossy_an_hour)
        for number in range(1, 5 * 24)
    )
    day = start_of("day", NOW)
    BurstDay.objects.bulk_create(
        summary(
            BurstDay, path, day - timedelta(days=number), bursts=1440, lossy=24 * lossy_an_hour, lost=24 * lossy_an_hour
        )
        for number in range(1, 40)
    )


class TestLossRegression:
    def test_a_rise_below_any_threshold_is_detected_by_the_baseline(self):
        """4 of 600 packets are lost, while none of 46,000 earlier bursts lost any."""
        path = mesh_with(loss_regression={})["slac → cern"]
        history(path)
        every_minute(path, 60, lost=lambda number: 1 if number in (31, 44, 51, 58) else 0)

        (finding,) = found()

        assert (finding.rule, finding.path) == ("loss_regression", "slac → cern")
        assert finding.figures["base_ratio"] == 0.0
        window = (" 30 min", "to 2026-11-21 10:30:00 UTC")
        assert lacks(finding.sentence, "loss 1.3%", "(4 of 300 packets)", *window, "was < ") == []

    def test_the_same_loss_on_a_path_that_always_loses_is_normal(self):
        path = mesh_with(loss_regression={})["slac → cern"]
        history(path, lossy_an_hour=3)
        every_minute(path, 60, lost=lambda number: 1 if number in (31, 44, 51, 58) else 0)

        assert found() == []

    def test_a_short_interruption_is_not_an_alarm(self):
        """A cycle with total loss, of both sizes, after a history without loss."""
        path = mesh_with(loss_regression={}, loss={})["slac → cern"]
        history(path)
        for size in (100, 1000):
            every_minute(path, 60, lost=lambda number: 10 if number == 50 else 0, size=size)

        assert found() == []

    def test_without_a_history_nothing_is_a_regression(self):
        path = mesh_with(loss_regression={})["slac → cern"]
        every_minute(path, 60, lost=1)

        assert found() == []

    def test_tested_hours_are_never_part_of_the_baseline(self):
        """Twelve hours of heavy loss leave the baseline unchanged."""
        path = mesh_with(loss_regression={})["slac → cern"]
        history(path)
        hour = start_of("hour", NOW)
        BurstHour.objects.filter(path_id=path.pk, hour__gte=hour - 12 * HOUR).update(bursts_none_lost=0, received=540)
        every_minute(path, 60, lost=1)

        (finding,) = found()

        assert finding.figures["base_ratio"] == 0.0

    def test_loss_at_the_same_hour_of_every_week_is_not_a_regression(self):
        """A tenth of the bursts loses a packet every Saturday at ten."""
        path = mesh_with(loss_regression={})["slac → cern"]
        history(path)
        every_minute(path, 60, lost=lambda number: 1 if number % 10 == 0 else 0)
        assert [finding.rule for finding in found()] == ["loss_regression"]

        hour = start_of("hour", NOW)
        BurstHour.objects.bulk_create(
            summary(BurstHour, path, hour - timedelta(weeks=weeks) + apart * HOUR, bursts=60, lossy=6, lost=6)
            for weeks in range(1, 5)
            for apart in (-1, 0, 1)
        )

        assert found() == []

    def test_it_closes_when_the_loss_is_back_by_half(self):
        path = mesh_with(loss_regression={})["slac → cern"]
        history(path)
        every_minute(path, 60, lost=lambda number: 1 if number >= 40 else 0)
        assert evaluate(NOW).opened == 1

        every_minute(path, 10, until=NOW + 10 * MINUTE)
        assert evaluate(NOW + 10 * MINUTE).closed == 0, "20 of the last 30 bursts lost a packet"
        every_minute(path, 20, until=NOW + 30 * MINUTE)
        assert evaluate(NOW + 30 * MINUTE).closed == 1

        assert lacks(Incident.objects.get().closing, "slac → cern: normal since ") == []

    def test_a_rise_smaller_than_configured_is_ignored(self):
        path = mesh_with(loss_regression={"least_rise_ratio": 0.2})["slac → cern"]
        history(path)
        every_minute(path, 60, lost=1)

        assert found() == []


@pytest.mark.parametrize(("rule", "field"), [("reordering", "reordered"), ("duplicates", "duplicates")])
def test_new_loss_in_every_third_burst_is_detected(rule, field):
    path = mesh_with(**{rule: {}})["slac → cern"]
    history(path)
    every_minute(path, 60, **{field: lambda number: 1 if number % 3 == 0 else 0})

    (finding,) = found()

    assert finding.rule == rule
    assert finding.figures["base_hits"] == 0


def noisy(level_ms, seed=1, floor_ms=None):
    """A burst with ten RTTs around a level, all above a floor if given."""
    random = np.random.default_rng(seed)

    def burst(number):
        spread = random.exponential(0.3, 10)
        if floor_ms is None:
            return level_ms(number) + spread
        return np.concatenate([[floor_ms], level_ms(number) + spread[1:]])

    return burst


class TestRoundTrips:
    def test_a_step_of_all_rtts_is_a_longer_route(self):
        path = mesh_with(rtt={})["slac → cern"]
        every_minute(path, 60, rtts_ms=noisy(lambda number: 180.0 if number >= 46 else 160.0))
        rtt_progress.write({path.pk: (NOW - 14 * MINUTE).timestamp()})

        (finding,) = found()

        assert finding.figures["figure"] == "median"
        assert finding.since == NOW - 14 * MINUTE
        assert finding.figures["after_ms"] - finding.figures["before_ms"] == pytest.approx(20, abs=0.5)
        assert lacks(finding.sentence, "minimum rose as well", "longer route") == []

    def test_a_rise_of_the_median_alone_is_a_queue(self):
        path = mesh_with(rtt={})["slac → cern"]
        level = noisy(lambda number: 180.0 if number >= 46 else 160.0, floor_ms=160.0)
        every_minute(path, 60, rtts_ms=level)
        rtt_progress.write({path.pk: (NOW - 14 * MINUTE).timestamp()})

        (finding,) = found()

        assert finding.sentence.endswith("only: a queue")

    def test_another_ttl_is_reported_as_another_route(self):
        path = mesh_with(rtt={})["slac → cern"]
        every_minute(
            path,
            60,
            rtts_ms=noisy(lambda number: 180.0 if number >= 46 else 160.0),
            ttl=lambda number: 52 if number >= 46 else 57,
        )
        rtt_progress.write({path.pk: (NOW - 14 * MINUTE).timestamp()})

        (finding,) = found()

        assert lacks(finding.sentence, "TTL", "from 57 to 52", "another route") == []

    def test_a_fall_and_a_small_rise_raise_no_alarm(self):
        paths = mesh_with(rtt={})
        every_minute(paths["slac → cern"], 60, rtts_ms=noisy(lambda number: 140.0 if number >= 46 else 160.0))
        every_minute(paths["slac → fnal"], 60, rtts_ms=noisy(lambda number: 163.0 if number >= 46 else 160.0))
        rtt_progress.write({path.pk: (NOW - 14 * MINUTE).timestamp() for path in paths.values()})

        assert found() == []

    def test_a_small_rise_on_a_short_path_is_significant(self):
        """2 ms are 10% of 20 ms and 1.3% of 160 ms; the rule requires 6 ms or 8%."""
        paths = mesh_with(rtt={})
        every_minute(paths["slac → cern"], 60, rtts_ms=noisy(lambda number: 22.0 if number >= 46 else 20.0))
        every_minute(paths["slac → fnal"], 60, rtts_ms=noisy(lambda number: 162.0 if number >= 46 else 160.0))
        rtt_progress.write({path.pk: (NOW - 14 * MINUTE).timestamp() for path in paths.values()})

        assert [finding.path for finding in found()] == ["slac → cern"]

    def test_a_fall_is_reported_if_configured_and_ends_at_old_level(self):
        path = mesh_with(rtt={"every_change": True})["slac → cern"]
        every_minute(path, 60, rtts_ms=noisy(lambda number: 140.0 if number >= 46 else 160.0))
        rtt_progress.write({path.pk: (NOW - 14 * MINUTE).timestamp()})

        assert evaluate(NOW).opened == 1
        assert evaluate(NOW + MINUTE).closed == 0
        every_minute(path, 14, until=NOW + 14 * MINUTE, rtts_ms=noisy(lambda number: 160.0))
        assert evaluate(NOW + 14 * MINUTE).closed == 1

    def test_each_burst_of_an_hour_that_arrives_at_once_is_evaluated(self):
        path = mesh_with(rtt={})["slac → cern"]
        every_minute(path, 30, until=NOW - HOUR, rtts_ms=noisy(lambda number: 160.0))
        evaluate(NOW - HOUR)
        every_minute(path, 60, rtts_ms=noisy(lambda number: 180.0 if number >= 20 else 160.0))

        assert evaluate(NOW).opened == 1

        assert rtt_progress.read() == {path.pk: (NOW - MINUTE).timestamp()}
        row = Incident.objects.get().paths.get()
        assert row.since == NOW - 40 * MINUTE

    def test_it_closes_only_when_the_level_is_back(self):
        path = mesh_with(rtt={})["slac → cern"]
        every_minute(path, 60, rtts_ms=noisy(lambda number: 180.0 if number >= 46 else 160.0))
        rtt_progress.write({path.pk: (NOW - 14 * MINUTE).timestamp()})
        evaluate(NOW)
        assert evaluate(NOW + MINUTE).closed == 0

        every_minute(path, 14, until=NOW + 14 * MINUTE, rtts_ms=noisy(lambda number: 160.0))

        assert evaluate(NOW + 14 * MINUTE).closed == 1
        assert level_of(Incident.objects.get().paths.get()).over_since == NOW

    def test_after_a_day_the_new_level_is_the_baseline(self):
        path = mesh_with(rtt={})["slac → cern"]
        every_minute(path, 60, rtts_ms=noisy(lambda number: 180.0 if number >= 46 else 160.0))
        rtt_progress.write({path.pk: (NOW - 14 * MINUTE).timestamp()})
        evaluate(NOW)
        later = NOW + timedelta(days=1)
        every_minute(path, 20, until=later, rtts_ms=noisy(lambda number: 180.0))

        assert evaluate(later).closed == 1

        assert "new baseline" in Incident.objects.get().closing

    def test_rising_variation_is_jitter(self):
        path = mesh_with(jitter={}, rtt={})["slac → cern"]
        random = np.random.default_rng(4)
        calm, wild = [0.1] * 10, [0.0, 30.0] * 5
        every_minute(
            path, 60, rtts_ms=lambda number: 160.0 + np.array(wild if number >= 46 else calm) + random.random(10)
        )
        rtt_progress.write({path.pk: (NOW - 14 * MINUTE).timestamp()})

        assert "jitter" in {finding.rule for finding in found()}

    def test_days_with_rising_rtt_are_a_drift(self):
        path = mesh_with(rtt_drift={})["slac → cern"]
        day = start_of("day", NOW)
        BurstDay.objects.bulk_create(
            summary(
                BurstDay,
                path,
                day - timedelta(days=number),
                bursts=1440,
                lossy=0,
                lost=0,
                rtt_median_ms=160.0 + (12.0 if number <= 5 else 0.0) + (number * 37 % 10) / 10,
            )
            for number in range(1, 45)
        )

        (finding,) = found()

        assert finding.rule == "rtt_drift"
        assert finding.figures["after_ms"] - finding.figures["before_ms"] == pytest.approx(12, abs=1)


class TestReach:
    def test_total_loss_for_three_cycles_in_3_min_is_unreachable(self):
        path = mesh_with(unreachable={}, no_data={})["slac → cern"]
        for other in set(mesh_paths()) - {path.pk}:
            every_minute(path_of(other), 60)
        every_minute(path, 60, lost=lambda number: 10 if number >= 57 else 0)

        (finding,) = found()

        assert (finding.rule, finding.path) == ("unreachable", "slac → cern")
        assert finding.since == NOW - 4 * MINUTE
        assert "last burst with a reply 2026-11-21 10:26:00 UTC" in finding.sentence

    def test_two_lost_cycles_are_not_unreachable(self):
        path = mesh_with(unreachable={})["slac → cern"]
        every_minute(path, 60, lost=lambda number: 10 if number >= 58 else 0)

        assert found() == []

    def test_it_ends_with_two_answered_cycles(self):
        path = mesh_with(unreachable={})["slac → cern"]
        every_minute(path, 60, lost=lambda number: 10 if number >= 55 else 0)
        evaluate(NOW)
        every_minute(path, 1, until=NOW + MINUTE)
        assert evaluate(NOW + MINUTE).closed == 0
        every_minute(path, 1, until=NOW + 2 * MINUTE)

        assert evaluate(NOW + 2 * MINUTE).closed == 1

    def test_missing_measurements_are_no_data_and_never_loss(self):
        path = mesh_with(no_data={}, unreachable={}, loss={}, loss_regression={})["slac → cern"]
        for other in set(mesh_paths()) - {path.pk}:
            every_minute(path_of(other), 60)
        every_minute(path, 30, until=NOW - 30 * MINUTE)

        (finding,) = found()

        assert (finding.rule, finding.path) == ("no_data", "slac → cern")
        assert finding.since == NOW - 31 * MINUTE
        assert lacks(finding.sentence, "agent of slac", "never reported") == []

    def test_failed_bursts_are_no_data_with_the_reason(self):
        path = mesh_with(no_data={}, unreachable={})["slac → cern"]
        for other in set(mesh_paths()) - {path.pk}:
            every_minute(path_of(other), 60)
        every_minute(path, 60)
        Burst.objects.filter(path_id=path.pk, measured_at__gte=NOW - 10 * MINUTE).update(
            outcome="no_route", sent=0, received=0, rtts_ms=[]
        )

        (finding,) = found()

        assert finding.rule == "no_data"
        assert finding.sentence.endswith("its tests fail")

    def test_a_site_without_results_is_a_single_agent_incident(self):
        mesh_with(no_data={})
        for path_id in mesh_paths():
            path = path_of(path_id)
            every_minute(
                path,
                30 if path.source.name == "slac" else 60,
                until=NOW - (30 * MINUTE if path.source.name == "slac" else 0 * MINUTE),
            )

        evaluate(NOW)

        (incident,) = Incident.objects.all()
        assert (incident.rule, incident.cause, incident.paths.count()) == ("no_data", "agent of slac", 2)

    def test_it_ends_with_the_next_measured_burst(self):
        path = mesh_with(no_data={})["slac → cern"]
        for other in set(mesh_paths()) - {path.pk}:
            every_minute(path_of(other), 70, until=NOW + 10 * MINUTE)
        every_minute(path, 30, until=NOW - 30 * MINUTE)
        evaluate(NOW)
        every_minute(path, 1, until=NOW + 10 * MINUTE)

        assert evaluate(NOW + 10 * MINUTE).closed == 1


def mesh_paths():
    return list(Measurement.objects.values_list("path_id", flat=True))


def path_of(path_id):
    return Measurement.objects.get(path_id=path_id).path


class TestThroughput:
    @pytest.fixture
    def path(self):
        path = mesh_with(throughput={})["slac → cern"]
        test = MeshTest.objects.create(name="tcp", kind=KindName.THROUGHPUT, every_s=3600)
        Measurement.objects.create(path=path, test=test, started_at=NOW - timedelta(days=60))
        return path

    def measure(self, path, rates_mbps, until=NOW):
        ThroughputTest.objects.bulk_create(
            ThroughputTest(
                path_id=path.pk,
                measured_at=until - (len(rates_mbps) - number) * HOUR,
                test="tcp",
                outcome="measured" if rate else "refused",
                streams=1,
                throughput_bps=rate * 1e6 if rate else None,
            )
            for number, rate in enumerate(rates_mbps)
        )

    def test_a_fall_to_half_is_significant_at_the_fourth_test(self, path):
        """Four lowest of 52 occur by chance in one of 270,725 orders; times six, 2.2e-5 are more than 2e-5 an hour.
        With a fourth below 48 others it is one of C(52, 4); with five one of C(53, 5) = 2,869,685."""
        usual = [940 + number % 7 for number in range(48)]
        self.measure(path, [*usual, 470, 471, 472])
        assert found() == []

        ThroughputTest.objects.all().delete()
        self.measure(path, [*usual, 470, 471, 472, 473, 474])
        (finding,) = found()

        assert finding.figures["after_bps"] == 472e6
        assert lacks(finding.sentence, "throughput 472 Mbit/s", "IPv4", " −50%", "from 943 Mbit/s") == []

    def test_failed_tests_are_not_low_throughput(self, path):
        self.measure(path, [*(940 + number % 7 for number in range(48)), None, None, None, None, None, None])

        assert found() == []

    def test_a_significant_fall_of_a_few_percent_raises_no_alarm(self, path):
        self.measure(path, [*(940 + number % 7 for number in range(48)), *[900] * 8])

        assert found() == []

    def test_it_closes_after_three_good_tests(self, path):
        usual = [940 + number % 7 for number in range(48)]
        self.measure(path, [*usual, 470, 471, 472, 473, 474])
        evaluate(NOW)
        self.measure(path, [939, 940], until=NOW + 2 * HOUR)
        assert evaluate(NOW + 2 * HOUR).closed == 0, "two of the last three are good, and another is from before"
        self.measure(path, [941], until=NOW + 3 * HOUR)

        assert evaluate(NOW + 3 * HOUR).closed == 1
        assert lacks(Incident.objects.get().closing, "throughput 940 Mbit/s", "median", "last 3 tests") == []


class TestEstimate:
    def days(self, path, rates_bps):
        day = start_of("day", NOW)
        BurstDay.objects.bulk_create(
            summary(
                BurstDay, path, day - timedelta(days=len(rates_bps) - number), bursts=1440, lossy=1, lost=1,
                rtt_median_ms=160.0, estimate_bps=rate,
            )
            for number, rate in enumerate(rates_bps)
        )  # fmt: skip

    def test_days_allowing_under_half_of_earlier_throughput_alarm(self):
        path = mesh_with(estimate={})["slac → cern"]
        self.days(path, [*(90e6 + number % 7 * 1e6 for number in range(40)), 40e6, 41e6, 39e6, 38e6, 40e6])

        (finding,) = found()

        assert (finding.rule, finding.figures["days"], finding.figures["after_bps"]) == ("estimate", 5, 40e6)
        after = ("Mathis (Reno) estimate", " 40 Mbit/s", "IPv4", "median", "last 5 days")
        assert lacks(finding.sentence, *after, "was 93 Mbit/s", " 40 days before") == []
        assert finding.since == NOW - timedelta(days=5)

    def test_three_days_or_a_fall_of_a_third_raise_no_alarm(self):
        paths = mesh_with(estimate={})
        usual = [90e6 + number % 7 * 1e6 for number in range(40)]
        self.days(paths["slac → cern"], [*usual, 40e6, 41e6, 39e6][-20:])
        self.days(paths["cern → slac"], [*usual, *[60e6] * 8])

        assert found() == []

    def test_it_ends_when_yesterday_is_back_by_half(self):
        path = mesh_with(estimate={})["slac → cern"]
        self.days(path, [*(90e6 + number % 7 * 1e6 for number in range(40)), 40e6, 41e6, 39e6, 38e6, 40e6])
        evaluate(NOW)
        assert evaluate(NOW + MINUTE).closed == 0

        day = start_of("day", NOW)
        BurstDay.objects.bulk_create(
            [summary(BurstDay, path, day, bursts=1440, lossy=1, lost=1, rtt_median_ms=160.0, estimate_bps=80e6)]
        )
        assert evaluate(NOW + timedelta(days=1)).closed == 1


def test_slow_tests_on_a_lossy_path_join_the_loss_incident():
    path = mesh_with(loss={}, throughput={})["slac → cern"]
    test = MeshTest.objects.create(name="tcp", kind=KindName.THROUGHPUT, every_s=3600)
    Measurement.objects.create(path=path, test=test, started_at=NOW - timedelta(days=60))
    every_minute(path, 60, lost=lambda number: 3 if number >= 50 else 0)
    TestThroughput().measure(path, [*(940 + number % 7 for number in range(48)), 470, 471, 472, 473, 474])

    evaluate(NOW)

    (incident,) = Incident.objects.all()
    assert set(incident.paths.values_list("rule", flat=True)) == {"loss", "throughput"}


def test_slow_tests_join_the_lasting_incident_of_the_path():
    path = mesh_with(loss={}, throughput={})["slac → cern"]
    test = MeshTest.objects.create(name="tcp", kind=KindName.THROUGHPUT, every_s=3600)
    Measurement.objects.create(path=path, test=test, started_at=NOW - timedelta(days=60))
    every_minute(path, 60, lost=lambda number: 3 if number >= 50 else 0)
    evaluate(NOW)
    TestThroughput().measure(path, [*(940 + number % 7 for number in range(48)), 470, 471, 472, 473, 474])

    evaluate(NOW + timedelta(seconds=1))

    (incident,) = Incident.objects.all()
    assert set(incident.paths.values_list("rule", flat=True)) == {"loss", "throughput"}


def test_paths_that_share_an_uplink_are_one_incident_of_it():
    """Two of three sites behind cern's second uplink: its hosts on the first uplink are normal."""
    make_mesh(["slac", "cern", "fnal", "kek", "desy"], NOW - timedelta(days=60), loss={})
    cern = Host.objects.get(name="cern").site
    second = Host.objects.create(
        site=cern,
        name="cern-data",
        address="192.0.2.77",
        family=4,
        uplink=Uplink.objects.create(site=cern, name="geant"),
    )
    third = Host.objects.create(
        site=cern, name="cern-tape", address="192.0.2.78", family=4, uplink=Uplink.objects.get(name="geant")
    )
    pinger = MeshTest.objects.get(name="pinger")
    for host in (second, third):
        for other in Host.objects.exclude(site=cern):
            for ends in ((host, other), (other, host)):
                path = Path.objects.create(source=ends[0], destination=ends[1], family=4)
                start_pinging(path, pinger, NOW - timedelta(days=60))
    for path in Path.objects.all():
        is_beyond = path.source_id in (second.pk, third.pk) or path.destination_id in (second.pk, third.pk)
        every_minute(path, 20, lost=lambda number, bad=is_beyond: 3 if bad and number >= 10 else 0)

    evaluate(NOW)

    assert [incident.cause for incident in Incident.objects.all()] == ["uplink cern/geant"]


def test_a_rule_disabled_for_a_site_is_not_evaluated_there():
    paths = mesh_with(unreachable={})
    Mesh.objects.update(alerts=only(unreachable={}) | {"for": [{"to": "cern", "unreachable": {"enabled": False}}]})
    for path in paths.values():
        every_minute(path, 60, lost=10)

    assert {finding.path for finding in found()} == {name for name in paths if not name.endswith("cern")}


def test_rules_on_a_pair_share_an_incident_of_the_most_severe():
    path = mesh_with(unreachable={}, loss={})["slac → cern"]
    every_minute(path, 60, lost=lambda number: 10 if number >= 50 else 0)

    assert evaluate(NOW).opened == 1

    incident = Incident.objects.get()
    assert incident.rule == "unreachable"
    assert set(incident.paths.values_list("rule", flat=True)) == {"unreachable", "loss"}

"""The use of interfaces, from delivery to weeks, statements, page and API."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pytest
from django.utils import timezone

from monitor.analysis.link_use import FullVerdict
from monitor.archive.interfaces import weeks as rollup
from monitor.archive.interfaces.store import in_interface
from monitor.archive.models import BurstHour, InterfaceResult, InterfaceWeek, ThroughputTest
from monitor.archive.queries.throughput.interfaces import interface_averages, interface_weeks, newest_interfaces
from monitor.mesh.document.service_levels import ServiceLevel
from monitor.mesh.models import Test
from monitor.overview.links.use import link_uses
from monitor.reports.contents.sentences import _full_links
from monitor.reports.numbers import Numbers
from probes.contract import Outcome
from probes.interface.spec import InterfaceRun
from tests.db.mesh_of_three import NOW, batch, delivered, make_mesh
from tests.db.pages_mesh import chart_spec
from tests.deliveries import store

pytestmark = pytest.mark.django_db
MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def mesh():
    return make_mesh()


def reading(at, **fields):
    values = {
        "target": "anl",
        "family": 4,
        "started_at": at,
        "outcome": Outcome.MEASURED,
        "interface": "eth0",
        "speed_bps": 1e9,
        "interval_s": 60.0,
        "in_bps": 1e8,
        "out_bps": 2e8,
        "in_errors": 0,
        "out_errors": 1,
        "in_drops": 2,
        "out_drops": 0,
    }
    return InterfaceRun(**{**values, **fields})


def weeks_of(path_id, levels_bps, test="uplink", until=MONDAY):
    """Summarized weeks before `until`."""
    first = until.date() - timedelta(weeks=len(levels_bps))
    InterfaceWeek.objects.bulk_create(
        InterfaceWeek(
            path_id=path_id,
            test=test,
            week=first + timedelta(weeks=number),
            is_dirty=False,
            five_minutes=2016,
            in_p95_bps=level_bps / 10,
            out_p95_bps=level_bps,
            speed_bps=1e9,
        )
        for number, level_bps in enumerate(levels_bps)
    )


def growing(count=26, last=8e8, growth=1.5e7):
    noise = np.random.default_rng(3).normal(0, 5e6, count)
    return (last - growth * np.arange(count)[::-1] + noise).tolist()


def test_a_reading_is_stored_once_and_marks_its_week(mesh):
    for _ in range(2):
        store(mesh.slac.pk, batch(delivered(mesh.slac_anl, reading(NOW - MINUTE), test="uplink", every_s=None)), NOW)

    (row,) = InterfaceResult.objects.all()
    assert (row.path_id, row.test, row.in_bps, row.out_errors, row.router) == (mesh.slac_anl.pk, "uplink", 1e8, 1, None)
    (week,) = InterfaceWeek.objects.all()
    assert (week.week, week.is_dirty, week.five_minutes) == (date(2026, 3, 9), True, None)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, None),
        ({"interval_s": None}, "not all given"),
        ({"outcome": Outcome.BUSY}, "busy, but with figures"),
        ({"interval_s": None, "in_bps": None, "out_bps": None}, "neither figures nor a reason"),
        ({"interval_s": None, "in_bps": None, "out_bps": None, "detail": "first reading"}, None),
    ],
)
def test_contradicting_fields_are_refused(fields, reason):
    said = in_interface(reading(NOW, **fields))
    assert (said is None) if reason is None else reason in said


def test_a_week_has_the_percentiles_of_its_five_minute_averages(mesh):
    """Minutes are averaged first: single minutes of 1 Gbit/s do not count as such. Our own tests are left out."""
    random, path_id = np.random.default_rng(1), mesh.slac_anl.pk
    minutes = random.gamma(2.0, 5e7, 10_080)
    rows, averages = [], minutes.reshape(-1, 5).mean(axis=1)
    for number, rate_bps in enumerate(minutes):
        at = MONDAY + (number + 1) * MINUTE - timedelta(seconds=1)
        rows.append(
            InterfaceResult(
                path_id=path_id, measured_at=at, test="uplink", outcome="measured", interface="eth0", speed_bps=1e9,
                interval_s=59.0, in_bps=rate_bps, out_bps=rate_bps / 2, during_test=False,
            )
        )  # fmt: skip
        if number % 600 == 0:
            rows.append(
                InterfaceResult(
                    path_id=path_id, measured_at=at + timedelta(milliseconds=1), test="uplink", outcome="measured",
                    interval_s=59.0, in_bps=9e9, out_bps=9e9, during_test=True,
                )
            )  # fmt: skip
    InterfaceResult.objects.bulk_create(rows)
    InterfaceWeek.objects.create(path_id=path_id, test="uplink", week=MONDAY.date(), is_dirty=True)

    assert rollup.summarize(MONDAY + timedelta(days=6)) == 0, "the week is not over"
    assert rollup.summarize(NOW) == 1
    assert rollup.summarize(NOW) == 0
    (week,) = interface_weeks([path_id], MONDAY, NOW)
    assert (week.five_minutes, week.speed_bps) == (2016, 1e9)
    assert week.in_p95_bps == pytest.approx(np.quantile(averages, 0.95), rel=1e-9)
    assert week.out_p95_bps == pytest.approx(np.quantile(averages, 0.95) / 2, rel=1e-9)
    day = interface_averages(path_id, "uplink", MONDAY, MONDAY + timedelta(hours=1))
    assert [round(point.in_bps) for point in day[1:12]] == [round(mean) for mean in averages[1:12]]


def test_a_growing_link_is_full_in_weeks_and_the_newest_reading_is_named(mesh):
    path_id = mesh.slac_anl.pk
    weeks_of(path_id, growing())
    Test.objects.create(name="uplink", kind="interface", every_s=60, parameters={"capacity_bps": None})
    store(
        mesh.slac.pk,
        batch(delivered(mesh.slac_anl, reading(MONDAY - MINUTE, router="192.0.2.1", alias="transit"), test="uplink")),
        MONDAY,
    )
    (use,) = link_uses(None, {}, MONDAY)

    assert (use.path_id, use.direction, use.name) == (path_id, "out", "eth0 (transit) of 192.0.2.1")
    assert (use.forecast.verdict, use.forecast.capacity_bps) == (FullVerdict.FULL_IN, 1e9)
    # 150 Mbit/s are left below 950, at 15 a week.
    assert use.forecast.low_weeks <= 10 <= use.forecast.high_weeks
    assert use.forecast.fills_within_quarter
    assert use.as_of == date(2026, 3, 1)
    assert newest_interfaces([path_id], MONDAY - timedelta(hours=1), MONDAY)[0].alias == "transit"


@pytest.mark.parametrize(
    ("given", "promised", "capacity"), [(5e9, None, 5e9), (None, 9e8, 9e8), (None, 2e9, 1e9), (None, None, 1e9)]
)
def test_capacity_is_given_or_the_least_of_speed_and_promise(mesh, given, promised, capacity):
    weeks_of(mesh.slac_anl.pk, [1e8] * 10)
    Test.objects.create(name="uplink", kind="interface", every_s=60, parameters={"capacity_bps": given})
    (use,) = link_uses(None, {mesh.slac_anl.pk: ServiceLevel(promised_bps=promised)}, MONDAY)

    assert use.forecast.capacity_bps == capacity


def plant_tests(path_id, rates_by_week):
    rows = [
        ThroughputTest(
            path_id=path_id, measured_at=MONDAY - timedelta(weeks=weeks_ago) + timedelta(hours=6 * number), test="tcp",
            outcome="measured", streams=1, throughput_bps=rate_bps * (1 + 0.01 * (number % 5)), protocol="tcp",
        )
        for weeks_ago, rate_bps in enumerate(rates_by_week, 1)
        for number in range(28)
    ]  # fmt: skip
    ThroughputTest.objects.bulk_create(rows)


def test_without_counters_tests_below_a_promised_rate_show_the_use(mesh):
    """What tests still reach falls by 10 Mbit/s a week, to 300 of 1000."""
    plant_tests(mesh.slac_anl.pk, [3e8 + 3e7 * weeks for weeks in range(24)])
    (use,) = link_uses(None, {mesh.slac_anl.pk: ServiceLevel(promised_bps=1e9)}, MONDAY)

    assert (use.test, use.forecast.verdict) == (None, FullVerdict.FULL_IN)
    assert use.statement.endswith("by throughput tests")
    assert use.forecast.low_weeks - 2 <= 8 <= use.forecast.high_weeks + 2


def test_tests_that_are_limited_otherwise_tell_nothing(mesh):
    plant_tests(mesh.slac_anl.pk, [3e8] * 24)
    (use,) = link_uses(None, {mesh.slac_anl.pk: ServiceLevel(promised_bps=1e9)}, MONDAY)

    assert use.forecast.verdict is FullVerdict.CANNOT_TELL
    assert "no test reached 80%" in use.forecast.reason


@pytest.fixture
def filling(mesh, settings):
    """A link that is full in about ten weeks, with a day of readings."""
    settings.LOCAL_READ = settings.ALLOW_PLAIN_HTTP = True
    now = timezone.now()
    path_id = mesh.slac_anl.pk
    weeks_of(path_id, growing(), until=now - timedelta(days=now.weekday()))
    InterfaceResult.objects.bulk_create(
        InterfaceResult(
            path_id=path_id, measured_at=now - (number * 5 + 1) * MINUTE, test="uplink", outcome="measured",
            interface="eth0", speed_bps=1e9, interval_s=60.0, in_bps=1e8, out_bps=7.5e8, in_errors=0, out_errors=0,
            in_drops=0, out_drops=1, during_test=False,
        )
        for number in range(288)
    )  # fmt: skip
    return path_id


def test_page_of_path_and_site_and_api_agree(mesh, client, filling):
    host = {"host": "localhost"}
    page = client.get(f"/paths/{filling}/?tab=tests", headers=host).content.decode()
    site = client.get("/sites/slac/", headers=host).content.decode()
    (link,) = client.get(f"/api/v1/paths/{filling}/links", headers=host).json()

    assert (link["verdict"], link["name"], link["out_bps"], link["capacity_bps"]) == ("full in", "eth0", 7.5e8, 1e9)
    assert link["low_weeks"] <= 10 <= link["high_weeks"]
    assert len(link["p95_by_week"]) == 26
    assert link["statement"] in site
    assert link["statement"].capitalize() in page
    assert "750 Mbit/s out" in page
    weeks, day = chart_spec(page, "link-1-weeks"), chart_spec(page, "link-1-day")
    assert "capacity" in str(weeks)
    assert "750" in str(day)
    assert client.get("/api/v1/paths/999999/links", headers=host).status_code == 404


def test_prometheus_has_rates_capacity_and_weeks(mesh, client, filling):
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    counts = dict.fromkeys(
        ("bursts_all_lost", "bursts_during_test", "bursts_not_measured", "duplicates", "reordered"), 0
    )
    BurstHour.objects.create(
        path_id=filling, packet_bytes=100, hour=hour, bursts=1, bursts_none_lost=1, sent=1, received=1, **counts
    )
    text = client.get("/metrics/paths", headers={"host": "localhost"}).content.decode()
    values = {
        line.split("{")[0]: float(line.split()[-1]) for line in text.splitlines() if line.startswith("soundings_link")
    }

    assert (values["soundings_link_in_bps"], values["soundings_link_out_bps"]) == (1e8, 7.5e8)
    assert values["soundings_link_capacity_bps"] == 1e9
    assert 8 <= values["soundings_link_full_weeks"] <= 13


def test_the_report_names_links_that_fill_within_a_quarter(mesh, filling):
    weeks_of(mesh.slac_cern.pk, [1e8] * 26, until=timezone.now())
    use = {link.path_id: link for link in link_uses(None, {}, timezone.now())}
    path = SimpleNamespace(name="slac → anl", links=(use[filling],))
    steady = SimpleNamespace(name="slac → cern", links=(use[mesh.slac_cern.pk],))
    sentence = _full_links(SimpleNamespace(paths=(path, steady), throughput_only=()), Numbers())

    assert sentence.figures["links"] == 1
    assert "slac → anl (eth0: full in about" in sentence.text
    assert "cern" not in sentence.text
    assert _full_links(SimpleNamespace(paths=(steady,), throughput_only=()), Numbers()) is None

"""A sudden fall of throughput, from stored tests to the incident: a notice first, the significant fall later; and a
limit."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence.words import headline
from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.models import ThroughputTest
from monitor.mesh.document.reader import parse
from monitor.mesh.models import KindName, Measurement, Mesh
from monitor.mesh.models import Test as MeshTest
from tests.db.alert_rows import make_bursts, make_mesh, only
from tests.db.alerts.test_toy_rule import MESH
from tests.db.finding_levels import level_of
from tests.facts import lacks

NOW = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
USUAL = [30.2, 29.7, 31.4, 28.8, 30.9, 30.4, 29.1, 32.0, 30.0, 27.9, 31.1, 30.6] * 2
RATE = re.compile(r"([0-9.]+) Mbit/s")

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def confirmed_at_once(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)


@pytest.fixture
def path():
    path = make_mesh(["nersc", "cern"], NOW - timedelta(days=60), throughput={}, throughput_drop={})["nersc → cern"]
    tcp = MeshTest.objects.create(name="tcp", kind=KindName.THROUGHPUT, every_s=3600)
    Measurement.objects.create(path=path, test=tcp, started_at=NOW - timedelta(days=60))
    return path


def measure(path, rates_mbps, first_at):
    ThroughputTest.objects.bulk_create(
        ThroughputTest(
            path_id=path.pk, measured_at=first_at + number * HOUR, test="tcp", outcome="measured", streams=1,
            throughput_bps=rate * 1e6,
        )
        for number, rate in enumerate(rates_mbps)
    )  # fmt: skip


def test_a_fall_to_a_tenth_is_a_notice_at_the_second_test(path):
    measure(path, USUAL, NOW - 24 * HOUR)
    measure(path, [3.3], NOW)
    assert evaluate(NOW + timedelta(minutes=1)).opened == 0, "a single test is no fall"
    measure(path, [3.1], NOW + HOUR)

    assert evaluate(NOW + HOUR + timedelta(minutes=1)).opened == 1

    incident = Incident.objects.get()
    assert (incident.rule, incident.severity) == ("throughput_drop", "notice")
    assert lacks(headline(incident), "nersc → cern", "throughput 3.1 Mbit/s (was 30.2 Mbit/s)") == []
    assert lacks(incident.summary, "throughput 3.1 Mbit/s", "IPv4", " −90%", "from 30.2 Mbit/s") == []
    assert "27.9 Mbit/s" in incident.summary, "the minimum of the earlier tests"


def test_a_fall_that_is_over_is_told_as_over_and_ends_with_its_last_low_test(path):
    measure(path, USUAL, NOW - 24 * HOUR)
    now_bps, is_over = {}, {}
    for number, rate_mbps in enumerate([3.3, 3.1, 3.2, 30.3, 30.1, 29.8]):
        measure(path, [rate_mbps], NOW + number * HOUR)
        evaluate(NOW + number * HOUR + timedelta(minutes=1))
        evaluate(NOW + number * HOUR + timedelta(minutes=2))
        for row in IncidentPath.objects.filter(incident__closed_at=None):
            now_bps[number], is_over[number] = level_of(row).now, level_of(row).over_since is not None

    incident = Incident.objects.get()
    assert now_bps == {1: 3.1e6, 2: 3.2e6, 3: 30.3e6}
    assert is_over == {1: False, 2: False, 3: True}
    assert level_of(incident.paths.first()).peak == 3.1e6
    assert incident.ended_at == NOW + 2 * HOUR
    assert incident.closed_at > NOW + 3 * HOUR


def severity_after(path, rates_mbps):
    """The incident's severity after each of these hourly tests; None while there is none."""
    severities = []
    for number, rate in enumerate(rates_mbps):
        measure(path, [rate], NOW + number * HOUR)
        for seconds in (60, 70):
            evaluate(NOW + number * HOUR + timedelta(seconds=seconds))
        severities.append(Incident.objects.values_list("severity", flat=True).first())
    return severities


def test_a_loss_of_throughput_is_critical_at_the_third_test(path):
    measure(path, USUAL, NOW - 24 * HOUR)

    # Below a tenth of the usual 30.2 Mbit/s each.
    assert severity_after(path, [0.9, 1.1, 0.8]) == [None, "warning", "critical"]


def test_a_third_normal_test_leaves_it_a_warning(path):
    measure(path, USUAL, NOW - 24 * HOUR)

    assert severity_after(path, [0.9, 1.1, 28.0, 1.2, 29.0]) == [None, *["warning"] * 4]


def test_the_rank_test_confirms_the_fall_in_the_same_incident(path):
    measure(path, USUAL, NOW - 24 * HOUR)
    low = [3.3, 3.1, 3.4, 3.2, 3.6, 3.2, 3.4, 3.5]  # below a tenth it is critical
    measure(path, low, NOW)

    for number in range(len(low)):
        evaluate(NOW + number * HOUR + timedelta(minutes=1))

    incident = Incident.objects.get()
    assert incident.closed_at is None
    assert set(incident.paths.values_list("rule", flat=True)) == {"throughput", "throughput_drop"}
    assert incident.severity == "warning"


def test_a_fall_proven_once_the_newest_test_is_back_tells_the_low_rate(path):
    """The eight newest tests are significantly low together, though the newest of them is usual."""
    measure(path, USUAL, NOW - 24 * HOUR)
    measure(path, [3.3, 3.1, 3.2, 3.4, 3.0, 3.2, 3.1, 28.0], NOW)

    evaluate(NOW + 7 * HOUR + timedelta(minutes=1))

    (row,) = IncidentPath.objects.filter(rule="throughput")
    assert row.figures["after_bps"] == 3.2e6
    assert "throughput 3.2 Mbit/s" in row.sentence
    assert "throughput 3.2 Mbit/s (was 30.2 Mbit/s)" in headline(row.incident)


def test_every_reported_rate_is_that_of_a_test(path):
    measure(path, USUAL, NOW - 24 * HOUR)
    measure(path, [3.12, 2.94, 3.36, 3.02, 2.85, 3.23], NOW)
    for number in range(6):
        evaluate(NOW + number * HOUR + timedelta(minutes=1))
    measure(path, [30.3, 30.7, 29.9], NOW + 6 * HOUR)
    evaluate(NOW + 9 * HOUR)

    incident = Incident.objects.get()
    texts = [incident.summary, headline(incident), incident.closing, *(row.sentence for row in incident.paths.all())]
    reported = {float(rate) for text in texts for rate in RATE.findall(text)}
    measured = ThroughputTest.objects.values_list("throughput_bps", flat=True)
    assert incident.closed_at is not None
    assert len(reported) >= 3
    assert reported <= {float(f"{rate / 1e6:.3g}") for rate in measured}


@pytest.mark.parametrize(
    "rates",
    [
        [*USUAL, 3.0, 30.0, 3.0, 30.0, 3.0],  # never two in a row
        [*USUAL[:7], 3.0, 2.9],  # too few earlier tests
        [*USUAL, 18.0, 17.0],  # to 60%
        [*USUAL[:12], 3.5, *USUAL[:10], 3.0, 2.9],  # not below half of the earlier minimum
    ],
)
def test_without_two_tests_far_below_others_there_is_no_notice(path, rates):
    Mesh.objects.update(alerts=only(throughput_drop={}))
    measure(path, rates, NOW - (len(rates) - 1) * HOUR)

    assert evaluate(NOW + timedelta(minutes=1)).opened == 0


def test_a_limit_in_mesh_toml_opens_and_ends_an_incident():
    """The file as an operator writes it; 20 ms on a path that has never been faster."""
    text = MESH + '[alerts.rtt_median]\nabove_ms = 15\n[[alerts.for]]\nto = "slac"\nrtt_median = { above_ms = 30 }\n'
    paths = make_mesh(["slac", "cern"], NOW - timedelta(days=60))
    keys = parse(text.encode().replace(b'"slac"', b'"here"'), "mesh.toml").alerts
    keys["for"] = [dict(table) | {"to": "slac"} for table in keys["for"]]
    Mesh.objects.update(alerts=only() | keys)
    for path in paths.values():
        make_bursts(path, [0] * 30, NOW - timedelta(minutes=30))

    assert evaluate(NOW).opened == 1

    incident = Incident.objects.get()
    assert [(row.rule, str(row.path)) for row in incident.paths.all()] == [("rtt_median", "slac → cern")]
    assert lacks(incident.summary, "slac → cern", "median RTT 20.00 ms", "limit 15.00 ms") == []
    Mesh.objects.update(alerts=only(rtt_median={"above_ms": 25}))
    assert evaluate(NOW + timedelta(seconds=10)).closed == 1
    assert "limit changed in mesh.toml" in Incident.objects.get().closing


@pytest.mark.parametrize(("lossy_from_min", "incidents"), [(-20, 1), (-200, 2)])
def test_low_throughput_joins_a_loss_that_is_detected_later(path, lossy_from_min, incidents):
    # Throughput falls two hours before NOW + 1 h; loss on its path begins at about that time, or three hours later.
    Mesh.objects.update(alerts=only(throughput_drop={}, loss={}))
    measure(path, USUAL, NOW - 24 * HOUR)
    measure(path, [3.3, 3.1], NOW)
    evaluate(NOW + HOUR + timedelta(minutes=1))
    slow = Incident.objects.get()

    began = NOW - timedelta(minutes=lossy_from_min)
    make_bursts(path, [0] * 30 + [2] * 15, began - timedelta(minutes=30))
    evaluate(max(began + timedelta(minutes=15), NOW + HOUR + timedelta(minutes=2)))

    lasting = Incident.objects.filter(closed_at=None)
    assert slow.cause == "throughput: nersc → cern"
    assert lasting.count() == incidents
    joined = lasting.get(cause="cern ↔ nersc")
    rules = set(joined.paths.values_list("rule", flat=True))
    assert rules == ({"loss", "throughput_drop"} if incidents == 1 else {"loss"})

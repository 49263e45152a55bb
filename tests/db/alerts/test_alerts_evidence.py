"""The evidence of an incident: figures before and after in both directions, its onset, and excluded causes."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from scipy.stats import binomtest

from monitor.alerts.evidence import gather, path_tests
from monitor.alerts.evidence.dating import onsets
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.titles import title_of, update_titles
from monitor.alerts.evidence.words import period
from monitor.alerts.incidents import lifecycle, queries
from monitor.alerts.models import Incident, IncidentEvidence
from monitor.archive.models import Burst
from monitor.mesh.models import Measurement, Slot, SlotHost, Test
from tests.db.alert_rows import make_mesh
from tests.db.evidence_rows import BEGAN, MINUTE, NOW, bursts, finding, gathered, incident, lossy
from tests.db.pages_mesh import throughput
from tests.facts import lacks

pytestmark = pytest.mark.django_db


@pytest.fixture
def paths():
    return make_mesh(["slac", "cern", "niit"], NOW - timedelta(days=2))


BURST = timedelta(seconds=4)
"""Four packets a second apart."""


def test_figures_before_and_after_match_bursts_counted_by_hand(paths):
    out, back = paths["slac → cern"], paths["cern → slac"]
    lossy(out, back)

    facts = gathered(incident(finding(out)))

    (path,) = facts.paths
    before, after = path.there.before, path.there.after
    surely_old = Burst.objects.filter(path_id=out.pk, measured_at__lt=facts.began.earliest).count()
    assert 334 <= surely_old <= 340
    assert (before.sent, before.lost, before.bursts) == (surely_old * 4, 0, surely_old)
    assert (after.sent, after.lost, after.bursts) == (20 * 4, 20, 20)
    exact = binomtest(20, 80).proportion_ci(0.95, method="exact")
    assert (after.loss_low_ratio, after.loss_high_ratio) == pytest.approx((exact.low, exact.high))
    values = np.float32([20.0, 20.2, 20.1] * 20)
    assert [after.rtt_min_ms, after.rtt_median_ms, after.rtt_p95_ms] == pytest.approx(
        np.quantile(values, [0, 0.5, 0.95]), abs=1e-4
    )
    differences = np.float32([0.2, -0.1] * 20)
    assert after.ipdv_ms == pytest.approx(np.subtract(*np.quantile(differences, [0.75, 0.25])), abs=1e-4)
    assert path.back.after.lost == 0
    assert path.back.name == "cern → slac"
    assert path.back.before.rtt_median_ms == pytest.approx(21.25)


def test_the_onset_is_between_the_last_good_and_first_bad_burst(paths):
    lossy(paths["slac → cern"], paths["cern → slac"])

    began = gathered(incident(finding(paths["slac → cern"]))).began

    assert began.at == BEGAN
    assert began.earliest <= BEGAN - MINUTE
    assert began.earliest >= BEGAN - 6 * MINUTE
    assert BEGAN <= began.latest <= BEGAN + 2 * MINUTE + BURST


def test_a_title_says_about_where_the_onset_is_not_known_to_the_minute(paths):
    lossy(paths["slac → cern"], paths["cern → slac"])
    row = incident(finding(paths["slac → cern"]))

    began = gathered(row).began
    update_titles([row], row.opened_at)

    assert began.latest - began.earliest > MINUTE
    assert period(queries.incident_with_paths(row.pk)) == f"since about {began.at:%Y-%m-%d %H:%M} UTC"
    Incident.objects.filter(pk=row.pk).update(began_within_s=59.0)
    assert period(queries.incident_with_paths(row.pk)) == f"since {began.at:%Y-%m-%d %H:%M} UTC"


def test_a_fall_of_throughput_began_between_two_tests(paths):
    path = paths["slac → cern"]
    for minutes, rate_bps in ((70, 30e6), (40, 30e6), (10, 3e6)):
        throughput(path, NOW - minutes * MINUTE, rate_bps)
    figures = {"before_bps": 30e6, "after_bps": 3e6}
    row = incident(finding(path, "throughput_drop", NOW - 10 * MINUTE, figures=figures))

    text = gathered(row).began_text
    update_titles([row], row.opened_at)

    low, good = NOW - 10 * MINUTE, NOW - 40 * MINUTE
    assert (
        lacks(text, f"between {good:%H:%M:%S} and {low:%Y-%m-%d %H:%M:%S} UTC", "one throughput test to the next") == []
    )
    assert f"since about {low:%Y-%m-%d %H:%M} UTC" in title_of(queries.incident_with_paths(row.pk), [], NOW)


def test_an_onset_before_the_rules_window_is_located(paths):
    lossy(paths["slac → cern"], paths["cern → slac"])

    began = gathered(incident(finding(paths["slac → cern"], since=NOW - 3 * MINUTE))).began

    assert began.at == BEGAN


def test_bursts_during_our_own_tests_are_listed_but_not_used(paths):
    out = paths["slac → cern"]
    lossy(out, paths["cern → slac"])
    bursts(out, NOW - 5 * MINUTE, NOW - 3 * MINUTE, [], lost=10, size=1000, during_test=True)

    after = gathered(incident(finding(out))).paths[0].there.after

    assert after.bursts_during_test == 2
    assert after.lost == 20


def tcp_test_of(path):
    """A throughput test of 5 s of the path."""
    tcp = Test.objects.create(name="tcp", kind="throughput", every_s=3600, parameters={"duration_s": 5, "omit_s": 0})
    return Measurement.objects.create(path=path, test=tcp, started_at=NOW)


def test_own_tests_on_either_host_are_named(paths):
    out = paths["slac → cern"]
    lossy(out, paths["cern → slac"])
    measurement = tcp_test_of(paths["niit → cern"])
    slot = Slot.objects.create(
        measurement=measurement, starts_at=NOW - 4 * MINUTE, ends_at=NOW - 3 * MINUTE, outcome="measured"
    )
    for host in (measurement.path.source, measurement.path.destination):
        SlotHost.objects.create(slot=slot, host=host, starts_at=slot.starts_at, ends_at=slot.ends_at)

    (test,) = gathered(incident(finding(out))).own_tests

    assert (test.path, test.starts_at, test.outcome) == ("niit → cern", slot.starts_at, "measured")
    assert test.ends_at == slot.starts_at + timedelta(seconds=5), "it sends for 5 s of its slot of a minute"


def test_of_many_own_tests_the_newest_are_named(paths):
    out = paths["slac → cern"]
    lossy(out, paths["cern → slac"])
    measurement = tcp_test_of(paths["niit → cern"])
    starts = [NOW - (25 - number) * timedelta(seconds=40) for number in range(25)]
    for starts_at in starts:
        slot = Slot.objects.create(
            measurement=measurement, starts_at=starts_at, ends_at=starts_at + timedelta(seconds=10), outcome="measured"
        )
        SlotHost.objects.create(slot=slot, host=measurement.path.source, starts_at=starts_at, ends_at=slot.ends_at)
        SlotHost.objects.create(slot=slot, host=measurement.path.destination, starts_at=starts_at, ends_at=slot.ends_at)

    own_tests = gathered(incident(finding(out))).own_tests

    assert [test.starts_at for test in own_tests] == starts[-path_tests.MOST_OWN_TESTS :]


def test_stored_evidence_stays_when_raw_bursts_expire(paths):
    out = paths["slac → cern"]
    lossy(out, paths["cern → slac"])
    row = incident(finding(out))
    first = gathered(row)
    Burst.objects.all().delete()

    later = evidence(queries.incident_with_paths(row.pk), NOW + timedelta(days=800))

    assert later.paths[0].there.before == first.paths[0].there.before
    assert later.paths[0].there.after == first.paths[0].there.after
    assert later.began == first.began
    assert later.likely == first.likely
    assert later.paths[0].there.now.sent == 0


def test_a_growing_incident_is_updated_and_keeps_its_baseline(paths):
    out = paths["slac → cern"]
    lossy(out, paths["cern → slac"])
    row = incident(finding(out))
    assert gather.gather_due(NOW) == 1
    assert gather.gather_due(NOW) == 0
    before = evidence(row, NOW).paths[0].there.before
    Burst.objects.filter(measured_at__lt=BEGAN).delete()
    lifecycle.add_findings(row.cause, [finding(paths["niit → cern"], since=NOW)], NOW + MINUTE)

    assert gather.gather_due(NOW + MINUTE) == 1

    evidence_now = evidence(queries.incident_with_paths(row.pk), NOW + MINUTE)
    assert {path.name for path in evidence_now.paths} == {"slac → cern", "niit → cern"}
    assert next(path for path in evidence_now.paths if path.name == "slac → cern").there.before == before


def test_the_number_of_queries_does_not_grow_with_the_paths(paths):
    lossy(paths["slac → cern"], paths["cern → slac"])
    single = incident(finding(paths["slac → cern"]))
    many = incident(*(finding(path, "jitter") for path in paths.values()), cause="all 6 paths")

    def count_queries(row):
        with CaptureQueriesContext(connection) as queries_run:
            gather.collect_facts(row, NOW)
        return len(queries_run)

    lossy_paths = incident(*(finding(path) for path in paths.values()), cause="all 6 lossy paths")
    assert count_queries(many) == 22
    assert count_queries(single) == count_queries(lossy_paths) == 23
    gather.store_facts(many, NOW)
    with CaptureQueriesContext(connection) as queries_run:
        evidence(many, NOW)
    assert len(queries_run) == 2


def test_an_incident_on_many_paths_details_the_worst_only():
    names = [f"s{number}" for number in range(5)]
    all_paths = list(make_mesh(names, NOW - timedelta(days=2)).values())
    row = incident(*(finding(path) for path in all_paths), cause="all 20 paths")

    facts = gathered(row)

    assert len(facts.paths) == onsets.PATHS_IN_DETAIL
    assert facts.paths_left_out == 20 - 2 * onsets.PATHS_IN_DETAIL  # each is shown with its reverse path


def test_an_incident_that_fails_to_gather_does_not_stop_others(paths, monkeypatch, caplog):
    lossy(paths["slac → cern"], paths["cern → slac"])
    bad = incident(finding(paths["niit → cern"]), cause="bad")
    good = incident(finding(paths["slac → cern"]))
    whole = gather.collect_facts

    def fail(row, now, began):
        if row.pk == bad.pk:
            raise ValueError("no such figure")
        return whole(row, now, began)

    monkeypatch.setattr(gather, "collect_facts", fail)

    assert gather.gather_due(NOW) == 1

    assert list(IncidentEvidence.objects.values_list("incident_id", flat=True)) == [good.pk]
    assert lacks(caplog.text, f"incident {bad.pk}:", "failed") == []


def test_evidence_of_a_newer_version_is_not_misread(paths):
    lossy(paths["slac → cern"], paths["cern → slac"])
    row = incident(finding(paths["slac → cern"]))
    gather.store_facts(row, NOW)
    IncidentEvidence.objects.update(version=gather.VERSION + 1)

    evidence_now = evidence(row, NOW)

    assert (evidence_now.gathered_at, evidence_now.paths) == (None, ())

"""What an incident says of throughput tests that failed, or that have no result yet."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from monitor.alerts.evidence import gather
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.ticket import ticket_text
from monitor.mesh.models import Measurement, Slot, SlotHost, Test
from probes.contract import Outcome
from tests.db.alert_rows import make_mesh
from tests.db.evidence_rows import NOW, finding, gathered, incident, lossy
from tests.db.mesh_of_three import batch, delivered, throughput
from tests.deliveries import store
from tests.facts import lacks

pytestmark = pytest.mark.django_db
DURING = NOW - timedelta(minutes=5)
TEN_S = timedelta(seconds=10)
NO_TEST = "no throughput test"


@pytest.fixture
def paths():
    """Loss between slac and cern for 20 minutes, and three tests of each direction in the hours before."""
    paths = make_mesh(["slac", "cern", "niit"], NOW - timedelta(days=2))
    lossy(paths["slac → cern"], paths["cern → slac"])
    for name in ("slac → cern", "cern → slac"):
        for hours, rate_bps in enumerate((4.8e7, 4.9e7, 4.7e7), start=1):
            run_test(paths[name], NOW - timedelta(hours=hours), rate_bps)
    return paths


def run_test(path, at, rate_bps=None, **fields):
    run = msgspec.structs.replace(throughput(rate_bps, at=at), **fields)
    store(path.source.site_id, batch(delivered(path, run)), NOW)


def cause_of(row):
    return gathered(row).cause


def test_a_test_that_did_not_finish_is_told_with_its_rate(paths):
    """As iperf3 on a path that loses 30%: 4.3 MB of 10 s in its socket, and no end."""
    run_test(paths["slac → cern"], DURING, sent_bytes=4_275_944, duration_s=10.0)

    cause = cause_of(incident(finding(paths["slac → cern"])))

    said = ("slac → cern at most 3.42 Mbit/s (was 48 Mbit/s)", "the test of slac → cern at 10:00:00 UTC did not finish")
    assert lacks(cause.sentence, *said, "4.28 MB in 10 s", "no test of cern → slac since the onset") == []
    assert NO_TEST not in cause.sentence
    assert cause.toward is None, "the other direction has no test: both may be slow"
    assert lacks(cause.next_step, "Run a throughput test of cern → slac") == []


def test_the_direction_of_tests_that_do_not_finish_is_named_where_the_other_is_well(paths):
    run_test(paths["slac → cern"], DURING, sent_bytes=4_275_944, duration_s=10.0)
    run_test(paths["cern → slac"], DURING + TEN_S, 4.75e7)

    cause = cause_of(incident(finding(paths["slac → cern"])))

    assert cause.toward == ("slac", "cern")
    assert lacks(cause.sentence, "at most 3.42 Mbit/s", "cern → slac 47.5 Mbit/s", "toward cern") == []


@pytest.mark.parametrize(("sent_bytes", "of_other"), [(40_000_000, 4.75e7), (4_275_944, None), (4_275_944, 4e6)])
def test_a_test_that_did_not_finish_names_no_direction_without_a_difference(paths, sent_bytes, of_other):
    """Not where it had two thirds of its usual rate, nor where the other did not finish either, or is slow too."""
    run_test(paths["slac → cern"], DURING, sent_bytes=sent_bytes, duration_s=10.0)
    figures = {"sent_bytes": 50_000_000, "duration_s": 10.0} if of_other is None else {}
    run_test(paths["cern → slac"], DURING + TEN_S, of_other, **figures)

    cause = cause_of(incident(finding(paths["slac → cern"])))

    assert cause.toward is None
    assert "did not finish" in cause.sentence
    assert "clearly slower" not in cause.sentence, "the most that a rate can be is no measured rate"


def test_a_test_that_failed_without_figures_is_told_and_asked_for_again(paths):
    run_test(paths["slac → cern"], DURING, outcome=Outcome.REFUSED)
    run_test(paths["cern → slac"], DURING + TEN_S, 4.75e7)

    cause = cause_of(incident(finding(paths["slac → cern"])))

    assert lacks(cause.sentence, "the test of slac → cern at 10:00:00 UTC failed: no connection") == []
    assert "no test of slac → cern" not in cause.sentence
    assert lacks(cause.next_step, "Run a throughput test of slac → cern again") == []


def test_a_measured_test_after_one_that_did_not_finish_is_told_alone(paths):
    run_test(paths["slac → cern"], DURING, outcome=Outcome.REFUSED)
    run_test(paths["slac → cern"], DURING + TEN_S, 4.7e6)

    sentence = cause_of(incident(finding(paths["slac → cern"]))).sentence

    assert "slac → cern 4.7 Mbit/s (was 48 Mbit/s)" in sentence
    assert "failed" not in sentence


def test_evidence_is_gathered_again_after_a_test_that_failed(paths):
    row = incident(finding(paths["slac → cern"]))
    assert NO_TEST in cause_of(row).sentence

    run_test(paths["slac → cern"], NOW, sent_bytes=4_275_944, duration_s=10.0)
    at = NOW + 2 * TEN_S
    assert gather.gather_due(at) == 1
    assert gather.gather_due(at + TEN_S) == 0

    assert "did not finish" in evidence(row, at).cause.sentence


def slot_of(path, starts_at, **fields):
    tcp, _ = Test.objects.get_or_create(
        name="tcp", kind="throughput", every_s=3600, parameters={"duration_s": 10, "omit_s": 0}
    )
    measurement = Measurement.objects.create(path=path, test=tcp, started_at=NOW)
    slot = Slot.objects.create(
        measurement=measurement, starts_at=starts_at, ends_at=starts_at + timedelta(seconds=15), **fields
    )
    for host in (path.source, path.destination):
        SlotHost.objects.create(slot=slot, host=host, starts_at=slot.starts_at, ends_at=slot.ends_at)
    return slot


def test_a_running_test_is_not_asked_for(paths):
    slot_of(paths["slac → cern"], NOW - timedelta(seconds=2))
    run_test(paths["cern → slac"], DURING, 4.75e7)

    row = incident(finding(paths["slac → cern"]))
    cause = cause_of(row)

    assert "the test of slac → cern at 10:04:58 UTC has no result yet" in cause.sentence
    assert "no test of" not in cause.sentence
    assert "throughput test" not in cause.next_step


def test_a_slot_without_a_report_is_told_as_not_completed(paths):
    slot_of(paths["slac → cern"], DURING, outcome="missed")

    assert "at 10:00:00 UTC failed: not completed" in cause_of(incident(finding(paths["slac → cern"]))).sentence


def test_evidence_is_gathered_again_when_a_test_on_its_hosts_has_its_result(paths):
    """Of a path that is not in the incident: no test of it is counted."""
    slot = slot_of(paths["niit → cern"], NOW - timedelta(seconds=2))
    row = incident(finding(paths["slac → cern"]))
    assert "running at 2026-11-21 10:05:00 UTC" in ticket_text(row, gathered(row))
    assert gather.gather_due(NOW + TEN_S) == 0, "it has no result yet"

    Slot.objects.filter(pk=slot.pk).update(outcome="measured")
    at = NOW + 2 * TEN_S
    assert gather.gather_due(at) == 1

    text = ticket_text(row, evidence(row, at))
    assert ("running" in text, "not delivered" in text) == (False, False)
    assert gather.gather_due(at + TEN_S) == 0

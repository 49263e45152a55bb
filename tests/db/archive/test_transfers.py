"""Throughput tests through ingest: their intervals are diagnosed once, stored, and read back."""

import dataclasses
import math
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.analysis.transfer import Verdict, diagnose
from monitor.archive.diagnosis.findings import Background, diagnose_run
from monitor.archive.diagnosis.pending import diagnose_awaited
from monitor.archive.models import Burst, CapacityResult, PolicerResult, ThroughputTest
from monitor.archive.queries.throughput.series import throughput_series
from monitor.archive.queries.throughput.transfers import backgrounds, transfer_of
from probes.bounds import LONGEST_RTT_MS, LONGEST_TEST_S
from probes.contract import Outcome
from probes.transfers.spec import ReceivedIntervals, SentIntervals, Transfer, UdpCounts
from tests.db.mesh_of_three import HOUR, NOW, batch, delivered, make_mesh, throughput
from tests.deliveries import store
from tests.diagnosis.reading import read, recording
from tests.facts import lacks

pytestmark = pytest.mark.timescale

RUNS = Path(__file__).parents[2] / "fixtures" / "iperf3" / "diagnosis"


@pytest.fixture
def mesh(db):
    return make_mesh()


def real(name, at=HOUR):
    """A run by the probe in the lab, as if it had begun at `at`."""
    return msgspec.structs.replace(read(RUNS / f"{name}.json"), started_at=at, target="cern", address="192.0.2.2")


def keep(mesh, run, at_path=None, sequence=1):
    receipt = store(mesh.slac.pk, batch(delivered(at_path or mesh.slac_cern, run, sequence), number=sequence), NOW)
    assert receipt.refused == ()
    diagnose_awaited(NOW)


def test_a_real_test_is_stored_with_verdict_and_steady_rate(mesh):
    run = real("queue")
    expected = diagnose(recording(run))

    keep(mesh, run)

    [point] = throughput_series(mesh.slac_cern.pk, HOUR, NOW)
    assert point.verdict == Verdict.BOTTLENECK_QUEUE
    assert point.sentence == expected.sentence
    assert (point.throughput_bps, point.steady_s) == (expected.steady_throughput_bps, expected.steady_s)
    assert point.average_bps == run.throughput_bps != point.throughput_bps


def test_all_intervals_of_the_probe_are_read_back(mesh):
    run = real("queue")
    keep(mesh, run)

    stored = transfer_of(mesh.slac_cern.pk, HOUR)

    expected = diagnose(recording(run))
    assert stored.transfer == run.transfer
    assert stored.findings.recoveries == expected.recoveries
    assert stored.findings.rfc6349 == expected.rfc6349
    assert stored.findings.idle_rtt_ms == run.transfer.kernel.rtt_min_ms < min(run.transfer.sent.rtt_ms)
    assert stored.findings.peer_window_bytes == max(run.transfer.sent.peer_window_bytes)
    assert [dataclasses.astuple(sign) for sign in stored.findings.evidence] == [
        dataclasses.astuple(sign) for sign in expected.evidence
    ]


def test_a_time_without_a_test_has_no_transfer(mesh):
    assert transfer_of(mesh.slac_cern.pk, HOUR) is None


def test_a_test_too_short_for_its_rtt_keeps_its_average(mesh):
    run = real("too_short")

    keep(mesh, run)

    [point] = throughput_series(mesh.slac_cern.pk, HOUR, NOW)
    assert (point.throughput_bps, point.average_bps, point.steady_s) == (run.throughput_bps, run.throughput_bps, None)
    assert "too short for its RTT" in point.sentence


def test_a_test_without_intervals_has_no_verdict(mesh):
    keep(mesh, throughput(5e7))

    [point] = throughput_series(mesh.slac_cern.pk, HOUR, NOW)
    assert (point.throughput_bps, point.average_bps, point.verdict, point.sentence) == (5e7, 5e7, None, None)


def test_udp_has_its_counts_and_no_verdict_of_tcp(mesh):
    transfer = Transfer(
        sent=SentIntervals(end_s=(1.0,), sent_bytes=(1_250_000,), packets=(1000,)),
        udp=UdpCounts(packets=1000, lost_packets=50, out_of_order=3, jitter_ms=0.4),
    )
    keep(mesh, throughput(9.5e6, protocol="udp", asked_bps=1e7, transfer=transfer))

    stored = transfer_of(mesh.slac_cern.pk, HOUR)
    assert (stored.protocol, stored.asked_bps, stored.verdict) == ("udp", 1e7, None)
    assert stored.transfer.udp.lost_packets == 50


def idle_burst(mesh, minutes, *rtts_ms, during_test=False):
    at = HOUR - timedelta(minutes=minutes)
    Burst.objects.create(
        path_id=mesh.slac_cern.pk, measured_at=at, packet_bytes=100, outcome="measured", sent=len(rtts_ms),
        received=len(rtts_ms), duplicates=0, reordered=0, during_test=during_test, rtts_ms=list(rtts_ms),
    )  # fmt: skip


def earlier_test(mesh, days, throughput_bps, verdict):
    ThroughputTest.objects.create(
        path_id=mesh.slac_cern.pk, measured_at=HOUR - timedelta(days=days), test="tcp", outcome="measured", streams=1,
        throughput_bps=throughput_bps, verdict=verdict,
    )  # fmt: skip


def earlier_capacity(mesh, days, capacity_bps):
    CapacityResult.objects.create(
        path_id=mesh.slac_cern.pk, measured_at=HOUR - timedelta(days=days), test="link", outcome="measured",
        verdict="measured" if capacity_bps else "no_reply", capacity_bps=capacity_bps, sent=184, received=184,
        during_test=False,
    )  # fmt: skip


def background(mesh):
    return backgrounds([(mesh.slac_cern.pk, HOUR)])[mesh.slac_cern.pk, HOUR]


def test_the_idle_rtt_is_of_the_newest_cycles_within_half_an_hour(mesh):
    idle_burst(mesh, 31, 5.0)
    idle_burst(mesh, 20, 40.5, 41.0)
    idle_burst(mesh, 10, 44.0)
    idle_burst(mesh, 5, 1.0, during_test=True)

    assert background(mesh) == Background(
        mesh.slac_cern.pk, HOUR, idle_rtt_ms=40.5, capacity_bps=None,
        source_address="192.0.2.1", destination_address="192.0.2.2",
    )  # fmt: skip


def policer_test(mesh, days, verdict, sustained_bps=None):
    PolicerResult.objects.create(
        path_id=mesh.slac_cern.pk, measured_at=HOUR - timedelta(days=days), test="contract", outcome="measured",
        verdict=verdict, sustained_bps=sustained_bps, burst_bytes=1e5, sent=1, received=1, sent_bytes=1400,
    )  # fmt: skip


def test_the_newest_policer_test_that_could_tell_is_part_of_the_background(mesh):
    results = (8, "shaper", 3e7), (3, "policer", 2e7), (2, "policer", 1e7), (1, "undetermined", None)
    for days, verdict, rate_bps in results:
        policer_test(mesh, days, verdict, rate_bps)

    told = background(mesh)

    assert (told.trains_verdict, told.trains_bps, told.trains_burst_bytes) == ("policer", 1e7, 1e5)
    assert told.trains_age_s == 2 * 86_400


def test_a_transfer_at_the_rate_of_the_policer_test_is_policed(mesh):
    later = HOUR + timedelta(minutes=20)
    keep(mesh, real("../policers/policer-20mbps-160ms"))
    policer_test(mesh, -5 / 1440, "policer", 2e7)
    keep(mesh, real("../policers/policer-20mbps-160ms", later), sequence=2)

    alone, helped = (transfer_of(mesh.slac_cern.pk, at) for at in (HOUR, later))

    assert alone.verdict == Verdict.LOSS
    assert "python -m probes policer send 192.0.2.2 --here 192.0.2.1 --key FILE" in alone.sentence
    assert helped.verdict == Verdict.POLICER
    assert "by the policer test 15 min before" in helped.sentence


def test_a_delay_step_before_a_test_is_not_blamed_on_a_queue(mesh):
    step_ms = 120.0
    run = real("random_loss")
    slow = msgspec.structs.replace(
        run,
        transfer=msgspec.structs.replace(
            run.transfer,
            kernel=None,
            sent=msgspec.structs.replace(
                run.transfer.sent, rtt_ms=tuple(rtt_ms + step_ms for rtt_ms in run.transfer.sent.rtt_ms)
            ),
        ),
    )
    idle_ms = min(run.transfer.sent.rtt_ms)
    for minutes in range(3, 30):
        idle_burst(mesh, minutes, idle_ms, idle_ms + 0.2)
    for minutes in (2, 1):
        idle_burst(mesh, minutes, idle_ms + step_ms, idle_ms + step_ms + 0.2)

    keep(mesh, slow)

    stored = transfer_of(mesh.slac_cern.pk, HOUR)
    assert stored.findings.idle_rtt_ms == pytest.approx(idle_ms + step_ms, abs=0.5)
    assert stored.verdict != Verdict.BOTTLENECK_QUEUE
    assert "queue raises" not in stored.sentence


@pytest.mark.parametrize(
    ("capacities", "tests", "capacity_bps"),
    [
        ([], [(1, 9e7, "window-limited")], None),
        ([], [(1, 9e7, "bottleneck queue"), (2, 9.4e7, "random loss")], 9.4e7),
        ([(2, 1e8), (1, None)], [(1, 5e7, "window-limited")], 1e8),
        ([(2, 1e8), (1, 9e7)], [(1, 9.5e7, "window-limited")], 9.5e7),
        ([(8, 1e8)], [(8, 9e7, "policer")], None),
    ],
)
def test_the_capacity_is_as_measured_and_at_least_the_best_test(mesh, capacities, tests, capacity_bps):
    for days, bps in capacities:
        earlier_capacity(mesh, days, bps)
    for days, bps, verdict in tests:
        earlier_test(mesh, days, bps, verdict)

    known_capacity_bps = background(mesh).capacity_bps

    assert known_capacity_bps == (None if capacity_bps is None else pytest.approx(capacity_bps))


def test_a_known_capacity_gives_the_window_that_the_path_needs(mesh):
    earlier_capacity(mesh, 1, 1e8)
    idle_burst(mesh, 5, 40.0)

    keep(mesh, real("small_window"))

    [point] = throughput_series(mesh.slac_cern.pk, HOUR, NOW)
    # 100 Mbit/s times 40 ms are 500 kB.
    assert "the path needs 500 kB" in point.sentence


def same_kind(mesh, hours, throughput_bps, **fields):
    kind = {"test": "tcp", "streams": 1, "congestion_control": "bbr", **fields}
    ThroughputTest.objects.create(
        path_id=mesh.slac_cern.pk, measured_at=HOUR - timedelta(hours=hours), outcome="measured",
        throughput_bps=throughput_bps, **kind,
    )  # fmt: skip


@pytest.mark.parametrize(("number", "earlier_bps"), [(2, None), (3, 26.8e6), (12, 26.8e6)])
def test_the_past_of_a_path_is_the_median_of_similar_tests(mesh, number, earlier_bps):
    keep(mesh, real("bbr_loss"))
    for hours in range(1, number + 1):
        same_kind(mesh, hours, 26.8e6 + (hours - 2) * 1e3 if hours <= 3 else 26.8e6)
        same_kind(mesh, hours + 0.1, 1e6, streams=4)
        same_kind(mesh, hours + 0.2, 2e6, congestion_control="cubic")
        same_kind(mesh, hours + 0.3, 3e6, test="on-demand")
        same_kind(mesh, hours + 0.4, 4e6, asked_bps=4e6)

    assert background(mesh).earlier_bps == (None if earlier_bps is None else pytest.approx(earlier_bps))


def test_planted_loss_under_bbr_is_named_with_the_paths_past(mesh):
    for hours in (1, 2, 3):
        same_kind(mesh, hours, 26.8e6)

    keep(mesh, real("bbr_loss"))

    [point] = [point for point in throughput_series(mesh.slac_cern.pk, HOUR, NOW) if point.at == HOUR]
    assert point.verdict == Verdict.LOSS
    assert point.throughput_bps < 5e6
    assert lacks(point.sentence, "earlier tests", " 26.8 Mbit/s") == []
    assert "BBR" not in point.sentence


columns = st.integers(1, 12).flatmap(
    lambda length: st.builds(
        SentIntervals,
        end_s=st.lists(st.floats(0, LONGEST_TEST_S), min_size=length, max_size=length).map(
            lambda ends: tuple(sorted(ends))
        ),
        **{
            name: st.lists(st.integers(0, 2**63 - 1), min_size=length, max_size=length).map(tuple)
            for name in ("sent_bytes",)
        },
        **{
            name: st.none() | st.lists(st.integers(0, 2**63 - 1), min_size=length, max_size=length).map(tuple)
            for name in ("retransmits", "cwnd_bytes", "peer_window_bytes", "path_mtu_bytes")
        },
        rtt_ms=st.none() | st.lists(st.floats(0, LONGEST_RTT_MS), min_size=length, max_size=length).map(tuple),
    )
)
arrived = st.none() | st.integers(1, 8).flatmap(
    lambda length: st.builds(
        ReceivedIntervals,
        end_s=st.lists(st.floats(0, LONGEST_TEST_S), min_size=length, max_size=length).map(
            lambda ends: tuple(sorted(ends))
        ),
        received_bytes=st.lists(st.integers(0, 2**63 - 1), min_size=length, max_size=length).map(tuple),
    )
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sent=columns, received=arrived, omitted_s=st.floats(0, LONGEST_TEST_S), idle_ms=st.none() | st.floats(0, 1e5))
def test_every_valid_transfer_gets_a_sentence(sent, received, omitted_s, idle_ms):
    run = throughput(
        1e6, outcome=Outcome.MEASURED, transfer=Transfer(sent=sent, received=received, omitted_s=omitted_s)
    )

    diagnosis = diagnose_run(run, Background(1, HOUR, idle_rtt_ms=idle_ms))

    assert diagnosis.sentence
    assert diagnosis.steady_bps is None or math.isfinite(diagnosis.steady_bps)

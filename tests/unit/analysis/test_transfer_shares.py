"""Ratios of retransmitted segments are relative to delivered bytes, in every real report of the fixtures."""

import dataclasses
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from monitor.analysis.transfer import Recording, SenderInterval, TcpInfo, Verdict, diagnose
from monitor.archive.diagnosis.findings import Background, recording
from probes.transfers.iperf3.report import decode, read_report
from probes.transfers.spec import ThroughputSpec
from tests.diagnosis import public
from tests.diagnosis.generated import Moment, recorded
from tests.diagnosis.reading import read
from tests.diagnosis.reading import recording as of_saved
from tests.facts import lacks

FIXTURES = Path(__file__).parents[2] / "fixtures" / "iperf3"
SAVED = sorted(path for path in (FIXTURES / "diagnosis").glob("*.json") if not path.stem.endswith(".expected"))
AT = datetime(2026, 11, 22, 12, tzinfo=UTC)
MSS_BYTES = 1448


def is_tcp_report(path):
    """Whether a file is the report of a TCP test by iperf3, with its retransmissions."""
    if path.stem.endswith(".expected"):
        return False
    report = decode(path.read_bytes())
    if "error" in report or not report.get("intervals"):
        return False
    return "retransmits" in report["end"].get("sum_sent", {})


REPORTS = sorted(filter(is_tcp_report, (*FIXTURES.glob("*.json"), *FIXTURES.glob("versions/3.*/*.json"))))


def efficiency(delivered_bytes, resent, mss_bytes):
    """RFC 6349, section 4.2, by hand: bytes that arrived over bytes sent."""
    return delivered_bytes / (delivered_bytes + resent * mss_bytes)


def test_the_fixtures_have_reports_of_several_versions():
    assert len(REPORTS) >= 10


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_efficiency_of_a_report_uses_delivered_bytes(path):
    report = decode(path.read_bytes())
    spec = ThroughputSpec(address="192.0.2.2", reverse=bool(report["start"]["test_start"]["reverse"]))
    run = read_report(path.read_bytes(), spec, "192.0.2.2", AT)

    diagnosis = diagnose(recording(run, Background(1, AT)))

    sender, receiver = report["intervals"], report.get("server_output_json", {}).get("intervals", [])
    if spec.reverse:
        sender, receiver = receiver, sender
    omitted = [interval["sum"]["bytes"] for interval in sender if interval["sum"]["omitted"]]
    delivered_bytes = sum(interval["sum"]["bytes"] for interval in receiver)
    delivered_bytes = delivered_bytes or report["end"]["sum_received"]["bytes"] + sum(omitted)
    resent = sum(interval["sum"]["retransmits"] for interval in sender)
    mss_bytes = report["start"].get("tcp_mss_default") or report["start"]["tcp_mss"]
    by_hand = efficiency(delivered_bytes, resent, mss_bytes)
    assert diagnosis.rfc6349.efficiency_ratio == pytest.approx(by_hand, abs=0.002)


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_efficiency_of_a_saved_run_uses_delivered_bytes(path):
    run = read(path)

    diagnosis = diagnose(of_saved(run))

    by_hand = efficiency(run.received_bytes, run.retransmits, run.transfer.mss_bytes)
    assert diagnosis.rfc6349.efficiency_ratio == pytest.approx(by_hand, abs=0.002)


COUNTED = [report for report in public.reports() if report["retransmits"][0] is not None]


@pytest.mark.parametrize("report", COUNTED, ids=lambda report: report["name"])
def test_efficiency_of_a_public_report_uses_delivered_bytes(report):
    diagnosis = diagnose(public.recording(report))

    written_bytes = sum(report["sent_bytes"])
    omitted_bytes = sum(report["sent_bytes"][: report["omitted_intervals"]])
    delivered_bytes = min(written_bytes, omitted_bytes + (report["received_bytes"] or written_bytes))
    by_hand = efficiency(delivered_bytes, sum(report["retransmits"]), report["mss_bytes"])
    assert diagnosis.rfc6349.efficiency_ratio == pytest.approx(by_hand, abs=0.002)


def stuck(**fields):
    """3.9 MB are written to the send buffer at once; 57 kB arrive in 10 s, with 8 segments retransmitted."""
    samples = tuple(
        SenderInterval(
            start_s=second,
            end_s=second + 1.0,
            sent_bytes=3_900_000 if second == 0 else 0,
            retransmits=2 if second in (1, 3, 5, 8) else 0,
            cwnd_bytes=2_896,
            rtt_ms=40.0,
        )
        for second in range(10)
    )
    return Recording(samples=samples, mss_bytes=MSS_BYTES, **fields)


def test_bytes_left_in_the_send_buffer_do_not_dilute_the_loss():
    diagnosis = diagnose(stuck(delivered_bytes=57_000))

    # 8 segments of 47: 17%, where 8 of the 2,701 written were 0.3%.
    assert diagnosis.rfc6349.efficiency_ratio == pytest.approx(0.83, abs=0.005)
    assert diagnosis.signs.resent_ratio == pytest.approx(0.17, abs=0.005)


def lossy_bbr(rate_bps, resent_in_a_tenth, **fields):
    """BBR, by tenths of a second, with so many retransmitted segments in every second tenth."""
    kernel = TcpInfo(age_s=5.0, busy_s=5.0, send_buffer_limited_s=0.0, duplicates=0)

    def moment(now_s):
        resent = resent_in_a_tenth if round(now_s * 10) % 2 else 0
        return Moment(rate_bps, rate_bps * 40 / 8000 * 2, retransmits=resent)

    return recorded(moment, 5, kernel=kernel, congestion_control="bbr", mss_bytes=MSS_BYTES, **fields)


def test_heavy_loss_under_bbr_is_no_bottleneck():
    # 0.4 Mbit/s are 3.5 segments in a tenth of a second, 7 in two; 2 more are retransmitted: 22.5%.
    diagnosis = diagnose(lossy_bbr(0.4e6, 2))

    assert diagnosis.verdict is Verdict.LOSS
    assert "22.5%" in diagnosis.sentence
    assert "BBR measured that rate" not in diagnosis.sentence


@pytest.mark.parametrize(
    ("earlier_bps", "verdict"),
    [(None, Verdict.BOTTLENECK_QUEUE), (2.2e6, Verdict.BOTTLENECK_QUEUE), (26.8e6, Verdict.LOSS)],
)
def test_moderate_loss_under_bbr_limits_a_path_faster_before(earlier_bps, verdict):
    # 2 Mbit/s are 34.5 segments in two tenths; another is retransmitted: 2.8%.
    diagnosis = diagnose(lossy_bbr(2e6, 1, earlier_bps=earlier_bps))

    assert diagnosis.verdict is verdict
    assert "2.8%" in diagnosis.sentence
    assert (lacks(diagnosis.sentence, "earlier tests", " 26.8 Mbit/s") == []) == (verdict is Verdict.LOSS)


def test_loss_under_bbr_below_a_measured_capacity_is_no_bottleneck():
    # The path has carried 47.5 Mbit/s, in a single test before; 2.8% of the segments are retransmitted now.
    diagnosis = diagnose(lossy_bbr(2e6, 1, capacity_bps=47.5e6))

    assert diagnosis.verdict is Verdict.LOSS
    assert all(fact in diagnosis.sentence for fact in ("2.8%", "has carried 47.5 Mbit/s"))
    assert diagnose(lossy_bbr(2e6, 1, capacity_bps=2.2e6)).verdict is Verdict.BOTTLENECK_QUEUE


@pytest.mark.parametrize(("earlier_bps", "is_told"), [(0.75e6, False), (0.42e6, True), (None, True)])
def test_heavy_loss_below_the_usual_rate_is_not_called_a_queue(earlier_bps, is_told):
    """The RTT is raised before the losses: at half of the usual rate 22.5% need not be a queue's."""
    full = lossy_bbr(0.4e6, 2, earlier_bps=earlier_bps)
    raised = [dataclasses.replace(sample, rtt_ms=sample.rtt_ms + (400.0 if at > 5 else 0.0)) for at, sample in
              enumerate(full.samples)]  # fmt: skip
    diagnosis = diagnose(dataclasses.replace(full, samples=tuple(raised)))

    assert (diagnosis.verdict is Verdict.BOTTLENECK_QUEUE) == is_told, diagnosis.sentence
    assert ("cannot tell whether a queue" in diagnosis.sentence) == (not is_told)


def test_a_rate_that_climbs_when_the_loss_ends_is_no_bottleneck():
    # 1 Mbit/s with loss for 3.7 s, then up to 16 Mbit/s without; nothing was measured before.
    kernel = TcpInfo(age_s=6.0, busy_s=6.0, send_buffer_limited_s=0.0, duplicates=0)

    def moment(now_s):
        rate_bps = 1e6 if now_s < 3.7 else min(1e6 + 10e6 * (now_s - 3.7), 16e6)
        return Moment(rate_bps, rate_bps * 40 / 8000 * 2, retransmits=int(now_s < 3.7 and round(now_s * 10) % 3 == 0))

    fields = {"kernel": kernel, "congestion_control": "bbr", "mss_bytes": MSS_BYTES}
    for known in ({}, {"earlier_bps": 47.5e6}, {"capacity_bps": 47.5e6}):
        diagnosis = diagnose(recorded(moment, 6, **fields, **known))

        assert diagnosis.verdict not in (Verdict.BOTTLENECK_QUEUE, Verdict.POLICER), known
        assert "bottleneck of" not in diagnosis.sentence


def test_a_clamped_mss_is_that_of_the_segments_sent():
    """A router on the way clamped the MSS to 536 bytes; iperf3 reports the one that it requested."""
    run = read(FIXTURES / "diagnosis" / "random_loss.json")
    kernel = replace(run.transfer.kernel, segment_bytes=536)
    clamped = replace(run, transfer=replace(run.transfer, kernel=kernel))

    diagnosis = diagnose(of_saved(clamped))

    assert run.transfer.mss_bytes != 536
    by_hand = efficiency(run.received_bytes, run.retransmits, 536)
    assert diagnosis.rfc6349.efficiency_ratio == pytest.approx(by_hand, abs=0.0005)

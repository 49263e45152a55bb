"""The diagnosis of transfers: real reports from the lab, with the limit that was configured there, and generated
reports."""

import dataclasses
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.analysis.transfer import Recording, RecordingError, SenderInterval, TcpInfo, Verdict, diagnose
from tests.diagnosis.generated import Moment, recorded, steady
from tests.diagnosis.reading import read, recording
from tests.facts import lacks

FIXTURES = Path(__file__).parents[2] / "fixtures" / "iperf3" / "diagnosis"
WITH_LOSSES = (Verdict.RANDOM_LOSS, Verdict.POLICER, Verdict.BOTTLENECK_QUEUE, Verdict.REORDERING)
"""Limits that retransmissions show, without their cause where only seconds are known."""
REPORTS = sorted(path.stem for path in FIXTURES.glob("*.json") if not path.stem.endswith(".expected"))


def run(name):
    return read(FIXTURES / f"{name}.json")


def expected(name):
    return json.loads((FIXTURES / f"{name}.expected.json").read_text())


def by_second(full):
    """The same test as reported by a tool with intervals of a second, and only from its own end."""
    parts = [full.samples[first : first + 10] for first in range(0, len(full.samples) - 9, 10)]
    samples = tuple(
        dataclasses.replace(
            part[-1],
            start_s=part[0].start_s,
            sent_bytes=sum(sample.sent_bytes for sample in part),
            retransmits=sum(sample.retransmits for sample in part),
        )
        for part in parts
    )
    return dataclasses.replace(full, samples=samples, arrivals=(), kernel=None)


def figure(diagnosis, name):
    return next(sign.value for sign in diagnosis.evidence if sign.name == name)


@pytest.mark.parametrize("name", REPORTS)
def test_a_real_report_gets_the_verdict_of_the_configured_limit(name):
    diagnosis = diagnose(recording(run(name)))

    assert diagnosis.verdict == expected(name)["verdict"]
    assert expected(name)["sentence_has"] in diagnosis.sentence


@pytest.mark.parametrize("name", REPORTS)
def test_the_steady_rate_equals_the_receivers_own_figures(name):
    diagnosis = diagnose(recording(run(name)))

    received = run(name).transfer.received
    intervals = zip(pairwise((0.0, *received.end_s)), received.received_bytes, strict=True)
    later = [
        (start_s, end_s, moved) for (start_s, end_s), moved in intervals if start_s + end_s > 2 * diagnosis.start_s
    ]
    if diagnosis.steady_throughput_bps is None:
        assert diagnosis.too_short
    else:
        rate_bps = 8 * sum(moved for _, _, moved in later) / (later[-1][1] - later[0][0])
        assert diagnosis.steady_throughput_bps == pytest.approx(rate_bps, rel=0.1)


@pytest.mark.parametrize("name", REPORTS)
def test_the_figures_equal_those_of_the_lab(name):
    diagnosis = diagnose(recording(run(name)))

    for expected_fact in expected(name)["evidence"]:
        assert figure(diagnosis, expected_fact["name"]) == pytest.approx(
            expected_fact["value"], rel=expected_fact["within"]
        ), expected_fact["name"]


@pytest.mark.parametrize("name", REPORTS)
def test_coarse_reports_of_one_end_never_get_a_wrong_verdict(name):
    diagnosis = diagnose(by_second(recording(run(name))))

    true = expected(name).get("limit", expected(name)["verdict"])
    assert diagnosis.verdict in (true, Verdict.UNDETERMINED) or (
        diagnosis.verdict is Verdict.LOSS and true in WITH_LOSSES
    )
    if diagnosis.verdict is Verdict.LOSS and true == Verdict.REORDERING:
        assert "reordering" in diagnosis.sentence


@pytest.mark.parametrize("name", REPORTS)
def test_all_retransmitted_segments_are_assigned_to_events(name):
    diagnosis = diagnose(recording(run(name)))

    resent = sum(run(name).transfer.sent.retransmits)
    assert sum(event.resent_segments for event in diagnosis.recoveries) == resent


def window_limited(rtt_ms=125.0, window_bytes=1.5e6, **fields):
    now = Moment(rate_bps=8e3 * window_bytes / rtt_ms, cwnd_bytes=4e6, window_bytes=window_bytes, rtt_ms=rtt_ms)
    return recorded(lambda _: now, 10, **fields)


def test_a_small_window_is_reported_with_the_need_and_the_fix():
    diagnosis = diagnose(window_limited(capacity_bps=249.6e6))

    assert diagnosis.verdict is Verdict.WINDOW_LIMITED
    assert diagnosis.sentence.startswith("window-limited")
    window, fix = ("receiver's window", " 1.5 MB", "path needs 3.9 MB"), ("raise tcp_rmem", " 8 MB")
    assert lacks(diagnosis.sentence, " 96 Mbit/s", *window, *fix) == []


def test_the_2_mb_of_llnl_to_dallas_limit_as_published():
    diagnosis = diagnose(window_limited(rtt_ms=50.0, window_bytes=2e6, capacity_bps=622e6))

    assert diagnosis.verdict is Verdict.WINDOW_LIMITED
    assert diagnosis.steady_throughput_bps / 622e6 == pytest.approx(0.52, abs=0.01)
    assert "the path needs 3.9 MB" in diagnosis.sentence


def test_streams_share_the_recommended_buffer():
    diagnosis = diagnose(window_limited(capacity_bps=249.6e6, streams=4))

    assert lacks(diagnosis.sentence, "raise tcp_rmem", " 2 MB", "each stream") == []


def test_a_full_send_buffer_is_the_senders_window():
    kernel = TcpInfo(age_s=10.0, busy_s=10.0, peer_window_limited_s=0.0, send_buffer_limited_s=8.0, duplicates=0)

    diagnosis = diagnose(recorded(steady(24e6, cwnd_bytes=3e5), 10, kernel=kernel))

    assert diagnosis.verdict is Verdict.WINDOW_LIMITED
    assert "tcp_wmem" in diagnosis.sentence


@pytest.mark.parametrize("end", ["sender", "receiver"])
def test_a_cpu_over_90_percent_is_the_limit_of_either_end(end):
    busy = diagnose(recorded(steady(1e9), 5, **{f"{end}_cpu_ratio": 0.93}))
    idle = diagnose(recorded(steady(1e9), 5, **{f"{end}_cpu_ratio": 0.89}))

    assert (busy.verdict, idle.verdict) == (Verdict.CPU_BOUND, Verdict.UNDETERMINED)
    assert f"the {end}'s process" in busy.sentence
    assert "93%" in busy.sentence


def test_a_test_at_its_requested_rate_is_limited_by_that():
    diagnosis = diagnose(recorded(steady(10e6, cwnd_bytes=1e6), 5, asked_bps=10e6))

    assert diagnosis.verdict is Verdict.APPLICATION_LIMITED
    assert "requested 10 Mbit/s" in diagnosis.sentence


def test_a_standing_queue_without_loss_is_a_bottleneck():
    def moment(now_s):
        return Moment(rate_bps=20e6, cwnd_bytes=4e5, rtt_ms=40.0 if now_s < 0.2 else 160.0)

    diagnosis = diagnose(recorded(moment, 5))

    assert diagnosis.verdict is Verdict.BOTTLENECK_QUEUE
    assert lacks(diagnosis.sentence, "from 40.00 ms", "to 160.0 ms") == []


def test_a_delay_of_less_than_a_segment_is_no_queue():
    """3% of random loss on an idle path of 50 Mbit/s and a busy machine, as in the lab: 5 ms at 2 Mbit/s are 1.3 kB."""

    def moment(now_s):
        return Moment(2e6, 1e4, rtt_ms=40.0 if now_s < 0.2 else 45.0, retransmits=round(now_s * 10) % 4 == 0)

    kernel = TcpInfo(age_s=5.0, busy_s=5.0, duplicates=0)

    assert diagnose(recorded(moment, 5, kernel=kernel)).verdict is Verdict.RANDOM_LOSS


@pytest.mark.parametrize("earlier_bps", [None, 19e6])
def test_a_lossy_test_of_bbr_tells_no_bottleneck(earlier_bps):
    """20% of random loss on a path of 30 Mbit/s: the RTT is raised before two losses only. With the usual rate of
    earlier tests it would be the queue's."""

    def moment(now_s):
        is_start, is_lossy = 0.85 < now_s < 1.15 or 2.85 < now_s < 3.15, 0.95 < now_s < 2.45 or now_s > 2.95
        return Moment(18e6, 2e5, rtt_ms=140.0 if is_start else 64.0, retransmits=56 if is_lossy else 0)

    transfer = recorded(moment, 5, congestion_control="bbr", earlier_bps=earlier_bps)
    diagnosis = diagnose(transfer)

    assert (diagnosis.verdict is Verdict.BOTTLENECK_QUEUE) == (earlier_bps is not None), diagnosis.sentence


def test_a_host_that_answers_late_is_not_a_queue():
    rates = np.random.default_rng(1).uniform(1e6, 16e6, 11)

    def moment(now_s):
        return Moment(rates[int(now_s * 2 + 0.01)], 1.6e5, window_bytes=8e4, rtt_ms=60.0 if now_s > 1 else 40.0)

    assert diagnose(recorded(moment, 5)).verdict is Verdict.WINDOW_LIMITED


def test_segments_that_were_late_but_not_lost_are_reordering():
    def moment(now_s):
        return Moment(rate_bps=8e6, cwnd_bytes=4e4, retransmits=2 if round(now_s * 10) % 5 == 0 else 0)

    late = recorded(moment, 5, kernel=TcpInfo(age_s=5.0, busy_s=5.0, duplicates=18))
    lost = recorded(moment, 5, kernel=TcpInfo(age_s=5.0, busy_s=5.0, duplicates=2))

    assert diagnose(late).verdict is Verdict.REORDERING
    assert diagnose(lost).verdict is Verdict.RANDOM_LOSS


def test_bbr_without_loss_or_queue_is_at_its_bottleneck():
    moments, kernel = (
        steady(30e6, cwnd_bytes=3e5),
        TcpInfo(age_s=5.0, busy_s=5.0, send_buffer_limited_s=0.0, duplicates=0),
    )

    bbr = diagnose(recorded(moments, 5, kernel=kernel, congestion_control="bbr"))
    cubic = diagnose(recorded(moments, 5, kernel=kernel, congestion_control="cubic"))

    assert (bbr.verdict, cubic.verdict) == (Verdict.BOTTLENECK_QUEUE, Verdict.UNDETERMINED)


def test_a_test_shorter_than_slow_start_gets_the_needed_length():
    diagnosis = diagnose(recorded(lambda now_s: Moment(1e6 * 4**now_s, 1e4 * 1.6 ** (now_s / 0.18), rtt_ms=180.0), 3))

    assert (diagnosis.verdict, diagnosis.steady_s, diagnosis.too_short) == (Verdict.UNDETERMINED, 0.0, True)
    assert diagnosis.steady_throughput_bps is None
    assert lacks(diagnosis.sentence, "too short", "RTT", " 180.0 ms", "at least 30 s") == []


def test_a_sender_idle_by_its_kernel_is_application_limited():
    idle = recorded(steady(10e6, cwnd_bytes=1e6), 5, kernel=TcpInfo(age_s=5.0, busy_s=3.0))

    diagnosis = diagnose(idle)

    assert diagnosis.verdict is Verdict.APPLICATION_LIMITED
    assert lacks(diagnosis.sentence, "nothing to send", " 40%") == []


@pytest.mark.parametrize(
    ("low_bytes", "verdict"), [(60e3, Verdict.SLOW_RECEIVER), (70e3, Verdict.WINDOW_LIMITED)], ids=["below", "above"]
)
def test_a_window_that_falls_below_half_is_a_slow_reader(low_bytes, verdict):
    def moment(now_s):
        return Moment(10e6, 3e5, window_bytes=low_bytes if int(now_s * 5) % 2 else 130e3)

    assert diagnose(recorded(moment, 5)).verdict is verdict


def test_two_losses_are_too_few_for_a_verdict():
    def moment(now_s):
        return Moment(rate_bps=8e6, cwnd_bytes=4e4, retransmits=1 if round(now_s * 10) in (20, 30) else 0)

    diagnosis = diagnose(recorded(moment, 5))

    assert diagnosis.verdict is Verdict.UNDETERMINED
    assert "2 loss events, too few" in diagnosis.sentence


def bare(count=10):
    return Recording(
        samples=tuple(SenderInterval(start_s=n, end_s=n + 1.0, sent_bytes=1_000_000) for n in range(count))
    )


def test_a_system_that_reports_no_windows_is_named():
    diagnosis = diagnose(bare())

    assert diagnosis.verdict is Verdict.UNDETERMINED
    assert "reports neither windows" in diagnosis.sentence
    assert diagnosis.steady_throughput_bps == pytest.approx(8e6)
    assert (diagnosis.path_mtu_bytes, diagnosis.jumbo_frames_pass) == (None, None)
    assert diagnosis.rfc6349.efficiency_ratio is None


def test_without_intervals_there_are_no_figures():
    diagnosis = diagnose(Recording(samples=()))

    assert (diagnosis.verdict, diagnosis.steady_throughput_bps, diagnosis.signs) == (Verdict.UNDETERMINED, None, None)
    assert "no intervals" in diagnosis.sentence


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([(0, 1), (1, 1)], r"interval number 2\b.* 1 s\b.*not after its start"),
        ([(0, 1), (0.5, 2)], r"interval number 2\b.*starts before the previous"),
    ],
)
def test_intervals_that_contradict_each_other_are_refused(times, message):
    samples = tuple(SenderInterval(start_s=start, end_s=end, sent_bytes=1) for start, end in times)

    with pytest.raises(RecordingError, match=message):
        diagnose(Recording(samples=samples))


@pytest.mark.parametrize(("mtus", "passes"), [([9000, 9000], True), ([9000, 1500], False), ([1500, 1500], False)])
def test_jumbo_frames_are_accepted_with_a_large_path_mtu(mtus, passes):
    samples = tuple(
        SenderInterval(start_s=n, end_s=n + 1.0, sent_bytes=10_000, path_mtu_bytes=mtus[n >= 3]) for n in range(6)
    )

    diagnosis = diagnose(Recording(samples=samples))

    assert (diagnosis.path_mtu_bytes, diagnosis.jumbo_frames_pass) == (min(mtus), passes)


amounts = st.one_of(st.none(), st.integers(0, 10**9))
rows = st.lists(
    st.tuples(st.floats(0.01, 5), st.integers(0, 10**10), amounts, amounts, amounts, st.floats(0.001, 5000)),
    min_size=1,
    max_size=40,
)


@settings(deadline=None)
@given(rows)
def test_for_any_intervals_times_add_up_and_a_sentence_exists(values):
    ends_s = np.cumsum([width_s for width_s, *_ in values])
    samples = tuple(
        SenderInterval(
            start_s=float(end_s - row[0]),
            end_s=float(end_s),
            sent_bytes=row[1],
            retransmits=row[2],
            cwnd_bytes=row[3],
            peer_window_bytes=row[4],
            rtt_ms=row[5],
        )
        for end_s, row in zip(ends_s, values, strict=True)
    )

    diagnosis = diagnose(Recording(samples=samples))

    assert diagnosis.sentence
    assert "nan" not in diagnosis.sentence.lower()
    assert 0.0 <= diagnosis.start_s <= diagnosis.duration_s * (1 + 1e-9)
    assert diagnosis.start_s + diagnosis.steady_s == pytest.approx(diagnosis.duration_s)
    for event in diagnosis.recoveries:
        assert 0.0 <= event.lost_s <= event.end_s - event.start_s + 1e-6

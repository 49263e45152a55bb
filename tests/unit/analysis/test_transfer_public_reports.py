"""Verdicts on other people's iperf3 reports: intervals of a second, no receive windows, no kernel counters."""

import dataclasses

import pytest

from monitor.analysis.transfer import Recording, SenderInterval, Verdict, diagnose
from tests.diagnosis.public import is_wrong, recording, reports
from tests.facts import lacks

REPORTS = {report["name"]: report for report in reports()}
MOST_UNDETERMINED = 0.4


@pytest.mark.parametrize("name", REPORTS)
def test_a_public_report_gets_no_wrong_limit(name):
    diagnosis = diagnose(recording(REPORTS[name]))

    assert not is_wrong(REPORTS[name], diagnosis), diagnosis.sentence


def test_most_public_reports_with_an_rtt_get_a_limit():
    verdicts = [diagnose(recording(report)).verdict for report in REPORTS.values() if report["rtt_us"] is not None]

    assert len(verdicts) >= 70
    assert verdicts.count(Verdict.UNDETERMINED) / len(verdicts) < MOST_UNDETERMINED


def test_a_window_limit_is_reported_with_flight_and_need():
    diagnosis = diagnose(recording(REPORTS["chennai-oregon"]))

    # 100,925,440 bytes in 10 s at 238.3 ms.
    figures = {figure.name: figure.value for figure in diagnosis.evidence}
    assert diagnosis.verdict is Verdict.WINDOW_LIMITED
    assert figures["in flight"] == pytest.approx(100_925_440 / 10 * 0.2383, rel=0.01)
    assert lacks(diagnosis.sentence, "tcp_rmem", "tcp_wmem", " 10 MB") == []


def test_a_queue_that_is_never_empty_shows_in_its_window():
    """Its median RTT is less than a quarter above the least of the test, which is no idle RTT."""
    diagnosis = diagnose(recording(REPORTS["deep-buffer-cubic"]))

    assert diagnosis.verdict is Verdict.BOTTLENECK_QUEUE
    assert lacks(diagnosis.sentence, "89.42 ms", "158.0 ms") == []


def test_a_window_that_outgrew_the_flight_is_not_a_limit():
    """Linux grows it to twice the flight: at three times, far more was in flight before than any buffer now holds."""
    held = recording(REPORTS["chennai-oregon"])
    outgrown = dataclasses.replace(
        held,
        samples=tuple(dataclasses.replace(sample, cwnd_bytes=sample.cwnd_bytes * 3 // 2) for sample in held.samples),
    )

    diagnosis = diagnose(outgrown)

    assert diagnosis.verdict is Verdict.UNDETERMINED
    assert lacks(diagnosis.sentence, "no full window or buffer", "2.4 MB in flight") == []


def test_an_open_window_under_bbr_is_not_a_limit():
    bbr = dataclasses.replace(recording(REPORTS["chennai-oregon"]), congestion_control="bbr")

    assert diagnose(bbr).verdict is Verdict.UNDETERMINED


def test_a_requested_rate_explains_an_open_window():
    limited = dataclasses.replace(recording(REPORTS["chennai-oregon"]), asked_bps=80e6)

    assert diagnose(limited).verdict is Verdict.APPLICATION_LIMITED


def test_an_interface_at_line_rate_is_the_bottleneck():
    """A sender behind its own Gigabit Ethernet has a congestion window of twice the bytes in flight, and no losses."""
    steady = recorded_by_second([(117_700_000, 0, 8_000_000, 30.0)] * 12)

    diagnosis = diagnose(steady)

    assert diagnosis.verdict is Verdict.BOTTLENECK_QUEUE
    assert lacks(diagnosis.sentence, "942 Mbit/s", "Ethernet of 1 Gbit/s") == []


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([(116_000_000, 0, 8_000_000, 30.0)] * 12, id="1.4% less than its frames carry"),
        pytest.param([(115_700_000, 0, 8_000_000, 30.0), (119_700_000, 0, 8_000_000, 30.0)] * 6, id="varies by 1.7%"),
        pytest.param([(117_700_000, 0, 8_000_000, 30.0)] * 11 + [(117_700_000, 2, 8_000_000, 30.0)], id="a loss"),
    ],
)
def test_a_rate_near_that_of_an_interface_shows_no_limit(rows):
    assert diagnose(recorded_by_second(rows)).verdict is Verdict.UNDETERMINED


def recorded_by_second(rows, **fields):
    samples = tuple(
        SenderInterval(
            start_s=second, end_s=second + 1.0, sent_bytes=sent, retransmits=resent, cwnd_bytes=cwnd, rtt_ms=rtt_ms
        )
        for second, (sent, resent, cwnd, rtt_ms) in enumerate(rows)
    )
    return Recording(
        samples=samples, congestion_control="cubic", sender_cpu_ratio=0.02, receiver_cpu_ratio=0.02, **fields
    )


def mobile(seconds=12):
    """A mobile link of 3 Mbit/s with a queue of seconds: the window grows, the rate does not, and 1.25 MB are written
    at once, every third second."""
    rate_bytes_s = 3e6 / 8
    rows = []
    for second in range(seconds):
        rtt_ms = 332.0 + (3168.0 - 332.0) * second / (seconds - 1)
        rows.append((1_250_000 if second % 3 == 0 else 0, 0, round(rate_bytes_s * rtt_ms / 1000), rtt_ms))
    return recorded_by_second(rows)


def test_a_growing_queue_with_block_writes_is_named():
    diagnosis = diagnose(mobile())

    assert diagnosis.verdict is Verdict.BOTTLENECK_QUEUE, diagnosis.sentence
    assert "332.0 ms" in diagnosis.sentence


def test_silence_within_the_current_rtt_is_not_a_pause():
    rows = [(1_250_000 if second % 2 == 0 else 0, 0, 900_000, 2900.0) for second in range(12)]
    short = [(sent, resent, cwnd, 300.0) for sent, resent, cwnd, _ in rows]

    assert diagnose(recorded_by_second(rows, idle_rtt_ms=300.0)).pauses == ()
    assert len(diagnose(recorded_by_second(short)).pauses) > 3


def dropping_queue(seconds):
    """A link of 50 Mbit/s and 50 ms whose queue of 9 ms drops every 8 s, when the window of CUBIC has filled it: each
    loss cuts the window to 0.7 of that, and the link is idle in part until the window has grown back to 312,500 B."""
    link_bytes_s, idle_s, full_bytes = 50e6 / 8, 0.05, 368_000.0
    rows = []
    for second in range(seconds):
        since_loss = (second - 2) % 8
        is_start = second < 2
        cwnd = 60_000.0 * 2**second if is_start else full_bytes * (0.7 + 0.3 * since_loss / 7)
        rate = min(link_bytes_s, cwnd / idle_s)
        loses = not is_start and since_loss == 7
        rows.append((round(rate), 12 if loses else 0, round(cwnd), max(1000 * idle_s, 1000 * cwnd / link_bytes_s)))
    return recorded_by_second(rows)


@pytest.mark.parametrize(("seconds", "losses"), [(25, 2), (33, 3)])
def test_a_queue_shows_between_losses_in_seconds(seconds, losses):
    """The RTT is raised in most seconds, whether or not three losses have been seen."""
    diagnosis = diagnose(dropping_queue(seconds))

    assert diagnosis.signs.later_loss_events == losses
    assert diagnosis.verdict is Verdict.BOTTLENECK_QUEUE, diagnosis.sentence


def test_losses_in_seconds_never_show_a_policer():
    """Writes of 1.31 MB make the rates between losses exactly equal on any path."""
    rows = [(9_175_040, 12 if second % 3 == 2 else 0, 1_000_000, 100.0) for second in range(30)]

    assert diagnose(recorded_by_second(rows)).verdict is not Verdict.POLICER


def test_a_queue_during_slow_start_only_is_no_bottleneck():
    """RTT of 160 ms when slow start overshot, 100 ms afterwards."""
    overshot = [(1_000_000, 0, 300_000, 100.0), (20_000_000, 900, 4_000_000, 160.0), (9_000_000, 200, 900_000, 120.0)]
    after = [(9_000_000, 0, 900_000 + 10_000 * second, 100.5) for second in range(9)]

    diagnosis = diagnose(recorded_by_second(overshot + after))

    assert diagnosis.verdict is Verdict.LOSS
    assert lacks(diagnosis.sentence, " 1,100 segments", "retransmitted", "after slow start") == []

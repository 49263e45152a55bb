"""Slow start after idle from the samples of two transfers, and the command's two ends on loopback."""

import socket
import threading

import msgspec
import pytest

from monitor.archive.kinds.idle_restart import find_contradiction
from probes.contract import Deadline, Outcome
from probes.idle_restart.probe import IdleRestartEnd, IdleRestartProbe
from probes.idle_restart.result import sentence
from probes.idle_restart.spec import IdleRestartSpec
from probes.idle_restart.transfer import IdleRestartFailure, TransferSample, evaluate, measure, serve
from probes.transfers.socket_counters import ConnectionCounters

SPEC = IdleRestartSpec(address="192.0.2.1", port=5202, duration_s=4.0, pause_s=3.0)
RTT_S, MSS = 0.1, 1448


def transfer(windows, acknowledged=0, before=None):
    """Samples twice a round trip; the window is acknowledged in each. The first is `before` the first byte."""
    samples = [sample(0.0, acknowledged, before or windows[0])]
    for number, window in enumerate(windows):
        for half in (1, 2):
            acknowledged += window * MSS // 2
            samples.append(sample((number + half / 2) * RTT_S, acknowledged, window))
    return samples


def sample(at_s, acknowledged, window):
    return TransferSample(
        at_s,
        ConnectionCounters(
            connection=b"", sent_bytes=acknowledged, acknowledged_bytes=acknowledged, resent_bytes=0, busy_s=at_s,
            peer_window_limited_s=0.0, send_buffer_limited_s=0.0, age_s=at_s, duplicates=0, reordering_seen=0,
            delivery_rate_bps=0.0, rtt_min_ms=100.0, segment_bytes=MSS, cwnd_segments=window, rtt_ms=100.0,
            timeout_s=0.3, outstanding_bytes=0,
        ),
    )  # fmt: skip


SLOW_START = [10, 20, 40, 80, 160]
STEADY = [160] * 40


def test_a_restart_is_told_with_the_time_until_the_rate_is_back():
    first = transfer(SLOW_START + STEADY)

    result = evaluate(first, transfer(SLOW_START + STEADY, before=160), SPEC, "1")

    assert result.restarted
    assert (result.cwnd_before, result.cwnd_after) == (160, 10)
    assert result.before_bps == pytest.approx(160 * MSS * 8 / RTT_S)
    # Doubling from 10 segments reaches 160 in the fifth round trip.
    assert result.back_s == pytest.approx(4 * RTT_S, abs=RTT_S)
    assert "set net.ipv4.tcp_slow_start_after_idle to 0" in sentence(result)


def test_a_kept_window_is_no_restart():
    result = evaluate(transfer(SLOW_START + STEADY), transfer(STEADY), SPEC, "0")

    assert result.restarted is False
    assert result.back_s == 0.0
    assert sentence(result).startswith("No slow start after idle")


def test_a_rate_that_does_not_return_is_said():
    result = evaluate(transfer(SLOW_START + STEADY), transfer([10] * 40, before=160), SPEC, "1")

    assert result.back_s is None
    assert "not back within 4 s" in sentence(result)


@pytest.mark.parametrize(
    ("windows", "pause_s", "reason"),
    [(list(range(1, 60)), 3.0, "not steady"), (SLOW_START + STEADY, 0.2, "retransmission timeout")],
    ids=["still growing", "short pause"],
)
def test_it_cannot_be_told(windows, pause_s, reason):
    spec = IdleRestartSpec(address="192.0.2.1", port=5202, pause_s=pause_s)

    result = evaluate(transfer(windows), transfer(SLOW_START), spec, "1")

    assert result.restarted is None
    assert sentence(result).startswith("Cannot tell")
    assert reason in sentence(result)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_both_ends_transfer_twice_on_one_connection():
    port, received = free_port(), []
    far_end = threading.Thread(
        target=lambda: received.append(serve(port, Deadline(20.0), address="127.0.0.1", peer="127.0.0.1"))
    )
    far_end.start()
    spec = IdleRestartSpec(address="127.0.0.1", port=port, duration_s=0.3, pause_s=0.3)
    deadline = Deadline(15.0)
    while True:
        try:
            result = measure(spec)
            break
        except IdleRestartFailure:
            assert not deadline.passed
    far_end.join(20.0)

    assert result.before_bps > 0
    assert received[0] > 0


def until_it_listens(spec):
    deadline = Deadline(5.0)
    while True:
        try:
            return IdleRestartProbe().run(spec, deadline)
        except IdleRestartFailure:
            if deadline.passed:
                raise


def test_planned_ends_share_a_key_and_report_all_figures():
    spec = IdleRestartSpec(
        address="127.0.0.1", source="127.0.0.1", port=free_port(), duration_s=0.5, pause_s=0.2, one_time_key="a key"
    )
    served = []
    far_end = threading.Thread(target=lambda: served.append(IdleRestartEnd().serve(spec, Deadline(20.0))))
    far_end.start()

    run = until_it_listens(spec)
    far_end.join(20.0)

    assert served == ["received"]
    assert run.outcome is Outcome.MEASURED
    assert find_contradiction(run) is None
    assert run.sent_bytes > 0


def test_another_key_is_no_test():
    spec = IdleRestartSpec(address="127.0.0.1", source="127.0.0.1", port=free_port(), one_time_key="a key")
    served = []
    far_end = threading.Thread(target=lambda: served.append(IdleRestartEnd().serve(spec, Deadline(3.0))))
    far_end.start()

    with pytest.raises(IdleRestartFailure):
        until_it_listens(msgspec.structs.replace(spec, one_time_key="another key"))
    far_end.join(20.0)

    assert served == [None]


def test_without_a_far_end_the_reason_is_told():
    with pytest.raises(IdleRestartFailure, match="refused; is `idle-restart --listen` running there"):
        measure(IdleRestartSpec(address="127.0.0.1", port=free_port()))

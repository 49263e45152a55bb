"""Captures made to cost much: jumps of sequence numbers, and connections that all look alike. Time is counted in
segments and ranges, not in seconds."""

from __future__ import annotations

import pytest

from monitor.analysis.packets import KeptPart, lost_between, time_sequence
from monitor.analysis.packets.connections import ACK, TcpConnection, TcpDirection, TcpSegment
from monitor.analysis.packets.kept import kept_ranges
from monitor.analysis.packets.ranges import ByteRanges
from monitor.analysis.packets.time_sequence import MOST_FRESH
from monitor.archive.diagnosis.capture_findings import findings_of

MIB = 1 << 20
JUMP = 2**31 - 1


def jumping(jumps: int) -> TcpConnection:
    """Each segment and its ACK lie 2 GiB beyond those before."""
    ends = (b"\x0a\x01\x01\x01", 40000), (b"\x0a\x01\x02\x02", 5201)
    data = [TcpSegment(n * 2000, n * JUMP, n * JUMP + 100, 100, ACK, 1, 1000) for n in range(jumps)]
    acks = [TcpSegment(n * 2000 + 1000, 1, 1, 0, ACK, n * JUMP + 100, 1000) for n in range(jumps)]
    return TcpConnection((TcpDirection(*ends, data, first=0), TcpDirection(*ends[::-1], acks, first=0)))


@pytest.mark.parametrize("period_bytes", [MIB, 1 << 30])
def test_stretches_without_a_packet_cost_nothing(period_bytes, monkeypatch):
    added = []
    add = ByteRanges.add
    monkeypatch.setattr(ByteRanges, "add", lambda ranges, begin, end: added.append(begin) or add(ranges, begin, end))
    connection = jumping(1000)

    kept = kept_ranges(connection, connection.sender, (KeptPart(period_bytes, MIB, None),) * 8, 0)

    assert len(added) <= 8 * 1000
    assert all(kept.has(segment.begin) for segment in connection.sender.segments if segment.begin % period_bytes < MIB)


def test_a_stretch_with_lost_data_is_compared_whole():
    """The receiver has not seen the middle segment of the stretch; the sender's second copy never came either."""
    near, far = jumping(3), jumping(3)
    near.directions[0].segments.insert(1, TcpSegment(500, 100, 200, 100, ACK, 1, 1000))
    near.directions[1].segments[0] = TcpSegment(1000, 1, 1, 0, ACK, 300, 1000)
    far.directions[1].segments[0] = TcpSegment(1000, 1, 1, 0, ACK, 300, 1000)

    losses = lost_between([near], [far], (KeptPart(MIB, MIB // 4, None),), (KeptPart(MIB, MIB // 4, None),))

    assert losses.lost_bytes == 100


def test_a_connection_is_compared_once():
    """Many connections with the same first numbers: each needs one of its own at the other end."""
    near, far = [jumping(1) for _ in range(50)], [jumping(1)]

    assert lost_between(near, far).sent_bytes == 100


def test_the_plot_of_scattered_data_has_a_bounded_size():
    plot = time_sequence(jumping(4 * MOST_FRESH), (KeptPart(MIB, MIB, None),))

    assert len(plot.fresh) <= MOST_FRESH
    assert len(plot.missing) <= MOST_FRESH


@pytest.mark.parametrize("start_until_ns", [-1, 2000])
def test_a_jumping_capture_has_findings(start_until_ns):
    """Those of a capture whose start ends before the connection begins too."""
    findings = findings_of([jumping(200)], (KeptPart(None, None, start_until_ns), KeptPart(MIB, 1, None)))

    assert findings.fault is None
    assert findings.figures is not None
    assert findings.figures.data_packets == 200

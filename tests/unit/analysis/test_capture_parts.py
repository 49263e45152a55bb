"""Captures that have only the start and stretches of a transfer, made of whole captures of a planted transfer.

The figures are compared with those planted in the stretches that were kept, counted packet by packet.
"""

import random

import pytest

from monitor.analysis.packets import KeptPart, LostWhere, captured_figures_of, figures_of, lost_between, time_sequence
from monitor.analysis.packets.connections import ACK, TcpConnection, TcpDirection, TcpSegment
from monitor.analysis.packets.wording import capture_rows, loss_sentence

MS = 1_000_000
MSS = 1448
PERIOD, KEPT = 1 << 20, 1 << 18
FIRST = 0xFFF0_1234
"""The numbers wrap within the transfer."""
HALF_RTT_NS = 5 * MS


def is_kept(byte):
    return (FIRST + byte) % PERIOD < KEPT


class Transfer:
    """Segments of one MSS each, of which some are lost and sent again after two RTTs."""

    def __init__(self, data_loss, ack_loss, segments=20_000, seed=1):
        chance = random.Random(seed)
        sent, arrived, acks, heard = [], [], [], []
        self.lost_bytes, self.lost_acks = [], []
        for place in range(segments):
            begin, at_ns = 1 + place * MSS, place * MS // 10
            sent.append((at_ns, begin))
            if chance.random() < data_loss:
                self.lost_bytes.append(begin)
                at_ns += 4 * HALF_RTT_NS
                sent.append((at_ns, begin))
            arrived.append((at_ns + HALF_RTT_NS, begin))
        received, reached = set(), 1
        for at_ns, begin in sorted(arrived):
            received.add(begin)
            while reached in received:
                reached += MSS
            acks.append((at_ns, reached))
            if chance.random() < ack_loss:
                self.lost_acks.append(reached)
            else:
                heard.append((at_ns + HALF_RTT_NS, reached))
        self.near, self.far = self._connection(sent, heard), self._connection(arrived, acks)

    def _connection(self, data, acks):
        ends = (b"\x0a\x01\x01\x01", 40000), (b"\x0a\x01\x02\x02", 5201)
        forward = [TcpSegment(at_ns, begin, begin + MSS, MSS, ACK, 1, 1000) for at_ns, begin in sorted(data)]
        back = [TcpSegment(at_ns, 1, 1, 0, ACK, number, 1000) for at_ns, number in sorted(acks)]
        return TcpConnection(
            (TcpDirection(*ends, forward, MSS, 7, FIRST, 0), TcpDirection(*ends[::-1], back, MSS, 7, 77, 0))
        )


def partly(whole, start_packets, until_ns=None):
    """The capture with its first packets and its stretches, and the parts that describe it."""
    times = sorted(segment.at_ns for way in whole.directions for segment in way.segments)
    start_ns = times[start_packets]
    ways = []
    for way, number in zip(whole.directions, (lambda s: s.begin, lambda s: s.ack), strict=True):
        kept = [
            segment
            for segment in way.segments
            if segment.at_ns <= start_ns
            or (is_kept(number(segment)) and (until_ns is None or segment.at_ns <= until_ns))
        ]
        ways.append(TcpDirection(way.source_end, way.destination_end, kept, MSS, 7, way.first, 0))
    return TcpConnection(tuple(ways)), (KeptPart(None, None, start_ns), KeptPart(PERIOD, KEPT, until_ns))


@pytest.mark.parametrize(("data_loss", "ack_loss"), [(0.01, 0.0), (0.0, 0.02), (0.01, 0.02), (0.0, 0.0)])
def test_losses_of_the_same_stretches_are_told_by_direction(data_loss, ack_loss):
    """Both ends' starts end at other times, and neither is counted as loss."""
    transfer = Transfer(data_loss, ack_loss)
    near, near_parts = partly(transfer.near, 900)
    far, far_parts = partly(transfer.far, 700)

    losses = lost_between([near], [far], near_parts, far_parts)

    data = sum(1 for begin in transfer.lost_bytes if is_kept(begin))
    acks = sum(1 for number in transfer.lost_acks if is_kept(number))
    expected = {(True, True): LostWhere.BOTH, (True, False): LostWhere.DATA, (False, True): LostWhere.ACKS}
    assert losses.where is expected.get((data_loss > 0, ack_loss > 0), LostWhere.NOWHERE)
    assert losses.compared_ratio == pytest.approx(KEPT / PERIOD, abs=0.02)
    assert losses.lost_packets == pytest.approx(data, abs=4), "those of the start are counted too"
    assert losses.lost_acks == pytest.approx(acks, rel=0.1, abs=4)
    assert f"{100 * losses.compared_ratio:.0f}" in loss_sentence(losses, "a", "b")


def test_an_end_whose_last_part_was_full_is_compared_so_far():
    transfer = Transfer(0.01, 0.0)
    near, near_parts = partly(transfer.near, 900)
    far, far_parts = partly(transfer.far, 900, until_ns=1000 * MS)

    losses = lost_between([near], [far], near_parts, far_parts)

    half = 10_000 * MSS
    assert losses.where is LostWhere.DATA
    expected = sum(1 for begin in transfer.lost_bytes if is_kept(begin) and begin < half)
    assert losses.lost_packets == pytest.approx(expected, abs=5)


def test_retransmissions_are_counted_in_what_was_kept():
    transfer = Transfer(0.01, 0.0)
    near, parts = partly(transfer.near, 900)

    figures, whole = captured_figures_of(near, parts), figures_of(transfer.near)

    start = figures_of(partly(transfer.near, 900, until_ns=0)[0]).resent_packets
    expected = sum(1 for begin in transfer.lost_bytes if is_kept(begin))
    assert expected <= figures.resent_packets <= expected + start
    assert figures.out_of_order_packets == 0, "a gap is no loss"
    assert figures.captured_ratio == pytest.approx(KEPT / PERIOD, abs=0.02)
    assert figures.rate_bps == pytest.approx(whole.rate_bps, rel=0.01)
    assert figures.rtt_median_ms == pytest.approx(2 * HALF_RTT_NS / MS)
    assert figures.outstanding_max_bytes <= whole.outstanding_max_bytes
    assert "of the captured data" in dict(capture_rows(figures))["retransmitted"]


def test_gaps_are_in_the_plot_and_holes_of_loss_are_not():
    transfer = Transfer(0.01, 0.0)
    far, parts = partly(transfer.far, 900)

    plot = time_sequence(far, parts)

    gaps = [sent.end - sent.begin for sent in plot.missing]
    assert len(gaps) == pytest.approx(20_000 * MSS / PERIOD, abs=4)
    # At the end of the start there are holes whose retransmissions came after it.
    assert min(sorted(gaps)[3:]) > PERIOD - KEPT - 2 * MSS
    assert time_sequence(transfer.far).missing == ()

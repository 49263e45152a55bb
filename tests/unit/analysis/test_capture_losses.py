"""Losses between the captures of both ends, and the plot of a transfer: planted, and of a real transfer."""

import gzip
import struct
from pathlib import Path

import pytest

from monitor.analysis.packets import (
    LostWhere,
    connections_of,
    figures_of,
    lost_between,
    read_capture,
    time_sequence,
)
from monitor.analysis.packets.time_sequence import MOST_MARKS, STEPS
from monitor.analysis.packets.wording import loss_sentence

FOLDER = Path(__file__).parents[2] / "fixtures" / "captures"


def capture(name):
    return gzip.decompress((FOLDER / f"{name}.pcap.gz").read_bytes())


def connections(data):
    return connections_of(read_capture(data))


def records(data):
    """The records of a little-endian pcap file."""
    at, found = 24, []
    while at < len(data):
        length = 16 + struct.unpack_from("<I", data, at + 8)[0]
        found.append(data[at : at + length])
        at += length
    return found


def without(data, places):
    return data[:24] + b"".join(record for place, record in enumerate(records(data)) if place not in places)


def is_data(record):
    """Ethernet and IPv4 without options, as in the fixture."""
    total = struct.unpack_from(">H", record, 16 + 14 + 2)[0]
    return total > 20 + (record[16 + 14 + 20 + 12] >> 4) * 4


@pytest.fixture
def whole():
    return capture("stalled-sender")


def test_packets_that_one_capture_lacks_were_lost_on_their_way(whole):
    """The receiver's capture is the sender's without two data packets; they are never acknowledged anew."""
    places = [place for place, record in enumerate(records(whole)) if is_data(record)][10:12]
    payload = [connections(whole)[0].sender.segments]
    taken = [segment.payload_bytes for segment in payload[0] if segment.payload_bytes][10:12]

    losses = lost_between(connections(whole), connections(without(whole, places)))

    assert losses.where is LostWhere.DATA
    assert losses.lost_bytes == sum(taken)
    assert losses.lost_acks == 0
    assert "10.9.1.1" in loss_sentence(losses, "10.9.1.1", "10.9.2.2")


def test_acks_that_the_sender_lacks_were_lost_on_the_way_back(whole):
    acks = [place for place, record in enumerate(records(whole)) if not is_data(record)]
    places = acks[5:9]

    losses = lost_between(connections(without(whole, places)), connections(whole))

    assert losses.where is LostWhere.ACKS
    assert losses.lost_acks == len(places)
    assert losses.lost_bytes == 0


def test_equal_captures_have_lost_nothing(whole):
    losses = lost_between(connections(whole), connections(whole))

    assert losses.where is LostWhere.NOWHERE
    assert "No packet was lost" in loss_sentence(losses, "a", "b")


def test_captures_of_other_transfers_or_swapped_cannot_tell(whole):
    other = connections(capture("lossy-sender"))

    for losses in (
        lost_between(connections(whole), other),
        lost_between(connections(capture("lossy-receiver")), other),
        lost_between([], []),
    ):
        assert losses.where is LostWhere.UNKNOWN
        assert loss_sentence(losses, "a", "b").startswith("Cannot tell")


def test_a_real_transfer_sent_again_what_was_lost():
    """Of this transfer nothing was sent needlessly: each retransmission replaced a loss."""
    near, far = connections(capture("lossy-sender")), connections(capture("lossy-receiver"))

    losses = lost_between(near, far)

    assert losses.where is LostWhere.DATA
    assert losses.lost_bytes == pytest.approx(sum(figures_of(connection).resent_bytes for connection in near), rel=0.05)
    assert losses.needless_bytes == 0


def test_a_capture_that_ends_early_is_compared_as_far_as_it_goes():
    """Packets in flight when a capture ends are not counted as lost."""
    sender, receiver = capture("queue-ipv6-sender"), capture("queue-ipv6-sender")
    cut = receiver[:24] + b"".join(records(receiver)[: len(records(receiver)) // 2])

    losses = lost_between(connections(sender), connections(cut))

    assert losses.where is LostWhere.NOWHERE
    assert 0 < losses.sent_bytes < sum(connection.sender.payload_bytes for connection in connections(sender))


@pytest.mark.parametrize("name", ["lossy-sender", "stalled-receiver", "queue-ipv6-sender"])
def test_the_plot_has_all_bytes_and_a_bounded_number_of_marks(name):
    connection = max(connections(capture(name)), key=lambda one: one.sender.payload_bytes)
    figures = figures_of(connection)

    plot = time_sequence(connection)

    drawn = sum(sent.end - sent.begin for sent in (*plot.fresh, *plot.late))
    assert drawn >= figures.unique_bytes
    assert bool(plot.resent) == bool(figures.resent_packets)
    assert bool(plot.late) == bool(figures.out_of_order_packets)
    assert bool(plot.sacks) == bool(figures.sack_packets)
    assert bool(plot.zero_windows) == bool(figures.zero_window_packets)
    assert plot.duration_s == pytest.approx(figures.duration_ms / 1000)
    assert [point.ack for point in plot.acks] == sorted(point.ack for point in plot.acks)
    assert len(plot.acks) <= STEPS + 2
    assert max(map(len, (plot.resent, plot.late, plot.sacks, plot.zero_windows))) <= MOST_MARKS

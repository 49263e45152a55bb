"""Sends the packet pairs and trains of a capacity measurement in sequence and returns `EchoTrain`s.

The load on the far end is bounded: `PACKETS` requests in total, at most `LONG` back to back (TCP's initial window, RFC
6928).
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass

from probes.capacity.trains import EchoTrain
from probes.contract import Deadline, Outcome, ProbeError
from probes.packets.addresses import SocketAddress
from probes.packets.engine.packet_outcomes import NS_PER_MS, SendPattern
from probes.packets.engine.session import PingSession, run_sessions
from probes.packets.icmp.channel import Channel
from probes.packets.icmp.icmp_errors import HEADER_BYTES

PAIRS = 30
LONG_TRAINS = 8
SMALL_TRAINS = 4
LONG = 10
TRAINS = PAIRS + LONG_TRAINS + SMALL_TRAINS
PACKETS = 2 * PAIRS + LONG * (LONG_TRAINS + SMALL_TRAINS)

# A pause lasts 1 to this many times the spacing of the train's packets.
LONGEST_PAUSE = 1.5

# Packets of small trains are smaller by this factor, headers included.
SMALL_DIVISOR = 4


@dataclass(frozen=True, slots=True)
class TrainShape:
    count: int
    packet_bytes: int


def send_trains(
    channel: Channel,
    address: SocketAddress,
    packet_bytes: int,
    *,
    spacing_s: float,
    timeout_s: float,
    deadline: Deadline,
) -> list[EchoTrain]:
    """Send all trains, each followed by a pause of at least `spacing_s` per packet.

    `packet_bytes` is the large payload. Raises ProbeError at the deadline or if the kernel refuses a request.
    """
    trains: list[EchoTrain] = []
    planned = shapes(channel.family, packet_bytes)
    for shape in planned:
        train = _send_train(channel, address, shape, timeout_s, deadline)
        if train is None:
            raise ProbeError(f"deadline reached after {len(trains)} of {len(planned)} trains", outcome=Outcome.MISSED)
        trains.append(train)
        time.sleep(min(shape.count * spacing_s * random.uniform(1, LONGEST_PAUSE), deadline.remaining_s))
    return trains


def shapes(family: int, packet_bytes: int) -> list[TrainShape]:
    """Return all trains in random order, so that path changes and ICMP rate limits affect all kinds."""
    headers = HEADER_BYTES[family]
    small_bytes = (packet_bytes + headers) // SMALL_DIVISOR - headers
    all_shapes = [TrainShape(2, packet_bytes)] * PAIRS
    all_shapes += [TrainShape(LONG, packet_bytes)] * LONG_TRAINS
    all_shapes += [TrainShape(LONG, small_bytes)] * SMALL_TRAINS
    random.shuffle(all_shapes)
    return all_shapes


def _send_train(
    channel: Channel, address: SocketAddress, shape: TrainShape, timeout_s: float, deadline: Deadline
) -> EchoTrain | None:
    session = PingSession(channel, [address], SendPattern((shape.packet_bytes,), shape.count, 0.0, timeout_s))
    run_sessions([session], deadline, timeout_s)
    results = session.results()
    refusals = results.refused_errno[0][results.refused_errno[0] != 0]
    if len(refusals):
        raise ProbeError(f"the kernel refused a request: {os.strerror(int(refusals[0]))}")
    if not results.sent.all():
        return None
    round_trip_ns = results.rtt_ms[0] * NS_PER_MS
    return EchoTrain(
        ip_bytes=shape.packet_bytes + HEADER_BYTES[channel.family],
        sent_ns=results.sent_at_ns[0],
        arrived_ns=results.arrived_ns[0],
        round_trip_ns=round_trip_ns,
        stamped=results.kernel_stamped[0],
    )

"""Directions of a session's bursts: the time in the reflector, and packets under load."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from probes.packets.engine.packet_outcomes import EchoResults, PacketTable, SendPattern
from probes.stamp.burst_directions import BurstDirections, without_dwell
from probes.stamp.engine.table import ReplyFigures

MS = 1_000_000
SPACING_MS = 100
FORWARD_MS, REVERSE_MS = 10, 15
FAR_AHEAD_MS = 7_000
"""What the reflector's clock is ahead of ours."""


def planted(dwell_ms: list[int], lost: tuple[int, ...] = ()) -> tuple[EchoResults, ReplyFigures]:
    """A target whose packets took 10 ms there, the time in the reflector, and 15 ms back; those `lost` went missing on
    the way there."""
    count = len(dwell_ms)
    table = PacketTable(1, SendPattern((200,), count, SPACING_MS / 1000, 1.0))
    table.next = count
    left_ns = (1 + np.arange(count)) * SPACING_MS * MS
    received_ns = left_ns + (FORWARD_MS + FAR_AHEAD_MS) * MS
    sent_ns = received_ns + np.array(dwell_ms) * MS
    arrived_ns = sent_ns + (REVERSE_MS - FAR_AHEAD_MS) * MS
    answered = np.ones(count, np.bool_)
    answered[list(lost)] = False
    table.called_ns[:] = table.stamped_ns[:] = left_ns
    table.arrived_ns[:] = np.where(answered, arrived_ns, 0)
    table.replies[:] = answered
    counter = np.where(answered, np.cumsum(answered) - 1, -1)

    def row(values: Any) -> Any:
        return np.where(answered, values, 0)[np.newaxis]

    nothing = np.full((1, count), -1)
    figures = ReplyFigures(
        counter=counter[np.newaxis],
        left_ns=left_ns[np.newaxis],
        arrived_ns=row(arrived_ns),
        far_received_ns=row(received_ns),
        far_sent_ns=row(sent_ns),
        followed_up=row(True).astype(np.bool_),
        estimate=row(0),
        forward_ttl=nothing,
        forward_dscp=nothing,
        reverse_dscp=nothing,
        further=np.zeros((0, 5), np.int64),
    )
    return table.results(np.array([0]), 1_000 * MS, 0), figures


def test_the_time_in_the_reflector_is_no_part_of_the_round_trip() -> None:
    results, figures = planted([0, 3, 400, 2_000])

    corrected = without_dwell(results, figures, 1.0)

    assert np.isnan(results.rtt_ms[0, 3])
    assert corrected.rtt_ms[0] == pytest.approx([FORWARD_MS + REVERSE_MS] * 4)
    assert not corrected.late.any()


def test_a_reply_that_the_network_delayed_stays_late() -> None:
    results, figures = planted([0, 0])
    figures.arrived_ns[0, 1] += 1_200 * MS
    results.arrived_ns[0, 1] += 1_200 * MS
    results.late[0, 1], results.rtt_ms[0, 1] = True, np.nan

    corrected = without_dwell(results, figures, 1.0)

    assert corrected.late[0].tolist() == [False, True]
    assert np.isnan(corrected.rtt_ms[0, 1])


def directions(results: EchoResults, figures: ReplyFigures, under_load: list[bool]) -> BurstDirections:
    return BurstDirections(results, figures, np.array([under_load]), np.array([5_000_000]), {}, None)


def test_delays_of_each_direction_contain_the_planted_ones() -> None:
    results, figures = planted([1] * 5)

    told = directions(results, figures, [False] * 5).fields(0, 60)

    assert told["forward"].median_ms == pytest.approx(FORWARD_MS + FAR_AHEAD_MS)
    assert told["reverse"].median_ms == pytest.approx(REVERSE_MS - FAR_AHEAD_MS)
    assert told["offset_lo_ms"] <= FAR_AHEAD_MS <= told["offset_hi_ms"]
    assert told["offset_hi_ms"] - told["offset_lo_ms"] == pytest.approx(FORWARD_MS + REVERSE_MS)


@pytest.mark.parametrize(("loaded", "forward_lost"), [((), 2), ((1,), 1), ((1, 3), 0), ((0, 2), 2)])
def test_packets_under_load_are_no_loss_of_the_direction(loaded: tuple[int, ...], forward_lost: int) -> None:
    results, figures = planted([0] * 6, lost=(1, 3))

    told = directions(results, figures, [turn in loaded for turn in range(6)]).fields(0, None)

    assert (told["forward"].lost, told["reverse"].lost, told["undecided"]) == (forward_lost, 0, 0)


def test_all_packets_under_load_are_counted_as_they_are() -> None:
    results, figures = planted([0] * 6, lost=(1, 3))

    assert directions(results, figures, [True] * 6).fields(0, None)["forward"].lost == 2

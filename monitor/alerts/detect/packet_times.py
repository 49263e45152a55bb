"""When the packets of bursts were sent.

In: bursts of a path, and the spacing of its tests. Out: times in seconds since the epoch. A burst has the time of its
first packet; the others follow at the spacing of the test, at even spacing up to a third of it earlier or later, and
later by the packets that are not among them, which were sent during a throughput test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.archive.queries.around import BurstColumns
from monitor.mesh.queries import ping_parameters
from probes.packets.spec import JITTER_RATIO

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SAME_S = 1e-3
"""Stored times are rounded to microseconds, which must not leave out the burst at which a stretch begins."""
Parameters = Callable[[Iterable[int]], list[tuple[int, dict[str, Any]]]]


@dataclass(frozen=True, slots=True)
class Spacing:
    """The least and the most seconds between packets of a burst, how early or late each may be, and how many packets a
    burst has."""

    least_s: float = 0.0
    most_s: float = 0.0
    slack_s: float = 0.0
    packets: int = 0

    @property
    def longest_s(self) -> float:
        """From the first packet of a burst to the last, at the longest."""
        return max(self.packets - 1, 0) * self.most_s + self.slack_s


NO_SPACING = Spacing()


@dataclass(frozen=True, slots=True)
class Packets:
    """The packets of bursts, in the order of sending: when each was sent at the earliest and at the latest, and by the
    spacing alone, as if no packet before it in its burst had been set aside."""

    planned_s: Floats
    earliest_s: Floats
    latest_s: Floats
    burst_s: Floats
    lost: Bools
    longest_s: float
    """The longest RTT."""

    @property
    def sent_s(self) -> Floats:
        return (self.earliest_s + self.latest_s) / 2.0


def spacings(path_ids: Iterable[int], parameters_of: Parameters = ping_parameters) -> dict[int, Spacing]:
    """The spacing of the pings of these paths, or of their packets by these parameters: a query."""
    of_path: dict[int, list[Spacing]] = {}
    for path_id, parameters in parameters_of(path_ids):
        of_path.setdefault(path_id, []).append(_spacing(parameters))
    return {
        path_id: Spacing(
            min(spacing.least_s for spacing in of),
            max(spacing.most_s for spacing in of),
            max(spacing.slack_s for spacing in of),
            max(spacing.packets for spacing in of),
        )
        for path_id, of in of_path.items()
    }


def _spacing(parameters: Mapping[str, Any]) -> Spacing:
    sizes = parameters.get("packet_bytes")
    turns = len(sizes) if isinstance(sizes, list) and parameters.get("pattern") == "even" else 1
    spacing_s = float(parameters.get("spacing_s", 1.0))
    slack_s = JITTER_RATIO * spacing_s if parameters.get("pattern") == "even" else 0.0
    return Spacing(turns * spacing_s, turns * spacing_s, slack_s, int(parameters.get("count", 0)))


def packets_of(bursts: BurstColumns, spacing: Spacing) -> Packets:
    """All packets of these bursts of a path."""
    number = np.arange(bursts.rtts_ms.shape[1])
    missing = np.maximum(spacing.packets - bursts.sent, 0.0)[:, np.newaxis]
    slack_s = np.where((number > 0) | (missing > 0), spacing.slack_s, 0.0)
    begins_s = bursts.at_s[:, np.newaxis]
    planned_s = begins_s + number * spacing.least_s
    earliest_s = np.maximum(planned_s - slack_s, begins_s)
    latest_s = begins_s + (number + missing) * spacing.most_s + slack_s
    was_sent = number < bursts.sent[:, np.newaxis]
    order = np.argsort((earliest_s + latest_s)[was_sent], kind="stable")
    begins_s, rtts_ms = np.broadcast_to(begins_s, was_sent.shape), bursts.rtts_ms[was_sent]
    longest_s = float(np.nanmax(rtts_ms, initial=0.0)) / 1e3 if len(rtts_ms) else 0.0
    times_s = (of[was_sent][order] for of in (planned_s, earliest_s, latest_s, begins_s))
    planned_s, earliest_s, latest_s, burst_s = times_s
    return Packets(planned_s, earliest_s, latest_s, burst_s, np.isnan(rtts_ms)[order], longest_s)


def last_answered_s(bursts: BurstColumns, spacing: Spacing) -> float | None:
    """When the last packet with a reply was sent; None without any. Bursts of several sizes overlap: that which began
    last need not have it."""
    answered = bursts.where(bursts.received > 0)
    if not len(answered.at_s):
        return None
    number = np.arange(answered.rtts_ms.shape[1])
    last = np.where(np.isnan(answered.rtts_ms), 0, number).max(axis=1, initial=0)
    return float((answered.at_s + spacing.least_s * last).max())


def longest_run(packets: Packets, own: Bools) -> tuple[int, int] | None:
    """The first and last packet of the longest run of lost packets with any of `own`."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], packets.lost, [False]]).astype(np.int8)))
    runs = [(first, end - 1) for first, end in edges.reshape(-1, 2).tolist() if own[first:end].any()]
    return max(runs, key=lambda run: run[1] - run[0], default=None)

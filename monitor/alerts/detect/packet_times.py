"""When the packets of bursts were sent, in seconds since the epoch.

Evenly spaced packets deviate by up to a third of the spacing; packets left out during a throughput test delay all after
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from monitor.archive.queries.around import BurstColumns
from monitor.arrays import Bools, Floats
from monitor.mesh.queries import ping_parameters
from probes.packets.spec import JITTER_RATIO

# Stored times are rounded to microseconds; this keeps the burst at which a stretch begins.
SAME_S = 1e-3
Parameters = Callable[[Iterable[int]], list[tuple[int, dict[str, Any]]]]


@dataclass(frozen=True, slots=True)
class Spacing:
    """Time between packets of a burst."""

    least_s: float = 0.0
    most_s: float = 0.0
    slack_s: float = 0.0  # how early or late a packet may be
    packets: int = 0  # per burst

    @property
    def longest_s(self) -> float:
        """Longest time from a burst's first packet to its last."""
        return max(self.packets - 1, 0) * self.most_s + self.slack_s


NO_SPACING = Spacing()


@dataclass(frozen=True, slots=True)
class Packets:
    """Packets of bursts, in the order of sending."""

    planned_s: Floats  # by the spacing alone, as if no packet had been set aside
    earliest_s: Floats
    latest_s: Floats
    burst_s: Floats
    lost: Bools
    # Longest RTT.
    longest_s: float

    @property
    def sent_s(self) -> Floats:
        return (self.earliest_s + self.latest_s) / 2.0


def spacings(path_ids: Iterable[int], parameters_of: Parameters = ping_parameters) -> dict[int, Spacing]:
    """Query the ping spacing of these paths; `parameters_of` selects other tests."""
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
    """When the last packet with a reply was sent; None if there is none."""
    answered = bursts.where(bursts.received > 0)
    if not len(answered.at_s):
        return None
    number = np.arange(answered.rtts_ms.shape[1])
    last = np.where(np.isnan(answered.rtts_ms), 0, number).max(axis=1, initial=0)
    return float((answered.at_s + spacing.least_s * last).max())


def longest_run(packets: Packets, own: Bools) -> tuple[int, int] | None:
    """Find the longest run of lost packets that includes any of `own`: its first and last index."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], packets.lost, [False]]).astype(np.int8)))
    runs = [(first, end - 1) for first, end in edges.reshape(-1, 2).tolist() if own[first:end].any()]
    return max(runs, key=lambda run: run[1] - run[0], default=None)

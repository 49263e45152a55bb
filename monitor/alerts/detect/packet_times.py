"""When the packets of bursts were sent, and between which of them an outage began and ended.

In: bursts of a path, and the spacing of its tests. Out: times in seconds since the epoch. A burst has the time of its
first packet; the others follow at the spacing of the test, at even spacing up to a third of it earlier or later, and
later by the packets that are not among them, which were sent during a throughput test.

A packet sent at t whose reply took d was on its way until t + d: the path worked all that time, or for a lost packet
did not at some time of it. So an outage began after the last answered packet was sent, and before the reply to the
first lost one was due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.loss import LEAST_UNANSWERED, is_outage
from monitor.archive.queries.around import (
    BurstColumns,
    bursts_around,
    loaded_bursts,
)
from monitor.mesh.queries import ping_parameters
from probes.ping.spec import JITTER_RATIO

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SAME_S = 1e-3
"""Stored times are rounded to microseconds, which must not leave out the burst at which a stretch begins."""
Parameters = Callable[[Iterable[int]], list[tuple[int, dict[str, Any]]]]
BurstsKey = tuple[int, str]
"""A path, and the direction of its packets: empty for round trips."""

PACKETS_APART = 1.5
"""More bursts than one: so many times its packets in a row are lost in an outage, not by chance."""


SHORTEST_OUTAGE_S = 15.0
"""From the first to the last of packets lost in a row: a shorter interruption is a loss in bursts."""
LOADED_WITHIN = timedelta(minutes=2)
"""After the last burst with a reply: the length of a throughput test."""


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
class Edge:
    """Where a run of lost packets begins or ends: between `earliest_s` and `latest_s`. It begins after the answered
    packet at `at_s`, or ends with the lost packet at `at_s`. `burst_s` is the time of the burst of the lost packet."""

    at_s: float
    earliest_s: float
    latest_s: float
    burst_s: float


@dataclass(frozen=True, slots=True)
class PathBursts:
    """The newest bursts of a path, oldest first: begin in seconds since the epoch, packets sent and received."""

    at_s: Floats
    sent: Floats
    received: Floats

    def since(self, begin_s: float) -> PathBursts:
        """The bursts from then on."""
        return self.part(int(np.searchsorted(self.at_s, begin_s)))

    def part(self, first: int) -> PathBursts:
        """The bursts from this number on."""
        return PathBursts(self.at_s[first:], self.sent[first:], self.received[first:])

    @property
    def whole_lost_at(self) -> datetime | None:
        """Begin of the newest burst without any reply."""
        lost = self.at_s[(self.received == 0) & (self.sent >= LEAST_UNANSWERED)]
        return datetime.fromtimestamp(float(lost[-1]), UTC) if len(lost) else None


@dataclass(frozen=True, slots=True)
class LoadedReply:
    """When the last answered packet of a burst was sent, `at` if an outage has cut the burst, at the `latest` possible:
    of the packets that were sent during a throughput test it is not known where in the burst they were."""

    path_id: int
    at: datetime
    latest: datetime


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


def bursts_by_key(columns: Mapping[str, Floats], direction: str) -> dict[BurstsKey, PathBursts]:
    """The newest bursts by path, of these columns; `direction` is that of STAMP packets, or empty."""
    prefix = f"{direction}_" if direction else ""
    ids, starts = np.unique(columns["path_id"], return_index=True)
    ends = [*starts.tolist(), len(columns["path_id"])][1:]
    names = ("at_s", f"{prefix}sent", f"{prefix}received")
    return {
        (int(path_id), direction): PathBursts(*(columns[name][first:end] for name in names))
        for path_id, first, end in zip(ids.tolist(), starts.tolist(), ends, strict=True)
    }


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


def outage_end(packets: Packets, bad_s: float) -> Edge | None:
    """The end of the outage whose last lost packet is in the burst at `bad_s`; None if it is no outage, or lasts."""
    run = _run_around(packets, bad_s)
    if run is None:
        return None
    _, last = run
    if last + 1 == len(packets.lost):
        return None
    return Edge(
        float(packets.sent_s[last]),
        float(packets.earliest_s[last]),
        float(packets.latest_s[last + 1]) + packets.longest_s,
        float(packets.burst_s[last]),
    )


def last_answered_s(bursts: BurstColumns, spacing: Spacing) -> float | None:
    """When the last packet with a reply was sent; None without any. Bursts of several sizes overlap: that which began
    last need not have it."""
    answered = bursts.where(bursts.received > 0)
    if not len(answered.at_s):
        return None
    number = np.arange(answered.rtts_ms.shape[1])
    last = np.where(np.isnan(answered.rtts_ms), 0, number).max(axis=1, initial=0)
    return float((answered.at_s + spacing.least_s * last).max())


def loaded_replies(spacing: Mapping[int, Spacing], since: datetime, until: datetime) -> list[LoadedReply]:
    """The last reply of each burst with packets that were sent during throughput tests: loss and RTTs leave these out,
    but a path that answers them is not cut off. A query, none without paths."""
    replies = []
    for burst in loaded_bursts(list(spacing), since, until) if spacing else ():
        apart, numbers = timedelta(seconds=spacing[burst.path_id].least_s), burst.last_answered
        if numbers is not None:
            replies.append(LoadedReply(burst.path_id, *(burst.at + number * apart for number in numbers)))
    return replies


def last_replies_before_runs(whole_lost: Mapping[int, datetime], until: datetime) -> dict[int, datetime]:
    """When the last packet was answered before a run of lost packets that has ended and is too long for chance, by path
    with a burst that was lost as a whole then: two queries, none without paths."""
    if not whole_lost:
        return {}
    spacing = spacings(whole_lost)
    bursts = bursts_around(list(whole_lost), min(whole_lost.values()) - LOADED_WITHIN, until)
    bursts = bursts.where((bursts.during_test == 0) & (bursts.sent > 0))
    replies = {}
    for path_id, of_path in spacing.items():
        packets = packets_of(bursts.where(bursts.path_id == path_id), of_path)
        run = longest_run(packets, np.ones(len(packets.lost), np.bool_))
        if run is None or run[0] == 0 or run[1] + 1 == len(packets.lost):
            continue
        first, last = run
        is_long = packets.sent_s[last] - packets.sent_s[first] >= SHORTEST_OUTAGE_S
        if is_long and is_outage(len(packets.lost), len(packets.lost) - packets.lost.sum(), last - first + 1):
            replies[path_id] = datetime.fromtimestamp(float(packets.sent_s[first - 1]), UTC)
    return replies


def _run_around(packets: Packets, bad_s: float) -> tuple[int, int] | None:
    """The first and last packet of the longest run of lost packets with any in the burst at `bad_s`, if it is longer
    than chance."""
    own = packets.burst_s == bad_s
    longest = longest_run(packets, own)
    least = max(LEAST_UNANSWERED, PACKETS_APART * int(own.sum()))
    return None if longest is None or longest[1] - longest[0] + 1 < least else longest


def longest_run(packets: Packets, own: Bools) -> tuple[int, int] | None:
    """The first and last packet of the longest run of lost packets with any of `own`."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], packets.lost, [False]]).astype(np.int8)))
    runs = [(first, end - 1) for first, end in edges.reshape(-1, 2).tolist() if own[first:end].any()]
    return max(runs, key=lambda run: run[1] - run[0], default=None)

"""Intervals computed from the behaviour of a simulated transfer, for tests that need exact expected values."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from monitor.analysis.transfer import ReceiverInterval, Recording, SenderInterval

MSS_BYTES = 1448
INTERVAL_S = 0.1


@dataclass(frozen=True)
class Moment:
    """The state during an interval."""

    rate_bps: float
    cwnd_bytes: float
    window_bytes: float = 1e8
    rtt_ms: float = 40.0
    retransmits: int = 0


def recorded(moment_at: Callable[[float], Moment], duration_s: float, **fields: object) -> Recording:
    """The recording of a transfer at both ends, from the state at the start of each interval."""
    samples, arrivals = [], []
    for number in range(round(duration_s / INTERVAL_S)):
        start_s, end_s = number * INTERVAL_S, (number + 1) * INTERVAL_S
        now = moment_at(start_s)
        moved = round(now.rate_bps / 8 * INTERVAL_S)
        arrivals.append(ReceiverInterval(start_s, end_s, moved))
        samples.append(
            SenderInterval(
                start_s=start_s,
                end_s=end_s,
                sent_bytes=moved,
                retransmits=now.retransmits,
                cwnd_bytes=round(now.cwnd_bytes),
                peer_window_bytes=round(now.window_bytes),
                rtt_ms=now.rtt_ms,
                path_mtu_bytes=1500,
            )
        )
    return Recording(samples=tuple(samples), arrivals=tuple(arrivals), **fields)  # type: ignore[arg-type]


def steady(rate_bps: float, **fields: float) -> Callable[[float], Moment]:
    """A transfer in a constant state, with exactly the window that it needs."""
    rtt_ms = fields.get("rtt_ms", 40.0)
    now = Moment(**{"rate_bps": rate_bps, "cwnd_bytes": rate_bps * rtt_ms / 8000, **fields})
    return lambda _: now


def simulated(
    dropped: Callable[[float, int], int], duration_s: float, rtt_s: float = 0.04, start_segments: int = 200
) -> Recording:
    """A sender that gains a segment per RTT and halves once for the drops of an RTT: a fluid Reno, by RTTs.

    `dropped(now_s, segments)` returns how many of the segments sent now the path drops.
    """
    window, now_s, ends_s, moved, resent, windows = float(start_segments), 0.0, [], [], [], []
    while now_s < duration_s:
        lost = dropped(now_s, int(window))
        moved.append((int(window) - lost) * MSS_BYTES)
        resent.append(lost)
        windows.append(window * MSS_BYTES)
        now_s += rtt_s
        ends_s.append(now_s)
        window = max(2.0, window / 2) if lost else window + 1.0
    return _by_interval(ends_s, moved, resent, windows, rtt_s)


def _by_interval(
    ends_s: list[float], moved: list[int], resent: list[int], windows: list[float], rtt_s: float
) -> Recording:
    """Group RTTs into intervals: a loss is reported an RTT later than it happened."""
    samples, arrivals, begin_s, first = [], [], 0.0, 0
    for index, end_s in enumerate(ends_s):
        if end_s - begin_s < INTERVAL_S:
            continue
        part = slice(first, index + 1)
        arrivals.append(ReceiverInterval(begin_s, end_s, sum(moved[part])))
        samples.append(
            SenderInterval(
                start_s=begin_s,
                end_s=end_s,
                sent_bytes=sum(moved[part]),
                retransmits=sum(resent[max(0, first - 1) : index]),
                cwnd_bytes=round(windows[index]),
                peer_window_bytes=100_000_000,
                rtt_ms=rtt_s * 1000,
            )
        )
        begin_s, first = end_s, index + 1
    return Recording(samples=tuple(samples), arrivals=tuple(arrivals), mss_bytes=MSS_BYTES)


def policer(rate_bps: float, depth_bytes: float, rtt_s: float = 0.04) -> Callable[[float, int], int]:
    """A token bucket as in RFC 2697, full at first: segments without tokens are dropped."""
    tokens, last_s = depth_bytes, 0.0

    def dropped(now_s: float, segments: int) -> int:
        nonlocal tokens, last_s
        tokens = min(depth_bytes, tokens + (now_s - last_s) * rate_bps / 8)
        last_s = now_s
        # A window is spread over its RTT, during which tokens are added.
        room = tokens + rtt_s * rate_bps / 8
        passed = min(segments, int(room // MSS_BYTES))
        tokens -= passed * MSS_BYTES
        return segments - passed

    return dropped


def independent_loss(ratio: float, seed: int) -> Callable[[float, int], int]:
    """Segments are lost independently."""
    rng = random.Random(seed)
    return lambda _, segments: sum(rng.random() < ratio for _ in range(segments))

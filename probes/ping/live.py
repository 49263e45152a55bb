"""The replies to echo requests of a cycle that still runs, for those who watch it.

In: the `EchoResults` of a session so far. Out: `LiveReplies` of one target.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from probes.packets.engine.packet_outcomes import EchoResults

NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class LiveReplies:
    """`rtts_ms` has an entry for each request that the kernel took, in the order of sending, None without a reply;
    `awaited` are the indices of those that may still be answered in time, the others without a reply are lost."""

    rtts_ms: tuple[float | None, ...]
    awaited: tuple[int, ...]


def live_replies(results: EchoResults, timeout_s: float, now_ns: int, target: int = 0) -> LiveReplies:
    """The replies at `now_ns`, a Unix time. A request with an ICMP error is lost at once."""
    errors = results.errors
    failed = {int(turn) for turn in errors.turn[errors.target == target]}
    rtts_ms: list[float | None] = []
    awaited = []
    for turn, is_sent in enumerate(results.sent[target].tolist()):
        if not is_sent:
            continue
        rtt_ms = float(results.rtt_ms[target, turn])
        is_lost = (
            turn in failed
            or results.replies[target, turn] > 0
            or now_ns - int(results.sent_at_ns[target, turn]) > timeout_s * NS_PER_S
        )
        if math.isnan(rtt_ms) and not is_lost:
            awaited.append(len(rtts_ms))
        rtts_ms.append(None if math.isnan(rtt_ms) else rtt_ms)
    return LiveReplies(tuple(rtts_ms), tuple(awaited))

"""Replies to echo requests of a running cycle, from the `EchoResults` so far."""

from __future__ import annotations

import math
from dataclasses import dataclass

from probes.packets.engine.packet_outcomes import EchoResults

NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class LiveReplies:
    """The replies to a target so far; requests neither answered nor awaited are lost."""

    rtts_ms: tuple[float | None, ...]  # for each request sent, in sending order; None without a reply
    awaited: tuple[int, ...]  # indices of requests that may still be answered in time


def live_replies(results: EchoResults, timeout_s: float, now_ns: int) -> LiveReplies:
    """Replies of the first target at `now_ns` (Unix). An ICMP error means lost at once."""
    errors = results.errors
    failed = {int(turn) for turn in errors.turn[errors.target == 0]}
    rtts_ms: list[float | None] = []
    awaited = []
    for turn, is_sent in enumerate(results.sent[0].tolist()):
        if not is_sent:
            continue
        rtt_ms = float(results.rtt_ms[0, turn])
        is_lost = (
            turn in failed
            or results.replies[0, turn] > 0
            or now_ns - int(results.sent_at_ns[0, turn]) > timeout_s * NS_PER_S
        )
        if math.isnan(rtt_ms) and not is_lost:
            awaited.append(len(rtts_ms))
        rtts_ms.append(None if math.isnan(rtt_ms) else rtt_ms)
    return LiveReplies(tuple(rtts_ms), tuple(awaited))

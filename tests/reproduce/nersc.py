"""ORNL to NERSC (ORNL note on HPSS transfers, 2001): losses at each block of 32 MB.

The sender of 1000 Mbit/s faces a receiver of 100. After each block it waits for two answers, 200 ms, with its window
open; then it sends the window at once, and the packets that do not fit into the queue before the slower link are lost.
Rates, block, queue and segments are a fifth of the published ones: with smaller segments too, the window between two
losses grows to the same fraction of the bandwidth-delay product. The queue is inferred: of bursts of 200 KB, 2,233
segments in 33 events are half. In the reverse direction no link is slower than the sender's own, so the queue there
holds all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.lab import RunningLab
from tests.reproduce.ends import Plan
from tests.reproduce.table import Table
from tests.reproduce.transfer import Measured, Run, Say, measure

SCALE = 5
RTT_MS, CAPACITY_MBPS = 102.0, 100.0
BLOCK_BYTES, MSS_BYTES, QUEUE_BYTES, LARGE_QUEUE_BYTES = 32_000_000, 1448, 100_000, 5_000_000
TIMESTAMP_BYTES = 12
START_UP_S, MEASURED_S, OTHER_WAY_S = 20.0, 130.0, 30.0
BLOCKS_HIT_RATIO = 0.8
APART_S = 1.0
"""Retransmissions less than this apart belong to the same event."""


@dataclass(frozen=True, slots=True)
class Event:
    """A loss event: its time, the retransmitted segments, the bytes acknowledged since the previous event."""

    at_s: float
    resent: int
    before_bytes: float


@dataclass(frozen=True, slots=True)
class Block:
    """The start of a block: its time, the pause before it, and the window that is sent at once."""

    at_s: float
    pause_s: float
    burst_bytes: int


def reproduce(lab: RunningLab, say: Say) -> Table:
    """Both directions with blocks, and the first without. Failures: blocks without an event, or as many events without
    the pauses."""
    table = Table(("", "published", "blocks, as published", "an endless block", "reverse, blocks"))
    say("  ORNL to NERSC, in blocks")
    there = measure(lab, _run(QUEUE_BYTES, START_UP_S + MEASURED_S, BLOCK_BYTES), say)
    say("  ORNL to NERSC, a single endless block")
    endless = measure(lab, _run(QUEUE_BYTES, START_UP_S + MEASURED_S, None), say)
    say("  NERSC to ORNL, in blocks")
    back = measure(lab, _run(LARGE_QUEUE_BYTES, START_UP_S + OTHER_WAY_S, BLOCK_BYTES), say)
    for name, published, value in (
        ("Mbit/s", "71 in reverse", lambda measured: f"{measured.rate_bps * SCALE / 1e6:.0f}"),
        ("blocks of 32 MB", "32", lambda measured: f"{_blocks_sent(measured):.1f}"),
        ("loss events", "33", lambda measured: str(len(events(measured)))),
        (
            "blocks that begin with an event",
            "each",
            lambda measured: f"{len(hits(measured))} of {len(blocks(measured))}",
        ),
        ("segments resent for each 32 MB", "70", lambda measured: f"{measured.resent / _blocks_sent(measured):.0f}"),
        ("MB between events", "30", _between),
        (
            "pause before a block, ms",
            "200",
            lambda measured: _mean([1e3 * block.pause_s for block in blocks(measured)]),
        ),
        (
            "burst after it, KB",
            "200",
            lambda measured: _mean([block.burst_bytes * SCALE / 1e3 for block in blocks(measured)]),
        ),
    ):
        table.rows.append((name, published, *(value(measured) for measured in (there, endless, back))))
        say(f"    {' '.join(table.rows[-1])}")
    if len(hits(there)) < BLOCKS_HIT_RATIO * len(blocks(there)) or not blocks(there):
        table.failures.append(f"only {len(hits(there))} of {len(blocks(there))} blocks begin with a loss")
    if endless.resent / _blocks_sent(endless) > there.resent / _blocks_sent(there) / 3:
        table.failures.append("without the pauses it loses more than a third as much")
    if hits(back):
        table.failures.append(f"the other way {len(hits(back))} of {len(blocks(back))} blocks begin with a loss")
    return table


def hits(measured: Measured) -> list[Block]:
    """The blocks with retransmissions in their first second."""
    return [
        block for block in blocks(measured) if any(0.0 <= event.at_s - block.at_s < 1.0 for event in events(measured))
    ]


def events(measured: Measured) -> list[Event]:
    """The loss events of a stream, from its count of retransmitted segments."""
    at_s, acked = measured.progress()
    resent = np.array([sample.streams[0].resent for sample in measured.samples])
    more = np.flatnonzero(np.diff(resent)) + 1
    if more.size == 0:
        return []
    groups = np.split(more, np.flatnonzero(np.diff(at_s[more]) > APART_S) + 1)
    result, before = [], float(acked[0])
    for group in groups:
        first = group[0]
        result.append(
            Event(float(at_s[first]), int(resent[group[-1]] - resent[first - 1]), float(acked[first] - before))
        )
        before = float(acked[first])
    return result


def blocks(measured: Measured, block_bytes: int = BLOCK_BYTES // SCALE) -> list[Block]:
    """The blocks that began in the measured time, each after a pause without acknowledgements."""
    at_s, acked = measured.progress()
    # In the pause only the byte that requests the second answer is acknowledged.
    flat = np.flatnonzero(np.diff(acked) <= 1)
    result = []
    for run in np.split(flat, np.flatnonzero(np.diff(flat) > 1) + 1):
        # The previous block ended here if the bytes are whole blocks; each requests a byte more, and the handshake
        # another.
        if run.size and acked[run[0]] % block_bytes < 1000 and acked[run[0]] > 1000 and run[-1] + 2 < len(at_s):
            begin, end = run[0], run[-1] + 2
            burst = measured.samples[begin].streams[0].window_segments * (MSS_BYTES // SCALE)
            result.append(Block(float(at_s[end]) - RTT_MS / 1000, float(at_s[end] - at_s[begin]), burst))
    return result


def _run(queue_bytes: int, duration_s: float, block_bytes: int | None) -> Run:
    plan = Plan(
        duration_s,
        "reno",
        block_bytes=None if block_bytes is None else block_bytes // SCALE,
        exchanges=2,
        mss_bytes=MSS_BYTES // SCALE + TIMESTAMP_BYTES,
        sample_s=0.02,
    )
    path = {"rate_mbps": CAPACITY_MBPS / SCALE, "queue_bytes": queue_bytes // SCALE}
    return Run(RTT_MS, path, plan, START_UP_S, backlogged=block_bytes is None)


def _blocks_sent(measured: Measured) -> float:
    return measured.acked_bytes * SCALE / BLOCK_BYTES


def _between(measured: Measured) -> str:
    return _mean([event.before_bytes * SCALE / 1e6 for event in events(measured)[1:]])


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.0f}" if values else "–"

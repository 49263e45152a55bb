"""Sunnyvale to Geneva (Cottrell, 2003), at a twentieth of the published 1 Gbit/s: slow start, and recovery from a loss.

RTT and MTU of 1,500 bytes are as published; the bandwidth-delay product is a twentieth, 1.1 MB. The receiver's window
is that product, so that nothing but planted losses reduces the rate: packets are dropped for a moment, an event of a
single window. Slow start leaves a congestion window of up to twice the product (the kernel lets it grow to twice the
flight), so that a first loss brings it to the product; the second one is measured. Recovery is that of a
stream that lost packets each time, until its rate over a second is back at 95%. The models
(`monitor.analysis.tcp.timing`) are for the same rate, so that model and lab are compared without scaling.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from monitor.analysis.tcp import CongestionControl, buffer_bytes, recovery_s, slow_start_s
from probes.lab import control
from tests.lab import RunningLab
from tests.reproduce.ends import Plan
from tests.reproduce.table import Table
from tests.reproduce.transfer import RECEIVER, SENDER, Measured, Run, Say, measure

RTT_MS, RATE_MBPS, SCALE = 180.0, 50.0, 20
HEADER_BYTES = 52
LINK_SHARE = 1.25
"""Rate of the link over that of the window, so that no queue builds up behind a sawtooth."""
BACK_RATIO, RATE_OVER_S = 0.95, 1.0
LOSSY_S, LOSS_RATIO = 0.02, 0.2
"""About 80 packets, of which some are lost: certainly one, and all of them within a window."""
STEADY_S = 4.0
APART_S, LOSSES = 4.0, 2
"""Between planted losses."""
WITHIN = 0.3
PUBLISHED_START = "5 to 6 at 1 Gbit/s"
PUBLISHED_RECOVERY = "can take over an hour at 1 Gbit/s"
SHARE_TO_BACK = 0.9
"""Share of the model's time after which 95% is reached: Reno grows evenly from 50%."""


@dataclass(frozen=True, slots=True)
class Sender:
    control: str
    streams: int
    mss_bytes: int = 1448

    @property
    def name(self) -> str:
        streams = "1 stream" if self.streams == 1 else f"{self.streams} streams"
        return f"{self.control.capitalize()}, {streams}, MSS {self.mss_bytes:,}"

    @property
    def stream_bps(self) -> float:
        return RATE_MBPS * 1e6 / self.streams

    @property
    def model_s(self) -> float:
        """Until 95% of the rate before the loss."""
        return SHARE_TO_BACK * float(recovery_s(CongestionControl.RENO, self.stream_bps, RTT_MS, self.mss_bytes, False))


SENDER_OF_LOSS = Sender("reno", 1)


def reproduce(lab: RunningLab, say: Say) -> Table:
    """Slow start and recovery. Failures: a time further than 30% from its model."""
    table = Table(("", "published", "lab, s", "model at this rate, s", "lab / model"))
    say("  slow start")
    start = measure(lab, _run(Sender("reno", 1), 10.0, 0.0), say)
    model_s = float(slow_start_s(RATE_MBPS * 1e6, RTT_MS, 1448, 10.0, False))
    _add(table, "slow start, Reno", PUBLISHED_START, reached_s(start), model_s, say)
    sender = SENDER_OF_LOSS
    say(f"  a loss: {sender.name}")
    seconds = 5.0 + STEADY_S + LOSSES * APART_S + 1.35 * sender.model_s + 10.0
    measured = measure(lab, _run(sender, seconds, 5.0, dropping), say)
    _add(table, f"recovery, {sender.name}", PUBLISHED_RECOVERY, back_s(measured), sender.model_s, say)
    return table


def _add(table: Table, name: str, published: str, lab_s: float | None, model_s: float, say: Say) -> None:
    if lab_s is None:
        table.failures.append(f"{name}: the rate was not back")
    elif abs(lab_s / model_s - 1.0) > WITHIN:
        table.failures.append(f"{name}: {lab_s:.1f} s, the model has {model_s:.1f} s")
    told = ("–", "–") if lab_s is None else (f"{lab_s:.1f}", f"{lab_s / model_s:.2f}")
    table.rows.append((name, published, told[0], f"{model_s:.1f}", told[1]))
    say(f"    {' '.join(table.rows[-1])}")


def _run(sender: Sender, seconds: float, start_up_s: float, midway: Callable[[RunningLab], None] | None = None) -> Run:
    window = round(float(buffer_bytes(sender.stream_bps, RTT_MS)))
    plan = Plan(seconds, sender.control, sender.streams, window_bytes=window, mss_bytes=sender.mss_bytes + 12)
    wire = (sender.mss_bytes + HEADER_BYTES) / sender.mss_bytes
    path = {"rate_mbps": LINK_SHARE * RATE_MBPS * wire, "queue_ms": 200.0}
    return Run(RTT_MS, path, plan, start_up_s, each_ack=True, midway=midway, midway_s=STEADY_S)


def dropping(lab: RunningLab) -> None:
    """Drop packets of the data for a moment, twice."""
    for _ in range(LOSSES):
        for ratio in (LOSS_RATIO, 0.0):
            request = control.SetRequest(source=SENDER, destination=RECEIVER, changes={"loss_ratio": ratio})
            control.ask(lab.run_dir, request)
            time.sleep(LOSSY_S if ratio else 0.0)
        time.sleep(APART_S)


def reached_s(measured: Measured) -> float | None:
    """From the first byte until the RTT in which 95% of the window was acknowledged."""
    at_s, acked = measured.progress()
    final_bps = 8.0 * (acked[-1] - acked[len(acked) // 2]) / (at_s[-1] - at_s[len(acked) // 2])
    rtt_s = RTT_MS / 1e3
    reached = _first_at(at_s, acked, BACK_RATIO * final_bps, rtt_s, at_s[0])
    return None if reached is None else reached - rtt_s


def back_s(measured: Measured) -> float | None:
    """From the last planted loss until the rate of a stream is back that lost packets each time; None without such a
    stream, or if it was not back."""
    at_s, _ = measured.progress()
    for number in range(len(measured.samples[0].streams)):
        resent = np.array([sample.streams[number].resent for sample in measured.samples])
        rises = np.flatnonzero(np.diff(resent) > 0) + 1
        events = [first for place, first in enumerate(rises) if not place or at_s[first] - at_s[rises[place - 1]] > 1.0]
        if len(events) != LOSSES:
            continue
        acked = np.array([sample.streams[number].acked_bytes for sample in measured.samples])
        before_bps = 8.0 * (acked[events[0] - 1] - acked[0]) / (at_s[events[0] - 1] - at_s[0])
        # The window that was on its way at the loss is acknowledged meanwhile: the rate falls two RTTs later.
        from_s = at_s[events[-1]] + 2 * RTT_MS / 1e3 + RATE_OVER_S
        reached = _first_at(at_s, acked, BACK_RATIO * before_bps, RATE_OVER_S, from_s)
        return None if reached is None else reached + from_s - at_s[events[-1]]
    return None


def _first_at(at_s: np.ndarray, acked: np.ndarray, rate_bps: float, over_s: float, from_s: float) -> float | None:
    """Seconds from a moment until the rate over such a time is reached."""
    ends_s = at_s[at_s >= max(from_s, at_s[0] + over_s)]
    rates = 8.0 * (np.interp(ends_s, at_s, acked) - np.interp(ends_s - over_s, at_s, acked)) / over_s
    reached = np.flatnonzero(rates >= rate_bps)
    return float(ends_s[reached[0]] - from_s) if reached.size else None

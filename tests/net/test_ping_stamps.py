"""A burst on loopback whose kernel timestamps are not all reliable: missing, or with the wall clock set.

Sockets, packets and timestamps are real. The wall clock, and with it the timestamps, are offset by a clock of the test,
which leaves the machine's own clock alone (`tests.e2e.stepped_clock` does so for a whole agent).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from probes.contract import Deadline
from probes.packets.burst import measure
from probes.packets.icmp import clock, kernel
from probes.packets.spec import Burst, PingSpec, PingTarget

MS = 1_000_000
HOUR_NS = 3_600_000 * MS
SETTLED_MS = 20.0
"""Far above any loopback RTT that is read on arrival, far below the quarter of a second that replies may
wait in the socket."""


def burst_on_loopback() -> Burst:
    """Two seconds of requests to ourselves."""
    spec = PingSpec(
        targets=(PingTarget(address="127.0.0.1"),), packet_bytes=(100,), count=100, spacing_s=0.02, priming_bytes=None
    )
    [burst] = measure(spec, Deadline(30.0))
    assert burst.received == 100
    return burst


def rtts_ms(burst: Burst) -> list[float]:
    return [rtt_ms for rtt_ms in burst.rtts_ms if rtt_ms is not None]


@pytest.fixture
def lead_clock(root_required: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], Any]], None]:
    """Puts the wall clock ahead by a function of the monotonic time, both in ns."""
    read = kernel.read_controls
    origin_ns = time.time_ns() - time.monotonic_ns()

    def lead(ahead_ns: Callable[[Any], Any]) -> None:
        def stamped(*arguments: Any) -> kernel.Controls:
            controls = read(*arguments)
            controls.stamp_ns += np.where(controls.stamp_ns > 0, ahead_ns(controls.stamp_ns - origin_ns), 0)
            return controls

        wall = SimpleNamespace(
            monotonic_ns=time.monotonic_ns, time_ns=lambda: time.time_ns() + int(ahead_ns(time.monotonic_ns()))
        )
        monkeypatch.setattr(kernel, "read_controls", stamped)
        monkeypatch.setattr(clock, "time", wall)

    return lead


def test_a_clock_set_repeatedly_does_not_lengthen_rtts(lead_clock):
    began_ns = time.monotonic_ns()
    lead_clock(lambda at_ns: (at_ns - began_ns) // (100 * MS) * HOUR_NS)

    burst = burst_on_loopback()

    # It takes a quarter of a second, an eighth of the burst, until the step is detected.
    assert np.percentile(rtts_ms(burst), 80) < SETTLED_MS


def test_a_kernel_without_stamps_does_not_lengthen_rtts(root_required, monkeypatch):
    read = kernel.read_controls

    def unstamped(*arguments: Any) -> kernel.Controls:
        controls = read(*arguments)
        controls.stamp_ns[:] = 0
        return controls

    monkeypatch.setattr(kernel, "read_controls", unstamped)

    burst = burst_on_loopback()

    assert (burst.stamp, burst.stamps_lost) == ("user", 100)
    assert np.percentile(rtts_ms(burst), 80) < SETTLED_MS


@pytest.mark.parametrize("step_ms", [30, -30])
@pytest.mark.parametrize("set_after_ms", [1000, 1100])
def test_a_clock_set_once_lengthens_rtts_at_most_by_its_step(lead_clock, step_ms, set_after_ms):
    """Of some timestamps near the step it is unknown whether they were taken before or after it."""
    set_at_ns = time.monotonic_ns() + set_after_ms * MS
    lead_clock(lambda at_ns: np.where(at_ns >= set_at_ns, step_ms * MS, 0))

    burst = burst_on_loopback()

    assert max(rtts_ms(burst)) < abs(step_ms) + SETTLED_MS

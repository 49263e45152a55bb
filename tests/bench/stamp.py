"""STAMP on loopback, both ends, compared with our own pings at the same rate in the same run: half a minute."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from probes.contract import Deadline
from probes.packets.burst import measure as measure_pings
from probes.packets.spec import PingSpec, PingTarget
from probes.stamp.probe import measure
from probes.stamp.spec import StampBurst, StampSpec, StampTarget
from tests.bench import Row
from tests.bench.ping import addresses, children_cpu_s, own_cpu_s

TARGETS = 2000
COUNT = 100
SPACING_S = 0.1
PACKETS = TARGETS * COUNT
PORT = 8862
PACKET_BYTES = 100

REFLECT = f"""
import signal, threading
from probes.peers import Peers
from probes.stamp.reflector.sessions import RateCap, SenderSessions
from probes.stamp.reflector.reflector import Reflector
from probes.stamp.reflector.replies import ReplyMaker
from probes.stamp.reflector.service import open_channels
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
maker = ReplyMaker(Peers({{}}, ["127.0.0.0/8"]), RateCap(1e9, 1e9), SenderSessions(10_000, 10_000))
reflector = Reflector(open_channels({PORT}), maker)
print("ready", flush=True)
reflector.run(stop)
"""


def run() -> list[Row]:
    """Measure the pings, then STAMP at the same rate."""
    before = own_cpu_s()
    spec = PingSpec(
        targets=tuple(PingTarget(address=address) for address in addresses(TARGETS)),
        packet_bytes=(PACKET_BYTES,),
        count=COUNT,
        spacing_s=SPACING_S,
        timeout_s=1.0,
        priming_bytes=None,
        check_rate_limit=False,
    )
    measure_pings(spec, Deadline(120.0))
    ping_us = (own_cpu_s() - before)[0] * 1e6 / PACKETS
    with reflector() as idle_cpu_s:
        before, started = own_cpu_s(), time.monotonic()
        bursts = measured()
        elapsed_s, sender_us = time.monotonic() - started, (own_cpu_s() - before)[0] * 1e6 / PACKETS
    reflector_us = (children_cpu_s() - idle_cpu_s) * 1e6 / PACKETS
    sent, received = sum(burst.sent for burst in bursts), sum(burst.received for burst in bursts)
    return [
        Row("packets per second each way, planned", f"{TARGETS / SPACING_S:,.0f}", "20,000"),
        Row("replies per second, waits at the end included", f"{received / elapsed_s:,.0f}"),
        Row("lost of them, all of it false", f"{sent - received} of {sent}", "0"),
        Row("CPU per echo of our pings at the same rate", f"{ping_us:.1f} µs"),
        Row("CPU per packet, sender", f"{sender_us:.1f} µs"),
        Row("ratio, sender to ping", f"{sender_us / ping_us:.2f}", "≤ 2"),
        Row("CPU per packet, reflector", f"{reflector_us:.1f} µs"),
        Row("ratio, reflector to ping", f"{reflector_us / ping_us:.2f}", "≤ 2"),
    ]


def measured() -> tuple[StampBurst, ...]:
    spec = StampSpec(
        targets=tuple(StampTarget(address=address, port=PORT) for address in addresses(TARGETS)),
        packet_bytes=PACKET_BYTES,
        count=COUNT,
        spacing_s=SPACING_S,
        timeout_s=1.0,
    )
    return measure(spec, Deadline(120.0))


@contextmanager
def reflector() -> Iterator[float]:
    """A reflector in a process of its own; gives the CPU time that all children will have used if it reflects nothing,
    by an equal process that does not."""
    before = children_cpu_s()
    with _started():
        pass
    idle_s = children_cpu_s() - before
    with _started():
        yield before + 2 * idle_s


@contextmanager
def _started() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", REFLECT], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.terminate()
        process.communicate(timeout=30)

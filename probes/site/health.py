"""Health of an agent and its machine: the struct in each delivery, read from the kernel."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

from probes.bounds import Moment, Real, ShortText
from probes.packets.spec import Stamp

NET_DEV = Path("/proc/net/dev")
LOADAVG = Path("/proc/loadavg")
LOOPBACK = "lo"
INTERFACES_TOLD = 16
CLOCK_OFFS_TOLD = 64
# Offsets further apart are of different settings of the clock.
SAME_OFFSET_S = 1.0

UNSYNCHRONISED = 0x0040
NANOSECONDS = 0x2000
STATES = ("ok", "insert_leap_second", "delete_leap_second", "in_leap_second", "after_leap_second", "error")
PPM_SCALE = 65536.0


class KernelClock(msgspec.Struct, frozen=True, kw_only=True):
    """The state of adjtimex(2)."""

    state: ShortText
    is_synchronised: bool
    offset_s: Real  # still to be slewed
    frequency_ppm: Real
    max_error_s: Real  # the kernel's own bound
    estimated_error_s: Real


class InterfaceDrops(msgspec.Struct, frozen=True, kw_only=True):
    """Packets that an interface dropped since it came up."""

    interface: ShortText
    received: int
    sent: int


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a kind ever dropped by the agent's spool."""

    kind: ShortText
    reason: ShortText  # `too_many`, `too_old`, `disk_full`
    count: int


class ClockOff(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a batch measured while this site's clock was off."""

    since: Moment  # begin of the results, as stored
    until: Moment
    offset_s: Real  # maximum ahead of the centre's


def join_clock_offs(earlier: ClockOff, later: ClockOff) -> ClockOff:
    return ClockOff(
        since=min(earlier.since, later.since),
        until=max(earlier.until, later.until),
        offset_s=max(earlier.offset_s, later.offset_s, key=abs),
    )


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Health at the time of a delivery. Unknown values are None."""

    clock_offset_s: Real | None = None  # this site's clock less the centre's
    clock_uncertainty_s: Real | None = None
    kernel_clock: KernelClock | None = None
    load_1min: Real | None = None  # processes that run or wait
    cpus: int | None = None
    stamp: Stamp | None = None  # poorest among the batch's bursts
    lost_ticks: int = 0  # due cycles that did not begin, since the start
    drops: Annotated[tuple[InterfaceDrops, ...], msgspec.Meta(max_length=INTERFACES_TOLD)] = ()
    clock_off: ClockOff | None = None  # only from an older agent
    # periods with a wrong clock, oldest first
    clock_offs: Annotated[tuple[ClockOff, ...], msgspec.Meta(max_length=CLOCK_OFFS_TOLD)] = ()
    dropped: Annotated[tuple[Dropped, ...], msgspec.Meta(max_length=64)] = ()
    set_aside: int = 0
    iperf3: ShortText | None = None  # version, as `3.12`
    bugs: int = 0  # unexpected exceptions since the start

    @property
    def periods_off(self) -> tuple[ClockOff, ...]:
        return self.clock_offs or ((self.clock_off,) if self.clock_off is not None else ())


class _Timex(ctypes.Structure):
    """struct timex of <sys/timex.h>."""

    _fields_ = [
        ("modes", ctypes.c_uint),
        *((name, ctypes.c_long) for name in ("offset", "frequency", "max_error", "estimated_error")),
        ("status", ctypes.c_int),
        *((name, ctypes.c_long) for name in ("constant", "precision", "tolerance", "seconds", "fraction", "tick")),
        *((name, ctypes.c_long) for name in ("pps_frequency", "jitter")),
        ("shift", ctypes.c_int),
        *((name, ctypes.c_long) for name in ("stability", "jitters", "calibrations", "errors", "unstable")),
        ("tai", ctypes.c_int),
        ("reserved", ctypes.c_int * 11),
    ]


TIMEX_BYTES = ctypes.sizeof(_Timex)


def kernel_clock_of(state: int, timex: bytes) -> KernelClock:
    """Parse the result of adjtimex(2) and its struct."""
    read = _Timex.from_buffer_copy(timex)
    per_second = 1e9 if read.status & NANOSECONDS else 1e6
    return KernelClock(
        state=STATES[state] if 0 <= state < len(STATES) else f"state {state}",
        is_synchronised=not read.status & UNSYNCHRONISED,
        offset_s=read.offset / per_second,
        frequency_ppm=read.frequency / PPM_SCALE,
        max_error_s=read.max_error / 1e6,
        estimated_error_s=read.estimated_error / 1e6,
    )


def read_kernel_clock() -> KernelClock | None:
    """Read without privilege; None without the call or permission."""
    adjtimex = _adjtimex()
    if adjtimex is None:
        return None
    timex = ctypes.create_string_buffer(TIMEX_BYTES)
    state = adjtimex(timex)
    return None if state < 0 else kernel_clock_of(state, timex.raw)


@cache
def _adjtimex() -> Any:
    # Cached: opening the C library costs many times the call.
    return getattr(ctypes.CDLL(None), "adjtimex", None)


def parse_loadavg(text: str) -> float:
    """The first figure of /proc/loadavg: the mean over the last minute."""
    return float(text.split()[0])


def parse_net_dev(text: str) -> tuple[InterfaceDrops, ...]:
    """Interfaces of /proc/net/dev with drops, worst first, without loopback."""
    dropping = []
    for line in text.splitlines()[2:]:
        name, _, figures = line.partition(":")
        columns = figures.split()
        drops = InterfaceDrops(interface=name.strip(), received=int(columns[3]), sent=int(columns[11]))
        if drops.interface != LOOPBACK and drops.received + drops.sent > 0:
            dropping.append(drops)
    return tuple(sorted(dropping, key=lambda drops: -(drops.received + drops.sent)))


def read_load() -> float | None:
    return parse_loadavg(LOADAVG.read_text()) if LOADAVG.exists() else None


def read_drops() -> tuple[InterfaceDrops, ...]:
    return parse_net_dev(NET_DEV.read_text())[:INTERFACES_TOLD] if NET_DEV.exists() else ()


def read_health() -> Health:
    return Health(kernel_clock=read_kernel_clock(), load_1min=read_load(), cpus=os.cpu_count(), drops=read_drops())

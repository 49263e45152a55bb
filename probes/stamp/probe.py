"""Measures paths by STAMP: a `StampBurst` with an outcome for each target."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from datetime import UTC, datetime

import msgspec

from probes.contract import Deadline, LoadPeriods, NoRoute, ProbeError
from probes.packets.icmp import kernel
from probes.packets.resolve import resolve
from probes.stamp.cycle import StampCycle
from probes.stamp.engine.channel import StampChannel
from probes.stamp.packets import OPEN_BYTES
from probes.stamp.reflector.arrivals import PeerArrivals
from probes.stamp.spec import LARGEST_PACKET_BYTES, StampBurst, StampSpec

MIN_SPACING_S = 0.01
MAX_COUNT = 10_000
# Threads of `measure_each`; with more targets, several share a thread and are complete together.
MOST_CYCLES = 32


def problems(spec: StampSpec) -> list[str]:
    """Values out of range, each with the valid range."""
    bounds: tuple[tuple[str, float, float, float], ...] = (
        ("packet_bytes", spec.packet_bytes, OPEN_BYTES, LARGEST_PACKET_BYTES),
        ("count", spec.count, 1, MAX_COUNT),
        ("spacing_s", spec.spacing_s, MIN_SPACING_S, 3600),
        ("timeout_s", spec.timeout_s, 0.001, 60),
        ("late_s", spec.late_s, 0, 60),
        ("dscp", spec.dscp, 0, 63),
    )
    return [
        f"{name} {value}: must be from {low} to {high}" for name, value, low, high in bounds if not low <= value <= high
    ]


def measure(
    spec: StampSpec,
    deadline: Deadline,
    *,
    load_periods: LoadPeriods | None = None,
    arrivals: PeerArrivals | None = None,
) -> tuple[StampBurst, ...]:
    """Measure all targets at once. Raises ProbeError only for an invalid spec.

    `arrivals` are at this process's reflector.
    """
    wrong = problems(spec)
    if wrong:
        raise ProbeError("; ".join(wrong), permanent=True)
    now = datetime.now(UTC)
    answers = resolve([(target.address, target.family) for target in spec.targets], deadline)
    with closing(StampCycle(spec, answers, now, load_periods)) as cycle:
        bursts = cycle.run(deadline)
    return bursts if arrivals is None else _with_arrivals(bursts, spec, arrivals)


def _with_arrivals(bursts: tuple[StampBurst, ...], spec: StampSpec, arrivals: PeerArrivals) -> tuple[StampBurst, ...]:
    reader = spec.packet_bytes, spec.count, spec.spacing_s, spec.dscp
    addresses = {burst.address for burst in bursts if burst.address is not None}
    arrived = arrivals.since_last(reader, addresses)
    return tuple(
        msgspec.structs.replace(burst, peer_packets=arrived[burst.address]) if burst.address in arrived else burst
        for burst in bursts
    )


def measure_each(spec: StampSpec, deadline: Deadline) -> Iterator[StampBurst]:
    def measured(number: int) -> tuple[StampBurst, ...]:
        share = spec.targets[number::MOST_CYCLES]
        return measure(msgspec.structs.replace(spec, targets=share), deadline)

    with ThreadPoolExecutor(MOST_CYCLES) as pool:
        shares = range(min(MOST_CYCLES, len(spec.targets)))
        for future in as_completed([pool.submit(measured, number) for number in shares]):
            yield from future.result()


class StampProbe:
    """Measures with batched UDP packets and kernel timestamps (`probes.contract.Probe`)."""

    def __init__(self) -> None:
        self.arrivals = PeerArrivals()

    def can_run(self, spec: StampSpec) -> list[str]:
        reasons = problems(spec)
        if sys.platform != "linux" or sys.maxsize < 2**32:
            return [*reasons, "stamp: kernel timestamps need 64-bit Linux"]
        missing = kernel.missing_calls()
        if missing:
            return [*reasons, f"stamp: {' and '.join(missing)} not available on this system or in its sandbox"]
        for family in sorted({target.family for target in spec.targets}):
            try:
                StampChannel(family).close()
            except NoRoute:
                continue
            except ProbeError as error:
                reasons.append(f"stamp over IPv{family}: {error}")
        return reasons

    def run(
        self, spec: StampSpec, deadline: Deadline, load_periods: LoadPeriods | None = None
    ) -> tuple[StampBurst, ...]:
        return measure(spec, deadline, load_periods=load_periods, arrivals=self.arrivals)


STAMP = StampProbe()

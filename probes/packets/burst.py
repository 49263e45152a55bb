"""PingER bursts: takes a `PingSpec`, returns a `Burst` for each target and packet size, each with an outcome.

A request that the kernel refuses counts neither as sent nor as lost; if none was sent, the burst has the outcome of the
first refusal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from datetime import UTC, datetime
from itertools import pairwise
from math import fsum
from typing import Any, Generic

import msgspec

from probes.contract import Deadline, LoadPeriods, NoRoute, Probe, ProbeError, ResultT, SpecT
from probes.packets.columns import PingResults
from probes.packets.cycle import PingCycle, Progress
from probes.packets.engine.plain import PlainChannel
from probes.packets.icmp import kernel
from probes.packets.icmp.channel import Channel
from probes.packets.icmp.echo import MAX_PACKET_BYTES, MIN_PACKET_BYTES
from probes.packets.resolve import resolve
from probes.packets.spec import Burst, PingSpec, PingTarget


class Choice(Generic[SpecT, ResultT]):
    """A probe with several tools in order of preference, the least demanding last."""

    def __init__(self, *tools: Probe[SpecT, ResultT]) -> None:
        self._tools = tools

    def can_run(self, spec: SpecT) -> list[str]:
        """Distinct reasons why no tool can run."""
        all_reasons: list[str] = []
        for tool in self._tools:
            reasons = tool.can_run(spec)
            if not reasons:
                return []
            all_reasons += reasons
        return list(dict.fromkeys(all_reasons))

    def run(self, spec: SpecT, deadline: Deadline, *options: Any) -> ResultT:
        """Measure with the first tool that can run, else let the last raise its error."""
        usable = (tool for tool in self._tools if not tool.can_run(spec))
        tool: Any = next(usable, self._tools[-1])
        result: ResultT = tool.run(spec, deadline, *options)
        return result


MIN_SPACING_S = 0.01
MAX_COUNT = 10_000
# Threads of `measure_each`; with more targets, several share a thread and are complete together.
MOST_CYCLES = 32


def problems(spec: PingSpec) -> list[str]:
    """Values out of range, each with the valid range."""
    reasons = [
        f"packet_bytes {size}: must be from {MIN_PACKET_BYTES} to {MAX_PACKET_BYTES}"
        for size in (*spec.packet_bytes, *([] if spec.priming_bytes is None else [spec.priming_bytes]))
        if not MIN_PACKET_BYTES <= size <= MAX_PACKET_BYTES
    ]
    if not spec.packet_bytes:
        reasons.append("packet_bytes: give at least one size")
    if not 1 <= spec.count <= MAX_COUNT:
        reasons.append(f"count {spec.count}: must be from 1 to {MAX_COUNT}")
    if not MIN_SPACING_S <= spec.spacing_s <= 3600:
        reasons.append(
            f"spacing_s {spec.spacing_s}: must be from {MIN_SPACING_S} to 3600; we are guests at the far end"
        )
    if not 0 < spec.timeout_s <= 60:
        reasons.append(f"timeout_s {spec.timeout_s}: must be above 0 and at most 60")
    if not 0 <= spec.late_s <= 60:
        reasons.append(f"late_s {spec.late_s}: must be from 0 to 60")
    return reasons


def measure(
    spec: PingSpec,
    deadline: Deadline,
    *,
    plain: bool = False,
    load_periods: LoadPeriods | None = None,
    progress: Progress | None = None,
) -> tuple[Burst, ...]:
    """Measure all targets at once; return a burst for each target and size, in order.

    Unless `plain`, it needs 64-bit Linux. `progress` gets the replies so far. Raises ProbeError only for an invalid
    spec.
    """
    return measure_all(spec, deadline, plain=plain, load_periods=load_periods, progress=progress).all()


def measure_all(
    spec: PingSpec,
    deadline: Deadline,
    *,
    plain: bool = False,
    load_periods: LoadPeriods | None = None,
    progress: Progress | None = None,
) -> PingResults:
    wrong = problems(spec)
    if wrong:
        raise ProbeError("; ".join(wrong), permanent=True)
    now = datetime.now(UTC)
    answers = resolve([(target.address, target.family) for target in spec.targets], deadline)
    with closing(PingCycle(spec, answers, now, plain=plain, load_periods=load_periods, progress=progress)) as cycle:
        cycle.run(deadline)
        return cycle.results()


def measure_each(spec: PingSpec, deadline: Deadline) -> Iterator[tuple[Burst, ...]]:
    """Measure all targets at once, and yield a target's complete bursts.

    Targets with the same address come together. Falls back to plain sockets.
    """
    plain = bool(IcmpProbe().can_run(spec))
    now = datetime.now(UTC)
    answers = resolve([(target.address, target.family) for target in spec.targets], deadline)
    groups: dict[object, list[PingTarget]] = {}
    for target in spec.targets:
        answer = answers[target.address, target.family]
        key = (target.address, target.family) if isinstance(answer, ProbeError) else answer
        groups.setdefault(key, []).append(target)

    def measured(targets: Sequence[PingTarget]) -> tuple[Burst, ...]:
        spec_of_targets = msgspec.structs.replace(spec, targets=tuple(targets))
        with closing(PingCycle(spec_of_targets, answers, now, plain=plain)) as cycle:
            cycle.run(deadline)
            return cycle.results().all()

    shares = [
        [target for group in share for target in group]
        for number in range(min(MOST_CYCLES, len(groups)))
        for share in [list(groups.values())[number::MOST_CYCLES]]
    ]
    with ThreadPoolExecutor(MOST_CYCLES) as pool:
        for future in as_completed([pool.submit(measured, share) for share in shares]):
            yield future.result()


def summary(burst: Burst) -> dict[str, float | None]:
    """Loss and RTT statistics; None where undefined.

    `ipdv_ms` as in PingER: interquartile range of RTT differences of consecutive answered requests (RFC 5481, section
    4.1).
    """
    received = sorted(rtt_ms for rtt_ms in burst.rtts_ms if rtt_ms is not None)
    differences = sorted(
        after - before for before, after in pairwise(burst.rtts_ms) if before is not None and after is not None
    )
    return {
        "loss_ratio": (burst.sent - burst.received) / burst.sent if burst.sent else None,
        "rtt_min_ms": received[0] if received else None,
        "rtt_median_ms": _quantile(received, 0.5) if received else None,
        "rtt_avg_ms": fsum(received) / len(received) if received else None,
        "rtt_max_ms": received[-1] if received else None,
        "ipdv_ms": _quantile(differences, 0.75) - _quantile(differences, 0.25) if differences else None,
    }


def _quantile(ordered: Sequence[float], share: float) -> float:
    # Interpolate linearly; for few numbers NumPy takes twenty times as long.
    place, between = divmod(share * (len(ordered) - 1), 1)
    low = ordered[int(place)]
    return low + between * (ordered[min(int(place) + 1, len(ordered) - 1)] - low)


class IcmpProbe:
    """Measures with batched ICMP echo requests and kernel timestamps (`probes.contract.Probe`)."""

    def can_run(self, spec: PingSpec) -> list[str]:
        if sys.platform != "linux" or sys.maxsize < 2**32:
            return [*problems(spec), "ping: kernel timestamps need 64-bit Linux"]
        missing = kernel.missing_calls()
        if missing:
            return [*problems(spec), f"ping: {' and '.join(missing)} not available on this system or in its sandbox"]
        return [*problems(spec), *_socket_problems(spec, Channel)]

    def run(
        self,
        spec: PingSpec,
        deadline: Deadline,
        load_periods: LoadPeriods | None = None,
        progress: Progress | None = None,
    ) -> PingResults:
        return measure_all(spec, deadline, load_periods=load_periods, progress=progress)


class PlainIcmpProbe:
    """Measures over plain sockets, timed by this program (`probes.contract.Probe`)."""

    def can_run(self, spec: PingSpec) -> list[str]:
        return [*problems(spec), *_socket_problems(spec, PlainChannel)]

    def run(
        self,
        spec: PingSpec,
        deadline: Deadline,
        load_periods: LoadPeriods | None = None,
        progress: Progress | None = None,
    ) -> PingResults:
        return measure_all(spec, deadline, plain=True, load_periods=load_periods, progress=progress)


def _socket_problems(spec: PingSpec, open_channel: Callable[..., Channel]) -> Iterator[str]:
    """Why no socket opens."""
    # A missing family is a target's outcome instead.
    for family in sorted({target.family for target in spec.targets}):
        try:
            open_channel(family, dont_fragment=spec.dont_fragment).close()
        except NoRoute:
            continue
        except ProbeError as error:
            yield f"ping over IPv{family}: {error}"


PING = Choice(IcmpProbe(), PlainIcmpProbe())

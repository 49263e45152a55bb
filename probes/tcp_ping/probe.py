"""Measures tcp-ping: a `Burst` of handshakes for each target.

Targets with the same address and source share handshakes.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np

from probes.contract import Deadline, LoadedPeriods, LoadPeriod, LoadPeriods, Outcome, ProbeError
from probes.packets.addresses import LOCAL_NOTE, NEAR_MS, SocketAddress, stays_on_host
from probes.packets.arrays import Int64s
from probes.packets.columns import EPOCH
from probes.packets.cycle import clock_source, refusal, unsent_note
from probes.packets.egress import Egress, source_addresses
from probes.packets.engine.even import even_due_ns
from probes.packets.engine.randomness import KernelRandom
from probes.packets.engine.schedule import random_phases_ns
from probes.packets.resolve import resolve
from probes.packets.spec import Burst, IcmpError
from probes.tcp_ping.handshakes import NS_PER_S, HandshakeResults, Handshakes
from probes.tcp_ping.spec import LONGEST_TIMEOUT_S, TcpPingSpec, TcpPingTarget

# Family, source and egress; their targets share a loop.
_Group = tuple[int, str | None, Egress]
_Groups = defaultdict[_Group, dict[SocketAddress, list[int]]]

MIN_SPACING_S = 0.05
MAX_COUNT = 1000


def problems(spec: TcpPingSpec) -> list[str]:
    """Values out of range, each with the valid range."""
    reasons = []
    if not 1 <= spec.port <= 65_535:
        reasons.append(f"port {spec.port}: must be from 1 to 65535")
    if not 1 <= spec.count <= MAX_COUNT:
        reasons.append(f"count {spec.count}: must be from 1 to {MAX_COUNT}")
    if not MIN_SPACING_S <= spec.spacing_s <= 3600:
        reasons.append(f"spacing_s {spec.spacing_s}: must be from {MIN_SPACING_S} to 3600")
    if not 0 < spec.timeout_s <= LONGEST_TIMEOUT_S:
        reasons.append(
            f"timeout_s {spec.timeout_s}: must be above 0 and at most {LONGEST_TIMEOUT_S}, since a SYN is sent again "
            "after 1 s"
        )
    return reasons


class TcpPingProbe:
    """Measures with non-blocking connects, without privileges (`probes.contract.Probe`)."""

    def can_run(self, spec: TcpPingSpec) -> list[str]:
        return problems(spec)

    def run(self, spec: TcpPingSpec, deadline: Deadline, load_periods: LoadPeriods | None = None) -> tuple[Burst, ...]:
        """Measure all targets at once. Raises ProbeError only for an invalid spec."""
        wrong = problems(spec)
        if wrong:
            raise ProbeError("; ".join(wrong), permanent=True)
        now = datetime.now(UTC)
        answers = resolve([(target.address, target.family) for target in spec.targets], deadline)
        bursts: dict[int, Burst] = {}
        groups: _Groups = defaultdict(lambda: defaultdict(list))
        for index, target in enumerate(spec.targets):
            answer = answers[target.address, target.family]
            if isinstance(answer, ProbeError):
                bursts[index] = _unmeasured(target, spec, now, answer)
            else:
                groups[target.family, target.source, target.leaves_by][answer].append(index)
        for index, burst in _measure(spec, groups, deadline, load_periods, now):
            bursts[index] = burst
        return tuple(bursts[index] for index in range(len(spec.targets)))


def _measure(
    spec: TcpPingSpec,
    groups: _Groups,
    deadline: Deadline,
    load_periods: LoadPeriods | None,
    now: datetime,
) -> list[tuple[int, Burst]]:
    if not groups:
        return []
    with ThreadPoolExecutor(len(groups)) as threads:
        done = list(threads.map(lambda group: _run(spec, group, list(groups[group]), deadline), groups))
    loads = LoadedPeriods() if load_periods is None else load_periods()
    bursts = []
    for (group, members), results in zip(groups.items(), done, strict=True):
        family, source, egress = group
        sources = source_addresses(family, list(members), source, egress)
        for row, (address, indices) in enumerate(members.items()):
            for index in indices:
                target = spec.targets[index]
                if isinstance(results, ProbeError):
                    bursts.append((index, _unmeasured(target, spec, now, results, address[0])))
                else:
                    burst = _burst(spec, target, address, results, row, loads.of_target(index), now)
                    bursts.append((index, msgspec.structs.replace(burst, source_address=sources[row])))
    return bursts


def _run(
    spec: TcpPingSpec, group: _Group, addresses: Sequence[SocketAddress], deadline: Deadline
) -> HandshakeResults | ProbeError:
    family, source, egress = group
    due_ns = _due_ns(spec, family, addresses)
    try:
        return Handshakes(family, addresses, spec.port, due_ns, spec.timeout_s, source, egress).run(deadline)
    except ProbeError as error:
        return error


def _due_ns(spec: TcpPingSpec, family: int, addresses: Sequence[SocketAddress]) -> Int64s:
    """Connect times: random phases, or constant with jitter for even cycles."""
    random = KernelRandom()
    if spec.is_even:
        return even_due_ns(family, addresses, spec.count, spec.spacing_s, random).T
    spacing_ns = round(spec.spacing_s * NS_PER_S)
    phases_ns = random_phases_ns(len(addresses), spacing_ns, random)[random.permutation(len(addresses))]
    return phases_ns[:, np.newaxis] + np.arange(spec.count) * spacing_ns


def _burst(
    spec: TcpPingSpec,
    target: TcpPingTarget,
    address: SocketAddress,
    results: HandshakeResults,
    row: int,
    load_periods: Sequence[LoadPeriod],
    now: datetime,
) -> Burst:
    numbers = np.flatnonzero(results.sent[row]).tolist()
    refused = int(next(iter(results.refused_errno[row][results.refused_errno[row] != 0]), 0))
    if not numbers:
        return _unmeasured(target, spec, now, refusal(refused), address[0])
    sent_at = {number: _time(int(results.sent_at_ns[row, number])) for number in numbers}
    loaded = [number for number in numbers if any(since <= sent_at[number] <= until for since, until in load_periods)]
    counted = [number for number in numbers if number not in loaded] or numbers
    rtts_ms = _rtts_ms(results, row, counted)
    answered = [number for number, rtt_ms in zip(counted, rtts_ms, strict=True) if rtt_ms is not None]
    is_kernel = bool(results.kernel_timed[row, answered].all())
    loaded_rtts_ms = None if not loaded else () if counted is numbers else _rtts_ms(results, row, loaded)
    return Burst(
        target=target.address,
        address=address[0],
        family=target.family,
        packet_bytes=spec.packet_bytes[0],
        started_at=sent_at[numbers[0]],
        outcome=Outcome.MEASURED,
        sent=len(counted),
        received=len(answered),
        rtts_ms=rtts_ms,
        stamp=None if not answered else "kernel" if is_kernel else "user",
        clock_source=clock_source(),
        errors=_together(results.errors.get(row, []), len(counted) - len(answered)),
        loaded_rtts_ms=loaded_rtts_ms,
        detail=_notes(
            spec,
            len(numbers),
            refused,
            int(results.was_reset[row, answered].sum()),
            is_local=_is_local(address, target.family, rtts_ms),
        ),
    )


def _is_local(address: SocketAddress, family: int, rtts_ms: Sequence[float | None]) -> bool:
    shortest_ms = min((rtt_ms for rtt_ms in rtts_ms if rtt_ms is not None), default=NEAR_MS)
    return stays_on_host(address, family, shortest_ms)


def _rtts_ms(results: HandshakeResults, row: int, numbers: Sequence[int]) -> tuple[float | None, ...]:
    rtts_ms = results.rtt_ms[row, numbers].round(6).tolist()
    return tuple(None if math.isnan(rtt_ms) else rtt_ms for rtt_ms in rtts_ms)


def _together(errors: Sequence[IcmpError], lost: int) -> tuple[IcmpError, ...]:
    return tuple(
        msgspec.structs.replace(error, count=min(count, lost)) for error, count in Counter(errors).items() if lost
    )


def _notes(spec: TcpPingSpec, sent: int, refused: int, resets: int, *, is_local: bool) -> str | None:
    notes = [LOCAL_NOTE] if is_local else []
    notes += unsent_note(spec.count, sent, refused, "handshakes were not begun")
    if resets:
        notes.append(f"{resets} answered by RST (port {spec.port} is closed), timed by this program's clock")
    return "; ".join(notes) or None


def _time(unix_ns: int) -> datetime:
    return EPOCH + timedelta(microseconds=unix_ns // 1000)


def _unmeasured(
    target: TcpPingTarget, spec: TcpPingSpec, now: datetime, error: ProbeError, address: str | None = None
) -> Burst:
    return Burst(
        target=target.address,
        address=address,
        family=target.family,
        packet_bytes=spec.packet_bytes[0],
        started_at=now,
        outcome=error.outcome,
        detail=str(error),
    )

"""Measures the capacity of a path: single echo requests, then trains."""

from __future__ import annotations

from datetime import UTC, datetime

from probes.capacity.echo_trains import LONGEST_PAUSE, PACKETS, TRAINS, send_trains
from probes.capacity.estimate import Estimate, estimate
from probes.capacity.spec import CapacityRun, CapacitySpec, CapacityVerdict, not_measured
from probes.capacity.trains import EchoTrain
from probes.contract import Deadline, Outcome, ProbeError
from probes.packets.addresses import SocketAddress, path_mtu_bytes
from probes.packets.burst import IcmpProbe
from probes.packets.burst import measure as ping
from probes.packets.icmp.channel import Channel
from probes.packets.icmp.icmp_errors import HEADER_BYTES
from probes.packets.resolve import RESOLVE_S, resolve
from probes.packets.spec import Burst, PingSpec, PingTarget

SINGLES = 4
SINGLE_SPACING_S = 0.25
SINGLE_TIMEOUT_S = 2.0
MTU_ROUNDS = 2
MAX_PACKETS = MTU_ROUNDS * SINGLES + PACKETS

# Ten packets take this long at 250 kbit/s; twice the maximum RTT of the single requests is added.
TRAIN_TIMEOUT_S = 0.5

# With an RTT of 800 ms, and a packet lost.
LONGEST_TRAIN_S = 2.5

MIN_SPACING_S = 0.01
LARGEST_IP_BYTES = 1500
MIN_PACKET_BYTES = 200


class CapacityProbe:
    """Measures capacity (`probes.contract.Probe`)."""

    def can_run(self, spec: CapacitySpec) -> list[str]:
        singles = PingSpec(targets=(PingTarget(address=spec.address, family=spec.family),))
        return [*problems(spec), *IcmpProbe().can_run(singles)]

    def run(self, spec: CapacitySpec, deadline: Deadline) -> CapacityRun:
        return measure(spec, deadline)


def problems(spec: CapacitySpec) -> list[str]:
    """Values out of range, each with the valid range."""
    reasons = []
    most = LARGEST_IP_BYTES - HEADER_BYTES[spec.family]
    if spec.packet_bytes is not None and not MIN_PACKET_BYTES <= spec.packet_bytes <= most:
        reasons.append(
            f"packet_bytes {spec.packet_bytes}: must be from {MIN_PACKET_BYTES} to {most} over IPv{spec.family}"
        )
    if not MIN_SPACING_S <= spec.spacing_s <= 60:
        reasons.append(f"spacing_s {spec.spacing_s}: must be from {MIN_SPACING_S} to 60; we are guests at the far end")
    return reasons


def longest_s(spec: CapacitySpec) -> float:
    """Maximum duration, with high RTTs and lossy trains."""
    singles_s = MTU_ROUNDS * (SINGLES * max(SINGLE_SPACING_S, spec.spacing_s) + SINGLE_TIMEOUT_S)
    return RESOLVE_S + singles_s + PACKETS * spec.spacing_s * LONGEST_PAUSE + TRAINS * LONGEST_TRAIN_S


def measure(spec: CapacitySpec, deadline: Deadline) -> CapacityRun:
    """Estimate the capacity of the path, in about 14 s by default.

    Raises ProbeError only for an invalid spec; other failures are outcomes.
    """
    wrong = problems(spec)
    if wrong:
        raise ProbeError("; ".join(wrong), permanent=True)
    started_at = datetime.now(UTC)
    try:
        return _measured(spec, started_at, deadline)
    except ProbeError as error:
        return not_measured(spec, started_at, error.outcome, str(error))


def _measured(spec: CapacitySpec, started_at: datetime, deadline: Deadline) -> CapacityRun:
    answer = resolve([(spec.address, spec.family)], deadline)[spec.address, spec.family]
    if isinstance(answer, ProbeError):
        raise answer
    singles = _singles(spec, answer, deadline)
    last = singles[-1]
    if last.outcome is not Outcome.MEASURED:
        raise ProbeError(last.detail or "no echo request could be sent", outcome=last.outcome)
    trains = _trains(spec, answer, last, deadline) if last.received else []
    estimated = estimate(trains) if trains else _no_reply(last)
    return CapacityRun(
        target=spec.address,
        address=_text(answer),
        family=spec.family,
        started_at=started_at,
        outcome=Outcome.MEASURED,
        verdict=estimated.verdict,
        capacity_bps=estimated.capacity_bps,
        capacity_low_bps=estimated.low_bps,
        capacity_high_bps=estimated.high_bps,
        packet_bytes=last.packet_bytes,
        sent=sum(burst.sent for burst in singles) + sum(len(train) for train in trains),
        received=sum(burst.received for burst in singles) + sum(int(train.answered.sum()) for train in trains),
        method=estimated.method,
        detail=estimated.detail,
    )


def _no_reply(singles: Burst) -> Estimate:
    detail = f"none of {singles.sent} echo requests of {singles.packet_bytes} bytes was answered"
    return Estimate(CapacityVerdict.NO_REPLY, detail if singles.detail is None else f"{detail}; {singles.detail}")


def _singles(spec: CapacitySpec, address: SocketAddress, deadline: Deadline) -> list[Burst]:
    """Ping at the trains' packet size, smaller if a router reports its MTU."""
    bursts: list[Burst] = []
    target = PingTarget(address=_text(address), family=spec.family, source=spec.source)
    for _ in range(MTU_ROUNDS):
        packet_bytes = _packet_bytes(spec, address)
        if bursts and packet_bytes >= bursts[-1].packet_bytes:
            break
        request = PingSpec(
            targets=(target,),
            packet_bytes=(packet_bytes,),
            count=SINGLES,
            spacing_s=max(SINGLE_SPACING_S, spec.spacing_s),
            timeout_s=SINGLE_TIMEOUT_S,
            late_s=0.0,
            priming_bytes=None,
            check_rate_limit=False,
        )
        bursts += ping(request, deadline)
    return bursts


def _packet_bytes(spec: CapacitySpec, address: SocketAddress) -> int:
    mtu_bytes = path_mtu_bytes(address, spec.family)
    # Without a route, the ping that follows fails with the right outcome.
    ip_bytes = LARGEST_IP_BYTES if mtu_bytes is None else min(LARGEST_IP_BYTES, mtu_bytes)
    fitting_bytes = ip_bytes - HEADER_BYTES[spec.family]
    return fitting_bytes if spec.packet_bytes is None else min(spec.packet_bytes, fitting_bytes)


def _text(address: SocketAddress) -> str:
    return f"{address[0]}%{address[3]}" if len(address) == 4 and address[3] else address[0]


def _trains(spec: CapacitySpec, address: SocketAddress, singles: Burst, deadline: Deadline) -> list[EchoTrain]:
    longest_ms = max(rtt_ms for rtt_ms in singles.rtts_ms if rtt_ms is not None)
    channel = Channel(spec.family, spec.source)
    try:
        return send_trains(
            channel,
            address,
            singles.packet_bytes,
            spacing_s=spec.spacing_s,
            timeout_s=TRAIN_TIMEOUT_S + 2 * longest_ms / 1000,
            deadline=deadline,
        )
    finally:
        channel.close()

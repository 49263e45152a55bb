"""Traces all targets together.

Targets with the same address share the probes.
"""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from probes.contract import Deadline, NoRoute, Outcome, ProbeError
from probes.packets.addresses import SocketAddress
from probes.packets.cycle import REFUSED_AS
from probes.packets.icmp import kernel
from probes.packets.icmp.channel import Channel
from probes.packets.resolve import Name, Resolution, resolve
from probes.packets.udp import UdpChannel
from probes.trace.ending import not_reached_text
from probes.trace.engine.session import TraceSession, run_sessions
from probes.trace.flow_effect import effect_of
from probes.trace.memory import RouteMemory
from probes.trace.round import TraceRound
from probes.trace.search import EarlierRoute
from probes.trace.spec import MOST_ATTEMPTS, MOST_HOPS, TraceRun, TraceSpec, TraceTarget

MOST_FLOWS = 64
PROGRESS_S = 0.2

Progress = Callable[[tuple[TraceRun, ...]], None]


def problems(spec: TraceSpec) -> list[str]:
    """Values out of range, each with the valid range."""
    bounds = {
        "max_hops": (spec.max_hops, 1, MOST_HOPS),
        "attempts": (spec.attempts, 1, MOST_ATTEMPTS),
        "flows": (spec.flows, 1, MOST_FLOWS),
        "timeout_s": (spec.timeout_s, 0.1, 60),
        "router_spacing_s": (spec.router_spacing_s, 0.1, 60),
        "max_packets_per_s": (spec.max_packets_per_s, 0.1, 10_000),
    }
    return [
        f"{name} {value}: must be from {low} to {high}"
        for name, (value, low, high) in bounds.items()
        if not low <= value <= high
    ]


@dataclass(frozen=True, slots=True)
class _SharedSocket:
    """The targets that share a socket."""

    family: int
    source: str | None
    addresses: tuple[SocketAddress, ...]
    rows: tuple[tuple[int, ...], ...]  # targets of each distinct address
    round: TraceRound
    session: TraceSession


class Traces:
    """Sockets and sessions of a round; a context manager."""

    def __init__(self, spec: TraceSpec, answers: Mapping[Name, Resolution], memory: RouteMemory, now: datetime) -> None:
        self._spec = spec
        self._channel: type[Channel] = _channel(spec)
        self._memory = memory
        self._now = now
        self._addresses: dict[int, SocketAddress] = {}
        self._failed: dict[int, ProbeError] = {}
        self._sockets: list[_SharedSocket] = []
        together: dict[tuple[int, str | None], dict[SocketAddress, list[int]]] = defaultdict(lambda: defaultdict(list))
        for index, target in enumerate(spec.targets):
            answer = answers[target.address, target.family]
            if isinstance(answer, ProbeError):
                self._failed[index] = answer
            else:
                self._addresses[index] = answer
                together[target.family, target.source][answer].append(index)
        try:
            for (family, source), sharing in together.items():
                self._open(family, source, sharing)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Traces:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        for shared in self._sockets:
            shared.session.channel.close()

    def run(self, deadline: Deadline, progress: Progress | None = None) -> None:
        """Trace all targets; `progress` gets the hops so far."""
        sessions = [shared.session for shared in self._sockets]
        run_sessions(sessions, deadline, None if progress is None else self._teller(progress))
        self._memory.note_sent(self.packets)
        for shared in self._sockets:
            self._memory.learn(
                {
                    (self._spec.protocol, shared.family, shared.source, address): EarlierRoute(
                        tuple(hop.address for hop in shared.round.hops(rank)),
                        shared.round.searches[rank].reached_at is not None,
                    )
                    for rank, address in enumerate(shared.addresses)
                }
            )

    def _teller(self, progress: Progress) -> Callable[[], None]:
        told_s = time.monotonic()

        def tell() -> None:
            nonlocal told_s
            if time.monotonic() >= told_s + PROGRESS_S:
                told_s = time.monotonic()
                progress(self.runs())

        return tell

    @property
    def packets(self) -> int:
        return sum(shared.round.packets for shared in self._sockets)

    def runs(self) -> tuple[TraceRun, ...]:
        runs: dict[int, TraceRun] = {index: self._unmeasured(index, error) for index, error in self._failed.items()}
        for shared in self._sockets:
            for rank, members in enumerate(shared.rows):
                for index in members:
                    runs[index] = self._run_of(index, shared, rank)
        return tuple(runs[index] for index in range(len(self._spec.targets)))

    def _open(self, family: int, source: str | None, sharing: Mapping[SocketAddress, list[int]]) -> None:
        try:
            channel = self._channel(family, source)
        except ProbeError as error:
            self._failed.update((index, error) for members in sharing.values() for index in members)
            return
        addresses = tuple(sharing)
        expected = [self._memory.route((self._spec.protocol, family, source, address)) for address in addresses]
        round_ = TraceRound(
            self._spec,
            expected,
            self._memory.free_at_s,
            time.monotonic(),
            can_tell_distance=self._spec.protocol == "icmp",
        )
        session = TraceSession(channel, addresses, round_, self._spec)
        rows = tuple(tuple(members) for members in sharing.values())
        self._sockets.append(_SharedSocket(family, source, addresses, rows, round_, session))

    def _run_of(self, index: int, shared: _SharedSocket, rank: int) -> TraceRun:
        target, session = self._spec.targets[index], shared.session
        if rank in session.refused and rank not in session.replied:
            code = session.refused[rank]
            return self._unmeasured(index, REFUSED_AS.get(code, ProbeError)(os.strerror(code)))
        search, hops = shared.round.searches[rank], shared.round.hops(rank)
        return TraceRun(
            target=target.address,
            address=self._addresses[index][0],
            family=target.family,
            started_at=self._now,
            outcome=Outcome.MEASURED,
            protocol=self._spec.protocol,
            flow=session.flow(rank),
            reached=search.reached_at is not None,
            hops=hops,
            detail=not_reached_text(hops, search.lost_beyond) if search.end is None and shared.round.is_over else None,
            flow_effect=effect_of(search.flow_rtts_ms()),
        )

    def _unmeasured(self, index: int, error: ProbeError) -> TraceRun:
        target: TraceTarget = self._spec.targets[index]
        address = self._addresses.get(index)
        return TraceRun(
            target=target.address,
            address=None if address is None else address[0],
            family=target.family,
            started_at=self._now,
            outcome=error.outcome,
            protocol=self._spec.protocol,
            detail=str(error),
        )


def _channel(spec: TraceSpec) -> type[Channel]:
    return UdpChannel if spec.protocol == "udp" else Channel


class TraceProbe:
    """Traces with kernel timestamps (`probes.contract.Probe`), and remembers routes."""

    def __init__(self) -> None:
        self.memory = RouteMemory()

    def can_run(self, spec: TraceSpec) -> list[str]:
        if sys.platform != "linux" or sys.maxsize < 2**32:
            return [*problems(spec), "trace: needs 64-bit Linux"]
        missing = kernel.missing_calls()
        if missing:
            return [*problems(spec), f"trace: {' and '.join(missing)} not available on this system or in its sandbox"]
        reasons = problems(spec)
        for family in sorted({target.family for target in spec.targets}):
            try:
                _channel(spec)(family).close()
            except NoRoute:
                continue
            except ProbeError as error:
                reasons.append(f"trace over IPv{family}: {error}")
        return reasons

    def run(self, spec: TraceSpec, deadline: Deadline, progress: Progress | None = None) -> tuple[TraceRun, ...]:
        """Trace all targets at once. Raises ProbeError only for an invalid spec."""
        wrong = problems(spec)
        if wrong:
            raise ProbeError("; ".join(wrong), permanent=True)
        now = datetime.now(UTC)
        answers = resolve([(target.address, target.family) for target in spec.targets], deadline)
        with Traces(spec, answers, self.memory, now) as traces:
            traces.run(deadline, progress)
            return traces.runs()


TRACE = TraceProbe()

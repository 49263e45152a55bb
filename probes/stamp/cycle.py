"""A STAMP cycle: assigns targets to sockets, sends, and makes `StampBurst`s of replies.

Targets with the same address, port and key share packets. Takes resolved names.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from probes.contract import Deadline, LoadedPeriods, LoadPeriods, Outcome, ProbeError
from probes.packets.addresses import SocketAddress
from probes.packets.arrays import Int64s
from probes.packets.burst_counts import BurstCounts, sent_under_load
from probes.packets.cycle import clock_source, refusal, unsent_note
from probes.packets.egress import Egress, source_addresses
from probes.packets.engine.packet_outcomes import EchoResults, SendPattern
from probes.packets.engine.session import run_sessions
from probes.packets.resolve import Name, Resolution
from probes.stamp.burst_directions import BurstDirections, closing_replies, without_dwell
from probes.stamp.clocks import own_clock
from probes.stamp.closing import CLOSING_PACKETS, LONGEST_CLOSING_SPACING_S, closing_s
from probes.stamp.engine.channel import StampChannel
from probes.stamp.engine.session import Identities, StampSession
from probes.stamp.request_format import RequestFormat
from probes.stamp.spec import StampBurst, StampSpec

MS_PER_S = 1000.0
# A host answers so if no program has the port; the path is not at fault.
NOTHING_LISTENS = "port_unreachable"


def no_reflector(port: int) -> str:
    return f"no reflector listens on UDP port {port}; start it there, or correct the port"


def stopped_reflector(port: int, answered: int) -> str:
    """Why a target with a reflector that ran partly is not measured.

    Few packets to closed ports are answered, so losses are unknown.
    """
    return (
        f"the reflector on UDP port {port} started or stopped within the cycle: {answered} packet"
        f"{' was' if answered == 1 else 's were'} answered, to others the host replied that nothing listens"
    )


@dataclass(frozen=True, slots=True)
class _SharedSocket:
    """The targets that share a socket."""

    family: int
    rows: tuple[tuple[int, ...], ...]  # targets of each distinct reflector
    addresses: tuple[SocketAddress, ...]
    sources: tuple[str | None, ...]  # our own address of packets to each
    identities: Identities
    layout: RequestFormat
    channel: StampChannel
    session: StampSession


class StampCycle:
    """Sockets and sessions of a cycle; a context manager."""

    def __init__(
        self,
        spec: StampSpec,
        answers: Mapping[Name, Resolution],
        now: datetime,
        load_periods: LoadPeriods | None = None,
    ) -> None:
        self._spec = spec
        self._now = now
        self._load_periods = load_periods
        self._clock = own_clock()
        self._bursts: dict[int, StampBurst] = {}
        self._addresses: dict[int, SocketAddress] = {}
        self._sockets: list[_SharedSocket] = []
        try:
            for (family, source, egress, is_authenticated), members in self._group_targets(answers).items():
                self._open_socket(family, source, egress, members, is_authenticated=is_authenticated)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for shared in self._sockets:
            shared.channel.close()

    def run(self, deadline: Deadline) -> tuple[StampBurst, ...]:
        """Send all packets, and closing packets where needed; return a burst for each target."""
        run_sessions([shared.session for shared in self._sockets], deadline, self._spec.timeout_s)
        results = [shared.session.results() for shared in self._sockets]
        self._tell_last_send_times(results, deadline)
        closing = self._close_bursts(results, deadline)
        for shared, echo_results, closer in zip(self._sockets, results, closing, strict=True):
            self._make_bursts(shared, echo_results, closer)
        return tuple(self._bursts[index] for index in range(len(self._spec.targets)))

    def _group_targets(
        self, answers: Mapping[Name, Resolution]
    ) -> dict[tuple[int, str | None, Egress, bool], list[int]]:
        """Group the targets; those without an address get their outcome here."""
        together: dict[tuple[int, str | None, Egress, bool], list[int]] = defaultdict(list)
        for index, target in enumerate(self._spec.targets):
            answer = answers[target.address, target.family]
            if isinstance(answer, ProbeError):
                self._mark_unmeasured(index, answer)
            else:
                self._addresses[index] = (answer[0], target.port, *answer[2:])
                together[target.family, target.source, target.leaves_by, target.key is not None].append(index)
        return together

    def _open_socket(
        self, family: int, source: str | None, egress: Egress, members: Sequence[int], *, is_authenticated: bool
    ) -> None:
        spec = self._spec
        sharing: dict[tuple[SocketAddress, str | None], list[int]] = defaultdict(list)
        for index in members:
            sharing[self._addresses[index], spec.targets[index].key].append(index)
        rows = tuple(tuple(row) for row in sharing.values())
        try:
            identities = Identities.random([None if key is None else base64.b64decode(key) for _, key in sharing])
            channel = StampChannel(family, source, egress=egress)
        except ProbeError as error:
            for index in members:
                self._mark_unmeasured(index, error)
            return
        channel.set_dscp(spec.dscp)
        addresses = tuple(address for address, _ in sharing)
        layout = RequestFormat.of_size(spec.packet_bytes, is_authenticated=is_authenticated)
        pattern = SendPattern(
            (layout.packet_bytes,), spec.count, spec.spacing_s, spec.timeout_s, spec.late_s, is_even=spec.is_even
        )
        session = self._session(channel, addresses, pattern, layout, identities)
        sources = tuple(source_addresses(family, addresses, source, egress))
        self._sockets.append(_SharedSocket(family, rows, addresses, sources, identities, layout, channel, session))

    def _session(
        self,
        channel: StampChannel,
        addresses: Sequence[SocketAddress],
        pattern: SendPattern,
        layout: RequestFormat,
        identities: Identities,
    ) -> StampSession:
        clock = self._clock
        error_s = None if clock is None or clock.error_ms is None else clock.error_ms / MS_PER_S
        return StampSession(channel, addresses, pattern, layout, identities, dscp=self._spec.dscp, error_s=error_s)

    def _tell_last_send_times(self, results: Sequence[EchoResults], deadline: Deadline) -> None:
        """Send a packet to learn the last send time of late-reporting reflectors."""
        rows_of: list[Int64s] = []
        for shared, echo_results in zip(self._sockets, results, strict=True):
            told = np.zeros(len(shared.rows), np.bool_)
            told[shared.session.follow_ups()[:, 0]] = True
            rows_of.append(np.flatnonzero(told & (echo_results.replies[:, -1] > 0)))
        sessions = self._send_closing(rows_of, 1, deadline)
        for shared, rows, session in zip(self._sockets, rows_of, sessions, strict=True):
            if session is not None:
                places, counters, sent_ns = session.follow_ups().T
                shared.session.add_follow_ups(rows[places], counters, sent_ns)

    def _close_bursts(
        self, results: Sequence[EchoResults], deadline: Deadline
    ) -> list[tuple[Int64s, StampSession] | None]:
        """Send closing packets where the last packet was unanswered; return rows and session by socket."""
        rows_of: list[Int64s] = []
        for echo_results in results:
            answered = echo_results.replies > 0
            rows_of.append(np.flatnonzero(answered.any(axis=1) & ~answered[:, -1] & echo_results.sent[:, -1]))
        sessions = self._send_closing(rows_of, CLOSING_PACKETS, deadline)
        return [None if session is None else (rows, session) for rows, session in zip(rows_of, sessions, strict=True)]

    def _send_closing(self, rows_of: Sequence[Int64s], count: int, deadline: Deadline) -> list[StampSession | None]:
        spec = self._spec
        sessions: list[StampSession | None] = []
        for shared, rows in zip(self._sockets, rows_of, strict=True):
            if not len(rows) or deadline.remaining_s < closing_s(spec):
                sessions.append(None)
                continue
            spacing_s = min(spec.spacing_s, LONGEST_CLOSING_SPACING_S)
            pattern = SendPattern((shared.layout.packet_bytes,), count, spacing_s, spec.timeout_s)
            identities = shared.identities.of(rows, later_by=spec.count)
            addresses = [shared.addresses[row] for row in rows]
            sessions.append(self._session(shared.channel, addresses, pattern, shared.layout, identities))
        run_sessions([session for session in sessions if session is not None], deadline, spec.timeout_s)
        return sessions

    def _make_bursts(
        self, shared: _SharedSocket, results: EchoResults, closing: tuple[Int64s, StampSession] | None
    ) -> None:
        figures = shared.session.figures()
        results = without_dwell(results, figures, self._spec.timeout_s)
        loads = LoadedPeriods() if self._load_periods is None else self._load_periods()
        under_load = sent_under_load(results, shared.rows, loads)
        counts = BurstCounts(results, 1, shared.family, under_load)
        closers = {} if closing is None else closing_replies(*closing)
        error_names = shared.session.error_names()
        directions = BurstDirections(
            results, figures, under_load, shared.identities.first_sequences, closers, self._clock
        )
        for row, members in enumerate(shared.rows):
            for index in members:
                self._bursts[index] = self._burst(index, row, shared, counts, directions, error_names.get(row))

    def _burst(
        self,
        index: int,
        row: int,
        shared: _SharedSocket,
        counts: BurstCounts,
        directions: BurstDirections,
        error_name: str | None,
    ) -> StampBurst:
        target, refused = self._spec.targets[index], counts.refused_errno[row][0]
        if counts.sent[row][0] == 0:
            return self._unmeasured(index, refusal(refused))
        if error_name == NOTHING_LISTENS:
            answered = int((shared.session.results().replies[row] > 0).sum())
            reason = stopped_reflector(target.port, answered) if answered else no_reflector(target.port)
            return self._unmeasured(index, ProbeError(reason, outcome=Outcome.REFUSED))
        fields = counts.fields(row, 0)
        rtts_ms = fields["rtts_ms"]
        sent = len(rtts_ms) + len(fields["loaded_rtts_ms"] or ())
        notes = shared.session.uncounted_notes().get(row, [])
        if error_name is not None and None in rtts_ms:
            notes.append(f"ICMP error: {error_name} (UDP port {target.port})")
        notes += unsent_note(self._spec.count, sent, refused, "packets were not sent")
        notes += directions.notes(row)
        if None in rtts_ms and shared.channel.dropped > 0:
            notes.append(f"receive buffer overflow on this host dropped {shared.channel.dropped} messages")
        return StampBurst(
            target=target.address,
            address=self._addresses[index][0],
            family=target.family,
            packet_bytes=self._spec.packet_bytes,
            outcome=Outcome.MEASURED,
            port=target.port,
            dscp=self._spec.dscp,
            is_path_series=target.is_path_series,
            clock_source=clock_source(),
            is_authenticated=target.key is not None and fields["received"] > 0,
            own_clock=self._clock,
            source_address=shared.sources[row],
            detail="; ".join(notes) or None,
            **fields,
            **directions.fields(row, counts.ttl(row, 0)),
        )

    def _mark_unmeasured(self, index: int, error: ProbeError) -> None:
        self._bursts[index] = self._unmeasured(index, error)

    def _unmeasured(self, index: int, error: ProbeError) -> StampBurst:
        target, address = self._spec.targets[index], self._addresses.get(index)
        return StampBurst(
            target=target.address,
            address=None if address is None else address[0],
            family=target.family,
            packet_bytes=self._spec.packet_bytes,
            started_at=self._now,
            outcome=error.outcome,
            port=target.port,
            dscp=self._spec.dscp,
            is_path_series=target.is_path_series,
            detail=str(error),
        )

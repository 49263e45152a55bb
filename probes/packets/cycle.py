"""A ping cycle: assigns targets to sockets and makes bursts of the results.

Targets with the same address share packets. Takes resolved names.
"""

from __future__ import annotations

import errno
import os
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from probes.contract import Deadline, LoadedPeriods, LoadPeriods, NoRoute, NotPermitted, Outcome, ProbeError
from probes.packets import rate_limit
from probes.packets.addresses import LOCAL_NOTE, NEAR_MS, SocketAddress, path_mtu_bytes, stays_on_host
from probes.packets.arrays import Bools
from probes.packets.burst_counts import BurstCounts, sent_under_load
from probes.packets.columns import LOST_NS, NS_PER_MS, RECORD, BurstArrays, PingResults, PlacedColumns
from probes.packets.egress import Egress, source_addresses
from probes.packets.engine.packet_outcomes import EchoResults, SendPattern
from probes.packets.engine.plain import PlainChannel
from probes.packets.engine.session import CORE_PACKETS_PER_S, PingSession, run_sessions
from probes.packets.icmp.channel import Channel
from probes.packets.resolve import Name, Resolution
from probes.packets.spec import Burst, IcmpError, PingSpec

Progress = Callable[[EchoResults], None]
CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
PLAIN_NOTE = "no kernel timestamps: RTTs include delays of this program"

REFUSED_AS = {
    errno.EHOSTUNREACH: NoRoute,
    errno.ENETUNREACH: NoRoute,
    errno.ENETDOWN: NoRoute,
    errno.EADDRNOTAVAIL: NoRoute,
    errno.EINVAL: NoRoute,
    errno.EMSGSIZE: NoRoute,
    errno.EPERM: NotPermitted,
    errno.EACCES: NotPermitted,
}
HINTS = {
    errno.EINVAL: "the route may be a blackhole",
    errno.EPERM: "blocked by a firewall rule of this host",
    errno.EACCES: "broadcast address, or route of type prohibit",
    errno.EMSGSIZE: "packet exceeds the path MTU and must not be fragmented",
}


@cache
def clock_source() -> str | None:
    try:
        return CLOCK_SOURCE.read_text().strip()
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class _SharedSocket:
    """The targets that share a socket."""

    family: int
    rows: tuple[tuple[int, ...], ...]  # targets with each distinct address
    addresses: tuple[SocketAddress, ...]
    sources: tuple[str | None, ...]  # local address of packets to each address
    channel: Channel
    session: PingSession


class PingCycle:
    """Sockets and sessions of a cycle; a context manager."""

    def __init__(
        self,
        spec: PingSpec,
        answers: Mapping[Name, Resolution],
        now: datetime,
        *,
        plain: bool = False,
        load_periods: LoadPeriods | None = None,
        progress: Progress | None = None,
    ) -> None:
        """`load_periods` is called after sending; `progress` gets the replies so far, several times a second."""
        self._spec = spec
        self._plain = plain
        self._load_periods = load_periods
        self._progress = progress
        self._now = now
        self._addresses: dict[int, SocketAddress] = {}
        self._bursts: dict[int, list[Burst]] = {}
        self._sockets: list[_SharedSocket] = []
        self._rate_limited: dict[int, bool | None] = {}
        try:
            for (family, source, egress), members in self._group_targets(answers).items():
                self._open_sockets(family, source, egress, members)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for shared in self._sockets:
            shared.channel.close()

    def run(self, deadline: Deadline) -> None:
        """Send all requests, await replies, then check for rate limiting if requested."""
        spec = self._spec
        after_step = None if self._progress is None else self._tell_progress
        run_sessions([shared.session for shared in self._sockets], deadline, spec.timeout_s, after_step)
        self._counts = [self._count(shared) for shared in self._sockets]
        if spec.check_rate_limit and not spec.is_even and rate_limit.can_detect(spec.spacing_s, spec.min_spacing_s):
            for shared, counts in zip(self._sockets, self._counts, strict=True):
                self._check_rate(shared, counts, deadline)

    def _tell_progress(self) -> None:
        if self._progress is not None:
            for shared in self._sockets:
                self._progress(shared.session.results())

    def results(self) -> PingResults:
        sizes = len(self._spec.packet_bytes)
        others = {
            index * sizes + column: burst for index, own in self._bursts.items() for column, burst in enumerate(own)
        }
        placed = []
        for shared, counts in zip(self._sockets, self._counts, strict=True):
            dropped = shared.channel.dropped
            whole = self._in_columns(shared, counts, dropped)
            placed.append(whole)
            taken = set(whole.places.tolist())
            for row, (members, flow) in enumerate(zip(shared.rows, shared.session.flows, strict=True)):
                for index in members:
                    for column in range(sizes):
                        place = index * sizes + column
                        if place not in taken:
                            others[place] = self._burst(shared, index, counts, row, column, flow, dropped)
        return PingResults(placed, others)

    def _in_columns(self, shared: _SharedSocket, counts: BurstCounts, dropped: int) -> PlacedColumns:
        plain = counts.has_only_numbers & (not self._plain)
        if dropped > 0:
            plain &= counts.arrays["received"] == counts.arrays["sent"]
        row_of = np.repeat(np.arange(len(shared.rows)), [len(members) for members in shared.rows])
        index_of = np.array([index for members in shared.rows for index in members], np.int64)
        member, size = np.nonzero(plain[row_of])
        row, index = row_of[member], index_of[member]
        indices: list[int] = index.tolist()
        targets = [self._spec.targets[place] for place in indices]
        records = np.zeros(len(indices), RECORD)
        for name, values in counts.arrays.items():
            records[name] = values[row, size]
        records["path_id"] = [target.path_id or 0 for target in targets]
        records["packet_bytes"] = np.array(self._spec.packet_bytes)[size]
        records["flow"] = np.array(shared.session.flows)[row]
        records["rate_limited"] = -1
        if self._rate_limited:
            limited = [self._rate_limited.get(place) for place in indices]
            records["rate_limited"] = [-1 if verdict is None else int(verdict) for verdict in limited]
        rtt_ms = counts.rtt_ms[row, size]
        addresses = [self._addresses[place][0] for place in indices]
        shortest_ms = np.fmin.reduce(rtt_ms, axis=1, initial=NEAR_MS).tolist()
        local = [self._is_local(place, shortest) for place, shortest in zip(indices, shortest_ms, strict=True)]
        columns = BurstArrays(
            family=4 if shared.family == 4 else 6,
            clock_source=clock_source(),
            records=records,
            rtts_ns=np.where(np.isnan(rtt_ms), LOST_NS, np.rint(np.nan_to_num(rtt_ms) * NS_PER_MS))
            .astype(np.int64)
            .ravel(),
            targets=[target.address for target in targets],
            addresses=addresses,
            source_addresses=[shared.sources[place] for place in row.tolist()],
            details=[LOCAL_NOTE if is_local else None for is_local in local] if any(local) else (),
        )
        return PlacedColumns(columns, index * len(self._spec.packet_bytes) + size)

    def _group_targets(self, answers: Mapping[Name, Resolution]) -> dict[tuple[int, str | None, Egress], list[int]]:
        """Group the targets; those without an address get their outcome here."""
        together: dict[tuple[int, str | None, Egress], list[int]] = defaultdict(list)
        for index, target in enumerate(self._spec.targets):
            answer = answers[target.address, target.family]
            if isinstance(answer, ProbeError):
                self._mark_unmeasured(index, answer)
            else:
                self._addresses[index] = answer
                together[target.family, target.source, target.leaves_by].append(index)
        return together

    def _open_sockets(self, family: int, source: str | None, egress: Egress, members: Sequence[int]) -> None:
        sharing: dict[SocketAddress, list[int]] = defaultdict(list)
        for index in members:
            sharing[self._addresses[index]].append(index)
        distinct = list(sharing)
        socket_count = min(os.cpu_count() or 1, ceil(len(distinct) / self._spec.spacing_s / CORE_PACKETS_PER_S))
        open_channel = PlainChannel if self._plain else Channel
        for number in range(socket_count):
            addresses = tuple(distinct[number::socket_count])
            rows = tuple(tuple(sharing[address]) for address in addresses)
            try:
                channel = open_channel(family, source, dont_fragment=self._spec.dont_fragment, egress=egress)
            except ProbeError as error:
                for index in (index for row in rows for index in row):
                    self._mark_unmeasured(index, error)
                continue
            session = PingSession(channel, addresses, self._pattern())
            sources = source_addresses(family, addresses, source, egress)
            self._sockets.append(_SharedSocket(family, rows, addresses, tuple(sources), channel, session))

    def _pattern(self) -> SendPattern:
        spec = self._spec
        return SendPattern(
            spec.packet_bytes,
            spec.count,
            spec.spacing_s,
            spec.timeout_s,
            spec.late_s,
            spec.priming_bytes,
            spec.is_even,
        )

    def _count(self, shared: _SharedSocket) -> BurstCounts:
        results = shared.session.results()
        under_load = self._under_load(results, shared.rows)
        return BurstCounts(results, len(self._spec.packet_bytes), shared.family, under_load)

    def _under_load(self, results: EchoResults, rows: Sequence[Sequence[int]]) -> Bools:
        loads = LoadedPeriods() if self._load_periods is None else self._load_periods()
        return sent_under_load(results, rows, loads)

    def _check_rate(self, shared: _SharedSocket, counts: BurstCounts, deadline: Deadline) -> None:
        """Detect targets with a loss that grows with our rate, among partial losses."""
        spec = self._spec
        suspects = [row for row in range(len(shared.rows)) if 0 < sum(counts.received[row]) < sum(counts.sent[row])]
        longest_s = rate_limit.longest_s(spec.spacing_s, spec.timeout_s, spec.min_spacing_s)
        if not suspects or deadline.remaining_s < longest_s:
            return
        most = rate_limit.max_targets(len(shared.rows), spec.spacing_s, spec.min_spacing_s)
        suspects = sorted(random.sample(suspects, min(most, len(suspects))))
        slow = {row: rate_limit.Answered(sum(counts.sent[row]), sum(counts.received[row])) for row in suspects}
        spacings_s = {
            row: slower_s
            for row in suspects
            if (slower_s := rate_limit.slower_spacing_s(slow[row], spec.spacing_s, spec.min_spacing_s)) is not None
        }
        slower: dict[int, rate_limit.Answered] | None = {}
        if spacings_s:
            slower_s = max(spacings_s.values())
            slower = self._extra_round(shared, list(spacings_s), rate_limit.SLOWER_REQUESTS, slower_s, deadline)
        faster_s = rate_limit.faster_spacing_s(spec.spacing_s, spec.min_spacing_s)
        rounds = [
            self._extra_round(shared, suspects, rate_limit.REQUESTS, faster_s, deadline)
            for _ in range(rate_limit.ROUNDS)
        ]
        fast = [answered for answered in rounds if answered is not None]
        if slower is None or len(fast) < len(rounds):
            # The load would lose packets too, and look like a rate limit.
            return
        for row in suspects:
            of_row = [answered[row] for answered in fast]
            verdict = rate_limit.is_limited(slow[row], of_row, slower.get(row), spec.spacing_s, spec.min_spacing_s)
            self._rate_limited.update(dict.fromkeys(shared.rows[row], verdict))

    def _extra_round(
        self, shared: _SharedSocket, rows: Sequence[int], requests: int, spacing_s: float, deadline: Deadline
    ) -> dict[int, rate_limit.Answered] | None:
        """Send more requests to some rows; None if our tests loaded any path."""
        spec = self._spec
        pattern = SendPattern((min(spec.packet_bytes),), requests, spacing_s, spec.timeout_s)
        session = PingSession(shared.channel, [shared.addresses[row] for row in rows], pattern)
        run_sessions([session], deadline, spec.timeout_s)
        results = session.results()
        if self._under_load(results, [shared.rows[row] for row in rows]).any():
            return None
        counts = BurstCounts(results, 1, shared.family)
        return {
            row: rate_limit.Answered(counts.sent[place][0], counts.received[place][0]) for place, row in enumerate(rows)
        }

    def _burst(
        self, shared: _SharedSocket, index: int, counts: BurstCounts, row: int, column: int, flow: int, dropped: int
    ) -> Burst:
        target, size = self._spec.targets[index], self._spec.packet_bytes[column]
        refused = counts.refused_errno[row][column]
        errors = counts.errors(row, column)
        if counts.sent[row][column] == 0:
            return self._unmeasured(index, size, refusal(refused), self._path_mtu_bytes(index, refused, errors))
        fields = counts.fields(row, column)
        if self._plain:
            fields["stamps_lost"] = 0
        return Burst(
            target=target.address,
            address=self._addresses[index][0],
            family=target.family,
            packet_bytes=size,
            outcome=Outcome.MEASURED,
            ttl=counts.ttl(row, column),
            ttl_changes=counts.ttl_changes[row][column],
            clock_source=clock_source(),
            errors=errors,
            path_mtu_bytes=self._path_mtu_bytes(index, refused, errors),
            rate_limited=self._rate_limited.get(index),
            flow=flow,
            source_address=shared.sources[row],
            detail=self._notes(index, fields, refused, dropped),
            **fields,
        )

    def _path_mtu_bytes(self, index: int, refused: int, errors: tuple[IcmpError, ...]) -> int | None:
        mtus_bytes = [error.mtu_bytes for error in errors if error.mtu_bytes is not None]
        if mtus_bytes:
            return min(mtus_bytes)
        # The socket option has this number on Linux only.
        if refused != errno.EMSGSIZE or self._plain:
            return None
        return path_mtu_bytes(self._addresses[index], self._spec.targets[index].family)

    def _notes(self, index: int, fields: Mapping[str, Any], refused: int, dropped: int) -> str | None:
        rtts_ms = fields["rtts_ms"]
        sent = len(rtts_ms) + len(fields["loaded_rtts_ms"] or ())
        shortest_ms = min((rtt for rtt in rtts_ms if rtt is not None), default=NEAR_MS)
        notes = [LOCAL_NOTE] if self._is_local(index, shortest_ms) else []
        notes += unsent_note(self._spec.count, sent, refused, "requests were not sent")
        if None in rtts_ms and dropped > 0:
            notes.append(f"receive buffer overflow on this host dropped {dropped} messages; some loss may be local")
        if self._plain and rtts_ms.count(None) < len(rtts_ms):
            notes.append(PLAIN_NOTE)
        return "; ".join(notes) or None

    def _is_local(self, index: int, shortest_ms: float) -> bool:
        nearest_ms = 0.0 if self._plain else shortest_ms  # without kernel timestamps RTTs do not tell
        return stays_on_host(self._addresses[index], self._spec.targets[index].family, nearest_ms)

    def _mark_unmeasured(self, index: int, error: ProbeError) -> None:
        self._bursts[index] = [self._unmeasured(index, size, error) for size in self._spec.packet_bytes]

    def _unmeasured(self, index: int, size: int, error: ProbeError, mtu_bytes: int | None = None) -> Burst:
        target = self._spec.targets[index]
        address = self._addresses.get(index)
        return Burst(
            target=target.address,
            address=None if address is None else address[0],
            family=target.family,
            packet_bytes=size,
            started_at=self._now,
            outcome=error.outcome,
            path_mtu_bytes=mtu_bytes,
            detail=str(error) if mtu_bytes is None else f"{error}; path MTU {mtu_bytes} bytes",
        )


def unsent_note(planned: int, sent: int, refused: int, unsent: str) -> list[str]:
    """Note why requests were not sent; `refused` is the first's errno."""
    if sent == planned:
        return []
    why = str(refusal(refused)) if refused else "deadline reached"
    return [f"{planned - sent} of {planned} {unsent}: {why}"]


def refusal(code: int) -> ProbeError:
    """Convert a refused request's errno; 0 means never handed to the kernel."""
    if code == 0:
        return ProbeError("deadline reached before the first request", outcome=Outcome.MISSED)
    hint = f" ({HINTS[code]})" if code in HINTS else ""
    return REFUSED_AS.get(code, ProbeError)(f"{os.strerror(code)}{hint}")

"""One cycle of pings: which targets share a socket, and what became of each of them.

Targets of one family and local address share a socket; so many that one core could not serve them are spread over
several, each with a thread of its own. Targets with the same address share the packets: to whoever answers, they are
one. Takes resolved names, gives bursts in the order of the targets and, for each, of the sizes.
"""

from __future__ import annotations

import errno
import os
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from math import ceil
from pathlib import Path
from types import TracebackType

from probes.contract import Deadline, NoRoute, NotPermitted, Outcome, ProbeError
from probes.ping import rate_limit
from probes.ping.addresses import SocketAddress, is_own, path_mtu_bytes
from probes.ping.burst_counts import BurstCounts
from probes.ping.channel import Channel
from probes.ping.engine import CORE_PACKETS_PER_S, PingSession, run_sessions
from probes.ping.packet_table import SendPattern
from probes.ping.plain import PlainChannel
from probes.ping.resolve import Name, Resolution
from probes.ping.spec import Burst, IcmpError, PingSpec

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
NEAR_MS = 0.1
"""Round trips of our own addresses are shorter than this by the kernel's stamps; only those are looked at."""
PLAIN_NOTE = "timed by this program's own clock, so round trips contain its own delays"

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
    errno.EPERM: "a firewall rule of this host forbids it",
    errno.EACCES: "a broadcast address, or a route marked prohibit",
    errno.EMSGSIZE: "the packet is larger than the path takes, and may not be cut",
}


@cache
def clock_source() -> str | None:
    """What this host's kernel keeps time by, as it names it."""
    try:
        return CLOCK_SOURCE.read_text().strip()
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class _SharedSocket:
    """The targets that share a socket: `rows` has, for each distinct address, the targets that have it."""

    family: int
    rows: tuple[tuple[int, ...], ...]
    addresses: tuple[SocketAddress, ...]
    channel: Channel
    session: PingSession


class Cycle:
    """The targets of one cycle on their way. A context that closes the sockets."""

    def __init__(
        self, spec: PingSpec, answers: Mapping[Name, Resolution], now: datetime, *, plain: bool = False
    ) -> None:
        """`plain`: with sockets of any system, in place of the batches and stamps of Linux."""
        self._spec = spec
        self._plain = plain
        self._now = now
        self._addresses: dict[int, SocketAddress] = {}
        self._bursts: dict[int, list[Burst]] = {}
        self._sockets: list[_SharedSocket] = []
        self._rate_limited: dict[int, bool] = {}
        try:
            for (family, source), members in self._together(answers).items():
                self._join(family, source, members)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Cycle:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the sockets."""
        for shared in self._sockets:
            shared.channel.close()

    def run(self, deadline: Deadline) -> None:
        """Send everything and wait for the replies; then, where that is asked for, check what was lost."""
        spec = self._spec
        run_sessions([shared.session for shared in self._sockets], deadline, spec.timeout_s)
        self._counts = [
            BurstCounts(shared.session.results(), len(spec.packet_bytes), shared.family) for shared in self._sockets
        ]
        if spec.check_rate_limit and rate_limit.can_detect(spec.spacing_s, spec.min_spacing_s):
            for shared, counts in zip(self._sockets, self._counts, strict=True):
                self._check_rate(shared, counts, deadline)

    def bursts(self) -> tuple[Burst, ...]:
        """All bursts, in the order of the targets and, for each, of the sizes."""
        for shared, counts in zip(self._sockets, self._counts, strict=True):
            dropped = shared.channel.dropped
            for row, members in enumerate(shared.rows):
                for index in members:
                    self._bursts[index] = list(self._flown(index, counts, row, dropped))
        return tuple(burst for index in range(len(self._spec.targets)) for burst in self._bursts[index])

    def _together(self, answers: Mapping[Name, Resolution]) -> dict[tuple[int, str | None], list[int]]:
        """The targets that have an address, by family and local address; the others are given up."""
        together: dict[tuple[int, str | None], list[int]] = defaultdict(list)
        for index, target in enumerate(self._spec.targets):
            answer = answers[target.address, target.family]
            if isinstance(answer, ProbeError):
                self._give_up(index, answer)
            else:
                self._addresses[index] = answer
                together[target.family, target.source].append(index)
        return together

    def _join(self, family: int, source: str | None, members: Sequence[int]) -> None:
        """Open as many sockets as these targets need."""
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
                channel = open_channel(family, source, dont_fragment=self._spec.dont_fragment)
            except ProbeError as error:
                for index in (index for row in rows for index in row):
                    self._give_up(index, error)
                continue
            session = PingSession(channel, addresses, self._pattern())
            self._sockets.append(_SharedSocket(family, rows, addresses, channel, session))

    def _pattern(self) -> SendPattern:
        spec = self._spec
        return SendPattern(
            spec.packet_bytes, spec.count, spec.spacing_s, spec.timeout_s, spec.late_s, spec.priming_bytes
        )

    def _check_rate(self, shared: _SharedSocket, counts: BurstCounts, deadline: Deadline) -> None:
        """Find out of which targets the loss grows with our rate. Those that lost all or nothing cannot tell."""
        spec = self._spec
        suspects = [row for row in range(len(shared.rows)) if 0 < sum(counts.received[row]) < sum(counts.sent[row])]
        longest_s = rate_limit.longest_s(spec.spacing_s, spec.timeout_s, spec.min_spacing_s)
        if not suspects or deadline.remaining_s < longest_s:
            return
        most = rate_limit.max_targets(len(shared.rows), spec.spacing_s, spec.min_spacing_s)
        suspects = sorted(random.sample(suspects, min(most, len(suspects))))
        limited = dict.fromkeys(suspects, True)
        spacing_s = rate_limit.faster_spacing_s(spec.spacing_s, spec.min_spacing_s)
        pattern = SendPattern((min(spec.packet_bytes),), rate_limit.REQUESTS, spacing_s, spec.timeout_s)
        for _ in range(rate_limit.ROUNDS):
            session = PingSession(shared.channel, [shared.addresses[row] for row in suspects], pattern)
            run_sessions([session], deadline, spec.timeout_s)
            faster = BurstCounts(session.results(), 1, shared.family)
            for place, row in enumerate(suspects):
                sent, received = faster.sent[place][0], faster.received[place][0]
                slow_sent, slow_received = sum(counts.sent[row]), sum(counts.received[row])
                limited[row] &= rate_limit.loses_more(slow_sent, slow_sent - slow_received, sent, sent - received)
        for row, verdict in limited.items():
            self._rate_limited.update(dict.fromkeys(shared.rows[row], verdict))

    def _flown(self, index: int, counts: BurstCounts, row: int, dropped: int) -> Iterator[Burst]:
        target = self._spec.targets[index]
        for column, size in enumerate(self._spec.packet_bytes):
            sent, received = counts.sent[row][column], counts.received[row][column]
            refused = counts.refused_errno[row][column]
            errors = counts.errors(row, column)
            if sent == 0:
                yield self._unmeasured(index, size, _refusal(refused), self._path_mtu_bytes(index, refused, errors))
                continue
            rtts_ms = counts.rtts_ms(row, column)
            yield Burst(
                target=target.address,
                address=self._addresses[index][0],
                family=target.family,
                packet_bytes=size,
                started_at=EPOCH + timedelta(microseconds=counts.started_at_ns[row][column] // 1000),
                outcome=Outcome.MEASURED,
                sent=sent,
                received=received,
                late=counts.late[row][column],
                duplicates=counts.duplicates[row][column],
                reordered=counts.reordered[row][column],
                rtts_ms=rtts_ms,
                ttl=counts.ttl(row, column),
                ttl_changes=counts.ttl_changes[row][column],
                stamp=counts.stamp(row, column),
                stamps_lost=0 if self._plain else counts.stamps_lost[row][column],
                clock_source=clock_source(),
                waited=counts.waited[row][column],
                errors=errors,
                path_mtu_bytes=self._path_mtu_bytes(index, refused, errors),
                rate_limited=self._rate_limited.get(index),
                detail=self._reservation(index, sent, rtts_ms, refused, dropped),
            )

    def _path_mtu_bytes(self, index: int, refused: int, errors: tuple[IcmpError, ...]) -> int | None:
        """The largest packet for the path, where one did not fit."""
        told = [error.mtu_bytes for error in errors if error.mtu_bytes is not None]
        if told:
            return min(told)
        # Only Linux is asked by the numbers that Linux has for the question.
        if refused != errno.EMSGSIZE or self._plain:
            return None
        return path_mtu_bytes(self._addresses[index], self._spec.targets[index].family)

    def _reservation(
        self, index: int, sent: int, rtts_ms: tuple[float | None, ...], refused: int, dropped: int
    ) -> str | None:
        """What a reader of the numbers should know."""
        notes = []
        if self._never_left(index, rtts_ms):
            notes.append("this host's own address: the packets never left it")
        if sent < self._spec.count:
            why = str(_refusal(refused)) if refused else "the deadline came first"
            notes.append(f"{self._spec.count - sent} of {self._spec.count} requests were not sent: {why}")
        if None in rtts_ms and dropped > 0:
            notes.append(
                f"this host's receive buffer overflowed by {dropped} messages; some of the loss may be its own"
            )
        if self._plain and rtts_ms.count(None) < sent:
            notes.append(PLAIN_NOTE)
        return "; ".join(notes) or None

    def _never_left(self, index: int, rtts_ms: tuple[float | None, ...]) -> bool:
        address = self._addresses[index]
        if address[0].startswith("127."):
            return True
        shortest_ms = min((rtt for rtt in rtts_ms if rtt is not None), default=NEAR_MS)
        return (self._plain or shortest_ms < NEAR_MS) and is_own(address, self._spec.targets[index].family)

    def _give_up(self, index: int, error: ProbeError) -> None:
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
            detail=str(error) if mtu_bytes is None else f"{error}; the path takes IP packets of {mtu_bytes} bytes",
        )


def _refusal(code: int) -> ProbeError:
    """What the kernel's answer to a request that it did not take means; 0 is no answer, for it was not asked."""
    if code == 0:
        return ProbeError("the deadline came before the first request", outcome=Outcome.MISSED)
    hint = f" ({HINTS[code]})" if code in HINTS else ""
    return REFUSED_AS.get(code, ProbeError)(f"{os.strerror(code)}{hint}")

"""PingER bursts: a `PingSpec` goes in, one `Burst` for each target and packet size comes out, each with one outcome.

A name that does not resolve, a missing privilege, no route and total loss are four different answers. A request that
this host's kernel would not take was not sent, and counts neither as sent nor as lost: a burst of which none was sent
has the outcome of the first refusal; one of which some were sent is `measured`, and `detail` says what is missing.
"""

from __future__ import annotations

import errno
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from probes.contract import Deadline, NoRoute, NotPermitted, Outcome, ProbeError
from probes.ping.channel import Channel
from probes.ping.echo import MAX_PACKET_BYTES, MIN_PACKET_BYTES
from probes.ping.engine import Flight, fly
from probes.ping.records import Echoes, Train
from probes.ping.resolve import Resolved, resolve
from probes.ping.sender import SocketAddress
from probes.ping.spec import Burst, PingSpec

MIN_SPACING_S = 0.01
MAX_COUNT = 10_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

REFUSED_AS = {
    errno.EHOSTUNREACH: NoRoute,
    errno.ENETUNREACH: NoRoute,
    errno.ENETDOWN: NoRoute,
    errno.EADDRNOTAVAIL: NoRoute,
    errno.EINVAL: NoRoute,
    errno.EPERM: NotPermitted,
    errno.EACCES: NotPermitted,
}
HINTS = {
    errno.EINVAL: "the route may be a blackhole",
    errno.EPERM: "a firewall rule of this host forbids it",
    errno.EACCES: "a broadcast address, or a route marked prohibit",
    errno.EMSGSIZE: "the packet is larger than the path takes",
}


def problems(spec: PingSpec) -> list[str]:
    """What is wrong with the numbers of a spec; empty if nothing is."""
    found = [
        f"packet_bytes {size}: must be from {MIN_PACKET_BYTES} to {MAX_PACKET_BYTES}"
        for size in spec.packet_bytes
        if not MIN_PACKET_BYTES <= size <= MAX_PACKET_BYTES
    ]
    if not spec.packet_bytes:
        found.append("packet_bytes: give at least one size")
    if not 1 <= spec.count <= MAX_COUNT:
        found.append(f"count {spec.count}: must be from 1 to {MAX_COUNT}")
    if not MIN_SPACING_S <= spec.spacing_s <= 3600:
        found.append(f"spacing_s {spec.spacing_s}: must be from {MIN_SPACING_S} to 3600; we are guests at the far end")
    if not 0 < spec.timeout_s <= 60:
        found.append(f"timeout_s {spec.timeout_s}: must be above 0 and at most 60")
    return found


def measure(spec: PingSpec, deadline: Deadline) -> tuple[Burst, ...]:
    """Measure all targets at once. Returns, in the order of the targets, one burst for each size in order.

    Raises ProbeError only where the spec itself is wrong. What cannot be measured is a burst with its outcome.
    """
    wrong = problems(spec)
    if wrong:
        raise ProbeError("; ".join(wrong), permanent=True)
    cycle = _Cycle(spec, datetime.now(UTC))
    answers = resolve([(target.address, target.family) for target in spec.targets], deadline)
    try:
        cycle.prepare(answers)
        fly([party.flight for party in cycle.parties], deadline, spec.timeout_s)
        return cycle.bursts()
    finally:
        cycle.close()


def summary(burst: Burst) -> dict[str, float | None]:
    """The numbers derived from a burst; None where undefined.

    `ipdv_ms` is PingER's: the interquartile range of the signed differences of the round trips of probes that were
    sent one after the other and both came back (RFC 5481, section 4.1). Quartiles by linear interpolation.
    """
    rtts_ms = np.array([np.nan if rtt is None else rtt for rtt in burst.rtts_ms], np.float64)
    received = rtts_ms[~np.isnan(rtts_ms)]
    differences = np.diff(rtts_ms)
    differences = differences[~np.isnan(differences)]
    quartiles = np.percentile(differences, (25, 75)) if len(differences) else None
    return {
        "loss_ratio": (burst.sent - burst.received) / burst.sent if burst.sent else None,
        "rtt_min_ms": float(received.min()) if len(received) else None,
        "rtt_median_ms": float(np.median(received)) if len(received) else None,
        "rtt_avg_ms": float(received.mean()) if len(received) else None,
        "rtt_max_ms": float(received.max()) if len(received) else None,
        "ipdv_ms": None if quartiles is None else float(quartiles[1] - quartiles[0]),
    }


class IcmpProbe:
    """The `ping` measurement made with ICMP echo requests (`probes.contract.Probe`)."""

    def can_run(self, spec: PingSpec) -> list[str]:
        """Reasons why not, each with its mend."""
        reasons = problems(spec)
        if sys.platform != "linux" or sys.maxsize < 2**32:
            return [*reasons, "ping: needs 64-bit Linux, whose kernel stamps packets"]
        for family in sorted({target.family for target in spec.targets}):
            try:
                Channel(family).close()
            except ProbeError as error:
                reasons.append(f"ping over IPv{family}: {error}")
        return reasons

    def run(self, spec: PingSpec, deadline: Deadline) -> tuple[Burst, ...]:
        """As `measure`."""
        return measure(spec, deadline)


@dataclass(frozen=True, slots=True)
class _Party:
    """The targets that share a socket: same family, same local address."""

    members: tuple[int, ...]
    flight: Flight


Counts = list[list[int]]
Scalar = TypeVar("Scalar", bound=np.generic)


class _Cycle:
    """One measurement of a spec: which target flies with which socket, and the bursts of all."""

    def __init__(self, spec: PingSpec, now: datetime) -> None:
        self._spec = spec
        self._now = now
        self._addresses: dict[int, SocketAddress] = {}
        self._bursts: dict[int, list[Burst]] = {}
        self._channels: list[Channel] = []
        self.parties: list[_Party] = []

    def prepare(self, answers: dict[tuple[str, int], Resolved]) -> None:
        """Open the sockets. What has no address or no socket has its bursts after this."""
        shared: dict[tuple[int, str | None], list[int]] = {}
        for index, target in enumerate(self._spec.targets):
            answer = answers[target.address, target.family]
            if isinstance(answer, ProbeError):
                self._give_up(index, answer)
            else:
                self._addresses[index] = answer
                shared.setdefault((target.family, target.source), []).append(index)
        for (family, source), members in shared.items():
            self._open(family, source, tuple(members))

    def _open(self, family: int, source: str | None, members: tuple[int, ...]) -> None:
        spec = self._spec
        try:
            channel = Channel(family, source)
        except ProbeError as error:
            for index in members:
                self._give_up(index, error)
            return
        self._channels.append(channel)
        train = Train(spec.packet_bytes, spec.count, spec.spacing_s, spec.timeout_s)
        addresses = [self._addresses[index] for index in members]
        self.parties.append(_Party(members, Flight(channel, addresses, train)))

    def close(self) -> None:
        for channel in self._channels:
            channel.close()

    def bursts(self) -> tuple[Burst, ...]:
        """All bursts, in the order of the targets and, for each, of the sizes."""
        for party in self.parties:
            tally = Tally(party.flight.echoes(), len(self._spec.packet_bytes))
            dropped = party.flight.channel.dropped
            for row, index in enumerate(party.members):
                self._bursts[index] = list(self._flown(index, tally, row, dropped))
        return tuple(burst for index in range(len(self._spec.targets)) for burst in self._bursts[index])

    def _flown(self, index: int, tally: Tally, row: int, dropped: int) -> Iterator[Burst]:
        target = self._spec.targets[index]
        for column, size in enumerate(self._spec.packet_bytes):
            sent, received = tally.sent[row][column], tally.received[row][column]
            refused = tally.refused_errno[row][column]
            if sent == 0:
                yield self._unmeasured(index, size, _refusal(refused))
                continue
            yield Burst(
                target=target.address,
                address=self._addresses[index][0],
                family=target.family,
                packet_bytes=size,
                started_at=EPOCH + timedelta(microseconds=tally.started_at_ns[row][column] // 1000),
                outcome=Outcome.MEASURED,
                sent=sent,
                received=received,
                duplicates=tally.duplicates[row][column],
                reordered=tally.reordered[row][column],
                rtts_ms=tally.rtts_ms(row, column),
                ttl=tally.ttl(row, column),
                stamp=tally.stamp(row, column),
                detail=self._reservation(sent, received, refused, dropped),
            )

    def _reservation(self, sent: int, received: int, refused: int, dropped: int) -> str | None:
        """What a reader of the numbers should know."""
        notes = []
        if sent < self._spec.count:
            why = str(_refusal(refused)) if refused else "the deadline came first"
            notes.append(f"{self._spec.count - sent} of {self._spec.count} requests were not sent: {why}")
        if received < sent and dropped > 0:
            notes.append(
                f"this host's receive buffer overflowed by {dropped} messages; some of the loss may be its own"
            )
        return "; ".join(notes) or None

    def _give_up(self, index: int, error: ProbeError) -> None:
        self._bursts[index] = [self._unmeasured(index, size, error) for size in self._spec.packet_bytes]

    def _unmeasured(self, index: int, size: int, error: ProbeError) -> Burst:
        target = self._spec.targets[index]
        address = self._addresses.get(index)
        return Burst(
            target=target.address,
            address=None if address is None else address[0],
            family=target.family,
            packet_bytes=size,
            started_at=self._now,
            outcome=error.outcome,
            detail=str(error),
        )


def _refusal(code: int) -> ProbeError:
    """What the kernel's answer to a request that it did not take means; 0 is no answer, for it was not asked."""
    if code == 0:
        return ProbeError("the deadline came before the first request", outcome=Outcome.MISSED)
    hint = f" ({HINTS[code]})" if code in HINTS else ""
    return REFUSED_AS.get(code, ProbeError)(f"{os.strerror(code)}{hint}")


class Tally:
    """The counts of all bursts of a flight, as nested lists indexed by target and size."""

    def __init__(self, echoes: Echoes, sizes: int) -> None:
        def by_size(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
            return values.reshape(len(values), sizes, -1)

        self._sent = by_size(echoes.sent)
        rtt_ms = by_size(echoes.rtt_ms)
        in_time = ~np.isnan(rtt_ms)
        self._rtts_ms: list[list[list[float]]] = np.round(rtt_ms, 6).tolist()
        self.sent: Counts = self._sent.sum(axis=2).tolist()
        self.received: Counts = in_time.sum(axis=2).tolist()
        self.duplicates: Counts = np.maximum(by_size(echoes.replies) - 1, 0).sum(axis=2).tolist()
        self.reordered: Counts = reordered(by_size(echoes.arrived_ns), in_time).tolist()
        self.started_at_ns: Counts = _first(by_size(echoes.sent_at_ns), self._sent).tolist()
        self.refused_errno: Counts = _first(by_size(echoes.refused_errno), by_size(echoes.refused_errno) != 0).tolist()
        self._hop_limit: Counts = _first(by_size(echoes.hop_limit), in_time).tolist()
        self._kernel_stamped: list[list[bool]] = np.all(by_size(echoes.kernel_stamped) | ~in_time, axis=2).tolist()

    def rtts_ms(self, row: int, column: int) -> tuple[float | None, ...]:
        """One round trip for each request sent, in the order of sending; None where lost."""
        rtts_ms = self._rtts_ms[row][column]
        if self.sent[row][column] < len(rtts_ms):
            rtts_ms = [rtt for rtt, sent in zip(rtts_ms, self._sent[row, column].tolist(), strict=True) if sent]
        return tuple(None if math.isnan(rtt) else rtt for rtt in rtts_ms)

    def ttl(self, row: int, column: int) -> int | None:
        """Hop limit left in the first request's reply that came in time."""
        hop_limit = self._hop_limit[row][column]
        return hop_limit if self.received[row][column] > 0 and hop_limit >= 0 else None

    def stamp(self, row: int, column: int) -> Literal["kernel", "user"] | None:
        """Whose stamps the round trips are made of: the kernel's only if all are."""
        if self.received[row][column] == 0:
            return None
        return "kernel" if self._kernel_stamped[row][column] else "user"


def reordered(arrived_ns: npt.NDArray[np.int64], in_time: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Replies that arrived after the reply to a later request (RFC 4737, section 3.3), counted along the last axis."""
    arrived_ns = np.where(in_time, arrived_ns, np.iinfo(np.int64).max)
    order = np.argsort(arrived_ns, axis=-1, kind="stable")
    arrived = np.take_along_axis(in_time, order, axis=-1)
    overtaken = order < np.maximum.accumulate(order, axis=-1)
    counts: npt.NDArray[np.int64] = (overtaken & arrived).sum(axis=-1)
    return counts


def _first(values: npt.NDArray[Scalar], where: npt.NDArray[np.bool_]) -> npt.NDArray[Scalar]:
    """Along the last axis, the value at the first true of `where`, or the very first where none is."""
    return np.take_along_axis(values, where.argmax(axis=-1)[..., np.newaxis], axis=-1)[..., 0]

"""Checks of a delivered result, and the reason shown to the agent and on the pages when it is refused.

The structs are those of the wire with bounds: msgspec checks types and ranges while it decodes, `__post_init__` checks
relations between fields; both raise msgspec's `ValidationError`. `reason_to_refuse` checks what depends on the mesh or
the time. No I/O here. A refusal is permanent, so temporary conditions are not reasons to refuse.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from ipaddress import ip_address
from typing import Annotated, ClassVar

from msgspec import Meta

from monitor.archive.columns import LARGEST_BIGINT, LARGEST_INTEGER, LARGEST_SMALLINT
from probes.capacity.spec import CapacityRun, CapacityVerdict
from probes.contract import Outcome
from probes.disk_to_disk.spec import DiskToDiskRun
from probes.ping.spec import Burst, IcmpError
from probes.site.wire import Delivered
from probes.throughput.spec import (
    CpuUse,
    KernelCounts,
    ReceivedIntervals,
    SentIntervals,
    ServerReport,
    ThroughputRun,
    Transfer,
    UdpCounts,
)

CLOCK_SKEW = timedelta(minutes=5)
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
LARGEST_PACKET_BYTES = 65_527
"""Payload of the largest IPv6 echo request; an IPv4 one takes 20 bytes less."""
LONGEST_RTT_MS = 60_000.0
"""Maximum RTT: the longest timeout that mesh.toml allows, 60 s. The timeout configured today is no bound, since the
mesh may have changed after the measurement."""
LARGEST_SEQUENCE = 2**40
"""Maximum sequence number: a spool with 1,000 results a second reaches it after 34 years, so a larger number is a fault
of its sender."""

MEASURED = Outcome.MEASURED

Moment = Annotated[datetime, Meta(tz=True)]
NO_NUL = r"\A[^\0]*\Z"
Text = Annotated[str, Meta(pattern=NO_NUL)]
"""PostgreSQL's text cannot hold a NUL."""
Word = Annotated[str, Meta(max_length=64)]
"""A short text present in nearly every result: a regular expression would take as long as all other checks."""
Sequence = Annotated[int, Meta(ge=0, le=LARGEST_SEQUENCE)]
Small = Annotated[int, Meta(ge=0, le=LARGEST_SMALLINT)]
Integer = Annotated[int, Meta(ge=0, le=LARGEST_INTEGER)]
Bigint = Annotated[int, Meta(ge=0, le=LARGEST_BIGINT)]
Octet = Annotated[int, Meta(ge=0, le=255)]
LARGEST_AMOUNT = 1e18
Amount = Annotated[float, Meta(ge=0.0, le=LARGEST_AMOUNT)]
"""Finite number: rejects infinity and NaN."""
RoundTrip = Annotated[float, Meta(ge=0.0, le=LONGEST_RTT_MS)]


class CheckedError(IcmpError, frozen=True, kw_only=True, gc=False):
    """An ICMP error within its bounds."""

    name: Text
    icmp_type: Octet
    icmp_code: Octet
    router: Word
    count: Annotated[int, Meta(ge=1, le=LARGEST_SMALLINT)]
    mtu_bytes: Integer | None = None


class CheckedBurst(Burst, frozen=True, kw_only=True, gc=False, tag="ping", tag_field="kind"):
    """A burst with plausible figures."""

    address: Word | None
    started_at: Moment
    packet_bytes: Annotated[int, Meta(ge=0, le=LARGEST_PACKET_BYTES)]
    sent: Small = 0
    received: Small = 0
    late: Small = 0
    duplicates: Small = 0
    reordered: Small = 0
    rtts_ms: Annotated[tuple[RoundTrip | None, ...], Meta(max_length=LARGEST_SMALLINT)] = ()
    ttl: Octet | None = None
    ttl_changes: Small = 0
    stamps_lost: Small = 0
    clock_source: Word | None = None
    waited: Small = 0
    errors: Annotated[tuple[CheckedError, ...], Meta(max_length=64)] = ()
    path_mtu_bytes: Annotated[int, Meta(ge=1, le=LARGEST_INTEGER)] | None = None
    detail: Text | None = None

    def __post_init__(self) -> None:
        rtts_ms, sent = self.rtts_ms, self.sent
        lost = rtts_ms.count(None)
        if (
            len(rtts_ms) != sent
            or self.received + lost != sent
            or self.late > lost
            or (self.outcome is MEASURED) != (sent > 0)
            or not (self.address is None or is_address(self.address))
            or not (self.clock_source is None or "\0" not in self.clock_source)
            or self.errors
        ):
            _explain(self, lost)


def _explain(burst: Burst, lost: int) -> None:
    """Raises `ValueError` if the figures of a burst contradict each other."""
    if burst.received > burst.sent:
        raise ValueError(f"received {burst.received} is more than sent {burst.sent}")
    if len(burst.rtts_ms) != burst.sent:
        raise ValueError(f"{len(burst.rtts_ms)} RTTs for {burst.sent} sent")
    if burst.outcome is MEASURED and burst.sent == 0:
        raise ValueError("measured, but nothing was sent")
    if burst.outcome is not MEASURED and burst.sent > 0:
        raise ValueError(f"{burst.outcome}, but {burst.sent} were sent")
    if burst.received != burst.sent - lost:
        raise ValueError(f"received {burst.received}, but {burst.sent - lost} RTTs")
    if burst.late > lost:
        raise ValueError(f"late {burst.late} is more than the {lost} lost")
    if burst.address is not None and not is_address(burst.address):
        raise ValueError(f"address {burst.address!r} is not an IP address")
    if burst.clock_source is not None and "\0" in burst.clock_source:
        raise ValueError("clock_source holds a NUL character")
    for error in burst.errors:
        if error.count > burst.sent:
            raise ValueError(f"{error.count} times the ICMP error {error.name!r} for {burst.sent} sent")
        if not is_address(error.router):
            raise ValueError(f"an ICMP error came from {error.router!r}, which is not an IP address")


MOST_INTERVALS = 4000
LONGEST_TEST_S = 86_400.0
Second = Annotated[float, Meta(ge=0.0, le=LONGEST_TEST_S)]
Times = Annotated[tuple[Second, ...], Meta(min_length=1, max_length=MOST_INTERVALS)]
Sizes = Annotated[tuple[Bigint, ...], Meta(max_length=MOST_INTERVALS)]
Amounts = Annotated[tuple[Amount, ...], Meta(max_length=MOST_INTERVALS)]
RoundTrips = Annotated[tuple[RoundTrip, ...], Meta(max_length=MOST_INTERVALS)]


class CheckedSent(SentIntervals, frozen=True, kw_only=True, omit_defaults=True):
    """Intervals of the sender, in order, with columns of equal length."""

    end_s: Times
    sent_bytes: Sizes
    retransmits: Sizes | None = None
    cwnd_bytes: Sizes | None = None
    peer_window_bytes: Sizes | None = None
    rtt_ms: RoundTrips | None = None
    rtt_variation_ms: RoundTrips | None = None
    path_mtu_bytes: Sizes | None = None
    packets: Sizes | None = None

    def __post_init__(self) -> None:
        _require_columns(self)


class CheckedReceived(ReceivedIntervals, frozen=True, kw_only=True, omit_defaults=True):
    """Intervals of the receiver, as `CheckedSent`."""

    end_s: Times
    received_bytes: Sizes
    packets: Sizes | None = None
    lost_packets: Annotated[tuple[int, ...], Meta(max_length=MOST_INTERVALS)] | None = None
    jitter_ms: Amounts | None = None

    def __post_init__(self) -> None:
        _require_columns(self)


def _require_columns(intervals: SentIntervals | ReceivedIntervals) -> None:
    """Raises `ValueError` where times run backwards or a column has another length."""
    end_s = intervals.end_s
    if any(later < earlier for earlier, later in itertools.pairwise(end_s)):
        raise ValueError("end_s runs backwards")
    for name in intervals.__struct_fields__:
        column = getattr(intervals, name)
        if column is not None and len(column) != len(end_s):
            raise ValueError(f"{len(column)} values of {name} for {len(end_s)} intervals")


class CheckedCpu(CpuUse, frozen=True, kw_only=True, omit_defaults=True):
    total_ratio: Amount
    user_ratio: Amount
    system_ratio: Amount
    wanted_ratio: Amount | None = None


class CheckedKernel(KernelCounts, frozen=True, kw_only=True, omit_defaults=True):
    age_s: Amount
    busy_s: Amount
    peer_window_limited_s: Amount
    send_buffer_limited_s: Amount
    resent_bytes: Bigint
    duplicates: Bigint
    reordering_seen: Bigint
    delivery_rate_bps: Amount | None = None
    rtt_min_ms: Amount | None = None


class CheckedUdp(UdpCounts, frozen=True, kw_only=True):
    packets: Bigint
    lost_packets: Bigint
    out_of_order: Bigint | None
    jitter_ms: Amount


class CheckedTransfer(Transfer, frozen=True, kw_only=True, omit_defaults=True):
    """Figures of a transfer, each within its bounds."""

    sent: CheckedSent | None = None
    received: CheckedReceived | None = None
    omitted_s: Second = 0.0
    mss_bytes: Annotated[int, Meta(ge=1, le=LARGEST_INTEGER)] | None = None
    sender_cpu: CheckedCpu | None = None
    receiver_cpu: CheckedCpu | None = None
    kernel: CheckedKernel | None = None
    udp: CheckedUdp | None = None


Rate = Annotated[float, Meta(gt=0.0, le=LARGEST_AMOUNT)]
"""A measured rate is always positive."""


class CheckedRun(ThroughputRun, frozen=True, kw_only=True, gc=False, tag="throughput", tag_field="kind"):
    """A plausible throughput test: has a rate if and only if it was measured."""

    started_at: Moment
    streams: Annotated[int, Meta(ge=1, le=LARGEST_SMALLINT)] = 1
    asked_bps: Amount | None = None
    duration_s: Amount | None = None
    throughput_bps: Amount | None = None
    sent_bytes: Bigint | None = None
    received_bytes: Bigint | None = None
    retransmits: Integer | None = None
    rtt_mean_ms: Amount | None = None
    congestion_control: Text | None = None
    tool: Text | None = None
    transfer: CheckedTransfer | None = None
    detail: Text | None = None

    @property
    def is_told_by_far_end(self) -> bool:
        return self.reverse

    def __post_init__(self) -> None:
        measured = self.outcome is MEASURED
        if measured and self.throughput_bps is None:
            raise ValueError("measured, but without throughput_bps")
        if not measured and self.throughput_bps is not None:
            raise ValueError(f"{self.outcome}, but with throughput_bps {self.throughput_bps}")


class CheckedDiskToDisk(DiskToDiskRun, frozen=True, kw_only=True, gc=False, tag="disk-to-disk", tag_field="kind"):
    """A plausible disk-to-disk measurement: has its rate if measured, and no figures if not."""

    address: Word | None
    started_at: Moment
    streams: Annotated[int, Meta(ge=1, le=LARGEST_SMALLINT)] = 1
    file_bytes: Bigint | None = None
    moved_bytes: Bigint | None = None
    carried_bytes: Bigint | None = None
    moving_s: Second | None = None
    syncing_s: Second | None = None
    disk_to_disk_bps: Rate | None = None
    memory_to_memory_bps: Rate | None = None
    read_bps: Rate | None = None
    read_cached_ratio: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None
    write_bps: Rate | None = None
    detail: Text | None = None

    def __post_init__(self) -> None:
        measured = self.outcome is MEASURED
        if measured and self.disk_to_disk_bps is None:
            raise ValueError("measured, but without disk_to_disk_bps")
        for name in ("disk_to_disk_bps", "memory_to_memory_bps", "read_bps", "write_bps"):
            if not measured and getattr(self, name) is not None:
                raise ValueError(f"{self.outcome}, but with {name} {getattr(self, name)}")
        if self.moved_bytes is not None and self.moved_bytes > (self.file_bytes or 0):
            raise ValueError(f"moved_bytes {self.moved_bytes} is more than file_bytes {self.file_bytes}")


class CheckedServerReport(ServerReport, frozen=True, kw_only=True, gc=False, tag="served", tag_field="kind"):
    """A plausible report of the listening end."""

    started_at: Moment
    needs_slot: ClassVar[bool] = True

    detail: Text
    wanted_ratio: Amount | None = None
    kernel: CheckedKernel | None = None

    @property
    def is_told_by_far_end(self) -> bool:
        return not self.sends


class CheckedCapacity(CapacityRun, frozen=True, kw_only=True, gc=False, tag="capacity", tag_field="kind"):
    """A plausible capacity estimate, or a failed one; both have a verdict."""

    address: Word | None
    started_at: Moment

    def __post_init__(self) -> None:
        reason = _verdict_refusal(self) or _capacities_refusal(self)
        if reason is not None:
            raise ValueError(reason)


def _verdict_refusal(run: CapacityRun) -> str | None:
    measured = run.outcome is MEASURED
    if measured != (run.verdict is not None):
        return f"{run.outcome}, but with verdict {run.verdict}"
    if run.verdict is not None and (run.verdict is CapacityVerdict.MEASURED) != (run.capacity_bps is not None):
        return f"verdict {run.verdict}, but with capacity_bps {run.capacity_bps}"
    return None


def _capacities_refusal(run: CapacityRun) -> str | None:
    for name in ("capacity_bps", "capacity_low_bps", "capacity_high_bps"):
        value = getattr(run, name)
        if value is not None and not 0.0 < value <= LARGEST_AMOUNT:
            return f"{name} {value} is out of range"
    if run.packet_bytes is not None and not 0 <= run.packet_bytes <= LARGEST_PACKET_BYTES:
        return f"packet_bytes {run.packet_bytes} is not within 0 to {LARGEST_PACKET_BYTES}"
    if not 0 <= run.received <= run.sent <= LARGEST_SMALLINT:
        return f"received {run.received} of {run.sent} sent is out of range"
    for text in (run.method, run.detail):
        if text is not None and "\0" in text:
            return "a text holds a NUL character"
    if run.address is not None and not is_address(run.address):
        return f"address {run.address!r} is not an IP address"
    return None


@lru_cache(maxsize=4096)
def is_address(text: str) -> bool:
    """Whether PostgreSQL's inet can hold it; inet has no zone identifiers, which are local to a host."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text


@dataclass(frozen=True, slots=True)
class KnownPath:
    """Properties of a path that its results must match: source and destination site, address family."""

    site_id: int
    family: int
    far_site_id: int


@dataclass(frozen=True, slots=True)
class CheckContext:
    """Context in which results are checked: the delivering site, the referenced paths and slots, and the time limits.
    `slots` maps a slot to its path; `earliest` is the retention limit by result type."""

    site_id: int
    paths: dict[int, KnownPath]
    slots: dict[int, int]
    earliest: Mapping[type, datetime]
    latest: datetime


def reason_to_refuse(delivered: Delivered, scope: CheckContext) -> str | None:
    """Reason why a valid result will never be stored; None where it can be."""
    result, path_id, slot_id = delivered.result, delivered.path_id, delivered.slot_id
    path = scope.paths.get(path_id)
    if "\0" in delivered.test:
        return "test holds a NUL character"
    if path is None:
        return f"path {path_id} is unknown"
    if _is_told_by_far_end(result):
        if path.far_site_id != scope.site_id:
            return f"path {path_id} does not end at this site"
    elif path.site_id != scope.site_id:
        return f"path {path_id} does not start at this site"
    if slot_id is None and getattr(result, "needs_slot", False):
        return "served report without a slot"
    if result.family != path.family:
        return f"IPv{result.family} was measured, path {path_id} is IPv{path.family}"
    # A deleted slot is no reason: an apply deletes slots that an agent may still have in its plan.
    if slot_id is not None and scope.slots.get(slot_id, path_id) != path_id:
        return f"slot {slot_id} is not of path {path_id}"
    earliest = scope.earliest[type(result)]
    if not earliest <= result.started_at <= scope.latest:
        return _start_refusal(result.started_at, earliest, scope.latest)
    return None


def _is_told_by_far_end(result: object) -> bool:
    """Whether the far end of the path delivers this result: a test where the receiver connects, or a served report."""
    is_told: bool = getattr(result, "is_told_by_far_end", False)
    return is_told


def _start_refusal(started_at: datetime, earliest: datetime, latest: datetime) -> str:
    if started_at > latest:
        return f"started_at {started_at.isoformat()} is in the future; is the clock of the site right?"
    if started_at < EARLIEST:
        return f"started_at {started_at.isoformat()} is before 2000; is the clock of the site right?"
    return f"started_at {started_at.isoformat()} is before {earliest.isoformat()}, the oldest that is kept"

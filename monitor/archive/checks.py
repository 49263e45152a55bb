"""Which delivered results are refused, and the reason that the agent and the pages are told.

In: one delivered result and what the mesh knows of paths and slots. Out: None if it can be stored, else one sentence.
Nothing is read or written here. A refusal is for good, so whatever can come right by itself is not one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from ipaddress import ip_address
from math import isfinite

import msgspec

from probes.contract import Outcome
from probes.ping.spec import Burst
from probes.site.wire import Batch, Delivered
from probes.throughput.spec import ThroughputRun

CLOCK_SKEW = timedelta(minutes=5)
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
LARGEST_PACKET_BYTES = 65_527
"""Payload of the largest IPv6 echo request; an IPv4 one takes 20 bytes less."""
LONGEST_RTT_MS = 3_600_000.0
MOST_ERRORS = 64
LARGEST_SMALLINT = 2**15 - 1
LARGEST_INTEGER = 2**31 - 1
LARGEST_BIGINT = 2**63 - 1


class BatchRejected(ValueError):
    """A batch whose own fields, those around the results, cannot be stored."""


@dataclass(frozen=True, slots=True)
class KnownPath:
    """What a result of a path is held against: the site that measures it, and its address family."""

    site_id: int
    family: int


@dataclass(frozen=True, slots=True)
class Known:
    """The part of the mesh that a batch speaks of. `slots` gives the path that each slot is for."""

    site_id: int
    paths: Mapping[int, KnownPath]
    slots: Mapping[int, int]


def check_batch(batch: Batch) -> None:
    """Raises `BatchRejected` where the envelope cannot be stored."""
    for name, value in (("number", batch.number), ("queued", batch.queued), ("dropped", batch.dropped)):
        if not 0 <= value <= (LARGEST_BIGINT if name == "number" else LARGEST_INTEGER):
            raise BatchRejected(f"{name} {value} is out of range")
    if batch.sent_at.tzinfo is None:
        raise BatchRejected("sent_at has no time zone; write it in UTC, ending in Z")
    for name, text in (("spool", batch.spool), ("agent_version", batch.agent_version)):
        if "\0" in text:
            raise BatchRejected(f"{name} holds a NUL character")
    for delivered in batch.results:
        if not 0 <= delivered.sequence <= LARGEST_BIGINT:
            raise BatchRejected(f"sequence {delivered.sequence} is out of range")


def reason_to_refuse(delivered: Delivered, known: Known, now: datetime) -> str | None:
    """Why this result will never be stored; None where it can be."""
    result = delivered.result
    reason = _of_path(delivered, known) or _of_start(result.started_at, now) or _of_address(result.address)
    if reason is not None:
        return reason
    reason = _of_burst(result) if isinstance(result, Burst) else _of_throughput(result)
    return reason or _of_text(delivered)


def _of_path(delivered: Delivered, known: Known) -> str | None:
    path_id, slot_id = delivered.path_id, delivered.slot_id
    path = known.paths.get(path_id)
    if path is None:
        return f"path {path_id} is unknown"
    if path.site_id != known.site_id:
        return f"path {path_id} does not start at this site"
    if delivered.result.family != path.family:
        return f"IPv{delivered.result.family} was measured, path {path_id} is IPv{path.family}"
    # A slot that is not there any more is no reason: an apply deletes slots, and an agent may have had it in its plan.
    if slot_id is not None and known.slots.get(slot_id, path_id) != path_id:
        return f"slot {slot_id} is not of path {path_id}"
    return None


def _of_start(started_at: datetime, now: datetime) -> str | None:
    if started_at.tzinfo is None:
        return "started_at has no time zone"
    if started_at > now + CLOCK_SKEW:
        return f"started_at {started_at.isoformat()} is in the future; is the clock of the site right?"
    if started_at < EARLIEST:
        return f"started_at {started_at.isoformat()} is before 2000; is the clock of the site right?"
    return None


def _of_address(address: str | None) -> str | None:
    if address is not None and not _is_address(address):
        return f"address {address!r} is not an IP address"
    return None


@lru_cache(maxsize=65_536)
def _is_address(address: str) -> bool:
    try:
        ip_address(address)
    except ValueError:
        return False
    return "%" not in address  # PostgreSQL's inet has no zones


def _of_burst(burst: Burst) -> str | None:
    if not 0 <= burst.packet_bytes <= LARGEST_PACKET_BYTES:
        return f"packet_bytes {burst.packet_bytes} is not within 0 to {LARGEST_PACKET_BYTES}"
    for name in ("sent", "received", "duplicates", "reordered", "late", "ttl_changes", "stamps_lost", "waited"):
        if not 0 <= getattr(burst, name) <= LARGEST_SMALLINT:
            return f"{name} {getattr(burst, name)} is not within 0 to {LARGEST_SMALLINT}"
    if burst.ttl is not None and not 0 <= burst.ttl <= 255:
        return f"ttl {burst.ttl} is not within 0 to 255"
    if burst.path_mtu_bytes is not None and not 0 < burst.path_mtu_bytes <= LARGEST_INTEGER:
        return f"path_mtu_bytes {burst.path_mtu_bytes} is not within 1 to {LARGEST_INTEGER}"
    return _of_counts(burst) or _of_round_trips(burst) or _of_errors(burst)


def _of_errors(burst: Burst) -> str | None:
    if len(burst.errors) > MOST_ERRORS:
        return f"{len(burst.errors)} kinds of ICMP error; {MOST_ERRORS} at most are kept"
    for error in burst.errors:
        if not _is_address(error.router):
            return f"an ICMP error came from {error.router!r}, which is not an IP address"
        if not (0 <= error.icmp_type <= 255 and 0 <= error.icmp_code <= 255 and 0 < error.count <= burst.sent):
            return f"the ICMP error {error.name!r} has a type, code or count out of range"
    return None


def _of_counts(burst: Burst) -> str | None:
    if burst.received > burst.sent:
        return f"received {burst.received} is more than sent {burst.sent}"
    if burst.late > burst.sent - burst.received:
        return f"late {burst.late} is more than the {burst.sent - burst.received} lost"
    if len(burst.rtts_ms) != burst.sent:
        return f"{len(burst.rtts_ms)} round trips for {burst.sent} sent"
    if burst.outcome == Outcome.MEASURED and burst.sent == 0:
        return "measured, but nothing was sent"
    if burst.outcome != Outcome.MEASURED and burst.sent > 0:
        return f"{burst.outcome}, but {burst.sent} were sent"
    answered = burst.sent - burst.rtts_ms.count(None)
    if answered != burst.received:
        return f"received {burst.received}, but {answered} round trips"
    return None


def _of_round_trips(burst: Burst) -> str | None:
    for rtt_ms in burst.rtts_ms:
        if rtt_ms is not None and not 0.0 <= rtt_ms <= LONGEST_RTT_MS:
            return f"round trip of {rtt_ms} ms is not within 0 to {LONGEST_RTT_MS:.0f}"
    return None


def _of_throughput(run: ThroughputRun) -> str | None:
    measured = run.outcome == Outcome.MEASURED
    if measured and run.throughput_bps is None:
        return "measured, but without throughput_bps"
    if not measured and run.throughput_bps is not None:
        return f"{run.outcome}, but with throughput_bps {run.throughput_bps}"
    if not 1 <= run.streams <= LARGEST_SMALLINT:
        return f"streams {run.streams} is not within 1 to {LARGEST_SMALLINT}"
    for name in ("throughput_bps", "duration_s", "rtt_mean_ms"):
        value = getattr(run, name)
        if value is not None and not 0.0 <= value <= LARGEST_BIGINT:
            return f"{name} {value} is out of range"
    return _of_transfer(run)


def _of_transfer(run: ThroughputRun) -> str | None:
    largest = {"sent_bytes": LARGEST_BIGINT, "received_bytes": LARGEST_BIGINT, "retransmits": LARGEST_INTEGER}
    for name, most in largest.items():
        value = getattr(run, name)
        if value is not None and not 0 <= value <= most:
            return f"{name} {value} is out of range"
    for interval in run.intervals:
        if not all(isfinite(value) for value in msgspec.structs.astuple(interval) if isinstance(value, float)):
            return f"the interval at {interval.start_s} s has a number that is not finite"
    return None


def _of_text(delivered: Delivered) -> str | None:
    """PostgreSQL's text cannot hold a NUL."""
    result = delivered.result
    texts: tuple[str | None, ...] = (result.detail,)
    if isinstance(result, Burst):
        texts += (result.clock_source, *(error.name for error in result.errors))
    if isinstance(result, ThroughputRun):
        texts += (delivered.test, result.congestion_control, result.tool)
    for text in texts:
        if text is not None and "\0" in text:
            return "a text holds a NUL character"
    return None

"""Batches whose bursts are in blocks, packed byte by byte as docs/api.md says."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec

from probes.contract import Outcome
from probes.packets.spec import Burst
from probes.site.wire import Batch, BurstBlock, Delivered

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STAMPS = ("hardware", "kernel", "user")


def or_none(number: int | None) -> int:
    return -1 if number is None else number


def record(delivered: Delivered) -> bytes:
    burst: Any = delivered.result
    return struct.pack(
        "<iiq8i4i",
        delivered.path_id,
        burst.packet_bytes,
        (burst.started_at - EPOCH) // timedelta(microseconds=1),
        burst.sent,
        burst.received,
        burst.late,
        burst.duplicates,
        burst.reordered,
        burst.ttl_changes,
        burst.stamps_lost,
        burst.waited,
        or_none(burst.ttl),
        -1 if burst.stamp is None else STAMPS.index(burst.stamp),
        or_none(burst.rate_limited),
        or_none(burst.flow),
    )


def block_of(results: Sequence[Delivered]) -> BurstBlock:
    """A block of results with consecutive numbers, of the same test, cycle and address family."""
    bursts: list[Any] = [delivered.result for delivered in results]
    rtts_ms = [rtt_ms for burst in bursts for rtt_ms in burst.rtts_ms]
    details = tuple(burst.detail for burst in bursts)
    return BurstBlock(
        first=results[0].sequence,
        test=results[0].test,
        family=bursts[0].family,
        clock_source=bursts[0].clock_source,
        bursts=b"".join(map(record, results)),
        rtts_ns=b"".join(struct.pack("<q", -1 if rtt is None else round(rtt * 1e6)) for rtt in rtts_ms),
        targets=tuple(burst.target for burst in bursts),
        addresses=tuple(burst.address for burst in bursts),
        source_addresses=tuple(burst.source_address for burst in bursts),
        details=details if any(detail is not None for detail in details) else (),
        clock_off_s=results[0].clock_off_s,
        every_s=results[0].every_s,
        cycle=results[0].cycle,
    )


def fits_a_block(delivered: Delivered) -> bool:
    """Whether a burst has only what a block can tell."""
    burst = delivered.result
    return (
        isinstance(burst, Burst)
        and burst.outcome is Outcome.MEASURED
        and 0 < burst.sent == len(burst.rtts_ms)
        and all(rtt is None or 0.0 <= rtt < 1e9 for rtt in (*burst.rtts_ms, 0.0))
        and burst.address is not None
        and burst.started_at.tzinfo is not None
        and (burst.path_mtu_bytes, burst.loaded_rtts_ms, burst.errors) == (None, None, ())
        and not delivered.during_test
    )


def belong_together(first: Delivered, second: Delivered) -> bool:
    def of(delivered: Delivered) -> tuple[object, ...]:
        burst: Any = delivered.result
        return delivered.test, delivered.cycle, delivered.every_s, burst.family, burst.clock_source

    return of(first) == of(second) and second.sequence == first.sequence + 1


def in_blocks(batch: Batch) -> Batch:
    """The batch with all bursts that fit in blocks, as long as possible."""
    fitting = [delivered for delivered in batch.results if fits_a_block(delivered)]
    runs = [fitting[:1]] if fitting else []
    for before, after in pairwise(fitting):
        if belong_together(before, after):
            runs[-1].append(after)
        else:
            runs.append([after])
    others = tuple(delivered for delivered in batch.results if not fits_a_block(delivered))
    return msgspec.structs.replace(batch, results=others, blocks=tuple(map(block_of, runs)))

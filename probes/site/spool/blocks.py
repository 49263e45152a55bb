"""Blocks of bursts in columns, up to `LARGEST_BLOCK`: made, read and split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import numpy as np

from probes.contract import Outcome, Target
from probes.packets.columns import EPOCH, LOST_NS, NONE, NS_PER_MS, RECORD, STAMPS, BurstArrays, PingResults
from probes.packets.spec import Burst, Stamp
from probes.site.wire import Batch, BurstBlock, Delivered, ToDeliver

LARGEST_BLOCK = 250
# Fewer bursts cost less one by one, on both ends.
SMALLEST_BLOCK = 16
RTT = np.dtype("<i8")
BURST_KIND = str(Burst.__struct_config__.tag)


class BurstReplies(NamedTuple):
    """Figures of a burst that the agent reacts to."""

    path_id: int
    packet_bytes: int
    packets: int  # all sent, even under load
    received: int
    ttl: int | None
    shortest_ms: float | None  # None without any reply
    is_under_load: bool = False


def to_deliver(answer: object, test: str, targets: Sequence[Target]) -> list[ToDeliver] | None:
    """The results of a cycle to these planned targets; None if not in columns."""
    if not isinstance(answer, PingResults):
        return None
    path_ids = [target.path_id for target in targets]
    if None in path_ids:
        raise ValueError(f"ping {test}: the plan's target {targets[path_ids.index(None)].address} has no path_id")
    sizes = len(answer) // len(targets)
    results: list[ToDeliver] = []
    for placed in answer.columns:
        names = [targets[place // sizes].address for place in placed.places.tolist()]
        for first in range(0, len(names), LARGEST_BLOCK):
            part = placed.columns.part(first, first + LARGEST_BLOCK)
            block = _block(part, test, names[first : first + LARGEST_BLOCK])
            results += [block] if len(block) >= SMALLEST_BLOCK else results_of(block)
    for place, burst in sorted(answer.others.items()):
        target = targets[place // sizes]
        assert target.path_id is not None
        result: Any = msgspec.structs.replace(burst, target=target.address)
        results.append(
            Delivered(sequence=0, path_id=target.path_id, test=test, result=result, during_test=burst.is_under_load)
        )
    return results


def _block(columns: BurstArrays, test: str, names: Sequence[str]) -> BurstBlock:
    return BurstBlock(
        test=test,
        family=columns.family,
        clock_source=columns.clock_source,
        bursts=columns.records.tobytes(),
        rtts_ns=columns.rtts_ns.astype(RTT).tobytes(),
        targets=tuple(names),
        addresses=tuple(columns.addresses),
        source_addresses=tuple(columns.source_addresses),
        details=tuple(columns.details),
    )


def read_block(block: BurstBlock) -> BurstArrays:
    """The columns of a block. Raises `ValueError` unless of equal length."""
    records = np.frombuffer(block.bursts, RECORD)
    columns = BurstArrays(
        family=block.family,
        clock_source=block.clock_source,
        records=records,
        rtts_ns=np.frombuffer(block.rtts_ns, RTT),
        targets=block.targets,
        addresses=block.addresses,
        source_addresses=block.source_addresses,
        details=block.details,
    )
    texts = (block.targets, block.addresses, block.source_addresses, block.details or block.targets)
    if any(len(column) != len(records) for column in texts):
        raise ValueError("its columns have different lengths")
    sent = records["sent"].astype(np.int64)
    if (sent < 0).any() or sent.sum() != len(columns.rtts_ns):
        raise ValueError(f"{len(columns.rtts_ns)} RTTs for {sent.sum()} sent")
    return columns


def results_of(block: BurstBlock) -> Iterator[Delivered]:
    """Split a block into single results. Raises `ValueError`."""
    columns = read_block(block)
    path_ids = columns.records["path_id"].tolist()
    for sequence, path_id, burst in zip(block.sequences, path_ids, columns.bursts(), strict=True):
        result: Any = burst
        yield Delivered(
            sequence=sequence,
            path_id=path_id,
            test=block.test,
            result=result,
            clock_off_s=block.clock_off_s,
            every_s=block.every_s,
            cycle=block.cycle,
        )


def values_at(block: BurstBlock, columns: BurstArrays, place: int) -> dict[str, Any]:
    """A burst of a block as message values, unchecked."""
    own = columns.part(place, place + 1)
    names = own.records.dtype.names or ()
    values: dict[str, Any] = dict(zip(names, own.records.tolist()[0], strict=True))
    path_id, stamp = values.pop("path_id"), values.pop("stamp")
    try:
        started_at: Any = EPOCH + timedelta(microseconds=values.pop("started_us"))
    except OverflowError:
        started_at = None
    optional = {name: None if values[name] == NONE else values[name] for name in ("ttl", "flow")}
    limited = values["rate_limited"]
    result = {
        "kind": BURST_KIND,
        **values,
        **optional,
        "target": block.targets[place],
        "address": block.addresses[place],
        "source_address": block.source_addresses[place],
        "family": block.family,
        "clock_source": block.clock_source,
        "started_at": started_at,
        "outcome": Outcome.MEASURED,
        "rtts_ms": [None if rtt_ns == LOST_NS else rtt_ns / NS_PER_MS for rtt_ns in own.rtts_ns.tolist()],
        "stamp": None if stamp == NONE else STAMPS[stamp] if 0 <= stamp < len(STAMPS) else stamp,
        "rate_limited": None if limited == NONE else bool(limited) if limited in (0, 1) else limited,
        "detail": block.details[place] if block.details else None,
    }
    whole = {name: getattr(block, name) for name in ("test", "clock_off_s", "every_s", "cycle")}
    return {"sequence": block.sequences[place], "path_id": path_id, "result": result, **whole}


def without_blocks(batch: Batch) -> Batch:
    """The same batch for a centre that knows no blocks."""
    if not batch.all_blocks:
        return batch
    apart = [*batch.results, *(result for block in batch.all_blocks for result in results_of(block))]
    results = tuple(sorted(apart, key=lambda delivered: delivered.sequence))
    return msgspec.structs.replace(batch, results=results, blocks=msgspec.UNSET)


def moved(block: BurstBlock, by: timedelta) -> BurstBlock:
    records = np.frombuffer(block.bursts, RECORD).copy()
    records["started_us"] += by // timedelta(microseconds=1)
    return msgspec.structs.replace(block, bursts=records.tobytes())


def figures_of(messages: Iterable[ToDeliver]) -> Iterator[BurstReplies]:
    for message in messages:
        if isinstance(message, BurstBlock):
            yield from _figures_in_block(read_block(message))
            continue
        burst: Any = message.result
        if isinstance(burst, Burst):
            rtts_ms = [rtt_ms for rtt_ms in burst.rtts_ms if rtt_ms is not None]
            yield BurstReplies(
                path_id=message.path_id,
                packet_bytes=burst.packet_bytes,
                packets=burst.sent + len(burst.loaded_rtts_ms or ()),
                received=len(rtts_ms),
                ttl=burst.ttl,
                shortest_ms=min(rtts_ms, default=None),
                is_under_load=burst.is_under_load,
            )


def _figures_in_block(columns: BurstArrays) -> Iterator[BurstReplies]:
    records = columns.records
    lost = columns.rtts_ns == LOST_NS
    rtts_ns = np.where(lost, np.iinfo(np.int64).max, columns.rtts_ns)
    starts = np.cumsum(records["sent"]) - records["sent"]
    shortest_ms = (np.minimum.reduceat(rtts_ns, starts) / NS_PER_MS).tolist() if len(records) else []
    fields = ("path_id", "packet_bytes", "sent", "received", "ttl")
    for path_id, packet_bytes, sent, received, ttl, shortest in zip(
        *(records[name].tolist() for name in fields), shortest_ms, strict=True
    ):
        yield BurstReplies(
            path_id, packet_bytes, sent, received, None if ttl < 0 else ttl, shortest if received else None
        )


def stamps_of(block: BurstBlock) -> set[Stamp]:
    # np.unique would load NumPy's masked arrays.
    stamps = set(np.frombuffer(block.bursts, RECORD)["stamp"].tolist())
    return {STAMPS[stamp] for stamp in stamps if stamp >= 0}


def starts_of(block: BurstBlock) -> tuple[datetime, datetime]:
    started_us = np.frombuffer(block.bursts, RECORD)["started_us"]
    first, last = int(started_us.min()), int(started_us.max())
    return EPOCH + timedelta(microseconds=first), EPOCH + timedelta(microseconds=last)

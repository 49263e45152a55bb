"""Check a delivered result against mesh and time; refusals are permanent, so temporary conditions are no reason. No
I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from monitor.archive.addresses import is_address
from monitor.arrays import Bools
from probes.bounds import LARGEST_ICMP_FLOW, LARGEST_PACKET_BYTES, LARGEST_SMALLINT, LONGEST_RTT_MS
from probes.packets.columns import COUNTS, EPOCH, LOST_NS, NONE, NS_PER_MS, STAMPS, BurstArrays
from probes.packets.spec import Burst
from probes.site.wire import BurstBlock, Delivered

LARGEST_OCTET = 255
BOUNDS = {
    **dict.fromkeys(COUNTS, (0, LARGEST_SMALLINT)),
    "sent": (1, LARGEST_SMALLINT),
    "packet_bytes": (0, LARGEST_PACKET_BYTES),
    "ttl": (NONE, LARGEST_OCTET),
    "stamp": (NONE, len(STAMPS) - 1),
    "rate_limited": (NONE, 1),
    "flow": (NONE, LARGEST_ICMP_FLOW),
}

CLOCK_SKEW = timedelta(minutes=5)
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class KnownPath:
    """Path properties that results must match."""

    site_id: int
    family: int
    far_site_id: int


@dataclass(frozen=True, slots=True)
class CheckContext:
    site_id: int
    paths: dict[int, KnownPath]
    slots: dict[int, int]  # path of each slot
    earliest: Mapping[type, datetime]  # retention limit by result type
    latest: datetime


def reason_to_refuse(delivered: Delivered, scope: CheckContext) -> str | None:
    """Reason why a valid result will never be stored, or None."""
    result, path_id, slot_id = delivered.result, delivered.path_id, delivered.slot_id
    path = scope.paths.get(path_id)
    if "\0" in delivered.test:
        return "test holds a NUL character"
    if path is None:
        return f"path {path_id} is unknown"
    if _is_reported_by_destination(result):
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


def _is_reported_by_destination(result: object) -> bool:
    is_reported: bool = getattr(result, "is_reported_by_destination", False)
    return is_reported


def _start_refusal(started_at: datetime, earliest: datetime, latest: datetime) -> str:
    if started_at > latest:
        return f"started_at {started_at.isoformat()} is in the future; is the clock of the site right?"
    if started_at < EARLIEST:
        return f"started_at {started_at.isoformat()} is before 2000; is the clock of the site right?"
    return f"started_at {started_at.isoformat()} is before {earliest.isoformat()}, the oldest that is kept"


def are_sound(block: BurstBlock, columns: BurstArrays, scope: CheckContext) -> Bools:
    """Mark bursts of a block that pass every check of a single result."""
    records, rtts_ns = columns.records, columns.rtts_ns
    sound = np.full(len(records), "\0" not in block.test and "\0" not in (block.clock_source or ""))
    for name, (least, most) in BOUNDS.items():
        sound &= (records[name] >= least) & (records[name] <= most)
    sound &= records["flow"] != 0
    lost = _of_each(rtts_ns == LOST_NS, records["sent"])
    sound &= records["received"] == records["sent"] - lost
    sound &= records["late"] <= lost
    sound &= _of_each((rtts_ns < LOST_NS) | (rtts_ns > LONGEST_RTT_MS * NS_PER_MS), records["sent"]) == 0
    began, ended = ((at - EPOCH).total_seconds() * 1e6 for at in (scope.earliest[Burst], scope.latest))
    sound &= (records["started_us"] >= began) & (records["started_us"] <= ended)
    ours = [
        path_id
        for path_id in np.unique(records["path_id"]).tolist()
        if (path := scope.paths.get(path_id)) is not None
        and path.site_id == scope.site_id
        and path.family == block.family
    ]
    sound &= np.isin(records["path_id"], ours)
    for column in (block.addresses, block.source_addresses):
        wrong = {text for text in set(column) if text is not None and not is_address(text)}
        sound &= _are_not(column, wrong)
    return sound & _are_not(block.details, {text for text in set(block.details) if text is not None and "\0" in text})


def _of_each(marked: Bools, lengths: NDArray[np.int32]) -> NDArray[np.int64]:
    """Count the marked RTTs of each burst."""
    ends = np.cumsum(lengths)
    totals = np.concatenate([[0], np.cumsum(marked)])
    counts: NDArray[np.int64] = totals[ends] - totals[ends - lengths]
    return counts


def _are_not(column: Sequence[str | None], wrong: set[str]) -> Bools | np.bool_:
    return np.array([text not in wrong for text in column], np.bool_) if wrong else np.True_

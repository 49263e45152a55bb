"""A capacity estimate within its bounds; out of bounds it raises msgspec's `ValidationError`."""

from __future__ import annotations

from monitor.archive.columns import LARGEST_SMALLINT
from monitor.archive.ingest.checked.values import (
    LARGEST_AMOUNT,
    LARGEST_PACKET_BYTES,
    MEASURED,
    Moment,
    Word,
    is_address,
)
from probes.capacity.spec import CapacityRun, CapacityVerdict


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

"""A ping burst within its bounds.

msgspec checks types and ranges while it decodes, `__post_init__` checks relations between fields; both raise msgspec's
`ValidationError`.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from monitor.archive.columns import LARGEST_INTEGER, LARGEST_SMALLINT
from monitor.archive.ingest.checked.values import (
    LARGEST_PACKET_BYTES,
    MEASURED,
    Integer,
    Moment,
    Octet,
    RoundTrip,
    Small,
    Text,
    Word,
    is_address,
)
from probes.ping.spec import Burst, IcmpError


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

"""The routes of an incident's paths around its beginning, stored as a part of `evidence.facts`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from monitor.analysis.routes.wording import UNCHANGED


@dataclass(frozen=True, slots=True)
class TracedHop:
    ttl: int
    address: str | None
    place: str | None  # AS, network or exchange point; None if unknown
    sent: int
    lost: int
    rtt_ms: float | None  # median
    is_limited: bool = False  # its loss is its own rate limit: a later hop loses less, 99% confidence


@dataclass(frozen=True, slots=True)
class TracedRoute:
    """A trace with its hops from TTL 1."""

    at: datetime
    reached: bool
    hops: tuple[TracedHop, ...]
    detail: str | None = None  # packets lost beyond the last hop if not `reached`; None if unknown

    @property
    def end(self) -> str:
        """States that the destination was not reached, with packets lost; empty if reached."""
        return "" if self.reached else f"destination {self.detail or 'not reached'}"

    @property
    def has_limited(self) -> bool:
        return any(hop.is_limited for hop in self.hops)


@dataclass(frozen=True, slots=True)
class RouteSwitch:
    protocol: str
    flow: int | None
    before_id: int
    after_id: int
    seen_at: datetime  # first trace on `after_id`
    sentence: str  # holds as long as the flow is on that route


@dataclass(frozen=True, slots=True)
class RouteFacts:
    """The route of a path around the beginning, with the place of the trouble."""

    path_id: int
    path: str
    sentence: str
    is_certain: bool  # names a link or a change with an effect
    before: TracedRoute | None  # last trace before the beginning or change
    after: TracedRoute | None  # first trace after it
    changed_at: datetime | None = None  # effect on the RTT, else first trace on the new route; None if unchanged
    has_effect: bool = False
    rtt_shift_ms: float | None = None  # None without a step of the RTT
    switch: RouteSwitch | None = None
    back_at: datetime | None = None  # first of the latest traces back on the earlier route
    changed_again_at: datetime | None = None  # first of the latest traces on a third route

    @property
    def is_unchanged(self) -> bool:
        """Whether traces before and after show the same routers to the destination, in both directions."""
        return self.changed_at is None and self.sentence.startswith(f"{UNCHANGED};")

"""The routes of an incident's paths around its beginning: the values behind their evidence.

They are stored as a part of `monitor.alerts.evidence.facts`; `monitor.alerts.evidence.routes.collect` collects them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from monitor.analysis.routes.wording import UNCHANGED


@dataclass(frozen=True, slots=True)
class TracedHop:
    """A hop of a trace: probes sent and lost, the median RTT of the others, and its AS, network or exchange point; None
    where unknown. `is_limited`: by all traces of this route on this side of the beginning, a hop after it loses less,
    with 99% confidence, so that its loss is its own rate limit."""

    ttl: int
    address: str | None
    place: str | None
    sent: int
    lost: int
    rtt_ms: float | None
    is_limited: bool = False


@dataclass(frozen=True, slots=True)
class TracedRoute:
    """A trace with its hops from TTL 1 on; the last is the destination where it was `reached`, else `detail` tells how
    many packets were lost beyond the last hop; None if that is unknown."""

    at: datetime
    reached: bool
    hops: tuple[TracedHop, ...]
    detail: str | None = None

    @property
    def end(self) -> str:
        """That the destination was not reached, with the packets lost; empty if it was."""
        return "" if self.reached else f"destination {self.detail or 'not reached'}"

    @property
    def has_limited(self) -> bool:
        return any(hop.is_limited for hop in self.hops)


@dataclass(frozen=True, slots=True)
class RouteSwitch:
    """A change of the route of a flow: from the route `before_id` to `after_id`, whose first trace was at `seen_at`.
    `sentence` tells it as long as the flow is on that route."""

    protocol: str
    flow: int | None
    before_id: int
    after_id: int
    seen_at: datetime
    sentence: str


@dataclass(frozen=True, slots=True)
class RouteFacts:
    """The route of a path around the beginning: the place of the trouble in a sentence, `is_certain` if it names a link
    or a change with an effect. `before` and `after` are the last trace before the beginning, or before the change of
    the route, and the first after it.

    The change is at the time of its effect on the RTT, else of the first trace on the new route; None if the route did
    not change. `rtt_shift_ms` is None without a step of the RTT. `back_at` is the first trace of the latest that are on
    the route before the change again, `changed_again_at` the first of those on a third route.
    """

    path_id: int
    path: str
    sentence: str
    is_certain: bool
    before: TracedRoute | None
    after: TracedRoute | None
    changed_at: datetime | None = None
    has_effect: bool = False
    rtt_shift_ms: float | None = None
    switch: RouteSwitch | None = None
    back_at: datetime | None = None
    changed_again_at: datetime | None = None

    @property
    def is_unchanged(self) -> bool:
        """Whether traces before and after show the same routers, up to the destination and in both directions."""
        return self.changed_at is None and self.sentence.startswith(f"{UNCHANGED};")

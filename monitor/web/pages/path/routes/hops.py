"""Hops of a route as a table like mtr's.

Routers answer expired probes when they have time: loss at a hop that does not continue behind it is marked as the
router's rate limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.analysis import figures
from monitor.analysis.routes.hops import HopFigures, hop_figures
from monitor.archive.queries.routes.traces import SHORTEST, StoredTrace, TraceHop
from monitor.routes.places import HopName
from monitor.web.pages.path.routes.listing import RouteRow

NO_NAMES = HopName()


@dataclass(frozen=True, slots=True)
class NamedAddress:
    address: str
    name: HopName

    @property
    def place(self) -> str:
        """Own network, exchange point or reserved range; else the country."""
        name = self.name
        return next((text for text in (name.network, name.ixp, name.special, name.country) if text), "")


@dataclass(frozen=True, slots=True)
class HopRow:
    ttl: int
    router: NamedAddress | None  # None if unknown
    is_destination: bool
    figures: HopFigures | None  # None without a probe
    last_ms: float | None
    min_ms: float | None
    max_ms: float | None
    mpls: str
    others: tuple[NamedAddress, ...]  # routers of other flows at this TTL
    error: str | None  # ICMP error with which a trace ended here

    @property
    def is_limited(self) -> bool:
        return self.figures is not None and self.figures.is_limited

    @property
    def loss(self) -> str:
        """Loss as text; empty without probes or without any reply."""
        if self.figures is None or self.figures.is_silent:
            return ""
        return "0" if not self.figures.lost else figures.percent(self.figures.lost / self.figures.sent)

    @property
    def loss_ground(self) -> str:
        if self.figures is None:
            return ""
        low, high = figures.percent(self.figures.loss_low), figures.percent(self.figures.loss_high)
        return f"{self.figures.lost:,} of {self.figures.sent:,} without reply (95% CI {low} to {high})"

    @property
    def median_ms(self) -> float | None:
        rtt_ms = None if self.figures is None else self.figures.rtt_ms
        return None if rtt_ms is None else rtt_ms.median


@dataclass(frozen=True, slots=True)
class HopTable:
    """`since` and `until` are None without a trace."""

    row: RouteRow
    hops: tuple[HopRow, ...]
    traces: int
    since: datetime | None
    until: datetime | None

    @property
    def end(self) -> datetime | None:
        return None if self.until is None else self.until + SHORTEST

    @property
    def limited_ttls(self) -> str:
        """`hop 2`, `hops 2, 5`."""
        ttls = [str(hop.ttl) for hop in self.hops if hop.is_limited]
        return f"hop{'' if len(ttls) == 1 else 's'} {', '.join(ttls)}" if ttls else ""


def hop_table(row: RouteRow, traces: Sequence[StoredTrace], names: Mapping[str, HopName]) -> HopTable:
    """`traces` are all along the route, oldest first."""
    all_figures = hop_figures([[hop.rtts_ms for hop in trace.hops] for trace in traces])
    count = max(len(row.route.hops), len(all_figures))
    rows = []
    for ttl in range(1, count + 1):
        of_ttl = [trace.hops[ttl - 1] for trace in traces if ttl <= len(trace.hops)]
        is_destination = row.route.reached and ttl == len(row.route.hops)
        probed = all_figures[ttl - 1] if ttl <= len(all_figures) and all_figures[ttl - 1].sent else None
        rows.append(_hop_row(ttl, row, of_ttl, probed, names, is_destination))
    return HopTable(row, tuple(rows), len(traces), traces[0].at if traces else None, traces[-1].at if traces else None)


def addresses_of(traces: Iterable[StoredTrace]) -> set[str]:
    hops = [hop for trace in traces for hop in trace.hops]
    return {address for hop in hops for address in (hop.address, *hop.others) if address is not None}


def named(address: str, names: Mapping[str, HopName]) -> NamedAddress:
    return NamedAddress(address, names.get(address, NO_NAMES))


def _hop_row(
    ttl: int,
    row: RouteRow,
    of_ttl: Sequence[TraceHop],
    probed: HopFigures | None,
    names: Mapping[str, HopName],
    is_destination: bool,
) -> HopRow:
    address = row.route.hops[ttl - 1] if ttl <= len(row.route.hops) else None
    ended = next((hop for hop in reversed(of_ttl) if hop.error is not None), None)
    if address is None and ended is not None:
        address = ended.address
    labelled = next((hop for hop in reversed(of_ttl) if hop.mpls), None)
    replies = [rtt_ms for hop in of_ttl for rtt_ms in hop.rtts_ms if rtt_ms is not None]
    others = dict.fromkeys(other for hop in of_ttl for other in hop.others if other != address)
    return HopRow(
        ttl=ttl,
        router=None if address is None else named(address, names),
        is_destination=is_destination,
        figures=probed,
        last_ms=replies[-1] if replies else None,
        min_ms=min(replies, default=None),
        max_ms=max(replies, default=None),
        mpls="" if labelled is None else ", ".join(str(entry.label) for entry in labelled.mpls),
        others=tuple(named(other, names) for other in others),
        error=None if ended is None else ended.error,
    )

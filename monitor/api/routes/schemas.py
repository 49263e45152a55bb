from __future__ import annotations

from datetime import datetime

from ninja import Schema

from monitor.analysis.routes.differences import Block
from monitor.api.record_schemas import with_fields_of
from monitor.archive.queries.routes.periods import Passage, RouteChange, RoutePeriod, StoredRoute
from monitor.archive.queries.routes.traces import MplsEntry, StoredTrace, TraceHop
from monitor.routes.places import HopName, TableSource
from probes.trace.spec import FlowEffect


@with_fields_of(HopName)
class HopNameOut(Schema):
    """Names of an address, each null if unknown: AS, country of the prefix, exchange point on whose LAN it is, own
    network of mesh.toml, reverse name, and purpose of a special range."""


@with_fields_of(TableSource)
class AddressTableOut(Schema):
    """A loaded table, `asn` or `ixp`; `dated_at` is the date of its data, null if the file has none."""


class HopNamesOut(Schema):
    """Names by address, and the tables that they are from."""

    names: dict[str, HopNameOut]
    tables: list[AddressTableOut]


@with_fields_of(RoutePeriod)
class RoutePeriodOut(Schema):
    """A period in which the traces of a flow showed the same route: `hops` from TTL 1 on, null if never seen. It ends
    with the first trace on another route; `until` is null for the present route, `last_at` its last trace so far."""


class PathRoutesOut(Schema):
    """The routes of a path that reach into [since, until), and those of the reverse path, if there is any."""

    path_id: int
    reverse_path_id: int | None
    since: datetime
    until: datetime
    routes: list[RoutePeriodOut]
    reverse_routes: list[RoutePeriodOut]
    names: dict[str, HopNameOut]
    tables: list[AddressTableOut]


@with_fields_of(RouteChange)
class RouteChangeOut(Schema):
    """A change of the route of a flow: after `last_before_at`, and before or at `at`, the first trace that shows it.
    `before_since` and `after_until` are those of the changes before and after it, null without any."""


@with_fields_of(StoredRoute)
class RouteOut(Schema):
    """A route of a path; `number` counts those of the path. `last_at` is its last trace."""


@with_fields_of(Block, before=list[str | None], after=list[str | None])
class BlockOut(Schema):
    """Consecutive hops of both routes, with the first and the last TTL on each side, null for an empty side."""


@with_fields_of(Block, before=list[int | None], after=list[int | None])
class AsBlockOut(Schema):
    """Consecutive AS of both routes, null where unknown, with the first and the last TTL on each side."""


class RouteDiffOut(Schema):
    """Two routes side by side, in blocks of hops and in blocks of AS; a silent hop and an unknown AS agree with all."""

    before: RouteOut
    after: RouteOut
    blocks: list[BlockOut]
    as_blocks: list[AsBlockOut]
    names: dict[str, HopNameOut]
    tables: list[AddressTableOut]


@with_fields_of(MplsEntry)
class MplsOut(Schema):
    """An entry of a label stack, topmost first."""


@with_fields_of(TraceHop, mpls=list[MplsOut])
class HopOut(Schema):
    """A hop of a trace. `rtts_ms` has an entry for each probe, null without a reply; `is_inferred` hops were probed for
    another path in the same round. `error` ended the trace; `others` are routers of other flows. `name` is null without
    a reply."""

    name: HopNameOut | None


@with_fields_of(FlowEffect)
class FlowEffectOut(Schema):
    """Whether RTT or loss differ by flow: the lowest and highest median RTT and loss of a flow, and the statistics of
    Kruskal and Wallis (RTT) and of Pearson (loss), each with the value above which flows differ at 99.9%. `text` is the
    verdict in words."""

    text: str


@with_fields_of(StoredTrace, hops=list[HopOut], flow_effect=FlowEffectOut | None)
class TraceOut(Schema):
    """A trace, without hops unless the outcome is `measured`. `route_id` is null where no router replied, `flow_effect`
    for a trace of a single flow."""


@with_fields_of(Passage)
class PassageOut(Schema):
    """A path through a router or an AS: its first hop there, and the period in which a flow was on the route."""

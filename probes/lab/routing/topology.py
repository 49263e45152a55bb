"""Routers, links and routes of a lab: scenario tables, and the routes that links allow."""

from __future__ import annotations

import difflib
import ipaddress
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from probes.lab.settings import DelayMs, LabError, OptionalSettings, PathSettings, explicit_settings
from probes.toml.keys import Text, check, must_be
from probes.toml.tables import Table

# Sites send with a TTL of 64.
MOST_ROUTERS_OF_A_ROUTE = 60

MOST_LABELS = 16

SITE_NETWORKS = (ipaddress.ip_network("10.77.0.0/17"), ipaddress.ip_network("fd77::/48"))

Pair = tuple[str, str]
# The routers of a way between two sites, in order.
Route = tuple[str, ...]

# The routes of a path in a single direction; with several, each flow keeps to its own (ECMP).
Routes = tuple[Route, ...]


def _address_fault(kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> Callable[[str], str | None]:
    def fault(written: str) -> str | None:
        try:
            address = kind(written)
        except ValueError:
            return f"is not an IPv{kind(0).version} address"
        if any(address in network for network in SITE_NETWORKS):
            return f"is in {' and '.join(map(str, SITE_NETWORKS))}, which hold the sites' addresses: write another"
        if address.is_multicast or address.is_loopback or address.is_unspecified or address.is_link_local:
            return "cannot be a router's address: write a unicast address, such as 192.0.2.1 or 2001:db8::1"
        return None

    return fault


class Router(msgspec.Struct, frozen=True, kw_only=True):
    """A `[[router]]` table."""

    name: Annotated[
        str,
        must_be(
            'small letters, digits, "-" and ".", beginning and ending with a letter or digit',
            "[a-z0-9]([a-z0-9.-]*[a-z0-9])?",
        ),
    ]
    address: Annotated[str, check(_address_fault(ipaddress.IPv4Address))]
    address6: Annotated[str | None, check(_address_fault(ipaddress.IPv6Address))] = None  # without it silent to IPv6
    asn: Annotated[int, msgspec.Meta(ge=1, le=2**32 - 2)] | None = None
    as_name: Text | None = None
    # Time Exceeded messages, with a second's worth as burst; None is unlimited
    icmp_per_s: Annotated[float, msgspec.Meta(gt=0.0, le=1e6)] | None = None
    is_silent: bool = False
    # label stack of arriving packets, topmost first
    mpls: Annotated[
        tuple[Annotated[int, msgspec.Meta(ge=0, le=2**20 - 1)], ...],
        msgspec.Meta(max_length=MOST_LABELS),
    ] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        return (self.address,) if self.address6 is None else (self.address, self.address6)


class LinkTable(OptionalSettings, frozen=True, kw_only=True):
    """A `[[link]]` table."""

    # for both directions
    between: Annotated[tuple[str, str] | None, must_be('two routers or sites, as in between = ["a", "b"]')] = None
    source: str | None = msgspec.field(default=None, name="from")  # with `to`, for a single direction
    destination: str | None = msgspec.field(default=None, name="to")
    delay_ms: DelayMs | None = None


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """Routers of a scenario, link settings by ordered pair, and routes; paths without routes use no routers."""

    routers: tuple[Router, ...] = ()
    links: Mapping[Pair, PathSettings] = {}
    routes: Mapping[Pair, Routes] = {}


def delay_ms(links: Mapping[Pair, PathSettings], pair: Pair, routes: Routes) -> float:
    """One-way delay of a path's links, over the fastest of its routes."""
    return min(sum(links[link].delay_ms for link in itertools.pairwise((pair[0], *route, pair[1]))) for route in routes)


def ways_back(routes: Mapping[Pair, Routes], links: Collection[Pair], pair: Pair, prefix: Route) -> Routes:
    """Routes from the last router of `prefix` back to the path's source; empty without any."""
    *before, router = prefix
    reverse = (pair[1], pair[0])
    for path in (reverse, *(other for other in routes if other[1] == pair[0] and other != reverse)):
        suffixes = [route[route.index(router) + 1 :] for route in routes.get(path, ()) if router in route]
        if suffixes:
            return tuple(dict.fromkeys(suffixes))
    backwards = tuple(reversed(before))
    steps = itertools.pairwise((router, *backwards, pair[0]))
    return (backwards,) if all(step in links for step in steps) else ()


def route_fault(links: Collection[Pair], routers: Collection[str], pair: Pair, route: Sequence[str]) -> str | None:
    """Why `route` is invalid for the path `pair`, with the fix; None if it is valid."""
    if not route:
        return "a route has at least one router"
    if len(route) > MOST_ROUTERS_OF_A_ROUTE:
        return f"{len(route)} routers: a route has at most {MOST_ROUTERS_OF_A_ROUTE}"
    for name in route:
        if name in pair:
            return f'"{name}" is an end of the path: name only the routers between'
        if name not in routers:
            return f'router "{name}" is not defined ({hint(name, routers)})'
        if route.count(name) > 1:
            return f'router "{name}" is on the route {route.count(name)} times: remove the loop'
    for a, b in itertools.pairwise((pair[0], *route, pair[1])):
        if (a, b) not in links:
            other = f"; there is one from {b} to {a} only" if (b, a) in links else ""
            return f"no link from {a} to {b}: add a [[link]], or route around it{other}"
    return None


def way_back_fault(routes: Mapping[Pair, Routes], links: Collection[Pair], pair: Pair) -> str | None:
    """A router without a way back to the source of `pair`, or None."""
    for route in routes[pair]:
        for count in range(1, len(route) + 1):
            if not ways_back(routes, links, pair, route[:count]):
                return (
                    f"{route[count - 1]} has no way back to {pair[0]} for its ICMP errors: "
                    f"put it on a route to {pair[0]}, or add the links back"
                )
    return None


def backwards(routes: Routes) -> Routes:
    return tuple(tuple(reversed(route)) for route in routes)


def hint(name: str, names: Collection[str]) -> str:
    """The closest of `names`, or all, for an error message."""
    close = difflib.get_close_matches(name, names, n=1)
    return f'did you mean "{close[0]}"?' if close else f"defined: {', '.join(names) or 'none'}"


def resolve_link(written: str, links: Collection[Pair]) -> Pair:
    """Parse a link `A-B` or `A:B`. Raises `LabError`."""
    splits = [(written[:at], written[at + 1 :]) for at, letter in enumerate(written) if letter in "-:"]
    matches = [pair for pair in splits if pair in links]
    if len(matches) == 1:
        return matches[0]
    if matches:
        choices = " or ".join(":".join(pair) for pair in matches)
        raise LabError(f'link "{written}" can be read in {len(matches)} ways: write {choices}')
    if not links:
        raise LabError("this lab has no links: start a scenario with routers, such as four-sites-routed")
    raise LabError(f'no link "{written}" ({hint(written, ["-".join(pair) for pair in links])})')


def read_topology(table: Table, sites: Collection[str]) -> Topology:
    """Read `[[router]]`, `[[link]]`, and the routes of `[[path]]`; problems are recorded in `table`."""
    routers = _routers(table.tables("router"), sites)
    names = [router.name for router in routers]
    links = _links(table.tables("link"), sites, names)
    routes = _routes(table.tables("path"), sites, names, links)
    return Topology(routers=tuple(routers), links=links, routes=routes)


def _routers(tables: list[Table], sites: Collection[str]) -> list[Router]:
    routers: list[Router] = []
    for table in tables:
        router: Router = table.entry()
        if router.name in sites:
            table.problem(f'"{router.name}" is a site: give the router another name', "name")
        elif any(router.name == other.name for other in routers):
            table.problem("is defined twice: give each router its own name", "name")
        for key, address in zip(("address", "address6"), router.addresses, strict=False):
            user = next((other.name for other in routers if _same_address(address, other.addresses)), None)
            if user is not None:
                table.problem(f'{key} is that of router "{user}": give each router its own address', key)
        routers.append(router)
    return routers


def _same_address(address: str, others: Collection[str]) -> bool:
    return ipaddress.ip_address(address) in map(ipaddress.ip_address, others)


def _links(tables: list[Table], sites: Collection[str], routers: Sequence[str]) -> dict[Pair, PathSettings]:
    values: dict[Pair, dict[str, Any]] = {}
    written: set[tuple[Pair, bool]] = set()
    # A table with a problem has no entry, so the entries are read before problems are recorded.
    entries: list[tuple[Table, LinkTable]] = [(table, table.entry()) for table in tables]
    for table, link in sorted(entries, key=lambda entry: entry[1].between is None):
        ends = _link_ends(table, link, sites, [*sites, *routers])
        if ends is None:
            continue
        both = () if link.between is None else (ends[::-1],)
        if any((pair, link.between is None) in written for pair in (ends, *both)):
            table.problem(f"{ends[0]}-{ends[1]} has two such tables: remove one")
            continue
        written.add((ends, link.between is None))
        given = explicit_settings(link) | ({} if link.delay_ms is None else {"delay_ms": link.delay_ms})
        for pair in (ends, *both):
            values[pair] = values.get(pair, {}) | given
            if "delay_ms" not in values[pair]:
                table.problem("delay_ms is missing; write delay_ms = 10, the delay each way")
                values[pair]["delay_ms"] = 0.0
    return {pair: PathSettings(**given) for pair, given in values.items()}


def _link_ends(table: Table, link: LinkTable, sites: Collection[str], names: Sequence[str]) -> Pair | None:
    if link.between is not None:
        if link.source is not None or link.destination is not None:
            table.problem("has both `between` and `from`/`to`: use only one of them")
            return None
        ends, keys = link.between, ("between", "between")
    elif link.source is not None and link.destination is not None:
        ends, keys = (link.source, link.destination), ("from", "to")
    else:
        table.problem('write `between = ["a", "b"]` for both directions, or `from` and `to` for a single direction')
        return None
    for name, key in zip(ends, keys, strict=True):
        if name not in names:
            table.problem(f'"{name}" is neither a router nor a site ({hint(name, names)})', key)
            return None
    if ends[0] == ends[1]:
        table.problem(f'goes from "{ends[0]}" to itself: name two ends', keys[0])
        return None
    if ends[0] in sites and ends[1] in sites:
        table.problem(f'"{ends[0]}" and "{ends[1]}" are sites: a link has a router at one end at least', keys[0])
        return None
    return ends


def _routes(
    tables: list[Table], sites: Collection[str], routers: Collection[str], links: Mapping[Pair, PathSettings]
) -> dict[Pair, Routes]:
    routes: dict[Pair, Routes] = {}
    origin: dict[Pair, tuple[Table, str]] = {}
    # A table with a problem has no entry, so the entries are read before problems are recorded.
    entries = [(table, table.entry()) for table in tables]
    for table, path in sorted(entries, key=lambda entry: entry[1].between is None):
        key = "route" if path.route is not None else "routes"
        given: Routes = (path.route,) if path.route is not None else path.routes or ()
        pair = path.between or (path.source, path.destination)
        # Invalid ends are reported with the other settings of the table.
        if not given or any(end not in sites for end in pair) or pair[0] == pair[1]:
            continue
        _refuse_delay_and_both(table)
        for direction, ways in _directions(pair, given, is_single=path.between is None):
            fault = next(filter(None, (route_fault(links, routers, direction, route) for route in ways)), None)
            if fault is not None:
                table.problem(f"{key} {direction[0]}-{direction[1]}: {fault}", key)
                break
            routes[direction], origin[direction] = ways, (table, key)
    for pair, (table, key) in origin.items():
        if pair[::-1] not in routes:
            table.problem(f"{pair[1]}-{pair[0]} has no route: give it one too, or use `between`", key)
        elif fault := way_back_fault(routes, links, pair):
            table.problem(f"{key} {pair[0]}-{pair[1]}: {fault}", key)
    return routes


def _refuse_delay_and_both(table: Table) -> None:
    if table.has("route") and table.has("routes"):
        table.problem("has both `route` and `routes`: several routes are a list of lists in `routes`", "route")
    for setting in ("rtt_ms", "delay_ms"):
        if table.has(setting):
            table.problem(f"the delay of a route is that of its links: remove {setting}", setting)


def _directions(pair: Pair, routes: Routes, *, is_single: bool) -> Iterator[tuple[Pair, Routes]]:
    yield pair, routes
    if not is_single:
        yield pair[::-1], backwards(routes)

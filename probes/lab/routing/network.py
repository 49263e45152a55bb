"""Forwards packets hop by hop along the routes of a lab; routers send Time Exceeded along their own way back."""

from __future__ import annotations

import ipaddress
import itertools
import random
from collections.abc import Callable, Mapping

import msgspec

from probes.lab.emulated_path import EmulatedPath
from probes.lab.routing import packets
from probes.lab.routing.topology import (
    Pair,
    Route,
    Router,
    Routes,
    Topology,
    route_fault,
    way_back_fault,
    ways_back,
)
from probes.lab.settings import LabError

# Queue a packet until its departure time from a link.
Push = Callable[[float, EmulatedPath, "Transit", bytes], None]

# Write a packet to its destination: due time, arrival number, path, descriptor, bytes.
Deliver = Callable[[float, int, EmulatedPath | None, int, bytes], None]


class RouterCounters(msgspec.Struct, kw_only=True):
    """Packets expired at a router, and its ICMP messages, sent or rate-limited."""

    expired: int = 0
    icmp_sent: int = 0
    icmp_limited: int = 0


class EmulatedRouter:
    __slots__ = ("_addresses", "_depth", "_last_s", "_tokens", "counts", "settings")

    def __init__(self, settings: Router) -> None:
        self.settings = settings
        self.counts = RouterCounters()
        self._addresses = {len(packed): packed for packed in map(packed_address, settings.addresses)}
        self._depth = max(1.0, settings.icmp_per_s or 0.0)
        self._tokens = self._depth
        self._last_s = 0.0

    def time_exceeded(self, now_s: float, packet: bytes) -> bytes | None:
        """The ICMP message about a packet expired as it arrived; None if the router sends none."""
        self.counts.expired += 1
        address = self._addresses.get(4 if packet[0] >> 4 == packets.IPV4 else 16)
        if self.settings.is_silent or address is None or not packets.allows_error(packet) or not self._may_send(now_s):
            return None
        kind = packets.TIME_EXCEEDED[packet[0] >> 4]
        return packets.icmp_error(kind, packet, address, self.settings.mpls, self.counts.icmp_sent)

    def answer(self, now_s: float, packet: bytes) -> bytes | None:
        """The router's ICMP answer to a packet for itself; None if it sends none."""
        message = None if self.settings.is_silent else packets.answer_of_router(packet, self.counts.icmp_sent)
        return message if message is not None and self._may_send(now_s) else None

    def _may_send(self, now_s: float) -> bool:
        rate = self.settings.icmp_per_s
        if rate is not None:
            self._tokens = min(self._depth, self._tokens + (now_s - self._last_s) * rate)
            self._last_s = now_s
            if self._tokens < 1.0:
                self.counts.icmp_limited += 1
                return False
            self._tokens -= 1.0
        self.counts.icmp_sent += 1
        return True


class EmulatedHop:
    """A step of a route: a link, and the router or site device `tun_fd` at its end; `number` counts routers so far.

    Without next hop and device the packet is for the router.
    """

    __slots__ = ("link", "next_hop", "number", "prefix", "router", "tun_fd")

    def __init__(self, link: EmulatedPath, router: EmulatedRouter | None, number: int, prefix: Route) -> None:
        self.link = link
        self.router = router
        self.number = number
        self.prefix = prefix
        self.next_hop: EmulatedHop | None = None
        self.tun_fd = -1


class Transit:
    """A packet on a link to `hop`, with its arrival `number` on `path`, None for the routers' own packets."""

    __slots__ = ("_network", "hop", "number", "pair", "path")

    def __init__(self, network: Network, path: EmulatedPath | None, pair: Pair, number: int, hop: EmulatedHop) -> None:
        self._network = network
        self.path = path
        self.pair = pair
        self.number = number
        self.hop = hop

    def arrive(self, due_s: float, number: int, link: EmulatedPath, packet: bytes) -> None:
        """Forward from the end of the link; `number` is the arrival number on the link."""
        link.count_forwarded(number, len(packet))
        hop, network = self.hop, self._network
        if hop.router is None:
            lowered = packets.lower_ttl(packet, hop.number)
            network.deliver(due_s, self.number, self.path, hop.tun_fd, lowered)
        elif hop.next_hop is None:
            message = hop.router.answer(due_s, packets.lower_ttl(packet, hop.number - 1))
            network.send_back(due_s, self.pair, hop, message)
        elif (packet[8] if packet[0] >> 4 == packets.IPV4 else packet[7]) > hop.number:
            network.cross(due_s, self.path, self.pair, self.number, hop.next_hop, packet)
        else:
            if self.path is not None:
                self.path.counts.expired += 1
            message = hop.router.time_exceeded(due_s, packets.lower_ttl(packet, hop.number - 1))
            network.send_back(due_s, self.pair, hop, message)


class Ingress:
    """Entry of a path's packets to its routes; each flow keeps a route by its hash."""

    __slots__ = ("_network", "_salt", "first_hops", "pair")

    def __init__(self, network: Network, pair: Pair, first_hops: tuple[EmulatedHop, ...], salt: int) -> None:
        self._network = network
        self._salt = salt
        self.pair = pair
        self.first_hops = first_hops

    def arrive(self, due_s: float, number: int, path: EmulatedPath, packet: bytes) -> None:
        hop = _choose(self.first_hops, packet, self._salt)
        self._network.cross(due_s, path, self.pair, number, hop, packet)


class Network:
    """Routers, links and present routes of a lab. `tun_fds` are the sites' devices."""

    def __init__(self, topology: Topology, tun_fds: Mapping[str, int], seed: int, push: Push, deliver: Deliver) -> None:
        self.links = {
            pair: EmulatedPath(*pair, settings, random.Random(f"{seed} link {' '.join(pair)}"))
            for pair, settings in topology.links.items()
        }
        self.routers = {router.name: EmulatedRouter(router) for router in topology.routers}
        self.routes: dict[Pair, Routes] = dict(topology.routes)
        self.deliver = deliver
        self._push = push
        self._tun_fds = tun_fds
        self._salt = seed & 0xFFFFFFFF
        self._ways_back: dict[tuple[Pair, Route], tuple[EmulatedHop, ...]] = {}
        self._ingresses = {pair: Ingress(self, pair, self._first_hops(pair), self._salt) for pair in self.routes}
        self._to_routers: dict[Pair, Ingress] = {}
        self._route_to_routers()

    def ingress(self, source: str, destination: str) -> Ingress | None:
        """The entry of packets to a site or router; None without a route."""
        return self._ingresses.get((source, destination)) or self._to_routers.get((source, destination))

    def change_routes(self, changes: Mapping[Pair, Routes]) -> None:
        """Use other routes for new packets. Raises `LabError`, leaving all as before."""
        changed = {**self.routes, **changes}
        faults = [
            (pair, route_fault(self.links, self.routers, pair, route))
            for pair, routes in changes.items()
            for route in routes
        ]
        if not any(fault for _, fault in faults):
            faults = [(pair, way_back_fault(changed, self.links, pair)) for pair in changed]
        for pair, fault in faults:
            if fault is not None:
                raise LabError(f"{pair[0]}-{pair[1]}: {fault}")
        self.routes = changed
        for pair in changes:
            self._ingresses[pair].first_hops = self._first_hops(pair)
        self._route_to_routers()
        self._ways_back.clear()

    def cross(
        self, now_s: float, path: EmulatedPath | None, pair: Pair, number: int, hop: EmulatedHop, packet: bytes
    ) -> None:
        exits_s = hop.link.admit(now_s, len(packet))
        if path is not None and len(exits_s) != 1:
            path.counts.dropped_links += not exits_s
            path.counts.duplicated += len(exits_s) == 2
        for exit_s in exits_s:
            self._push(exit_s, hop.link, Transit(self, path, pair, number, hop), packet)

    def send_back(self, now_s: float, pair: Pair, hop: EmulatedHop, message: bytes | None) -> None:
        if message is None:
            return
        key = (pair, hop.prefix)
        hops = self._ways_back.get(key)
        if hops is None:
            routes = ways_back(self.routes, self.links, pair, hop.prefix)
            hops = self._ways_back[key] = tuple(self._chain(hop.prefix[-1], route, pair[0]) for route in routes)
        self.cross(now_s, None, pair, 0, _choose(hops, message, self._salt), message)

    def _first_hops(self, pair: Pair) -> tuple[EmulatedHop, ...]:
        return tuple(self._chain(pair[0], route, pair[1]) for route in self.routes[pair])

    def _route_to_routers(self) -> None:
        routed: dict[Pair, tuple[Pair, Route]] = {}
        for pair, routes in self.routes.items():
            for route in routes:
                for count, router in enumerate(route, 1):
                    routed.setdefault((pair[0], router), (pair, route[:count]))
        for ends, (pair, prefix) in routed.items():
            first_hops = (self._chain(ends[0], prefix, None),)
            if ends in self._to_routers:
                self._to_routers[ends].pair, self._to_routers[ends].first_hops = pair, first_hops
            else:
                self._to_routers[ends] = Ingress(self, pair, first_hops, self._salt)

    def _chain(self, start: str, route: Route, site: str | None) -> EmulatedHop:
        names = route if site is None else (*route, site)
        hops = [
            EmulatedHop(self.links[a, b], self.routers.get(b), min(number, len(route)), route[:number])
            for number, (a, b) in enumerate(itertools.pairwise((start, *names)), 1)
        ]
        for hop, following in itertools.pairwise(hops):
            hop.next_hop = following
        if site is not None:
            hops[-1].tun_fd = self._tun_fds[site]
        return hops[0]


def packed_address(address: str) -> bytes:
    return ipaddress.ip_address(address).packed


def _choose(hops: tuple[EmulatedHop, ...], packet: bytes, salt: int) -> EmulatedHop:
    return hops[0] if len(hops) == 1 else hops[packets.flow_hash(packet, salt) % len(hops)]

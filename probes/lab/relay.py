"""The relay: an event loop that moves packets between the sites' TUN devices at their departure times."""

from __future__ import annotations

import heapq
import itertools
import os
import random
import select
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from probes.lab.emulated_path import EmulatedPath, PathCounters
from probes.lab.namespaces import WAN_INTERFACE, SiteNamespace
from probes.lab.routing.network import Ingress, Network, RouterCounters, Transit, packed_address
from probes.lab.routing.topology import Topology
from probes.lab.settings import LabError, PathSettings

LONGEST_PACKET_BYTES = 2048
# Read from a site before due packets are sent, at most: 16 take about 0.2 ms.
PACKETS_AT_ONCE = 16

IDLE_S = 3600.0
LATE_S = 1e-3
NO_ROUTERS = Topology()

# The descriptor to write a packet to, or its next step on a route.
Exit = int | Ingress | Transit

# Departure time, arrival number, path or link, exit, bytes.
PacketInTransit = tuple[float, int, EmulatedPath, Exit, bytes]


class _Port:
    """A site's device, and the routes by destination address."""

    __slots__ = ("name", "routes", "tun_fd", "unroutable")

    def __init__(self, name: str, tun_fd: int, routes: dict[bytes, tuple[EmulatedPath, Exit]]) -> None:
        self.name = name
        self.tun_fd = tun_fd
        self.routes = routes
        self.unroutable = 0


class Relay:
    """Moves packets between `sites` until `stop`, directly or along `topology`; `seed` makes choices reproducible."""

    def __init__(
        self,
        sites: Sequence[SiteNamespace],
        settings: Mapping[tuple[str, str], PathSettings],
        seed: int,
        topology: Topology = NO_ROUTERS,
    ) -> None:
        self.paths = {
            (source, destination): EmulatedPath(
                source, destination, path_settings, random.Random(f"{seed} {source} {destination}")
            )
            for (source, destination), path_settings in settings.items()
        }
        self.readers: dict[int, Callable[[], None]] = {}
        self.writers: dict[int, Callable[[], None]] = {}
        self.late_over_1ms = 0
        self.latest_s = 0.0
        self.late_s = 0.0
        self._in_transit: list[PacketInTransit] = []
        self._numbers = itertools.count()
        tun_fds = {site.name: site.tun_fd for site in sites}
        self.network = Network(topology, tun_fds, seed, self._push, self._deliver_routed)
        self._ports = {site.tun_fd: _Port(site.name, site.tun_fd, self._routes(site, sites)) for site in sites}
        self._stopping = False

    def run(self) -> None:
        """Move packets until `stop`. Raises `LabError` if a device is gone, and callbacks' exceptions."""
        ports, readers, writers = self._ports, self.readers, self.writers
        while not self._stopping:
            timeout_s = self._forward_due()
            readable, writable, _ = select.select([*ports, *readers], list(writers), (), timeout_s)
            for fd in readable:
                port = ports.get(fd)
                if port is not None:
                    self._receive(port)
                elif fd in readers:
                    readers[fd]()
            for fd in writable:
                if fd in writers:
                    writers[fd]()

    def stop(self) -> None:
        """Make `run` return, losing packets in transit."""
        self._stopping = True

    def in_transit(self) -> Counter[tuple[str, str]]:
        counter: Counter[tuple[str, str]] = Counter()
        for _, _, crossed, exit_, _ in self._in_transit:
            counter[crossed.source, crossed.destination] += 1
            if isinstance(exit_, Transit) and exit_.path is not None:
                counter[exit_.path.source, exit_.path.destination] += 1
        return counter

    def unroutable(self) -> dict[str, int]:
        return {port.name: port.unroutable for port in self._ports.values()}

    def reset_counters(self) -> None:
        """Reset all counters; packets in transit still count on departure, but not as received."""
        self.late_over_1ms, self.latest_s, self.late_s = 0, 0.0, 0.0
        for port in self._ports.values():
            port.unroutable = 0
        for path in (*self.paths.values(), *self.network.links.values()):
            path.counts = PathCounters()
        for router in self.network.routers.values():
            router.counts = RouterCounters()

    def _routes(self, source: SiteNamespace, sites: Iterable[SiteNamespace]) -> dict[bytes, tuple[EmulatedPath, Exit]]:
        routes: dict[bytes, tuple[EmulatedPath, Exit]] = {}
        for site in sites:
            if site.name != source.name:
                path, ingress = self.paths[source.name, site.name], self.network.ingress(source.name, site.name)
                exit_ = site.tun_fd if ingress is None else ingress
                routes |= {packed_address(address): (path, exit_) for address in site.addresses}
        for name, router in self.network.routers.items():
            ingress = self.network.ingress(source.name, name)
            if ingress is not None:
                path = EmulatedPath(source.name, name, PathSettings(delay_ms=0.0), random.Random(0))
                routes |= {packed_address(address): (path, ingress) for address in router.settings.addresses}
        return routes

    def _receive(self, port: _Port) -> None:
        queue, routes, numbers, clock = self._in_transit, port.routes, self._numbers, time.monotonic
        for _ in range(PACKETS_AT_ONCE):
            try:
                packet = os.read(port.tun_fd, LONGEST_PACKET_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                raise LabError(
                    f'site "{port.name}" lost its {WAN_INTERFACE}: {error.strerror}; restart the lab'
                ) from error
            route = routes.get(packet[16:20] if packet[0] >> 4 == 4 else packet[24:40])
            if route is None:
                port.unroutable += 1
                continue
            path, exit_ = route
            for exit_s in path.admit(clock(), len(packet)):
                heapq.heappush(queue, (exit_s, next(numbers), path, exit_, packet))

    def _forward_due(self) -> float:
        queue, clock = self._in_transit, time.monotonic
        while queue:
            early_s = queue[0][0] - clock()
            if early_s > 0:
                return early_s
            due_s, number, path, exit_, packet = heapq.heappop(queue)
            if isinstance(exit_, int):
                self._deliver(-early_s, number, path, exit_, packet)
            else:
                exit_.arrive(due_s, number, path, packet)
        return IDLE_S

    def _push(self, exit_s: float, link: EmulatedPath, transit: Transit, packet: bytes) -> None:
        heapq.heappush(self._in_transit, (exit_s, next(self._numbers), link, transit, packet))

    def _deliver_routed(self, due_s: float, number: int, path: EmulatedPath | None, out_fd: int, packet: bytes) -> None:
        self._deliver(time.monotonic() - due_s, number, path, out_fd, packet)

    def _deliver(self, late_s: float, number: int, path: EmulatedPath | None, out_fd: int, packet: bytes) -> None:
        """Write a packet to its device, and count it unless it is a router's own, without path."""
        try:
            os.write(out_fd, packet)
        except OSError:
            # A malformed packet, or a device that is down: counted as failed.
            if path is not None:
                path.counts.failed += 1
            return
        if path is not None:
            path.count_forwarded(number, len(packet))
        self.late_s += late_s
        if late_s > LATE_S:
            self.late_over_1ms += 1
        if late_s > self.latest_s:
            self.latest_s = late_s

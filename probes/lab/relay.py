"""The relay: an event loop that moves packets between the sites' TUN devices at their departure times.

Takes the sites' namespaces and the settings of every ordered path; writes the packets that `EmulatedPath` passes to the
destination's device within a fraction of a millisecond of their departure time, and counts them. The loop can watch
other descriptors (control, signals). `probes.lab.process` sets it up.
"""

from __future__ import annotations

import heapq
import itertools
import os
import random
import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from probes.lab.emulated_path import EmulatedPath, PathCounters
from probes.lab.namespaces import WAN_INTERFACE, SiteNamespace
from probes.lab.settings import LabError, PathSettings

LONGEST_PACKET_BYTES = 2048
PACKETS_AT_ONCE = 16
"""Maximum number of packets read from a site before due packets are sent: 16 take about 0.2 ms."""

IDLE_S = 3600.0
LATE_S = 1e-3

PacketInTransit = tuple[float, int, EmulatedPath, int, bytes]
"""Departure time, arrival number, path, descriptor to write to, bytes."""


class _Port:
    """A site's device: the descriptor to read packets from, and the routes by destination address."""

    __slots__ = ("name", "routes", "tun_fd", "unroutable")

    def __init__(self, name: str, tun_fd: int, routes: dict[bytes, tuple[EmulatedPath, int]]) -> None:
        self.name = name
        self.tun_fd = tun_fd
        self.routes = routes
        self.unroutable = 0


class Relay:
    """Moves packets between `sites` until `stop` is called. `seed` makes random choices reproducible."""

    def __init__(
        self, sites: Sequence[SiteNamespace], settings: Mapping[tuple[str, str], PathSettings], seed: int
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
        self._ports = {site.tun_fd: _Port(site.name, site.tun_fd, self._routes(site, sites)) for site in sites}
        self._in_transit: list[PacketInTransit] = []
        self._numbers = itertools.count()
        self._stopping = False

    def run(self) -> None:
        """Move packets until `stop`. Raises `LabError` if a site's device is gone, and exceptions of callbacks."""
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
        """Make `run` return. Packets in transit are lost."""
        self._stopping = True

    def in_transit(self) -> Counter[tuple[str, str]]:
        """Number of packets in transit on each path."""
        return Counter((path.source, path.destination) for _, _, path, _, _ in self._in_transit)

    def unroutable(self) -> dict[str, int]:
        """Number of packets per site to addresses of no other site."""
        return {port.name: port.unroutable for port in self._ports.values()}

    def reset_counters(self) -> None:
        """Reset the counters. Packets in transit are counted on departure, but not as received."""
        self.late_over_1ms, self.latest_s, self.late_s = 0, 0.0, 0.0
        for port in self._ports.values():
            port.unroutable = 0
        for path in self.paths.values():
            path.counts = PathCounters()

    def _routes(self, source: SiteNamespace, sites: Iterable[SiteNamespace]) -> dict[bytes, tuple[EmulatedPath, int]]:
        return {
            socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address): (
                self.paths[source.name, site.name],
                site.tun_fd,
            )
            for site in sites
            if site.name != source.name
            for address in site.addresses
        }

    def _receive(self, port: _Port) -> None:
        """Read a batch of packets from a site."""
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
            path, out_fd = route
            for exit_s in path.admit(clock(), len(packet)):
                heapq.heappush(queue, (exit_s, next(numbers), path, out_fd, packet))

    def _forward_due(self) -> float:
        """Write due packets. Returns the seconds until the next packet is due."""
        queue, clock = self._in_transit, time.monotonic
        while queue:
            early_s = queue[0][0] - clock()
            if early_s > 0:
                return early_s
            _, number, path, out_fd, packet = heapq.heappop(queue)
            try:
                os.write(out_fd, packet)
            except OSError:
                # A malformed packet, or a device that is down: counted as failed.
                path.counts.failed += 1
                continue
            path.count_forwarded(number, len(packet))
            self.late_s -= early_s
            if -early_s > LATE_S:
                self.late_over_1ms += 1
            if -early_s > self.latest_s:
                self.latest_s = -early_s
        return IDLE_S

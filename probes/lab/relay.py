"""The relay: one loop that moves every packet between the sites' TUN devices, each at its time.

In: the sites' namespaces and the settings of every ordered path. Out: the packets that `EmulatedPath` lets through,
written to the destination's device within a fraction of a millisecond of the time it gave them; and counts. Other
descriptors (control, signals) can be watched in the same loop. Setting up is in `probes.lab.process`.
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

from probes.lab.emulated_path import Counts, EmulatedPath
from probes.lab.namespaces import WAN_INTERFACE, SiteNamespace
from probes.lab.scenario import LabError, PathSettings

LONGEST_PACKET_BYTES = 2048
PACKETS_AT_ONCE = 16
"""Read from one site before the packets that became due are looked after: 16 take about 0.2 ms."""

IDLE_S = 3600.0
LATE_S = 1e-3

Held = tuple[float, int, EmulatedPath, int, bytes]
"""A packet under way: when it leaves, its number in order of arrival, its path, where it is written, its bytes."""


class _Port:
    """A site as the relay sees it: where its packets are read, and by destination address where they go."""

    __slots__ = ("name", "routes", "tun_fd", "unroutable")

    def __init__(self, name: str, tun_fd: int, routes: dict[bytes, tuple[EmulatedPath, int]]) -> None:
        self.name = name
        self.tun_fd = tun_fd
        self.routes = routes
        self.unroutable = 0


class Relay:
    """Moves packets between `sites` until `stop` is called. `seed` makes its random choices repeatable."""

    def __init__(
        self, sites: Sequence[SiteNamespace], settings: Mapping[tuple[str, str], PathSettings], seed: int
    ) -> None:
        self.paths = {
            (source, destination): EmulatedPath(
                source, destination, each, random.Random(f"{seed} {source} {destination}")
            )
            for (source, destination), each in settings.items()
        }
        self.readers: dict[int, Callable[[], None]] = {}
        self.writers: dict[int, Callable[[], None]] = {}
        self.late_over_1ms = 0
        self.latest_s = 0.0
        self.late_s = 0.0
        self._ports = {site.tun_fd: _Port(site.name, site.tun_fd, self._routes(site, sites)) for site in sites}
        self._held: list[Held] = []
        self._numbers = itertools.count()
        self._stopping = False

    def run(self) -> None:
        """Move packets until `stop`. Raises `LabError` if a site's device is gone, and whatever a callback raises."""
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
        """Let `run` return. Packets under way are lost."""
        self._stopping = True

    def held(self) -> Counter[tuple[str, str]]:
        """How many packets are under way on each path."""
        return Counter((path.source, path.destination) for _, _, path, _, _ in self._held)

    def unroutable(self) -> dict[str, int]:
        """By site, packets to addresses that are of no other site."""
        return {port.name: port.unroutable for port in self._ports.values()}

    def reset_counters(self) -> None:
        """Count from zero. Packets under way are counted when they leave, and not as received."""
        self.late_over_1ms, self.latest_s, self.late_s = 0, 0.0, 0.0
        for port in self._ports.values():
            port.unroutable = 0
        for path in self.paths.values():
            path.counts = Counts()

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
        """Take what a site has sent, a batch at most."""
        held, routes, numbers, clock = self._held, port.routes, self._numbers, time.monotonic
        for _ in range(PACKETS_AT_ONCE):
            try:
                packet = os.read(port.tun_fd, LONGEST_PACKET_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                raise LabError(
                    f'site "{port.name}" lost its {WAN_INTERFACE}: {error.strerror}; start the lab anew'
                ) from error
            route = routes.get(packet[16:20] if packet[0] >> 4 == 4 else packet[24:40])
            if route is None:
                port.unroutable += 1
                continue
            path, out_fd = route
            for exit_s in path.admit(clock(), len(packet)):
                heapq.heappush(held, (exit_s, next(numbers), path, out_fd, packet))

    def _forward_due(self) -> float:
        """Write what has become due. Returns the seconds until there is more."""
        held, clock = self._held, time.monotonic
        while held:
            early_s = held[0][0] - clock()
            if early_s > 0:
                return early_s
            _, number, path, out_fd, packet = heapq.heappop(held)
            try:
                os.write(out_fd, packet)
            except OSError:
                # A malformed packet, or a device that its site took down: counted, like every other packet.
                path.counts.failed += 1
                continue
            path.left(number, len(packet))
            self.late_s -= early_s
            if -early_s > LATE_S:
                self.late_over_1ms += 1
            if -early_s > self.latest_s:
                self.latest_s = -early_s
        return IDLE_S

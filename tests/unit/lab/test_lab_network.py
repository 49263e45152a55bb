"""Forwarding along routes, driven by a simulated clock."""

from __future__ import annotations

import heapq
import itertools
import random
import socket
import struct

import pytest

from probes.lab.emulated_path import EmulatedPath
from probes.lab.routing.network import Ingress, Network, Transit
from probes.lab.routing.topology import Router, Topology, ways_back
from probes.lab.settings import LabError, PathSettings

SITES = {"a": "10.77.1.1", "b": "10.77.2.1"}
FDS = {"a": 1, "b": 2}
ROUTERS = ("r1", "r2", "r3", "q2", "way")
DELAY_MS = 10.0


def topology(**router_settings: dict[str, object]) -> Topology:
    """a, r1, r2 or q2, r3, b, 10 ms each; back from r3 by `way`."""
    routers = tuple(
        Router(name=name, address=f"192.0.2.{number}", **router_settings.get(name, {}))  # type: ignore[arg-type]
        for number, name in enumerate(ROUTERS, 1)
    )
    ends = ["a r1", "r1 r2", "r1 q2", "r2 r3", "q2 r3", "r3 b", "r3 way", "way a"]
    links = {tuple(pair.split()): PathSettings(delay_ms=DELAY_MS) for pair in ends}
    links |= {pair[::-1]: settings for pair, settings in links.items()}
    return Topology(
        routers=routers,
        links=links,  # type: ignore[arg-type]
        routes={("a", "b"): (("r1", "r2", "r3"),), ("b", "a"): (("r3", "way"),)},
    )


class Simulation:
    """A queue in place of the relay's: `send` returns the packets that a site got, with their times."""

    def __init__(self, topology: Topology) -> None:
        self.queue: list[tuple[float, int, EmulatedPath, Ingress | Transit, bytes]] = []
        self.numbers = itertools.count()
        self.delivered: list[tuple[float, int, bytes]] = []
        self.network = Network(topology, FDS, 1, self._push, self._deliver)
        self.path = EmulatedPath("a", "b", PathSettings(delay_ms=0.0), random.Random(1))

    def send(self, packet: bytes, at_s: float = 0.0, to: str = "b") -> list[tuple[float, int, bytes]]:
        self.delivered.clear()
        ingress = self.network.ingress("a", to)
        assert ingress is not None
        self._push(at_s, self.path, ingress, packet)
        while self.queue:
            due_s, number, link, step, data = heapq.heappop(self.queue)
            step.arrive(due_s, number, link, data)
        return list(self.delivered)

    def trace(self, ttl: int, at_s: float = 0.0, checksum: int = 0) -> tuple[float, str, int] | None:
        """Time of the reply in ms, its source and TTL."""
        replies = self.send(echo(ttl, checksum), at_s)
        if not replies:
            return None
        ((time_s, _, data),) = replies
        return round((time_s - at_s) * 1e3, 6), socket.inet_ntoa(data[12:16]), data[8]

    def _push(self, exit_s: float, link: EmulatedPath, step: Ingress | Transit, packet: bytes) -> None:
        heapq.heappush(self.queue, (exit_s, next(self.numbers), link, step, packet))

    def _deliver(self, due_s: float, number: int, path: EmulatedPath | None, fd: int, packet: bytes) -> None:
        self.delivered.append((due_s, fd, packet))


def echo(ttl: int, checksum: int = 0) -> bytes:
    ends = socket.inet_aton(SITES["a"]) + socket.inet_aton(SITES["b"])
    return struct.pack("!BBHHHBBH", 0x45, 0, 28, 0, 0, ttl, 1, 0) + ends + struct.pack("!BBHI", 8, 0, checksum, 0)


def test_a_packet_arrives_after_all_links_with_a_lower_ttl() -> None:
    simulation = Simulation(topology())

    ((time_s, fd, packet),) = simulation.send(echo(64))

    assert time_s == pytest.approx(0.040)
    assert (fd, packet[8]) == (FDS["b"], 61)
    assert simulation.network.links["r2", "r3"].counts.forwarded == 1


def test_each_router_reports_expired_packets_on_its_way_back() -> None:
    simulation = Simulation(topology())

    # From r1 and r2 back over the routers that the packet came by, from r3 on the reverse route by `way`.
    assert [simulation.trace(ttl) for ttl in (1, 2, 3)] == [
        (20.0, "192.0.2.1", 255),
        (40.0, "192.0.2.2", 254),
        (50.0, "192.0.2.3", 254),
    ]
    assert simulation.path.counts.expired == 3
    assert len(simulation.send(echo(4))) == 1
    assert simulation.delivered[0][1] == FDS["b"]


def test_a_silent_router_forwards_and_says_nothing() -> None:
    simulation = Simulation(topology(r2={"is_silent": True}))

    assert simulation.trace(2) is None
    assert simulation.trace(3) == (50.0, "192.0.2.3", 254)
    assert simulation.network.routers["r2"].counts.expired == 1


def test_the_rate_limit_is_a_token_bucket_of_a_second() -> None:
    simulation = Simulation(topology(r1={"icmp_per_s": 2}))

    replies = [simulation.trace(1, at_s) is not None for at_s in (10.0, 10.1, 10.2, 10.55, 10.6, 60.0)]

    # Two tokens at first; the third comes 0.5 s after the bucket was full.
    assert replies == [True, True, False, True, False, True]
    assert simulation.network.routers["r1"].counts.icmp_limited == 2


def test_a_slow_limit_still_has_a_first_token() -> None:
    simulation = Simulation(topology(r1={"icmp_per_s": 0.5}))

    assert [simulation.trace(1, at_s) is not None for at_s in (10.0, 11.0, 12.0, 12.5)] == [True, False, True, False]


def test_each_flow_keeps_to_one_of_several_routes() -> None:
    simulation = Simulation(topology())
    simulation.network.change_routes({("a", "b"): (("r1", "r2", "r3"), ("r1", "q2", "r3"))})

    second_hops = [[simulation.trace(2, checksum=flow) for _ in range(3)] for flow in range(32)]

    assert all(len(set(hops)) == 1 for hops in second_hops)
    assert {hops[0][1] for hops in second_hops if hops[0]} == {"192.0.2.2", "192.0.2.4"}


def test_a_link_is_shared_and_drops_both_ways_separately() -> None:
    simulation = Simulation(topology())
    simulation.network.links["r2", "r3"].change(PathSettings(delay_ms=DELAY_MS, loss_ratio=1.0))

    assert simulation.trace(2) is not None
    assert simulation.trace(3) is None
    assert simulation.send(echo(64)) == []
    assert simulation.path.counts.dropped_links == 2
    assert simulation.network.links["r2", "r3"].counts.dropped_loss == 2
    assert simulation.network.links["r3", "r2"].counts.received == 0


def test_an_error_can_be_lost_on_its_way_back() -> None:
    simulation = Simulation(topology())
    simulation.network.links["way", "a"].change(PathSettings(delay_ms=DELAY_MS, loss_ratio=1.0))

    assert simulation.trace(2) is not None
    assert simulation.trace(3) is None
    assert simulation.path.counts.dropped_links == 0


def test_duplicates_on_a_link_are_counted_by_the_path() -> None:
    simulation = Simulation(topology())
    simulation.network.links["r1", "r2"].change(PathSettings(delay_ms=DELAY_MS, duplicate_ratio=1.0))

    assert [fd for _, fd, _ in simulation.send(echo(64))] == [2, 2]
    assert simulation.path.counts.duplicated == 1


def test_a_router_answers_a_ping_to_itself() -> None:
    simulation = Simulation(topology())
    request = echo(64)[:16] + bytes([192, 0, 2, 3]) + echo(64)[20:]

    ((time_s, fd, reply),) = simulation.send(request, to="r3")

    assert time_s == pytest.approx(0.050)
    assert (fd, reply[12:16], reply[8], reply[20]) == (FDS["a"], bytes([192, 0, 2, 3]), 254, 0)


def test_routes_change_for_packets_that_leave_afterwards() -> None:
    simulation = Simulation(topology())
    assert simulation.trace(2) == (40.0, "192.0.2.2", 254)

    simulation.network.change_routes({("a", "b"): (("way", "r3"),), ("b", "a"): (("r3", "r2", "r1"),)})

    assert simulation.trace(1) == (20.0, "192.0.2.5", 255)
    assert simulation.trace(2) == (50.0, "192.0.2.3", 253)


@pytest.mark.parametrize(
    ("route", "reason"),
    [
        (("r1", "r4"), 'router "r4" is not defined'),
        (("r1", "r3"), "no link from r1 to r3"),
        (("r1", "r2", "r1", "q2", "r3"), "remove the loop"),
        (("a", "r1"), "end of the path"),
        ((), "at least one router"),
    ],
)
def test_an_impossible_route_changes_nothing(route: tuple[str, ...], reason: str) -> None:
    simulation = Simulation(topology())

    with pytest.raises(LabError, match=reason):
        simulation.network.change_routes({("a", "b"): (route,)})

    assert simulation.trace(2) == (40.0, "192.0.2.2", 254)


def test_a_router_sends_back_by_the_route_of_another_path() -> None:
    routes = {("a", "b"): (("r1", "r2"),), ("b", "a"): (("q2",),), ("c", "a"): (("x", "r2", "y"),)}
    links = [("r1", "a")]

    assert ways_back(routes, links, ("a", "b"), ("r1", "r2")) == (("y",),)
    assert ways_back(routes, links, ("a", "b"), ("r1",)) == ((),)
    assert ways_back(routes, [], ("a", "b"), ("r1",)) == ()

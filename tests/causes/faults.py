"""The planted faults, each with the expected statement: the kind of fault, its paths, and its direction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from monitor.alerts.evidence.stated import Fault
from tests.causes.network import (
    HOSTS,
    REGIONS,
    TESTED_HOSTS,
    AgentImpairment,
    Impairment,
    Pair,
    ping_pairs,
    site_of,
    test_pairs,
)

LASTS_MIN = 40
POLICERS_MBPS = (3, 5, 20)
"""Transfers of 10 s through a policer in the lab, over a path of 50 Mbit/s, recorded after the diagnosis was set."""


@dataclass(frozen=True, slots=True)
class Transfers:
    """The throughput tests from a to b where `hits(a, b)`: TCP with this loss, or at most this rate; or real transfers
    of the lab through a policer of this rate.
    """

    hits: Callable[[str, str], bool]
    loss_ratio: float = 0.0
    rate_bps: float | None = None
    policed_mbps: int | None = None
    fails: bool = False


@dataclass(frozen=True, slots=True)
class Expectation:
    """An expected incident: any of these faults, on exactly these paths. A fault of `vaguer` is true but less specific:
    it counts as "cannot tell".

    `toward` is the direction of the impaired packets where a single direction is impaired; None where a statement of
    any direction would be wrong. `place` is a word that the statement must contain.
    """

    faults: tuple[Fault, ...]
    paths: frozenset[Pair]
    place: tuple[str, ...]
    toward: Pair | None = None
    vaguer: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class PlantedFault:
    """A fault in the mesh, in the network and as an incident must state it."""

    expected: tuple[Expectation, ...]
    impairments: tuple[Impairment, ...] = ()
    agents: tuple[AgentImpairment, ...] = ()
    transfers: tuple[Transfers, ...] = ()
    lasts_min: int = LASTS_MIN
    kind: str = ""
    seed: int = 0


def between(a: str, b: str) -> Callable[[str, str], bool]:
    """Packets from a to b, in this direction."""
    return lambda source, destination: (source, destination) == (a, b)


def either(a: str, b: str) -> Callable[[str, str], bool]:
    """Packets between a and b."""
    return lambda source, destination: {source, destination} == {a, b}


def at_hosts(*names: str) -> Callable[[str, str], bool]:
    """Packets from or to any of these hosts."""
    return lambda source, destination: source in names or destination in names


def leaving(*names: str) -> Callable[[str, str], bool]:
    return lambda source, destination: source in names


def across(region: str, other: str) -> Callable[[str, str], bool]:
    """Packets between two regions."""
    return lambda source, destination: {REGIONS[site_of(source)], REGIONS[site_of(destination)]} == {region, other}


def touched(hits: Callable[[str, str], bool]) -> frozenset[Pair]:
    """The pings that packets of these hosts are part of, as requests or as replies."""
    return frozenset(pair for pair in ping_pairs() if hits(*pair) or hits(*pair[::-1]))


def tested(hits: Callable[[str, str], bool]) -> frozenset[Pair]:
    return frozenset(pair for pair in test_pairs() if hits(*pair))


def _pair(random: np.random.Generator) -> Pair:
    a, b = random.permutation(len(TESTED_HOSTS))[:2]
    return TESTED_HOSTS[int(a)], TESTED_HOSTS[int(b)]


def _site(random: np.random.Generator) -> str:
    """A site with a single host."""
    single = [host.name for host in HOSTS if host.site != "cern"]
    return single[int(random.integers(len(single)))]


def _ratio(random: np.random.Generator, least: float, most: float) -> float:
    return round(float(np.exp(random.uniform(np.log(least), np.log(most)))), 4)


Making = Callable[[int, np.random.Generator], PlantedFault]
MAKERS: dict[str, Making] = {}


def _kind(name: str) -> Callable[[Making], Making]:
    def register(making: Making) -> Making:
        MAKERS[name] = making
        return making

    return register


def planted(seeds: int, names: Sequence[str] = ()) -> Iterator[PlantedFault]:
    """Each kind of fault with this many seeds: at different places, of different sizes."""
    for place, (name, making) in enumerate(MAKERS.items()):
        for seed in range(seeds if not names or name in names else 0):
            yield replace(making(seed, np.random.default_rng([place, seed])), kind=name, seed=seed)


LOSS = (Fault.LOSS,)
ROUTE = (Fault.ROUTE,)


@_kind("loss in one direction")
def _loss_one_way(seed: int, random: np.random.Generator) -> PlantedFault:
    a, b = _pair(random)
    hits, ratio = between(a, b), _ratio(random, 0.05, 0.25)
    return PlantedFault(
        (Expectation(LOSS, touched(hits), (a, b), (a, b)),),
        (Impairment(hits, loss_ratio=ratio),), transfers=(Transfers(hits, loss_ratio=ratio),),
    )  # fmt: skip


@_kind("loss both ways")
def _loss_both_ways(seed: int, random: np.random.Generator) -> PlantedFault:
    a, b = _pair(random)
    hits, ratio = either(a, b), _ratio(random, 0.03, 0.2)
    return PlantedFault(
        (Expectation(LOSS, touched(hits), (a, b)),),
        (Impairment(hits, loss_ratio=ratio),), transfers=(Transfers(hits, loss_ratio=ratio),),
    )  # fmt: skip


@_kind("loss at a site's uplink")
def _loss_at_site(seed: int, random: np.random.Generator) -> PlantedFault:
    site = _site(random)
    hits, ratio = at_hosts(site), _ratio(random, 0.04, 0.2)
    return PlantedFault(
        (Expectation(LOSS, touched(hits), (site,)),),
        (Impairment(hits, loss_ratio=ratio),), transfers=(Transfers(hits, loss_ratio=ratio),),
    )  # fmt: skip


@_kind("loss out of a site")
def _loss_out_of_site(seed: int, random: np.random.Generator) -> PlantedFault:
    site = _site(random)
    hits, ratio = leaving(site), _ratio(random, 0.05, 0.2)
    return PlantedFault(
        (Expectation(LOSS, touched(hits), (site,), (site, "")),),
        (Impairment(hits, loss_ratio=ratio),), transfers=(Transfers(hits, loss_ratio=ratio),),
    )  # fmt: skip


@_kind("loss at a host")
def _loss_at_host(seed: int, random: np.random.Generator) -> PlantedFault:
    host = ("cern-a", "cern-b", "cern-c")[seed % 3]
    hits, ratio = at_hosts(host), _ratio(random, 0.05, 0.2)
    return PlantedFault(
        (Expectation(LOSS, touched(hits), (host if host != "cern-c" else "cern",)),),
        (Impairment(hits, loss_ratio=ratio),), transfers=(Transfers(hits, loss_ratio=ratio),),
    )  # fmt: skip


@_kind("loss in a shared uplink")
def _loss_in_uplink(seed: int, random: np.random.Generator) -> PlantedFault:
    hits, ratio = at_hosts("cern-a", "cern-b"), _ratio(random, 0.05, 0.2)
    return PlantedFault(
        (Expectation(LOSS, touched(hits), ("cern/geant",)),),
        (Impairment(hits, loss_ratio=ratio),), transfers=(Transfers(hits, loss_ratio=ratio),),
    )  # fmt: skip


@_kind("loss in a segment between regions")
def _loss_between_regions(seed: int, random: np.random.Generator) -> PlantedFault:
    regions = (("Europe", "North America"), ("East Asia", "North America"), ("East Asia", "Europe"))[seed % 3]
    hits, ratio = across(*regions), _ratio(random, 0.05, 0.2)
    return PlantedFault(
        (Expectation(LOSS, touched(hits), regions),),
        (Impairment(hits, loss_ratio=ratio),), transfers=(Transfers(hits, loss_ratio=ratio),),
    )  # fmt: skip


@_kind("delay step in one direction")
def _delay_one_way(seed: int, random: np.random.Generator) -> PlantedFault:
    a, b = _pair(random)
    hits = between(a, b)
    return PlantedFault(
        (Expectation(ROUTE, touched(hits), (a, b)),),
        (Impairment(hits, delay_ms=float(random.uniform(12, 60))),),
    )  # fmt: skip


@_kind("delay step both ways, agent under load")
def _delay_both_ways(seed: int, random: np.random.Generator) -> PlantedFault:
    a, b = _pair(random)
    hits = either(a, b)
    agents = tuple(AgentImpairment(site_of(host), load=8.5) for host in (a, b))
    return PlantedFault(
        (Expectation(ROUTE, touched(hits), (a, b)),),
        (Impairment(hits, delay_ms=float(random.uniform(6, 30))),), agents,
    )  # fmt: skip


@_kind("delay step of a site, agent under load")
def _delay_of_site(seed: int, random: np.random.Generator) -> PlantedFault:
    site = _site(random)
    hits = at_hosts(site)
    return PlantedFault(
        (Expectation(ROUTE, touched(hits), (site,)),),
        (Impairment(hits, delay_ms=float(random.uniform(6, 30))),), (AgentImpairment(site, load=8.5),),
    )  # fmt: skip


@_kind("another route, TTL changed")
def _route_with_ttl(seed: int, random: np.random.Generator) -> PlantedFault:
    a, b = _pair(random)
    hits = between(a, b)
    return PlantedFault(
        (Expectation(ROUTE, touched(hits), (a, b), (a, b)),),
        (Impairment(hits, delay_ms=float(random.uniform(15, 60)), hops=int(random.integers(1, 5))),),
    )  # fmt: skip


@_kind("queue in the evening")
def _evening_queue(seed: int, random: np.random.Generator) -> PlantedFault:
    a, b = _pair(random)
    hits = between(a, b)
    queue_ms, drops = float(random.uniform(15, 40)), 0.02 if seed % 2 else 0.0
    slow = (Transfers(hits, rate_bps=2.5e7),)
    return PlantedFault(
        (Expectation((Fault.QUEUE,), touched(hits), (a, b)),),
        (Impairment(hits, queue_ms=queue_ms, loss_ratio=drops, level=lambda minutes: min(1.0, minutes / 20)),),
        transfers=slow, lasts_min=60,
    )  # fmt: skip


@_kind("queue at a site's uplink")
def _queue_at_site(seed: int, random: np.random.Generator) -> PlantedFault:
    site = _site(random)
    hits = leaving(site)
    return PlantedFault(
        (Expectation((Fault.QUEUE,), touched(hits), (site,)),),
        (Impairment(hits, queue_ms=float(random.uniform(15, 40))),),
    )  # fmt: skip


@_kind("rate fall")
def _rate_fall(seed: int, random: np.random.Generator) -> PlantedFault:
    a, b = _pair(random)
    hits = between(a, b)
    return PlantedFault(
        (Expectation((Fault.RATE,), tested(hits), (a, b), (a, b)),),
        transfers=(Transfers(hits, rate_bps=_ratio(random, 3e6, 3e7)),), lasts_min=120,
    )  # fmt: skip


@_kind("policer")
def _policer(seed: int, random: np.random.Generator) -> PlantedFault:
    a, b = _pair(random)
    hits = between(a, b)
    return PlantedFault(
        (Expectation((Fault.POLICER,), tested(hits), (a, b), (a, b), (Fault.RATE,)),),
        transfers=(Transfers(hits, policed_mbps=POLICERS_MBPS[seed % len(POLICERS_MBPS)]),), lasts_min=120,
    )  # fmt: skip


@_kind("MTU black hole")
def _mtu(seed: int, random: np.random.Generator) -> PlantedFault:
    a, b = _pair(random)
    hits = between(a, b)
    return PlantedFault(
        (Expectation((Fault.MTU,), touched(hits), (a, b)),),
        (Impairment(hits, loss_ratio=1.0, least_bytes=1000),), transfers=(Transfers(hits, fails=True),),
    )  # fmt: skip


@_kind("agent starved of CPU")
def _starved(seed: int, random: np.random.Generator) -> PlantedFault:
    site = _site(random)
    own = frozenset(pair for pair in ping_pairs() if site_of(pair[0]) == site)
    agent = AgentImpairment(site, float(random.uniform(15, 60)), 0.05 if seed % 2 else 0.0, float(9 + seed))
    return PlantedFault(
        (Expectation((Fault.AGENT,), own, (site,)),), agents=(agent,)
    )  # fmt: skip


@_kind("clock step")
def _clock(seed: int, random: np.random.Generator) -> PlantedFault:
    site = _site(random)
    own = frozenset(pair for pair in ping_pairs() if site_of(pair[0]) == site)
    clock_s = (-1793.0, 2407.0, -3593.0, 3.0, -893.0, 1207.0)[seed % 6]
    expected = () if abs(clock_s) < 300 else (Expectation((Fault.CLOCK,), own, (site,)),)
    return PlantedFault(expected, agents=(AgentImpairment(site, clock_s=clock_s),))


@_kind("agent dead")
def _agent_dead(seed: int, random: np.random.Generator) -> PlantedFault:
    site = _site(random)
    own = frozenset(pair for pair in ping_pairs() if site_of(pair[0]) == site)
    return PlantedFault(
        (Expectation((Fault.AGENT_SILENT,), own, (site,)),),
        agents=(AgentImpairment(site, is_dead=True),),
    )  # fmt: skip


@_kind("site dead")
def _site_dead(seed: int, random: np.random.Generator) -> PlantedFault:
    site = _site(random)
    hits = at_hosts(site)
    return PlantedFault(
        (
            Expectation((Fault.SITE_DOWN,), frozenset(p for p in ping_pairs() if p[1] == site), (site,)),
            Expectation((Fault.SITE_DOWN,), frozenset(p for p in ping_pairs() if p[0] == site), (site,)),
        ),
        (Impairment(hits, loss_ratio=1.0),), (AgentImpairment(site, is_dead=True),),
    )  # fmt: skip


@_kind("path interrupted")
def _interrupted(seed: int, random: np.random.Generator) -> PlantedFault:
    a, b = _pair(random)
    hits = between(a, b)
    return PlantedFault(
        (Expectation((Fault.INTERRUPTED,), touched(hits), (a, b)),),
        (Impairment(hits, loss_ratio=1.0),), transfers=(Transfers(either(a, b), fails=True),),
    )  # fmt: skip


@_kind("two at once")
def _two(seed: int, random: np.random.Generator) -> PlantedFault:
    hosts = [TESTED_HOSTS[int(place)] for place in random.permutation(len(TESTED_HOSTS))]
    a, b, c, d = hosts[:4]
    lossy, longer, ratio = between(a, b), either(c, d), _ratio(random, 0.06, 0.25)
    return PlantedFault(
        (
            Expectation(LOSS, touched(lossy), (a, b), (a, b)),
            Expectation(ROUTE, touched(longer), (c, d)),
        ),
        (Impairment(lossy, loss_ratio=ratio), Impairment(longer, delay_ms=float(random.uniform(8, 30)))),
        transfers=(Transfers(lossy, loss_ratio=ratio),),
    )  # fmt: skip


@_kind("none")
def _none(seed: int, random: np.random.Generator) -> PlantedFault:
    return PlantedFault((), agents=(AgentImpairment(_site(random), load=8.5),))


@_kind("site outage after another, unrelated delay step")
def _after_another(seed: int, random: np.random.Generator) -> PlantedFault:
    """Between the outages are four minutes; the step comes during the second."""
    single = [host.name for host in HOSTS if host.site != "cern"]
    earlier, later, c, d = (single[int(place)] for place in random.permutation(len(single))[:4])
    before, now, longer = at_hosts(earlier), at_hosts(later), either(c, d)
    return PlantedFault(
        (
            Expectation((Fault.INTERRUPTED,), touched(before), (earlier,)),
            Expectation((Fault.INTERRUPTED,), touched(now), (later,)),
            Expectation(ROUTE, touched(longer), (c, d)),
        ),
        (
            Impairment(before, loss_ratio=1.0, level=lambda minutes: 1.0 if minutes < 8 else 0.0),
            Impairment(now, loss_ratio=1.0, level=lambda minutes: 1.0 if minutes >= 12 else 0.0),
            Impairment(longer, delay_ms=60.0, level=lambda minutes: 1.0 if minutes >= 14 else 0.0),
        ),
        lasts_min=32,
    )  # fmt: skip

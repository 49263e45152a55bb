"""A simulated mesh: packets travel from host to host, and faults impair packets on their way, not paths.

A ping measures both directions: loss or delay of packets from a to b affects the pings from a to b, as requests, and
the pings from b to a, as replies. A fault of an agent affects its own pings only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PACKETS = 10
SIZES = (100, 1000)
CYCLE_S = 60
NOISE_MS = 0.3
QUIET_LOSS = 0.00005


@dataclass(frozen=True, slots=True)
class SimulatedHost:
    """A host at a site; `uplink` is its link in mesh.toml, if its site has several."""

    name: str
    site: str
    uplink: str | None = None


REGIONS = {"slac": "North America", "ornl": "North America", "nersc": "North America", "cern": "Europe",
           "desy": "Europe", "kek": "East Asia"}  # fmt: skip
PLACES = {"slac": (0.0, 0.0), "nersc": (0.5, 0.2), "ornl": (20.0, 2.0), "cern": (75.0, 10.0), "desy": (78.0, 6.0),
          "kek": (-60.0, 8.0)}  # fmt: skip
"""Sites on a plane whose distances are one-way delays in ms."""

HOSTS = (
    *(SimulatedHost(site, site) for site in ("slac", "ornl", "nersc", "kek", "desy")),
    SimulatedHost("cern-a", "cern", "geant"),
    SimulatedHost("cern-b", "cern", "geant"),
    SimulatedHost("cern-c", "cern", "lhcone"),
)
TESTED_HOSTS = ("slac", "ornl", "nersc", "kek", "desy", "cern-a")
"""The hosts with throughput tests."""

Pair = tuple[str, str]


def ping_pairs() -> list[Pair]:
    """All ordered pairs of hosts at different sites."""
    return [(a.name, b.name) for a in HOSTS for b in HOSTS if a.site != b.site]


def test_pairs() -> list[Pair]:
    """The ordered pairs of hosts with throughput tests."""
    return [(a, b) for a in TESTED_HOSTS for b in TESTED_HOSTS if a != b]


test_pairs.__test__ = False  # type: ignore[attr-defined]


def site_of(host: str) -> str:
    return next(simulated_host.site for simulated_host in HOSTS if simulated_host.name == host)


def base_rtt_ms(pair: Pair) -> float:
    (x1, y1), (x2, y2) = (PLACES[site_of(host)] for host in pair)
    return 2.0 * (1.0 + math.hypot(x1 - x2, y1 - y2))


@dataclass(frozen=True, slots=True)
class Impairment:
    """Impairment of packets from a to b where `hits(a, b)`, scaled by `level(minutes)`.

    `loss_ratio` is per packet, `delay_ms` constant, `queue_ms` the mean of a random wait per packet. `least_bytes`
    spares smaller packets. `hops` lowers the TTL of the replies that arrive.
    """

    hits: Callable[[str, str], bool]
    loss_ratio: float = 0.0
    delay_ms: float = 0.0
    queue_ms: float = 0.0
    least_bytes: int = 0
    hops: int = 0
    level: Callable[[float], float] = lambda minutes: 1.0


@dataclass(frozen=True, slots=True)
class AgentImpairment:
    """A fault of the agent of a site: of its pings and of its reports.

    `late_ms` is the mean delay of stamps, `loss_ratio` of replies that it drops itself, `load` of two CPUs, `clock_s`
    the error of its clock; a `dead` agent delivers nothing, and at a `dark` site no packet arrives either.
    """

    site: str
    late_ms: float = 0.0
    loss_ratio: float = 0.0
    load: float = 0.3
    clock_s: float = 0.0
    is_dead: bool = False


def pings(
    pair: Pair,
    size: int,
    minutes: Floats,
    impairments: tuple[Impairment, ...],
    agent: AgentImpairment | None,
    random: np.random.Generator,
) -> tuple[Floats, NDArray[np.int64]]:
    """RTTs in ms of shape (bursts, packets), NaN where lost, and the TTL of the replies, `minutes` after the onset."""
    shape = (len(minutes), PACKETS)
    rtts = base_rtt_ms(pair) + random.exponential(NOISE_MS, shape)
    delivered_ratio = np.full(shape, 1.0 - QUIET_LOSS)
    ttl = np.full(len(minutes), 55, np.int64)
    for impairment in impairments:
        level = np.array([impairment.level(minute) if minute >= 0 else 0.0 for minute in minutes])[:, np.newaxis]
        for a, b in (pair, pair[::-1]):
            if not impairment.hits(a, b):
                continue
            rtts += impairment.delay_ms * level
            rtts += random.exponential(1.0, shape) * impairment.queue_ms * level
            if size >= impairment.least_bytes:
                delivered_ratio *= 1.0 - impairment.loss_ratio * level
            if (a, b) == pair[::-1]:
                ttl -= np.where(level[:, 0] > 0, impairment.hops, 0)
    if agent is not None:
        active = (minutes >= 0)[:, np.newaxis]
        rtts += random.exponential(1.0, shape) * agent.late_ms * active
        delivered_ratio *= 1.0 - agent.loss_ratio * active
    rtts[random.random(shape) >= delivered_ratio] = np.nan
    return rtts, ttl

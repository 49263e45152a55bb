"""The planted faults, in meshes of 5 to 12 sites: the paths that each affects, how strongly, and its right name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta

import numpy as np

from monitor.mesh.document.alert_rules import Place
from monitor.mesh.queries import MeasuredPath
from tests.planted.paths import BEGAN, CYCLE_S, PAST_HOURS, SIZES

REGIONS = ("Europe", "North America", "East Asia")
EFFECTS = ("loss", "step", "queue")


@dataclass(frozen=True, slots=True)
class SimulatedMesh:
    """A full mesh of hosts at different sites. The first site has three hosts on two uplinks, the second two hosts."""

    paths: dict[int, MeasuredPath]
    hosts: dict[str, str]
    """The site of each host."""
    regions: dict[str, str]
    """The region of each site."""

    @property
    def sites(self) -> list[str]:
        return list(self.regions)


@dataclass(frozen=True, slots=True)
class Trouble:
    """A fault: its affected paths, its right name, its onset in minutes, and its effect on the pings of each path.

    The effect is a loss of packets, a constant delay or a varying delay, a little different from path to path.
    """

    name: str
    path_ids: tuple[int, ...]
    onset_min: float = 0.0
    loss_ratio: float = 0.0
    step_ms: float = 0.0
    queue_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class PlantedTroubles:
    """The faults of a run. The shares of alarmed paths are those of the first fault."""

    kind: str
    seed: int
    mesh: SimulatedMesh
    troubles: tuple[Trouble, ...] = field(default_factory=tuple)
    is_control: bool = False

    @property
    def effect(self) -> str:
        first = self.troubles[0]
        return "loss" if first.loss_ratio else "step" if first.step_ms else "queue"


def mesh_of(site_count: int, random: np.random.Generator) -> SimulatedMesh:
    names = [f"s{number}" for number in range(site_count)]
    regions = {name: REGIONS[place] for name, place in zip(names, _regions(site_count, random), strict=True)}
    hosts = {f"{names[0]}-a": names[0], f"{names[0]}-b": names[0], f"{names[0]}-c": names[0]}
    hosts |= {f"{names[1]}-a": names[1], f"{names[1]}-b": names[1]}
    hosts |= {name: name for name in names[2:]}
    uplinks = {f"{names[0]}-a": "geant", f"{names[0]}-b": "geant", f"{names[0]}-c": "lhcone"}
    pairs = [(a, b) for a in hosts for b in hosts if hosts[a] != hosts[b]]
    paths = {
        number: MeasuredPath(
            number, a, b, 4, Place(hosts[a], hosts[b], hosts=(a, b)), CYCLE_S, min(SIZES),
            BEGAN - timedelta(hours=PAST_HOURS),
            uplinks=frozenset(f"{hosts[end]}/{uplinks[end]}" for end in (a, b) if end in uplinks),
            regions=(regions[hosts[a]], regions[hosts[b]]),
        )
        for number, (a, b) in enumerate(pairs, start=1)
    }  # fmt: skip
    return SimulatedMesh(paths, hosts, regions)


def _regions(site_count: int, random: np.random.Generator) -> list[int]:
    """A region for each site, at least two sites in each of the first two."""
    others = [2, *random.integers(0, 3, site_count - 5).tolist()]
    return random.permutation([0, 0, 1, 1, *others]).tolist()


def _trouble(
    name: str, mesh: SimulatedMesh, hits: Callable[[MeasuredPath], bool], effect: str, random: np.random.Generator,
    onset_min: float = 0.0,
) -> Trouble:  # fmt: skip
    path_ids = tuple(path_id for path_id, path in mesh.paths.items() if hits(path))
    if effect == "loss":
        return Trouble(name, path_ids, onset_min, loss_ratio=_between(random, 0.01, 0.3))
    if effect == "step":
        return Trouble(name, path_ids, onset_min, step_ms=_between(random, 4.0, 60.0))
    return Trouble(name, path_ids, onset_min, queue_ms=_between(random, 8.0, 40.0))


def _between(random: np.random.Generator, least: float, most: float) -> float:
    return float(np.exp(random.uniform(np.log(least), np.log(most))))


Making = Callable[[SimulatedMesh, str, np.random.Generator], Trouble]


def _any_site(mesh: SimulatedMesh, random: np.random.Generator) -> str:
    return mesh.sites[int(random.integers(len(mesh.sites)))]


def site(mesh: SimulatedMesh, effect: str, random: np.random.Generator) -> Trouble:
    """The access link of a site."""
    place = _any_site(mesh, random)
    return _trouble(place, mesh, lambda path: place in (path.place.source, path.place.destination), effect, random)


def outbound(mesh: SimulatedMesh, effect: str, random: np.random.Generator) -> Trouble:
    """The agent of a site, or its firewall for replies."""
    place = _any_site(mesh, random)
    return _trouble(f"{place} outbound", mesh, lambda path: path.place.source == place, effect, random)


def inbound(mesh: SimulatedMesh, effect: str, random: np.random.Generator) -> Trouble:
    """Requests that are limited or delayed at the entrance of a site."""
    place = _any_site(mesh, random)
    return _trouble(f"{place} inbound", mesh, lambda path: path.place.destination == place, effect, random)


def host(mesh: SimulatedMesh, effect: str, random: np.random.Generator) -> Trouble:
    several = [name for name in mesh.hosts if "-" in name and not name.endswith("-c")]
    name = several[int(random.integers(len(several)))]
    return _trouble(f"host {name}", mesh, lambda path: name in (path.source, path.destination), effect, random)


def uplink(mesh: SimulatedMesh, effect: str, random: np.random.Generator) -> Trouble:
    name = f"{mesh.sites[0]}/geant"
    return _trouble(f"uplink {name}", mesh, lambda path: name in path.uplinks, effect, random)


def regions(mesh: SimulatedMesh, effect: str, random: np.random.Generator) -> Trouble:
    ends = sorted(REGIONS[:2])
    return _trouble(" ↔ ".join(ends), mesh, lambda path: sorted(path.regions) == ends, effect, random)


def everything(mesh: SimulatedMesh, effect: str, random: np.random.Generator) -> Trouble:
    return _trouble(f"all {len(mesh.paths)} paths", mesh, lambda path: True, effect, random)


def pair(mesh: SimulatedMesh, effect: str, random: np.random.Generator, end: str | None = None) -> Trouble:
    """The route between two hosts. With `end`, a host of that site is one of them."""
    chosen = [path for path in mesh.paths.values() if end is None or path.place.source == end]
    path = chosen[int(random.integers(len(chosen)))]
    ends = {path.source, path.destination}
    name = " ↔ ".join(sorted(ends))
    return _trouble(name, mesh, lambda path: {path.source, path.destination} == ends, effect, random)


def some_pairs(mesh: SimulatedMesh, effect: str, random: np.random.Generator) -> tuple[Trouble, ...]:
    """A segment crossed by a quarter of the pairs of a site, at least two: a cause that the mesh cannot identify."""
    place = _any_site(mesh, random)
    own = sorted(
        {frozenset((path.source, path.destination)) for path in mesh.paths.values() if path.place.source == place},
        key=sorted,
    )
    whole = _trouble("", mesh, lambda path: True, effect, random)
    chosen = [own[number] for number in random.permutation(len(own))[: max(2, len(own) // 4)]]
    return tuple(
        replace(
            whole,
            name=" ↔ ".join(sorted(ends)),
            path_ids=tuple(number for number, path in mesh.paths.items() if {path.source, path.destination} == ends),
        )
        for ends in chosen
    )


def single_path(mesh: SimulatedMesh, effect: str, random: np.random.Generator) -> Trouble:
    path = mesh.paths[1 + int(random.integers(len(mesh.paths)))]
    name = " ↔ ".join(sorted((path.source, path.destination)))
    return _trouble(name, mesh, lambda other: other is path, effect, random)


MAKERS: dict[str, Making] = {
    "site": site, "site outbound": outbound, "site inbound": inbound, "host": host, "uplink": uplink,
    "two regions": regions, "all paths": everything,
}  # fmt: skip


def _later(trouble: Trouble, random: np.random.Generator) -> Trouble:
    """The same fault some minutes later."""
    return replace(trouble, onset_min=float(random.uniform(0.0, 15.0)))


def _effect(random: np.random.Generator) -> str:
    return EFFECTS[int(random.integers(3))]


def _controls(mesh: SimulatedMesh, random: np.random.Generator) -> dict[str, tuple[Trouble, ...]]:
    common = _any_site(mesh, random)
    pairs = tuple(pair(mesh, _effect(random), random, common) for _ in range(2))
    return {
        "one path": (single_path(mesh, _effect(random), random),),
        "one pair": (pair(mesh, _effect(random), random),),
        "two pairs": (pair(mesh, _effect(random), random), _later(pair(mesh, _effect(random), random), random)),
        "two pairs of a site": (pairs[0], _later(pairs[1], random)),
        "two pairs of a site, alike": tuple(pair(mesh, "loss", random, common) for _ in range(2)),
        "a quarter of the pairs of a site": some_pairs(mesh, _effect(random), random),
        "a site and a pair": (site(mesh, _effect(random), random), _later(pair(mesh, _effect(random), random), random)),
        "two sites": (site(mesh, _effect(random), random), _later(site(mesh, _effect(random), random), random)),
        "a site and an outbound": (
            site(mesh, _effect(random), random), _later(outbound(mesh, _effect(random), random), random),
        ),
        "none": (),
    }  # fmt: skip


def planted(seeds: range) -> Iterator[PlantedTroubles]:
    """Each kind of fault with each seed, with its effects in turn, then the controls."""
    for place, (kind, making) in enumerate(MAKERS.items()):
        for seed in seeds:
            random = np.random.default_rng([1, place, seed])
            mesh = mesh_of(int(random.integers(5, 13)), random)
            yield PlantedTroubles(kind, seed, mesh, (making(mesh, EFFECTS[seed % 3], random),))
    for seed in seeds:
        random = np.random.default_rng([2, seed])
        mesh = mesh_of(int(random.integers(5, 13)), random)
        for kind, troubles in _controls(mesh, random).items():
            yield PlantedTroubles(kind, seed, mesh, troubles, is_control=True)

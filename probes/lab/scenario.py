"""Read scenario files of the lab, by path or name: sites, paths and tests. `ScenarioError` names file and reason."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from probes.lab.routing.topology import LinkTable, Router, Topology, read_topology
from probes.lab.settings import (
    DelayMs,
    LabError,
    OptionalSettings,
    PathSettings,
    ScenarioError,
    explicit_settings,
)
from probes.packets.spec import Pattern
from probes.toml import tables
from probes.toml.keys import Text, must_be
from probes.toml.tables import FileError, Table

SCENARIO_DIR = Path(__file__).parent / "scenarios"
DEFAULT_SCENARIO = "five-sites"
MAX_SITES = 64
# Great-circle distance per millisecond of RTT, at the speed of light in fibre.
RTT_KM_PER_MS = 100.0

DIRECT_MTU_BYTES = 1500
EARTH_RADIUS_KM = 6371.0

SiteName = Annotated[
    str,
    must_be(
        'small letters, digits and "-", beginning and ending with a letter or digit', "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
    ),
]
Seconds = Annotated[int, msgspec.Meta(ge=1)]


class InvalidScenario(FileError, ScenarioError):
    """A scenario file with invalid keys or values; all are named with their lines."""


class LabSite(msgspec.Struct, frozen=True, kw_only=True):
    """A site, emulated as a network namespace."""

    name: SiteName
    title: Text
    latitude_deg: Annotated[float, msgspec.Meta(ge=-90.0, le=90.0)]
    longitude_deg: Annotated[float, msgspec.Meta(ge=-180.0, le=180.0)]
    country: Annotated[str, must_be('two capital letters, as "CH"', "[A-Z]{2}")]  # ISO 3166 alpha-2 code
    region: Text


class PingSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """The ping test of the generated mesh; None takes mesh.toml's defaults."""

    every_s: Seconds
    count: Annotated[int, msgspec.Meta(ge=1)] = 10
    pattern: Pattern | None = None
    spacing_s: Annotated[float, msgspec.Meta(gt=0.0)] | None = None
    timeout_s: Annotated[float, msgspec.Meta(gt=0.0)] = 2.0
    packet_bytes: Annotated[tuple[Annotated[int, msgspec.Meta(ge=16, le=1400)], ...], msgspec.Meta(min_length=1)] = (
        100,
        1000,
    )


class ThroughputSchedule(msgspec.Struct, frozen=True, kw_only=True):
    every_s: Seconds
    duration_s: Seconds
    omit_s: Annotated[int, msgspec.Meta(ge=0)] = 0
    streams: Annotated[int, msgspec.Meta(ge=1)] = 1
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 5201


class TraceSchedule(msgspec.Struct, frozen=True, kw_only=True):
    every_s: Annotated[int, msgspec.Meta(ge=60)]
    attempts: Annotated[int, msgspec.Meta(ge=1, le=20)] = 3
    timeout_s: Annotated[float, msgspec.Meta(gt=0.0)] = 2.0


class StampSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """The STAMP test of the generated mesh."""

    every_s: Seconds
    count: Annotated[int, msgspec.Meta(ge=1)] = 10
    spacing_s: Annotated[float, msgspec.Meta(ge=0.1)] = 0.5
    timeout_s: Annotated[float, msgspec.Meta(gt=0.0)] = 2.0
    # None for all
    sites: (
        Annotated[
            tuple[Annotated[str, must_be('the name of a site, as in sites = ["slac", "cern"]')], ...],
            msgspec.Meta(min_length=2),
        ]
        | None
    ) = None


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """The tests between the sites; those without a table are not run."""

    ping: PingSchedule | None = None
    throughput: ThroughputSchedule | None = None
    trace: TraceSchedule | None = None
    stamp: StampSchedule | None = None


class LossAlert(msgspec.Struct, frozen=True, kw_only=True):
    above_ratio: Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)]
    window_s: Seconds


class Alerts(msgspec.Struct, frozen=True, kw_only=True):
    loss: LossAlert | None = None


class _PathTable(OptionalSettings, frozen=True, kw_only=True):
    """A `[[path]]` table; `link = "direct"` is a veth pair without relay."""

    between: Annotated[tuple[str, str] | None, must_be('two sites, as in between = ["slac", "cern"]')] = None
    source: str | None = msgspec.field(default=None, name="from")
    destination: str | None = msgspec.field(default=None, name="to")
    rtt_ms: DelayMs | None = None
    delay_ms: DelayMs | None = None
    link: Literal["direct"] | None = None
    mtu_bytes: Annotated[int, msgspec.Meta(ge=1280, le=65_535)] | None = None
    route: tuple[Annotated[str, must_be('the name of a router, as in route = ["gw", "core"]')], ...] | None = None
    routes: (
        tuple[Annotated[tuple[str, ...], must_be('a route, as in routes = [["gw", "a"], ["gw", "b"]]')], ...] | None
    ) = None


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    title: Text
    seed: int | None = None
    site: tuple[LabSite, ...]
    # `[default]` has no delay: the default delay comes from the distance.
    default: OptionalSettings = OptionalSettings()
    path: tuple[_PathTable, ...] = ()
    measure: Measure = Measure()
    alerts: Alerts = Alerts()
    router: tuple[Router, ...] = ()
    link: tuple[LinkTable, ...] = ()


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    seed: int | None  # None picks a new seed per run
    sites: tuple[LabSite, ...]
    paths: Mapping[tuple[str, str], PathSettings]  # every ordered pair of sites
    measure: Measure
    alerts: Alerts
    topology: Topology = Topology()
    direct: Mapping[tuple[str, str], int] = {}  # MTU of veth pairs, which bypass the relay

    @property
    def site_names(self) -> tuple[str, ...]:
        return tuple(site.name for site in self.sites)


def shipped_scenarios() -> list[str]:
    return sorted(path.stem for path in SCENARIO_DIR.glob("*.toml"))


def find_scenario(name_or_path: str) -> Path:
    """Find a scenario file by name or path. Raises `ScenarioError`."""
    shipped = SCENARIO_DIR / f"{name_or_path}.toml"
    if "/" not in name_or_path and shipped.is_file():
        return shipped
    if Path(name_or_path).is_file():
        return Path(name_or_path)
    raise ScenarioError(f'no scenario "{name_or_path}": use {", ".join(shipped_scenarios())}, or the path of a file')


def load_scenario(name_or_path: str = DEFAULT_SCENARIO) -> Scenario:
    """Load a scenario by name or path. Raises `ScenarioError`."""
    return read_scenario(find_scenario(name_or_path))


def read_scenario(path: Path) -> Scenario:
    """Read a scenario file. Raises `ScenarioError` with the file and the reason."""
    table = tables.read(path, _Document, InvalidScenario)
    try:
        return _scenario(path.stem, table)
    except InvalidScenario:
        raise
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from error


def _scenario(name: str, table: Table) -> Scenario:
    table.raise_problems()
    document: _Document = table.entry()
    _check_sites(document.site)
    _check_stamp_sites(document)
    topology = read_topology(table, [site.name for site in document.site])
    table.raise_problems()
    return Scenario(
        name=name,
        title=document.title,
        seed=document.seed,
        sites=document.site,
        paths=_path_settings(document, topology.routes),
        measure=document.measure,
        alerts=document.alerts,
        topology=topology,
        direct=_direct_links(document, topology.routes),
    )


def great_circle_km(a: LabSite, b: LabSite) -> float:
    """Great-circle distance of two sites on a spherical Earth, in km (haversine)."""
    latitude_a, latitude_b = math.radians(a.latitude_deg), math.radians(b.latitude_deg)
    half_latitude = (latitude_b - latitude_a) / 2
    half_longitude = math.radians(b.longitude_deg - a.longitude_deg) / 2
    square = math.sin(half_latitude) ** 2
    square += math.cos(latitude_a) * math.cos(latitude_b) * math.sin(half_longitude) ** 2
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(square))


def resolve_site(name: str, site_names: Iterable[str]) -> str:
    """Return `name` if it is a site. Raises `LabError` with the closest site name."""
    names = list(site_names)
    if name in names:
        return name
    close = difflib.get_close_matches(name, names, n=1)
    hint = f'did you mean "{close[0]}"?' if close else f"sites: {', '.join(names)}"
    raise LabError(f'site "{name}" is not defined ({hint})')


def resolve_path(written: str, site_names: Iterable[str]) -> tuple[str, str]:
    """Parse `SRC-DST` or `SRC:DST`; names may contain hyphens. Raises `LabError`."""
    names = list(site_names)
    if ":" in written:
        source, _, destination = written.partition(":")
        pairs = [(resolve_site(source, names), resolve_site(destination, names))]
    else:
        pairs = [pair for pair in _splits(written) if pair[0] in names and pair[1] in names]
    pairs = [(source, destination) for source, destination in pairs if source != destination]
    if len(pairs) == 1:
        return pairs[0]
    if pairs:
        choices = " or ".join(f"{source}:{destination}" for source, destination in pairs)
        raise LabError(f'path "{written}" can be read in {len(pairs)} ways: write {choices}')
    raise LabError(f'"{written}" is not a path: write SRC-DST with two different sites of {", ".join(names)}')


def _splits(written: str) -> list[tuple[str, str]]:
    return [(written[:at], written[at + 1 :]) for at, letter in enumerate(written) if letter == "-"]


def _check_sites(sites: tuple[LabSite, ...]) -> None:
    if not 2 <= len(sites) <= MAX_SITES:
        raise ScenarioError(f"{len(sites)} [[site]] tables: a lab has 2 to {MAX_SITES} sites")
    names = [site.name for site in sites]
    for name in names:
        if names.count(name) > 1:
            raise ScenarioError(f'[[site]] "{name}" is defined {names.count(name)} times: give each its own name')


def _check_stamp_sites(document: _Document) -> None:
    stamp = document.measure.stamp
    names = () if stamp is None or stamp.sites is None else stamp.sites
    for name in names:
        try:
            resolve_site(name, [site.name for site in document.site])
        except LabError as error:
            raise ScenarioError(f"[measure.stamp]: {error}") from error


def _path_settings(document: _Document, routed: Collection[tuple[str, str]]) -> dict[tuple[str, str], PathSettings]:
    """Settings of every ordered pair."""
    # A path with a route has no delay of its own.
    sites = {site.name: site for site in document.site}
    pairs = [(a, b) for a in sites for b in sites if a != b]
    settings = {pair: explicit_settings(document.default) for pair in pairs}
    for pair, values in settings.items():
        km = 0.0 if pair in routed else great_circle_km(sites[pair[0]], sites[pair[1]])
        values["delay_ms"] = round(km / RTT_KM_PER_MS / 2, 3)
    for pair, values in _overrides(document.path, list(sites)):
        settings[pair].update(values)
    return {pair: PathSettings(**values) for pair, values in settings.items()}


def _overrides(tables: tuple[_PathTable, ...], names: list[str]) -> list[tuple[tuple[str, str], dict[str, Any]]]:
    both: list[tuple[tuple[str, str], dict[str, Any]]] = []
    single: list[tuple[tuple[str, str], dict[str, Any]]] = []
    for number, table in enumerate(tables, start=1):
        try:
            if table.between is not None:
                source, destination = _ends(table, names)
                values = _both_directions(table)
                _refuse_twice(both, (source, destination), "between")
                both += [((source, destination), values), ((destination, source), values)]
            else:
                pair = _ends(table, names)
                _refuse_twice(single, pair, "from/to")
                single.append((pair, _one_direction(table)))
        except LabError as error:
            raise ScenarioError(f"[[path]] number {number}: {error}") from error
    return both + single


def _direct_links(document: _Document, routed: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
    links = {}
    for number, table in enumerate(document.path, start=1):
        if table.link is None and table.mtu_bytes is not None:
            raise ScenarioError(f'[[path]] number {number}: `mtu_bytes` is for `link = "direct"`')
        if table.link is None:
            continue
        if table.between is None:
            raise ScenarioError(f"[[path]] number {number}: a direct link has both directions: write `between`")
        if explicit_settings(table) or table.rtt_ms is not None or table.between in routed:
            raise ScenarioError(
                f"[[path]] number {number}: a direct link has no relay, so no delay, loss, rate or route; remove them"
            )
        links[table.between] = table.mtu_bytes or DIRECT_MTU_BYTES
    return links


def _ends(table: _PathTable, names: list[str]) -> tuple[str, str]:
    if table.between is not None:
        if table.source is not None or table.destination is not None:
            raise ScenarioError("has both `between` and `from`/`to`: use only one of them")
        source, destination = table.between
    elif table.source is not None and table.destination is not None:
        source, destination = table.source, table.destination
    else:
        raise ScenarioError(
            'write `between = ["a", "b"]` for both directions, or `from` and `to` for a single direction'
        )
    if resolve_site(source, names) == resolve_site(destination, names):
        raise ScenarioError(f'goes from "{source}" to itself: name two sites')
    return source, destination


def _both_directions(table: _PathTable) -> dict[str, Any]:
    if table.delay_ms is not None:
        raise ScenarioError("`delay_ms` is for a single direction: with `between` use `rtt_ms`, which is split evenly")
    values = explicit_settings(table)
    if table.rtt_ms is not None:
        values["delay_ms"] = table.rtt_ms / 2
    return values


def _one_direction(table: _PathTable) -> dict[str, Any]:
    if table.rtt_ms is not None:
        raise ScenarioError("`rtt_ms` is for both directions: with `from` and `to` use `delay_ms`")
    values = explicit_settings(table)
    if table.delay_ms is not None:
        values["delay_ms"] = table.delay_ms
    return values


def _refuse_twice(written: list[tuple[tuple[str, str], dict[str, Any]]], pair: tuple[str, str], which: str) -> None:
    if any(earlier == pair for earlier, _ in written):
        raise ScenarioError(f"path {pair[0]}-{pair[1]} has two `{which}` tables: remove one")

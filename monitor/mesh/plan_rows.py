"""Read a site's plan inputs as plain values, by prepared statements: Django would build 600 models for 100 paths."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path as FilePath
from typing import Any, Literal, NamedTuple

from monitor.mesh.models import KindName
from monitor.mesh.models.places import HostAddresses
from monitor.mesh.schedule.horizon import HORIZON_S
from monitor.prepared import array_text, run_prepared

End = Literal["source", "destination"]

FOLDER = FilePath(__file__).parent / "sql"


@dataclass(frozen=True, slots=True)
class PlannedSite:
    pk: int
    name: str
    has_agent: bool


@dataclass(frozen=True, slots=True)
class PlannedHost(HostAddresses):
    site: PlannedSite
    uplink_id: int | None
    address: str
    peers: Sequence[dict[str, Any]]
    interface: str | None
    namespace: str | None

    @property
    def site_id(self) -> int:
        return self.site.pk


@dataclass(frozen=True, slots=True)
class PlannedPath:
    pk: int
    family: int
    source_id: int
    destination_id: int
    source: PlannedHost
    destination: PlannedHost


@dataclass(frozen=True, slots=True)
class PlannedTest:
    """Test with its spec's fields as `parameters`."""

    name: str
    kind: str
    every_s: int
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PlannedMeasurement:
    path: PlannedPath
    test: PlannedTest
    is_beside_pings: bool  # a ping test from the same site measures the path too

    @property
    def path_id(self) -> int:
        return self.path.pk


@dataclass(frozen=True, slots=True)
class PlanState:
    """State that a plan depends on besides its measurements, read in one snapshot."""

    site: PlannedSite
    mesh: str | None  # None before the first apply
    pings_until: datetime | None  # end of handing out; None before the first apply
    traces_until: datetime | None
    has_reflectors: bool
    has_servers: bool
    epoch: int | None  # None before any change
    slots_epoch: int | None
    has_slots: bool  # open slots begin within the hour
    enters_at: datetime | None  # begin of the next slot


class _TestRow(NamedTuple):
    name: str
    kind: str
    every_s: int
    parameters: str
    path_ids: list[int]
    source_ids: list[int]
    destination_ids: list[int]
    families: list[int]


@cache
def _statement(name: str, **parts: str) -> str:
    text = (FOLDER / f"{name}.sql").read_text()
    return text.format(**parts) if parts else text


def read_state(site_id: int, now: datetime) -> PlanState:
    parameters = {
        "site_id": site_id,
        "now": now,
        "horizon": now + timedelta(seconds=HORIZON_S),
        "reflected": KindName.STAMP.value,
        "answered": KindName.REQUEST_RESPONSE.value,
    }
    name, has_agent, *state = run_prepared(_statement("plan_state"), parameters).fetchone()
    return PlanState(PlannedSite(site_id, name, has_agent), *state)


def read_measurements(site_id: int, kinds: Iterable[str], end: End) -> list[list[PlannedMeasurement]]:
    """Measurements of these kinds at the site's `end`, by test name, then path id. Two queries, one without
    measurements."""
    wanted = {"site_id": site_id, "kinds": list(kinds)}
    rows = [_TestRow(*row) for row in run_prepared(_statement("measurements_of_site", end=end), wanted).fetchall()]
    ends_of = {
        path_id: ends
        for row in rows
        for path_id, *ends in zip(row.path_ids, row.families, row.source_ids, row.destination_ids, strict=True)
    }
    hosts = _read_hosts({host_id for _, *host_ids in ends_of.values() for host_id in host_ids})
    paths = {
        path_id: PlannedPath(path_id, family, source_id, destination_id, hosts[source_id], hosts[destination_id])
        for path_id, (family, source_id, destination_id) in ends_of.items()
    }
    pinged = {path_id for row in rows if row.kind == KindName.PING for path_id in row.path_ids}
    of_tests = []
    for row in rows:
        test = PlannedTest(row.name, row.kind, row.every_s, json.loads(row.parameters))
        of_tests.append([PlannedMeasurement(paths[path_id], test, path_id in pinged) for path_id in row.path_ids])
    return of_tests


def _read_hosts(host_ids: set[int]) -> dict[int, PlannedHost]:
    if not host_ids:
        return {}
    rows = run_prepared(_statement("hosts_of_plan"), {"host_ids": array_text(host_ids)}).fetchall()
    return {
        host_id: PlannedHost(
            PlannedSite(*site), uplink_id, address, () if peers is None else json.loads(peers), interface, namespace
        )
        for host_id, address, peers, interface, namespace, uplink_id, *site in rows
    }

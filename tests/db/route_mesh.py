"""A mesh with traced routes for the tests of the page of routes: sites behind a campus network each, joined by GEANT or
Cogent, stored as agents deliver them."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from monitor.archive.ingest.traces import store_traces
from monitor.mesh.models import Host, Mesh, Path
from probes.trace.spec import Hop
from tests.db.pages_mesh import MINUTE, burst
from tests.db.trace_rows import delivered, trace

GEANT, COGENT = 20965, 174
NETWORKS = {
    "198.18.1.0/24": {"name": "GEANT", "asn": GEANT},
    "198.18.2.0/24": {"name": "Cogent", "asn": COGENT},
    **{f"198.18.{100 + number}.0/24": {"name": f"Campus {number}", "asn": 64500 + number} for number in range(1, 40)},
}
SILENT = "*"


def number(host: Host) -> int:
    """The last byte of a host's address, which names its site's campus network."""
    return int(host.address.rpartition(".")[2])


def campus(host: Host) -> str:
    return f"198.18.{100 + number(host)}.1"


def campus_as(host: Host) -> int:
    return 64500 + number(host)


def over(path: Path, *core: str) -> list[str]:
    """The hops of a route by way of these routers, from campus to campus; the last is the destination."""
    return [campus(path.source), *core, campus(path.destination), path.destination.address]


def geant(path: Path) -> list[str]:
    return over(path, f"198.18.1.{number(path.source)}", f"198.18.1.{number(path.destination)}")


def cogent(path: Path) -> list[str]:
    return over(path, "198.18.2.7")


def trace_path(path: Path, at: datetime, hops: list[str], *, reached: bool = True, flow: int = 1) -> None:
    """Store a trace with these hops."""
    rows = tuple(
        Hop(ttl=ttl, rtts_ms=(None,)) if hop == SILENT else Hop(ttl=ttl, address=hop, rtts_ms=(float(ttl),))
        for ttl, hop in enumerate(hops, 1)
    )
    run = trace(at=at, hops=rows, reached=reached, flow=flow)
    with transaction.atomic():
        store_traces([delivered(path, run)], at)


def name_networks() -> None:
    """Name the networks of these routes, as [[network]] in mesh.toml does."""
    Mesh.objects.update(networks=NETWORKS)


def trace_mesh(paths: dict[tuple[str, str], Path], now: datetime) -> None:
    """Every path by way of GEANT, traced and pinged in the last hours."""
    name_networks()
    for path in paths.values():
        for at in (now - timedelta(hours=3), now - 5 * MINUTE):
            trace_path(path, at, geant(path))
            burst(path, at + 4 * MINUTE, 10.0, 10.0)

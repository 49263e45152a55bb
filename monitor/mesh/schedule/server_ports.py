"""Ports on which agents listen permanently, closed to on-demand tests."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from monitor.mesh.kinds import MESH_KINDS
from monitor.mesh.models import Measurement

_LASTING = tuple(name for name, mesh_kind in MESH_KINDS.items() if mesh_kind.server_name)

# Site, transport (`TCP` or `UDP`) and number.
PortKey = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class LastingServer:
    name: str
    test: str


@dataclass(frozen=True, slots=True)
class _StoredTest:
    port: int


def lasting_servers(sites: Collection[str]) -> dict[PortKey, LastingServer]:
    """Servers of these sites' agents, except in a host's namespace."""
    rows: Any = Measurement.objects.in_use().filter(
        test__kind__in=_LASTING, path__destination__site__name__in=sites, path__destination__namespace=None
    )
    columns = ("path__destination__site__name", "test__kind", "test__name", "test__parameters__port")
    taken: dict[PortKey, LastingServer] = {}
    for site, kind, test, port in rows.values_list(*columns).distinct().order_by("test__name"):
        for server in MESH_KINDS[kind].servers(_StoredTest(port), "", ""):
            taken.setdefault((site, server.transport, port), LastingServer(MESH_KINDS[kind].server_name, test))
    return taken


def clash(site: str, port: int, protocol: str, taken: dict[PortKey, LastingServer]) -> str | None:
    """Problem of an iperf3 server on this port, or None. A UDP server also listens on TCP."""
    for transport in ("TCP", "UDP") if protocol == "udp" else ("TCP",):
        server = taken.get((site, transport, port))
        if server is not None:
            return (
                f'{transport} port {port} of site "{site}" is that of the {server.name} of test "{server.test}", '
                "which listens all the time; give another port"
            )
    return None

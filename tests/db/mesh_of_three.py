"""A small mesh for the archive's tests, and results as delivered by an agent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from monitor.mesh.models import Host, Measurement, Path, Site, Slot, Test
from probes.contract import Outcome
from probes.packets.spec import Burst
from probes.site.wire import Batch, Delivered
from probes.transfers.spec import ThroughputRun

NOW = datetime(2026, 3, 14, 12, 30, tzinfo=UTC)
HOUR = datetime(2026, 3, 14, 12, tzinfo=UTC)
SPOOL = "5f0c2a"


@dataclass(frozen=True, slots=True)
class MeshOfThree:
    """Sites slac, cern and anl; slac has an agent with paths to both others, cern a path back to slac."""

    slac: Site
    cern: Site
    slac_cern: Path
    slac_anl: Path
    cern_slac: Path

    def slot(self, path: Path, starts_at: datetime = HOUR) -> Slot:
        test, _ = Test.objects.get_or_create(name="tcp", defaults={"kind": "throughput", "every_s": 3600})
        measurement, _ = Measurement.objects.get_or_create(path=path, test=test, defaults={"started_at": HOUR})
        return Slot.objects.create(
            measurement=measurement, starts_at=starts_at, ends_at=starts_at + timedelta(seconds=30)
        )


def make_mesh() -> MeshOfThree:
    sites = {name: _site(name) for name in ("slac", "cern", "anl")}
    hosts = {
        name: Host.objects.create(site=site, name=name, address=f"192.0.2.{number}", family=4)
        for number, (name, site) in enumerate(sites.items(), 1)
    }

    def path(source: str, destination: str) -> Path:
        return Path.objects.create(source=hosts[source], destination=hosts[destination], family=4)

    return MeshOfThree(
        slac=sites["slac"],
        cern=sites["cern"],
        slac_cern=path("slac", "cern"),
        slac_anl=path("slac", "anl"),
        cern_slac=path("cern", "slac"),
    )


def _site(name: str) -> Site:
    return Site.objects.create(
        name=name,
        title=name.upper(),
        latitude_deg=0.0,
        longitude_deg=0.0,
        country="US",
        region="North America",
        has_agent=name != "anl",
    )


def burst(*rtts_ms: float | None, at: datetime = HOUR, packet_bytes: int = 100, **fields: object) -> Burst:
    """A measured burst with these RTTs; without any, a failed burst."""
    values: dict[str, object] = {
        "target": "cern",
        "address": "192.0.2.2",
        "family": 4,
        "packet_bytes": packet_bytes,
        "started_at": at,
        "outcome": Outcome.MEASURED if rtts_ms else Outcome.NO_ROUTE,
        "sent": len(rtts_ms),
        "received": len(rtts_ms) - rtts_ms.count(None),
        "rtts_ms": rtts_ms,
        "ttl": 57 if rtts_ms else None,
        "stamp": "kernel" if rtts_ms else None,
        "detail": None if rtts_ms else "network is unreachable",
    }
    return Burst(**{**values, **fields})


def throughput(throughput_bps: float | None = None, *, at: datetime = HOUR, **fields: object) -> ThroughputRun:
    values: dict[str, object] = {
        "target": "cern",
        "address": "192.0.2.2",
        "family": 4,
        "started_at": at,
        "outcome": Outcome.TOOL_FAILURE if throughput_bps is None else Outcome.MEASURED,
        "throughput_bps": throughput_bps,
        "duration_s": None if throughput_bps is None else 10.0,
        "detail": "connection refused" if throughput_bps is None else None,
    }
    return ThroughputRun(**{**values, **fields})


def delivered(path: Path | int, result: Burst | ThroughputRun, sequence: int = 1, **fields: object) -> Delivered:
    path_id = path if isinstance(path, int) else path.pk
    test = "pinger" if isinstance(result, Burst) else "tcp"
    return Delivered(**{"sequence": sequence, "path_id": path_id, "test": test, "result": result, **fields})


def batch(*results: Delivered, number: int = 1, **fields: object) -> Batch:
    return Batch(
        **{
            "spool": SPOOL,
            "number": number,
            "agent_version": "0.1.0",
            "sent_at": NOW,
            "results": results,
            **fields,
        }
    )

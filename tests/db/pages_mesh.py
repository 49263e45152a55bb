"""Sites, paths and hourly summaries for the tests of pages and API, written as by the mesh and the roll-up."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

from django.test import Client

from monitor.archive.models import Burst, BurstHour, ThroughputTest
from monitor.mesh.models import Group, Host, Measurement, Mesh, Path, Site, Test

NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
HOUR = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

PLACES = {"slac": (37.42, -122.20), "cern": (46.23, 6.05), "uct": (-33.96, 18.46)}
NO_RTT = dict.fromkeys(
    [f"rtt_{name}_ms" for name in ("min", "p25", "median", "p75", "p95", "max", "avg")]
    + ["ipdv_ms", "estimate_bps", "estimate_is_floor"]
)


def make_mesh(names: tuple[str, ...] = ("cern", "slac", "uct"), now: datetime = NOW) -> dict[tuple[str, str], Path]:
    """A full mesh of these sites, pinged each minute and with a throughput test each hour; paths by their ends."""
    Mesh.objects.create(name="Three laboratories", applied_at=now)
    ping = Test.objects.create(
        name="pinger", kind="ping", every_s=60, parameters={"count": 10, "packet_bytes": [100, 1000], "spacing_s": 1.0}
    )
    tcp = Test.objects.create(name="tcp", kind="throughput", every_s=3600, parameters={"duration_s": 10})
    hosts = [_host(number, name) for number, name in enumerate(names, 1)]
    group = Group.objects.create(name="all", shape="mesh")
    group.sites.set([host.site for host in hosts])
    paths = {}
    for source in hosts:
        for destination in hosts:
            if source is not destination:
                path = Path.objects.create(source=source, destination=destination, family=4)
                for test in (ping, tcp):
                    Measurement.objects.create(path=path, test=test, started_at=now)
                paths[source.name, destination.name] = path
    return paths


def _host(number: int, name: str) -> Host:
    latitude_deg, longitude_deg = PLACES.get(name, (0.0, float(number)))
    site = Site.objects.create(
        name=name,
        title=name.upper(),
        latitude_deg=latitude_deg,
        longitude_deg=longitude_deg,
        country="US",
        region="North America",
        has_agent=True,
    )
    return Host.objects.create(site=site, name=name, address=f"192.0.2.{number}", family=4)


def of_a_day(query: str) -> str:
    """A query for the grid or the map, of a day unless it names a period."""
    return query if "period=" in query else f"{query or '?'}{'&' if query else ''}period=day"


def hour(path: Path, sent: int, received: int, rtt_ms: float | None = None, **fields: Any) -> BurstHour:
    """An hour's summary of a path, of packets of 100 bytes and of the hour `HOUR` by default."""
    values: dict[str, Any] = {
        "path_id": path.pk,
        "packet_bytes": 100,
        "hour": HOUR,
        "bursts": sent // 10,
        "bursts_all_lost": 0,
        "bursts_none_lost": 0,
        "bursts_during_test": 0,
        "bursts_not_measured": 0,
        "sent": sent,
        "received": received,
        "duplicates": 0,
        "reordered": 0,
        **NO_RTT,
    }
    if rtt_ms is not None:
        values |= {name: rtt_ms for name in NO_RTT if name.startswith("rtt_")}
    return BurstHour.objects.create(**{**values, **fields})


def burst(path: Path, at: datetime, *rtts_ms: float | None, **fields: Any) -> Burst:
    """A raw burst with these RTTs; without any, a failed burst."""
    values: dict[str, Any] = {
        "path_id": path.pk,
        "packet_bytes": 100,
        "measured_at": at,
        "outcome": "measured" if rtts_ms else "no_route",
        "sent": len(rtts_ms),
        "received": len(rtts_ms) - rtts_ms.count(None),
        "duplicates": 0,
        "reordered": 0,
        "during_test": False,
        "rtts_ms": list(rtts_ms),
    }
    return Burst.objects.create(**{**values, **fields})


def throughput(path: Path, at: datetime, throughput_bps: float | None, **fields: Any) -> ThroughputTest:
    """A throughput test; without a rate, the host was busy."""
    values: dict[str, Any] = {
        "path_id": path.pk,
        "measured_at": at,
        "test": "tcp",
        "outcome": "busy" if throughput_bps is None else "measured",
        "streams": 1,
        "throughput_bps": throughput_bps,
    }
    return ThroughputTest.objects.create(**{**values, **fields})


def chart_spec(html: str, name: str, client: Client | None = None) -> Any:
    """The compiled spec of a chart of a page: in the page, else among those that its script fetches."""
    in_page = re.search(rf'<script id="{name}-spec" type="application/json">(.*?)</script>', html, re.DOTALL)
    if in_page is not None:
        return json.loads(in_page[1])
    [address] = re.findall(r'data-charts-from="([^"]+)"', html)
    answer = (client or Client()).get(unescape(address), headers={"host": "localhost"})
    assert answer.status_code == 200, answer.content
    return answer.json()[f"{name}-spec"]

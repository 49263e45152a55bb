"""Common rows of the tests of alerts and reports: a small mesh, bursts measured on it, and racing threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db import connection

from monitor.mesh.document.alert_rules import RULES
from monitor.mesh.models import Host, KindName, Measurement, MeasurementPeriod, Mesh, Path, Site, Test

T = TypeVar("T")


def make_mesh(names: Iterable[str], now: datetime, **rules: dict[str, Any]) -> dict[str, Path]:
    """Sites of these names, each with a host, pinged in a full mesh; the paths by their names, `slac → cern`.

    Only the given alert rules are enabled, with these settings.
    """
    Mesh.objects.create(name="Laboratories", alerts=only(**rules), applied_at=now)
    test = Test.objects.create(
        name="pinger", kind=KindName.PING, every_s=60, parameters={"count": 10, "packet_bytes": [100, 1000]}
    )
    hosts = [make_host(name, number) for number, name in enumerate(names, start=1)]
    paths = [Path.objects.create(source=a, destination=b, family=4) for a in hosts for b in hosts if a != b]
    for path in paths:
        start_pinging(path, test, now)
    return {str(path): path for path in paths}


def only(**rules: dict[str, Any]) -> dict[str, Any]:
    """The [alerts] table with all other rules disabled."""
    return {name: {"enabled": False} for name in RULES} | rules


def start_pinging(path: Path, test: Test, now: datetime) -> None:
    measurement = Measurement.objects.create(path=path, test=test, started_at=now)
    MeasurementPeriod.objects.create(
        measurement=measurement, every_s=test.every_s, packet_bytes=test.parameters["packet_bytes"], started_at=now
    )


def make_host(name: str, number: int) -> Host:
    site = Site.objects.create(
        name=name,
        title=name.upper(),
        latitude_deg=0.0,
        longitude_deg=0.0,
        country="CH",
        region="Europe",
        has_agent=True,
    )
    return Host.objects.create(site=site, name=name, address=f"192.0.2.{number}", family=4)


def make_bursts(
    path: Path, lost_packets: Iterable[int], first_at: datetime, *, every_s: int = 60, packet_bytes: int = 100
) -> None:
    """Bursts of ten packets every `every_s` seconds; `lost_packets` has the number of lost packets per burst."""
    names = "path_id, packet_bytes, measured_at, outcome, sent, received, duplicates, reordered, during_test, rtts_ms"
    with connection.cursor() as cursor, cursor.copy(f"COPY burst ({names}) FROM STDIN") as copy:
        for number, lost in enumerate(lost_packets):
            at = first_at + timedelta(seconds=number * every_s)
            rtts_ms = [None] * lost + [20.0] * (10 - lost)
            copy.write_row((path.pk, packet_bytes, at, "measured", 10, 10 - lost, 0, 0, False, rtts_ms))


def at_once(count: int, work: Callable[[int], T]) -> list[T]:
    """The results of `work(number)` in threads that start together, each with its own connection."""
    barrier, results = threading.Barrier(count), {}

    def run(number: int) -> None:
        try:
            barrier.wait(timeout=30)
            results[number] = work(number)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return [results[number] for number in range(count)]

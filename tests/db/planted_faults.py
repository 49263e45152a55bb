"""Faults between sites, as rows of the database: losses and delays of pings that begin and end at known moments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence import gather
from monitor.alerts.incidents import queries
from monitor.archive.models import Burst
from monitor.mesh.models import MeasurementPeriod, Test
from tests.db.alert_rows import make_mesh
from tests.db.copied_rows import copy_rows

ONSET = datetime(2026, 11, 21, 15, 6, 6, tzinfo=UTC)
SITES = ("cern", "desy", "ornl", "slac")
EVERY_S = 10
HISTORY = timedelta(minutes=15)
DELIVERED = timedelta(seconds=13)
"""After the begin of a burst: ten packets a second apart, and their timeout."""
ROUND_TRIP = timedelta(seconds=0.1)


@dataclass(frozen=True)
class Planted:
    """Of packets between two sites for `lasts_s` from `at_s` on."""

    hits: Callable[[str, str], bool]
    at_s: float
    lasts_s: float = 1e9
    lost_ratio: float = 0.0
    delay_ms: float = 0.0


def site(name: str) -> Callable[[str, str], bool]:
    return lambda a, b: name in (a, b)


def between(x: str, y: str) -> Callable[[str, str], bool]:
    return lambda a, b: {a, b} == {x, y}


def plant(faults, until_s, seed=0, **rules):
    """The paths, and the bursts in the order of their begin, not stored yet; all rules of round trips unless given."""
    random = np.random.default_rng(seed)
    paths = make_mesh(SITES, ONSET - timedelta(days=2), **(rules or {"loss": {}, "unreachable": {}, "rtt": {}}))
    Test.objects.update(every_s=EVERY_S, parameters={"count": 10, "packet_bytes": [100], "spacing_s": 1.0})
    MeasurementPeriod.objects.update(every_s=EVERY_S, packet_bytes=[100])
    rows = []
    for name, path in paths.items():
        ends = name.split(" → ")
        first_s = -HISTORY.total_seconds() + float(random.uniform(0, EVERY_S))
        for at_s in np.arange(first_s, until_s, EVERY_S).tolist():
            sent_s = at_s + np.arange(10)
            rtts = 20.0 + random.exponential(0.3, 10)
            lost = random.random(10) < 1e-4
            for fault in faults:
                if fault.hits(*ends):
                    active = (sent_s >= fault.at_s) & (sent_s < fault.at_s + fault.lasts_s)
                    rtts += fault.delay_ms * active
                    lost |= active & (random.random(10) < fault.lost_ratio)
            values = [None if gone else round(rtt, 3) for gone, rtt in zip(lost.tolist(), rtts.tolist(), strict=True)]
            received = int((~lost).sum())
            rows.append(
                Burst(
                    path_id=path.pk, packet_bytes=100, measured_at=ONSET + timedelta(seconds=at_s), outcome="measured",
                    sent=10, received=received, duplicates=0, reordered=0, during_test=False,
                    ttl=54 if received else None, rtts_ms=values,
                )
            )  # fmt: skip
    return paths, sorted(rows, key=lambda row: row.measured_at)


def at(seconds: float) -> datetime:
    return ONSET + timedelta(seconds=seconds)


def names_of(path_ids, paths):
    return {name for name, path in paths.items() if path.pk in path_ids}


def look_at(rows, looks_s):
    """Evaluate at these times with the bursts that have arrived by then; each with the lasting incidents by cause."""
    number = 0
    for at_s in looks_s:
        now = at(at_s)
        arrived = [row for row in rows[number:] if row.measured_at < now - DELIVERED]
        number += len(arrived)
        copy_rows(arrived)
        evaluate(now)
        gather.gather_due(now)
        yield at_s, now, {incident.cause: incident for incident in queries.lasting_incidents()}

"""Nine weeks of a small simulated mesh, with changes planted in the last week, and noise without changes.

Losses are overdispersed and RTTs drift from day to day, from a fixed seed. In week 2026-W47:
  - slac → cern loses 1.2% where it lost 0.05%;
  - fnal → desy takes 15% longer;
  - cern → fnal, which loses nothing, transfers 40 Mbit/s where it transferred 90, limited by the receiver's window;
  - desy → slac loses less than before.
Not to be named: cern → slac has a single bad day, desy → cern has bursty loss all the time, slac → fnal was on a longer
route for two of the earlier weeks and is again. The two last weeks are stored as hours, the earlier weeks as days.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
from django.db import connection

from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.models import BurstDay, BurstHour, BurstSummary, ThroughputDay
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from monitor.mesh.models import Mesh, Path
from tests.db.alert_rows import make_mesh
from tests.db.copied_rows import copy_rows
from tests.db.finding_levels import stored_loss
from tests.db.merging import merge_hours
from tests.db.report_rows import NOW, WEEK, hour, make_throughput

DAYS = 63
BY_HOURS = 14
SENT = 600
PLANTED = {
    ("worse", "slac → cern", "loss"),
    ("worse", "fnal → desy", "RTT"),
    ("worse", "cern → fnal", "throughput"),
    ("better", "desy → slac", "loss"),
}
SAID = {
    "verdict": "window-limited",
    "sentence": "window-limited at 40 Mbit/s: the receiver's window is 500 kB",
    "diagnosis": {"evidence": [{"name": "receiver's window", "value": 500e3, "unit": "B"}]},
}


def make_golden() -> dict[str, Path]:
    """Everything in the database, hours merged into days; the paths by name."""
    since = WEEK.until - timedelta(days=DAYS)
    paths = make_mesh(["cern", "desy", "fnal", "slac"], since)
    Mesh.objects.update(service_levels={"loss_ratio": 0.001, "rtt_ms": 130.0})
    random = np.random.default_rng(47)
    for number, (name, path) in enumerate(sorted(paths.items())):
        loss, rtt_ms = _loss(random, name), _round_trips(random, name, 20.0 + 9.0 * number)
        copy_rows(
            _day(random, path, since + timedelta(days=day), loss[day], rtt_ms[day]) for day in range(DAYS - BY_HOURS)
        )
        copy_rows(
            _hour(random, path, since + timedelta(hours=at), loss[at // 24], rtt_ms[at // 24])
            for at in range(24 * (DAYS - BY_HOURS), 24 * DAYS)
        )
        _make_tests(random, name, path, since)
    _make_incident(paths["slac → cern"])
    merge_hours(NOW)
    freshness.note(RecurringWork.EVALUATION, NOW)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return paths


def _loss(random: np.random.Generator, name: str) -> np.ndarray:
    """The loss of each day."""
    ratio = 5e-4 if name in ("slac → cern", "desy → cern") else 1e-2 if name == "desy → slac" else 2e-4
    spread = {"desy → cern": 0.3, "desy → slac": 8.0}.get(name, 2.0)
    loss = random.gamma(spread, ratio / spread, DAYS)
    if name == "slac → cern":
        loss[-7:] = random.gamma(20.0, 1.2e-2 / 20.0, 7)
    if name == "desy → slac":
        loss[-7:] = random.gamma(20.0, 4e-4 / 20.0, 7)
    if name == "cern → fnal":
        loss[:] = 0.0
    if name == "cern → slac":
        loss[-4] = 0.05
    return loss


def _round_trips(random: np.random.Generator, name: str, around_ms: float) -> np.ndarray:
    noise = random.normal(0.0, 0.004, DAYS)
    for day in range(1, DAYS):
        noise[day] = 0.4 * noise[day - 1] + 0.92 * noise[day]
    if name == "fnal → desy":
        noise[-7:] += np.log(1.15)
    if name == "slac → fnal":
        noise[10:24] += np.log(1.2)
        noise[-7:] += np.log(1.2)
    return around_ms * np.exp(noise)


def _day(random: np.random.Generator, path: Path, at: datetime, loss: float, rtt_ms: float) -> BurstDay:
    sent = 24 * SENT
    of_hour = hour(path, at, sent, sent - int(random.binomial(sent, loss)), float(np.float32(rtt_ms)))
    fields = {field.attname: getattr(of_hour, field.attname) for field in BurstSummary._meta.fields}
    return BurstDay(day=at, **fields)


def _hour(random: np.random.Generator, path: Path, at: datetime, loss: float, rtt_ms: float) -> BurstHour:
    received = SENT - int(random.binomial(SENT, loss))
    return hour(path, at, SENT, received, float(np.float32(rtt_ms * (1.0 + 0.001 * (at.hour - 12) / 12))))


def _make_tests(random: np.random.Generator, name: str, path: Path, since: datetime) -> None:
    if name not in ("cern → fnal", "fnal → cern"):
        return
    rates_bps = 90e6 * np.exp(random.normal(0.0, 0.03, DAYS))
    if name == "cern → fnal":
        rates_bps[-7:] *= 40 / 90
    ThroughputDay.objects.bulk_create(
        ThroughputDay(
            path_id=path.pk,
            day=since + timedelta(days=day),
            tests=4,
            tests_measured=4,
            slots_planned=4,
            throughput_median_bps=float(rate_bps),
        )
        for day, rate_bps in enumerate(rates_bps)
    )
    for day in range(DAYS - 14, DAYS):
        make_throughput(
            path, since + timedelta(days=day, hours=6), float(rates_bps[day]), **(SAID if name == "cern → fnal" else {})
        )


def _make_incident(path: Path) -> None:
    opened_at = WEEK.since + timedelta(hours=3)
    incident = Incident.objects.create(
        rule="loss_regression",
        cause="cern – slac",
        opened_at=opened_at,
        closed_at=opened_at + timedelta(hours=30),
        summary="loss has risen from 0.05% to 1.2%",
        title="cern – slac lost 1.2%, from 2026-11-16 03:00 to 2026-11-17 09:00 UTC",
    )
    IncidentPath.objects.create(
        incident=incident,
        path=path,
        added_at=opened_at,
        rule="loss_regression",
        sentence="loss has risen",
        since=opened_at,
        figures={"hits": 120, "of": 10_000, "ratio": 0.012, "base_hits": 50, "base_of": 100_000},
        level=stored_loss(10_000, 120, opened_at, opened_at + timedelta(hours=30)),
        is_over=True,
    )

"""Paths as input for the rules, with random measurements: the background in which faults are planted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.backtest.recorded import HourlyPast, RecordedBursts
from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.scope import RuleScope
from monitor.mesh.document import alert_rules
from monitor.mesh.document.alert_rules import Place
from monitor.mesh.models import KindName
from monitor.mesh.queries import MeasuredPath

Floats = NDArray[np.float64]

BEGAN = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
"""A Wednesday noon; simulated bursts begin here, the hours before it are simulated as counts."""

CYCLE_S = 60
PACKETS = 10
SIZES = (100, 1000)
BURSTS_AN_HOUR = len(SIZES) * 3600 // CYCLE_S
PAST_HOURS = 33 * 24
"""28 days of baseline, three more for the variance of hours, and the tested hours."""

RTT_MS = 20.0
NOISE_MS = 0.3


def apart(count: int, kind: str = "ping", every_s: int = CYCLE_S) -> dict[int, MeasuredPath]:
    """Paths that have no site in common."""
    return paths([(f"a{number}", f"b{number}") for number in range(count)], kind, every_s)


def full_mesh(sites: Sequence[str]) -> dict[int, MeasuredPath]:
    """A path from each site to each other site."""
    return paths([(a, b) for a in sites for b in sites if a != b])


def paths(pairs: Sequence[tuple[str, str]], kind: str = "ping", every_s: int = CYCLE_S) -> dict[int, MeasuredPath]:
    size = min(SIZES) if kind == "ping" else None
    return {
        number: MeasuredPath(
            number, a, b, 4, Place(a, b, hosts=(a, b)), every_s, size, BEGAN - timedelta(hours=PAST_HOURS)
        )
        for number, (a, b) in enumerate(pairs, start=1)
    }


def scope(
    pinged: Mapping[int, MeasuredPath],
    tested: Mapping[int, MeasuredPath] | None = None,
    alerts: Mapping[str, Any] | None = None,
    answered: Mapping[int, MeasuredPath] | None = None,
) -> RuleScope:
    """The scope of these paths, with the settings of mesh.toml or the defaults."""
    tested, answered = tested or {}, answered or {}
    by_kind = {KindName.PING: pinged, KindName.THROUGHPUT: tested, KindName.REQUEST_RESPONSE: answered}
    settings = {
        name: alert_rules.settings_for(
            alerts or {}, name, {key: path.place for key, path in by_kind[rule.trouble.measured_by].items()}
        )
        for name, rule in RULES.items()
    }
    return RuleScope(dict(pinged), dict(tested), settings, answered=dict(answered))


def bursts(
    path_count: int, cycles: int, loss_ratio: Floats, random: np.random.Generator, rtt_ms: Floats | float = RTT_MS
) -> RecordedBursts:
    """Bursts of both sizes in every cycle from BEGAN on. `loss_ratio` of each packet and `rtt_ms` have the shape
    (paths, cycles) or are a single figure."""
    shape = (path_count, cycles, len(SIZES))
    levels = np.broadcast_to(rtt_ms, shape[:2])[:, :, np.newaxis, np.newaxis]
    rtts = levels + random.exponential(NOISE_MS, (*shape, PACKETS))
    lost = random.random((*shape, PACKETS)) < np.broadcast_to(loss_ratio, shape[:2])[:, :, np.newaxis, np.newaxis]
    rtts[lost] = np.nan
    at_s = BEGAN.timestamp() + CYCLE_S * np.arange(cycles)[np.newaxis, :, np.newaxis] + 12.0 * np.arange(len(SIZES))
    return RecordedBursts.from_columns(
        np.broadcast_to(np.arange(1, path_count + 1)[:, np.newaxis, np.newaxis], shape).ravel(),
        np.broadcast_to(at_s, shape).ravel(),
        rtts.reshape(-1, PACKETS),
        np.broadcast_to(np.array(SIZES), shape).ravel(),
        ttl=57.0,
    )


def past(path_count: int, loss_ratio: float, random: np.random.Generator) -> HourlyPast:
    """The hours before BEGAN with this independent packet loss."""
    shape = (path_count, PAST_HOURS)
    lossy = random.binomial(BURSTS_AN_HOUR, lossy_ratio(loss_ratio), shape).astype(np.float64)
    lost = lossy + random.binomial((lossy * (PACKETS - 1)).astype(np.int64), loss_ratio)
    every, sent = np.full(shape, float(BURSTS_AN_HOUR)), np.full(shape, float(BURSTS_AN_HOUR * PACKETS))
    counts = {"bursts": every, "sent": sent, "received": sent - lost, "lossy": lossy}
    return HourlyPast(BEGAN - timedelta(hours=PAST_HOURS), counts)


def lossy_ratio(loss_ratio: float) -> float:
    """Share of bursts that lose a packet."""
    return float(1.0 - (1.0 - loss_ratio) ** PACKETS)

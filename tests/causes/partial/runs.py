"""Run a planted fault through the live rules and the grouping, and record the names at each share of alarms.

A name is recorded at two places: of the grouping alone when a share of the affected paths has alarmed (the first paths,
all others not), and of the incidents of a replay at each evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.backtest.recorded import HourlyPast, RecordedBursts, RecordedSource
from monitor.alerts.backtest.replay import Alarm, Replay
from monitor.alerts.detect import causes, suspects
from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.detect.snapshot import Snapshot
from tests.causes.partial.faults import PlantedTroubles
from tests.planted import paths
from tests.planted.paths import BEGAN, BURSTS_AN_HOUR, CYCLE_S, PACKETS, PAST_HOURS, SIZES

Floats = NDArray[np.float64]

SHARES = (0.3, 0.5, 0.7, 1.0)
RULES = ("unreachable", "loss", "loss_regression", "rtt")
BEFORE_CYCLES = 60
LASTS_CYCLES = 90
SOON = timedelta(minutes=8)
"""After the onset, in which evaluations are twice as often."""
MINUTE = timedelta(minutes=1)
ONSET = BEGAN + BEFORE_CYCLES * MINUTE
ENOUGH = timedelta(minutes=15)
"""How long a run goes on after the last alarm where half of the affected paths have alarmed."""


@dataclass(slots=True)
class Names:
    """The names of causes at each share of alarmed paths, those of incidents at any time and those at the end."""

    at_share: dict[float, tuple[str, ...]] = field(default_factory=dict)
    ever: set[str] = field(default_factory=set)
    last: tuple[str, ...] = ()


def run(planted: PlantedTroubles) -> Names:
    """Replay the fault until all affected paths have alarmed or no others do."""
    source = _source(planted)
    replay = Replay(paths.scope(planted.mesh.paths), source, RULES)
    names, first = Names(), list[int]()
    affected = [frozenset(trouble.path_ids) for trouble in planted.troubles]
    due = {share: math.ceil(share * len(affected[0]) - 1e-9) for share in SHARES} if affected else {}
    chance = np.random.default_rng([planted.seed, 7])
    newest_at = ONSET
    for now in _moments():
        earlier = len(replay.findings)
        snapshot = replay.at(now)
        if len(replay.findings) > earlier:
            names.ever |= {_name(alarm, planted) for alarm in replay.alarms if alarm.ended_at is None}
        new = sorted({finding.path_id for _, finding in replay.findings[earlier:]} - set(first))
        first += chance.permutation(new).tolist()
        of_first = [path_id for path_id in first if affected and path_id in affected[0]]
        for share, count in due.items():
            if share not in names.at_share and len(of_first) >= count:
                bad = set(of_first[:count]) | (set(first) - affected[0])
                names.at_share[share] = _names(bad, replay, snapshot, source)
        newest_at = now if new else newest_at
        is_half = affected and all(2 * len(of.intersection(first)) >= len(of) for of in affected)
        if is_half and now - newest_at > (MINUTE if all(of <= set(first) for of in affected) else ENOUGH):
            break
    lasting = [alarm for alarm in replay.alarms if alarm.ended_at is None]
    names.last = tuple(sorted(_name(alarm, planted) for alarm in lasting))
    return names


def _name(alarm: Alarm, planted: PlantedTroubles) -> str:
    """The name of an incident; for a pair of hosts with the number of its other paths, which is a wrong name."""
    pairs = {frozenset((path.source, path.destination)) for path_id, _ in alarm.findings
             for path in [planted.mesh.paths[path_id]]}  # fmt: skip
    is_pair = set(alarm.cause.split(" ↔ ")) in pairs
    return f"{alarm.cause} and {len(pairs) - 1} other pairs" if is_pair and len(pairs) > 1 else alarm.cause


def _moments() -> Iterator[datetime]:
    """The times of the evaluations, two before the onset."""
    now = ONSET - 2 * MINUTE
    while now < ONSET + (LASTS_CYCLES - 1) * MINUTE:
        now += MINUTE / 2 if timedelta(0) <= now - ONSET < SOON else MINUTE
        yield now


def _names(bad: Collection[int], replay: Replay, snapshot: Snapshot, source: RecordedSource) -> tuple[str, ...]:
    newest = {(finding.path_id, finding.rule): finding for _, finding in replay.findings if finding.path_id in bad}
    firing: Sequence[RuleFinding] = list(newest.values())
    return tuple(
        sorted(
            group.label for group in causes.find_causes(firing, [], suspects.with_trips(snapshot, firing, (), source))
        )
    )


def _source(planted: PlantedTroubles) -> RecordedSource:
    """Pings of all paths, a burst of each size a minute, each path at its own second."""
    random = np.random.default_rng([3, planted.seed, len(planted.mesh.paths)])
    count, cycles = len(planted.mesh.paths), BEFORE_CYCLES + LASTS_CYCLES
    shape = (count, cycles, len(SIZES), PACKETS)
    usual = random.choice([1e-5, 2e-4, 2e-3], count, p=[0.7, 0.2, 0.1])
    at_s = CYCLE_S * np.arange(cycles)[np.newaxis, :] + random.uniform(0.0, 45.0, count)[:, np.newaxis]
    minutes = at_s / 60.0 - BEFORE_CYCLES
    kept = np.broadcast_to(1.0 - usual[:, np.newaxis], at_s.shape).copy()
    level = random.uniform(5.0, 200.0, count)[:, np.newaxis] * np.ones(cycles)
    noise = np.exp(random.uniform(np.log(0.1), np.log(3.0), count))
    rtts = random.exponential(1.0, shape) * noise[:, np.newaxis, np.newaxis, np.newaxis]
    for trouble in planted.troubles:
        rows = np.array(trouble.path_ids) - 1
        share = np.exp(random.normal(0.0, 0.2, len(rows)))[:, np.newaxis]
        is_on = minutes[rows] >= trouble.onset_min
        kept[rows] *= 1.0 - np.minimum(trouble.loss_ratio * share, 1.0) * is_on
        level[rows] += trouble.step_ms * np.exp(random.normal(0.0, 0.1, len(rows)))[:, np.newaxis] * is_on
        if trouble.queue_ms:
            wait = (
                random.exponential(1.0, (len(rows), *shape[1:])) * (trouble.queue_ms * share * is_on)[..., None, None]
            )
            rtts[rows] += wait
    rtts += level[:, :, np.newaxis, np.newaxis]
    rtts[random.random(shape) >= kept[:, :, np.newaxis, np.newaxis]] = np.nan
    times = BEGAN.timestamp() + at_s[:, :, np.newaxis] + 12.0 * np.arange(len(SIZES))
    drawn = RecordedBursts.from_columns(
        np.broadcast_to(np.arange(1, count + 1)[:, np.newaxis, np.newaxis], times.shape).ravel(),
        times.ravel(),
        rtts.reshape(-1, PACKETS),
        np.broadcast_to(np.array(SIZES), times.shape).ravel(),
        ttl=57.0,
    )
    return RecordedSource(drawn, past=_past(usual, random))


def _past(usual: Floats, random: np.random.Generator) -> HourlyPast:
    shape = (len(usual), PAST_HOURS)
    lossy_ratio = 1.0 - (1.0 - usual[:, np.newaxis]) ** PACKETS
    lossy = random.binomial(BURSTS_AN_HOUR, np.broadcast_to(lossy_ratio, shape)).astype(np.float64)
    bursts, sent = np.full(shape, float(BURSTS_AN_HOUR)), np.full(shape, float(BURSTS_AN_HOUR * PACKETS))
    counts = {"bursts": bursts, "sent": sent, "received": sent - lossy, "lossy": lossy}
    return HourlyPast(BEGAN - timedelta(hours=PAST_HOURS), counts)

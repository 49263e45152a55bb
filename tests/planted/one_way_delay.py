"""The rule on the RTT of round trips, and on each direction as well: delay steps of one direction beside queues of the
other, and false alarms, most of all by clocks.

In: paths with pings, and STAMP tests of as many packets. Pings and STAMP packets cross the same queue of the way back:
packets each wait by themselves, or those of a cycle alike. Out: how many steps each finds within an hour, and alarms
without any step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
import scipy
from numpy.typing import NDArray

from monitor.alerts.backtest.recorded import RecordedBursts, RecordedSource
from monitor.alerts.backtest.replay import Replay, moments
from monitor.alerts.detect.rules.by_direction import DIRECTION
from monitor.alerts.scope import RuleScope
from tests.planted import paths
from tests.planted.paths import BEGAN, CYCLE_S, NOISE_MS, PACKETS, SIZES
from tests.planted.simulated import BEFORE_CYCLES, Sizes, most_alarms
from tests.reproduce.table import Table

Floats = NDArray[np.float64]

RULES = ("rtt", "jitter")
WAY_MS = 10.0
STEPS_MS = (3.0, 6.0, 10.0, 20.0)
FOUND_CYCLES = 60
PATHS = 100
QUIET_PATHS = 200
SYNCHRONISED_MS = (-0.5, 0.5)
"""Bounds of the offset of two clocks that are synchronised to within 0.25 ms each."""
UNKNOWN_MS = (np.nan, np.nan)


@dataclass(frozen=True, slots=True)
class Queue:
    """The queue of the way back: mean waits of each packet by itself and of all packets of a cycle, exponential;
    `correlation` of one cycle with the next."""

    name: str
    packet_ms: float = 0.0
    cycle_ms: float = 0.0
    correlation: float = 0.0


@dataclass(frozen=True, slots=True)
class ClockFault:
    """The offset of the far clock by cycle: steps of `step_ms`, up and down in turn, every `every` cycles, and a drift
    in ms a cycle. Some are planted while both clocks claim to be right."""

    name: str
    step_ms: float = 0.0
    every: int = 90
    drift_ms: float = 0.0
    wander_ms: float = 0.0
    claimed_ms: tuple[float, float] = UNKNOWN_MS

    def offsets_ms(self, shape: tuple[int, int], random: np.random.Generator) -> Floats:
        cycle = np.arange(shape[1])
        phase = random.integers(0, self.every, (shape[0], 1))
        steps = self.step_ms * (((cycle + phase) // self.every) % 2)
        wander = self.wander_ms * random.normal(size=shape).cumsum(axis=1)
        return np.asarray(37.0 + steps + self.drift_ms * cycle + wander)


EMPTY = Queue("none")
STEADY = ClockFault("none")
QUEUES = (
    EMPTY,
    Queue("10 ms, each packet", packet_ms=10.0),
    Queue("30 ms, each packet", packet_ms=30.0),
    Queue("5 ms, each cycle", cycle_ms=5.0),
    Queue("10 ms, each cycle", cycle_ms=10.0),
)
QUIET_QUEUES = (EMPTY, QUEUES[1], QUEUES[3])
CLOCKS = (
    STEADY,
    ClockFault("step of 3 ms every 90 min", 3.0),
    ClockFault("step of 20 ms every 90 min", 20.0),
    ClockFault("step of 500 ms every 90 min", 500.0),
    ClockFault("step of 20 ms, bounds of 1 ms claimed", 20.0, claimed_ms=SYNCHRONISED_MS),
    ClockFault("drift of 5 µs/s", drift_ms=0.3),
    ClockFault("drift of 50 µs/s", drift_ms=3.0),
    ClockFault("wander, 1 ms a cycle", wander_ms=1.0),
)


def table(sizes: Sizes) -> Table:
    """Steps forward that are found within an hour, with and without directions, and with clocks that have bounds."""
    results = Table(("queue of the way back", *(f"+{step_ms:g} ms" for step_ms in STEPS_MS), "right"))
    for queue in QUEUES:
        cells, right_of_queue, named_of_queue = [], 0, 0
        for step_ms in STEPS_MS:
            shares, right, named = [], 0, 0
            for offset_ms in (None, UNKNOWN_MS, SYNCHRONISED_MS):
                random = np.random.default_rng(11)
                step = np.r_[np.zeros(BEFORE_CYCLES), np.full(FOUND_CYCLES, step_ms)]
                scope, source = measured(PATHS, len(step), step, queue, STEADY, random, offset_ms or UNKNOWN_MS)
                replay = _replay(scope if offset_ms else replace(scope, one_way={}), source, len(step))
                ways = [finding.figures.get(DIRECTION) for _, finding in _first(replay)]
                shares.append(f"{100 * len(ways) / PATHS:.0f}")
                right += ways.count("forward")
                named += len(ways) - ways.count(None)
            cells.append(f"{', '.join(shares)}%")
            right_of_queue, named_of_queue = right_of_queue + right, named_of_queue + named
            if right < 0.99 * named:
                results.failures.append(f"{queue.name}, {step_ms:g} ms: {right} of {named} name forward")
        results.rows.append((queue.name, *cells, f"{right_of_queue} of {named_of_queue}"))
    return results


def quiet(sizes: Sizes) -> Table:
    """Alarms without a step of the network: of round trips, and more by directions."""
    results = Table(("clocks", *(f"queue: {queue.name}" for queue in QUIET_QUEUES)))
    cycles, hours = sizes.quiet_hours * 3600 // CYCLE_S, QUIET_PATHS * sizes.quiet_hours
    for clock in CLOCKS:
        cells = []
        for queue in QUIET_QUEUES:
            random = np.random.default_rng(12)
            scope, source = measured(QUIET_PATHS, cycles, np.zeros(1), queue, clock, random, clock.claimed_ms)
            replay = _replay(scope, source, cycles, begins=1)
            one_way = sum(DIRECTION in finding.figures for _, finding in replay.findings)
            cells.append(f"{len(replay.findings) - one_way} + {one_way}")
            if one_way > most_alarms(hours / 1e4):
                results.failures.append(f"{clock.name}, {queue.name}: {one_way} alarms in {hours:,} path-hours")
        results.rows.append((clock.name, *cells))
    return results


def measured(
    count: int,
    cycles: int,
    step_ms: Floats,
    queue: Queue,
    clock: ClockFault,
    random: np.random.Generator,
    offset_ms: tuple[float, float],
) -> tuple[RuleScope, RecordedSource]:
    """Pings that cross both directions, and a STAMP test of each; `step_ms` forward by cycle."""
    shape = (count, cycles)
    wait_ms = _waits(shape, queue, random)
    offsets_ms = clock.offsets_ms(shape, random)

    def source(level_ms: Floats, packet_ms: float, ways: tuple[RecordedSource, ...] = ()) -> RecordedSource:
        levels = np.broadcast_to(level_ms, shape)[:, :, np.newaxis]
        rtts_ms = levels + random.exponential(NOISE_MS, (*shape, PACKETS))
        if packet_ms:
            rtts_ms += random.exponential(packet_ms, (*shape, PACKETS))
        ids = np.repeat(np.arange(1, count + 1), cycles)
        at_s = np.tile(BEGAN.timestamp() + CYCLE_S * np.arange(cycles), count)
        bursts = RecordedBursts.from_columns(ids, at_s, rtts_ms.reshape(-1, PACKETS), min(SIZES))
        return RecordedSource(bursts, ways=ways, offset_ms=offset_ms)

    ways = (
        source(WAY_MS + step_ms + offsets_ms, 0.0),
        source(WAY_MS + wait_ms - offsets_ms, queue.packet_ms),
    )
    scope = paths.scope(paths.apart(count))
    return replace(scope, one_way=dict(scope.pinged)), source(2.0 * WAY_MS + step_ms + wait_ms, queue.packet_ms, ways)


def _waits(shape: tuple[int, int], queue: Queue, random: np.random.Generator) -> Floats:
    """Waits of cycles: exponential, by a Gaussian series with the correlation."""
    normal, share = random.normal(size=shape), queue.correlation
    for cycle in range(1, shape[1]):
        normal[:, cycle] = share * normal[:, cycle - 1] + np.sqrt(1.0 - share**2) * normal[:, cycle]
    return np.asarray(-queue.cycle_ms * np.log(scipy.special.ndtr(-normal)))


def _replay(scope: RuleScope, source: RecordedSource, cycles: int, begins: int = BEFORE_CYCLES) -> Replay:
    replay = Replay(scope, source, RULES)
    began = BEGAN + timedelta(seconds=(begins - 0.5) * CYCLE_S)
    for now in moments(began, BEGAN + timedelta(seconds=(cycles + 0.5) * CYCLE_S), CYCLE_S):
        replay.at(now)
    return replay


def _first(replay: Replay) -> Iterator[tuple[object, object]]:
    """The first finding of the RTT of each path."""
    seen = set()
    for now, finding in replay.findings:
        if finding.rule == "rtt" and finding.path_id not in seen:
            seen.add(finding.path_id)
            yield now, finding

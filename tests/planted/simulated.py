"""Planted faults on many paths at once, in arrays, through the snapshot and the live rules.

Each table compares measured figures with those computed by `theory`; its `failures` list the deviations: detection by
half of the paths, and by nine of ten, within 1.5 times the samples that the test's power requires; no more alarms from
blips and quiet paths than stated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.backtest.recorded import RecordedBursts, RecordedSource
from monitor.alerts.backtest.recorded_tests import MeasuredTests
from monitor.alerts.backtest.replay import Alarm, Replay, moments
from monitor.alerts.detect.rules import counts, loss, throughput, windows
from monitor.alerts.evaluate import findings
from monitor.alerts.scope import RuleScope
from monitor.analysis.alarms import ranks, rises
from monitor.analysis.changes import detector
from monitor.mesh.queries import MeasuredPath
from tests.planted import paths, theory
from tests.planted.paths import BEGAN, CYCLE_S, SIZES
from tests.reproduce.table import Table
from tests.scored import count_of

Floats = NDArray[np.float64]

WITHIN = 1.5
"""Times the samples that the power of the test allows."""

BEFORE_CYCLES = 60
FOUND_CYCLES = 240
ABOVE_CYCLES = 600
LOOKS_AN_HOUR = windows.LOOKS_A_CYCLE * 3600 / CYCLE_S
THRESHOLD = loss.LossRule().above_ratio
THRESHOLD_SIZE = loss.ALARMS_AN_HOUR / (LOOKS_AN_HOUR * loss.COMPARISONS)
PATHS = 200


@dataclass(frozen=True, slots=True)
class Sizes:
    """The size of a simulation. `quiet_hours` are of each of `quiet_paths`."""

    paths: int = PATHS
    quiet_paths: int = 1000
    quiet_hours: int = 10

    @classmethod
    def of(cls, share: float) -> Sizes:
        """A share of the usual paths; hours are not shortened."""
        usual = cls()
        return cls(count_of(usual.paths, share), count_of(usual.quiet_paths, share))


def loss_regression(sizes: Sizes) -> Table:
    """Loss that rises, on each path separately."""
    table = Table(
        (
            "loss",
            "power ½: bursts",
            "detected by half",
            "power 0.9",
            "detected by 9 of 10",
            "detected in 4 h",
            "bound for any test",
        )
    )
    size = counts.LOSS_REGRESSION.alarms_an_hour / (LOOKS_AN_HOUR * windows.WINDOWS)
    for before, after in ((0.0, 0.003), (0.0, 0.01), (0.001, 0.01), (0.01, 0.03)):
        random = np.random.default_rng(1)
        ratio = np.r_[np.full(BEFORE_CYCLES, before), np.full(FOUND_CYCLES, after)]
        drawn = paths.bursts(sizes.paths, len(ratio), ratio, random)
        source = RecordedSource(drawn, past=paths.past(sizes.paths, before, random))
        minutes = _first_found(paths.scope(paths.apart(sizes.paths)), source, ("loss_regression",))
        p, q, base = paths.lossy_ratio(before), paths.lossy_ratio(after), 28 * 24 * paths.BURSTS_AN_HOUR
        allowed = [theory.bursts_for_loss(p, q, base, size, power, rises.LEAST_EVENTS) for power in (0.5, 0.9)]
        bound = theory.lorden_bursts(p, q, LOOKS_AN_HOUR / counts.LOSS_REGRESSION.alarms_an_hour)
        _row(table, f"{before:.1%} to {after:.1%}", minutes * len(SIZES), allowed, f"{bound:.0f}")
    return table


def loss_above(sizes: Sizes) -> Table:
    """Loss that rises above the threshold, on each path separately, from none and from the maximum permitted."""
    table = Table(
        (
            "loss",
            "power ½: bursts",
            "detected by half",
            "power 0.9",
            "detected by 9 of 10",
            "detected in 10 h",
            "bound for any test",
        )
    )
    for before, after in ((0.0, 0.02), (0.0, 0.03), (0.0, 0.05), (0.0, 0.1), (0.01, 0.02), (0.01, 0.03)):
        random = np.random.default_rng(4)
        ratio = np.r_[np.full(BEFORE_CYCLES, before), np.full(ABOVE_CYCLES, after)]
        source = RecordedSource(
            paths.bursts(sizes.paths, len(ratio), ratio, random), past=paths.past(sizes.paths, before, random)
        )
        minutes = _first_found(paths.scope(paths.apart(sizes.paths)), source, ("loss",), steps=ABOVE_CYCLES)
        allowed = [
            theory.bursts_above(after, THRESHOLD, paths.PACKETS, THRESHOLD_SIZE, power, loss.MIN_LOSSY_BURSTS_TO_FIRE)
            for power in (0.5, 0.9)
        ]
        packets = theory.lorden_bursts(THRESHOLD, after, paths.BURSTS_AN_HOUR * paths.PACKETS / loss.ALARMS_AN_HOUR)
        _row(table, f"{before:.1%} to {after:.1%}", minutes * len(SIZES), allowed, f"{packets / paths.PACKETS:.0f}")
    return table


def round_trips(sizes: Sizes) -> Table:
    """RTTs that rise by a step, on paths of 20 and of 160 ms: with the default rule, and for each change."""
    table = Table(("RTT", "rule", "power: bursts", "detected by half", "detected by 9 of 10", "detected in 1 h"))
    cases = [(20.0, step, {}) for step in (2.0, 20.0)]
    cases += [(160.0, 20.0, {}), (160.0, 2.0, {"rtt": {"every_change": True}})]
    allowed = detector.AFTER
    for level, step, alerts in cases:
        random = np.random.default_rng(2)
        rtt_ms = np.r_[np.full(BEFORE_CYCLES, level), np.full(60, level + step)]
        source = RecordedSource(paths.bursts(sizes.paths, len(rtt_ms), np.zeros(1), random, rtt_ms))
        minutes = _first_found(paths.scope(paths.apart(sizes.paths), alerts=alerts), source, ("rtt",))
        _row(
            table, f"{level:g} ms + {step:g} ms", minutes, [allowed, allowed], None,
            "`every_change`" if alerts else "default",
        )  # fmt: skip
    return table


def throughput_falls(sizes: Sizes) -> Table:
    """Measured throughput that falls, a test per hour, with rates that vary by 8%."""
    table = Table(
        ("throughput", "power ½: tests", "detected by half", "power 0.9", "detected by 9 of 10", "detected in 24 tests")
    )
    spread, hours, before = 0.08, 24, ranks.LONGEST
    for ratio in (0.8, 0.5):
        random = np.random.default_rng(3)
        level = np.r_[np.ones(before), np.full(hours, ratio)]
        rates = 9.4e8 * level * np.exp(random.normal(0.0, spread, (sizes.paths, len(level))))
        ids = np.repeat(np.arange(1, sizes.paths + 1), len(level))
        at_s = np.tile(BEGAN.timestamp() + 3600.0 * (np.arange(len(level)) - before), sizes.paths)
        source = RecordedSource(
            RecordedBursts.from_columns([], [], np.zeros((0, 1))), MeasuredTests(ids, at_s, rates.ravel())
        )
        tested = paths.apart(sizes.paths, "throughput", every_s=3600)
        scope = paths.scope({}, tested)
        delays = _first_found(scope, source, ("throughput",), BEGAN - timedelta(minutes=30), hours, 3600.0)
        allowed = [
            theory.tests_for_fall(ratio, spread, ranks.MOST_BEFORE, throughput.ALARMS_AN_HOUR, power, ranks.NEWEST)
            for power in (0.5, 0.9)
        ]
        _row(table, f"−{1 - ratio:.0%}", delays, allowed, None)
    return table


def causes(sizes: Sizes) -> Table:
    """Trouble at a place in a mesh of six sites: the number of opened incidents, the number that remains after
    grouping, and the number of rounds in which it names the place."""
    table = Table(
        (
            "trouble",
            "expected",
            "+20 ms: opened",
            "left",
            "named right",
            "loss 0.1 to 3%: opened",
            "left",
            "named right",
        )
    )
    pinged = paths.full_mesh(["cern", "desy", "fnal", "in2p3", "kek", "slac"])
    places: dict[str, tuple[str, Callable[[str, str], bool]]] = {
        "the site cern, both directions": ("cern", lambda a, b: "cern" in (a, b)),
        "all measurements of the agent of cern": ("cern outbound", lambda a, b: a == "cern"),
        "one path, one direction or both": ("cern ↔ slac", lambda a, b: {a, b} == {"cern", "slac"}),
    }
    rounds = 3
    for place, (should, is_hit) in places.items():
        hit = np.array([is_hit(path.source, path.destination) for path in pinged.values()])
        cells = []
        for fault, loss_ratio, step_ms, cycles in (("+20 ms", 0.001, 20.0, 90), ("loss", 0.03, 0.0, 150)):
            opened = 0
            remaining: Counter[str] = Counter()
            for seed in range(rounds):
                alarms = _causes_found(pinged, hit, loss_ratio, step_ms, cycles, seed)
                opened += len(alarms)
                remaining.update(alarm.cause for alarm in alarms if not alarm.is_part)
            cells += [f"{opened / rounds:.1f}", f"{remaining.total() / rounds:.1f}", f"{remaining[should]} of {rounds}"]
            if (remaining.total(), remaining[should]) != (rounds, rounds):
                table.failures.append(f"{place}, {fault}: {dict(remaining)}, expected {should} {rounds} times")
        table.rows.append((place, should, *cells))
    return table


def _causes_found(
    pinged: Mapping[int, MeasuredPath],
    hit: NDArray[np.bool_],
    loss_ratio: float,
    step_ms: float,
    cycles: int,
    seed: int,
) -> list[Alarm]:
    random = np.random.default_rng(seed)
    is_bad = hit[:, np.newaxis] & (np.arange(cycles) >= BEFORE_CYCLES)
    ratio, rtt_ms = np.where(is_bad, loss_ratio, 0.001), paths.RTT_MS + np.where(is_bad, step_ms, 0.0)
    drawn = paths.bursts(len(pinged), cycles, ratio, random, rtt_ms)
    source = RecordedSource(drawn, past=paths.past(len(pinged), 0.001, random))
    return _incidents(paths.scope(pinged), source, _cycles(BEFORE_CYCLES, cycles))


def blips(sizes: Sizes) -> Table:
    """Short troubles that must not raise an alarm."""
    table = Table(("blip, on each path", "paths", "alarms"))
    cycles, at = 150, BEFORE_CYCLES + 5
    single_cycle = np.zeros(cycles)
    single_cycle[at] = 1.0
    bump = np.zeros(cycles)
    bump[at : at + 5] = 50.0
    half = np.zeros(cycles)
    half[at] = 0.5
    cases: dict[str, dict[str, Any]] = {
        "a cycle with 100% loss": {"loss": single_cycle},
        "a cycle with 50% loss": {"loss": half},
        "five minutes of +50 ms": {"rtt": bump},
        "one cycle of +500 ms": {"rtt": 500.0 * single_cycle},
    }
    for name, blip in cases.items():
        random = np.random.default_rng(5)
        ratio = blip.get("loss", np.zeros(1))
        drawn = paths.bursts(sizes.paths, cycles, ratio, random, paths.RTT_MS + blip.get("rtt", 0.0))
        scope = paths.scope(paths.apart(sizes.paths))
        source = RecordedSource(drawn, past=paths.past(sizes.paths, 0.0, random))
        alarms = len(_incidents(scope, source, _cycles(BEFORE_CYCLES, cycles)))
        table.rows.append((name, f"{sizes.paths}", f"{alarms}"))
        if alarms:
            table.failures.append(f"{name}: {alarms} alarms, expected none")
    return table


def quiet(sizes: Sizes) -> Table:
    """Nothing planted: all rules, by default, on paths with constant loss."""
    table = Table(("loss", "path-hours", "incidents", "allowed"))
    for ratio in (0.0, 0.001, 0.01):
        random = np.random.default_rng(6)
        cycles = sizes.quiet_hours * 3600 // CYCLE_S
        drawn = paths.bursts(sizes.quiet_paths, cycles, np.full(1, ratio), random)
        source = RecordedSource(drawn, past=paths.past(sizes.quiet_paths, ratio, random))
        hours = sizes.quiet_paths * sizes.quiet_hours
        opened = Counter(
            incident.rule
            for incident in _incidents(paths.scope(paths.apart(sizes.quiet_paths)), source, _cycles(1, cycles))
        )
        alarms = opened.total()
        by_rule = ", ".join(f"{rule} {count}" for rule, count in opened.items()) or "none"
        table.rows.append((f"{ratio:.1%}", f"{hours:,}", by_rule, f"{hours / 1e4:.1f}"))
        if alarms > most_alarms(hours / 1e4):
            table.failures.append(f"quiet paths at {ratio:.1%} loss: {alarms} alarms in {hours:,} path-hours")
    return table


def most_alarms(expected: float) -> int:
    """At least this many occur by chance in one of a hundred runs where `expected` occur on average (Poisson); fewer is
    no proof of more than that."""
    chance, term, number = 0.0, math.exp(-expected), 0
    while chance + term < 0.99:
        chance += term
        number += 1
        term *= expected / number
    return number


def _first_found(
    scope: RuleScope, source: RecordedSource, rules: tuple[str, ...], begin: datetime | None = None,
    steps: int | None = None, every_s: float = CYCLE_S,
) -> Floats:  # fmt: skip
    """The number of cycles (tests) from the fault until each path is detected; infinite where it is not."""
    began = BEGAN + timedelta(seconds=BEFORE_CYCLES * CYCLE_S - CYCLE_S / 2) if begin is None else begin
    of = scope.pinged or scope.tested
    first = np.full(len(of) + 1, np.inf)
    runner = Replay(scope, source, rules)
    if begin is None:
        runner.snapshot(began)
    total = FOUND_CYCLES if rules != ("rtt",) else 60
    for number, now in enumerate(moments(began, began + timedelta(days=3), every_s), start=1):
        if number > (steps or total):
            break
        for finding in findings(runner.snapshot(now), scope, rules):
            first[finding.path_id] = min(first[finding.path_id], number)
    return first[1:]


def _incidents(scope: RuleScope, source: RecordedSource, times: Iterator[datetime]) -> list[Alarm]:
    runner = Replay(scope, source)
    for now in times:
        runner.at(now)
    return [alarm for alarm in runner.alarms if alarm.opened_at is not None]


def _cycles(first: int, last: int) -> Iterator[datetime]:
    """An evaluation in the middle of each cycle."""
    began = BEGAN + timedelta(seconds=first * CYCLE_S - CYCLE_S / 2)
    return moments(began, began + timedelta(seconds=(last - first) * CYCLE_S), CYCLE_S)


def _row(
    table: Table, label: str, delays: Floats, allowed: list[int], bound: str | None, rule: str | None = None
) -> None:
    """A row of medians and 90th percentiles, in samples, compared with those that the power allows."""
    half, most = (float(np.quantile(delays, share, method="higher")) for share in (0.5, 0.9))
    share = f"{np.isfinite(delays).mean():.1%}"
    if rule is None:
        cells = [label, f"{allowed[0]}", _number(half), f"{allowed[1]}", _number(most), share]
    else:
        cells = [label, rule, f"{allowed[0]}", _number(half), _number(most), share]
    table.rows.append((*cells, *([bound] if bound else [])))
    for measured, of in ((half, allowed[0]), (most, allowed[1])):
        if measured > WITHIN * of:
            table.failures.append(f"{label}: found after {measured:g} samples, where {WITHIN * of:g} are allowed")


def _number(samples: float) -> str:
    return "not" if math.isinf(samples) else f"{samples:.0f}"

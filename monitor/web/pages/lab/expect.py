"""Predict when a lab fault's incident opens, by the mesh's rules and tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

import numpy as np
from msgspec.structs import replace

from monitor.alerts.detect.rtt_windows import SPARE_CYCLES
from monitor.alerts.detect.rules.loss import LossRule
from monitor.alerts.detect.rules.loss_times import LONGEST_S, Periods, PingCadence, detection_time
from monitor.alerts.detect.rules.reach import CYCLES, UnreachableRule
from monitor.alerts.detect.rules.round_trips import RoundTripRule
from monitor.alerts.detect.rules.throughput import DROP_BEFORE, DROP_TESTS, LEAST_BEFORE, DropRule
from monitor.alerts.detect.snapshot import SHARE_OF_ROUND_TRIPS, TESTS_WITHIN
from monitor.alerts.incidents.lifecycle import CONFIRM_S
from monitor.alerts.scope import RuleScope, scope_now
from monitor.analysis.changes.detector import AFTER, BEFORE
from monitor.analysis.figures import bit_rate, percent
from monitor.archive.queries.for_alerts import newest_tests, recent_round_trips
from monitor.mesh.models import KindName, Test
from monitor.mesh.queries import MeasuredPath, sizes_sent
from monitor.mesh.schedule.path_tests import path_tests
from probes.lab.control import PathStatus
from probes.quantities import duration_text

# A burst, its delivery and the next evaluation take less.
DELIVERY_S = 30
# From the burst that proves a fault until its incident is open.
WAITED_S = DELIVERY_S + CONFIRM_S
# Packets of a burst where the test does not say.
USUAL_COUNT = 10
EXAMPLE_LOSS, EXAMPLE_RISE_MS, EXAMPLE_RATE_MBPS = 0.2, 50.0, 1.0
UNDER_LOAD = " (pings during throughput tests do not count)"
BOTH = "Pings cross a path there and back, so both directions show it."


@dataclass(frozen=True, slots=True)
class Expectation:
    kind: str
    sentence: str
    wait_s: float | None  # time within which the incident usually opens; None without incident
    is_too_early: bool = False  # no incident, for want of earlier tests


def expected_of(broken: Sequence[PathStatus], now: datetime) -> list[Expectation]:
    scope, kinds = scope_now(), dict[str, Expectation]()
    for path in broken:
        for expectation in _of_path(path, scope, path.changed_at or now):
            kinds.setdefault(expectation.kind, expectation)
    return list(kinds.values())


def too_early_paths(broken: Sequence[PathStatus], now: datetime) -> set[tuple[str, str]]:
    scope = scope_now()
    expected = {(path.source, path.destination): _of_path(path, scope, path.changed_at or now) for path in broken}
    return {pair for pair, kinds in expected.items() if kinds and all(kind.is_too_early for kind in kinds)}


def examples(paths: Sequence[PathStatus], pair: tuple[str, str], now: datetime) -> list[Expectation]:
    path = next((path for path in paths if (path.source, path.destination) == pair), None)
    if path is None or path.original is None:
        return []
    faults = (
        {"loss_ratio": EXAMPLE_LOSS},
        {"delay_ms": path.original.delay_ms + EXAMPLE_RISE_MS},
        {"rate_mbps": EXAMPLE_RATE_MBPS},
        {"loss_ratio": 1.0},
    )
    planted = [replace(path, settings=replace(path.original, **fault), changed_at=now) for fault in faults]
    return expected_of(planted, now)


def _of_path(path: PathStatus, scope: RuleScope, at: datetime) -> list[Expectation]:
    original, settings, expected = path.original, path.settings, list[Expectation]()
    pinged, tested = (_measured(paths, path) for paths in (scope.pinged, scope.tested))
    if original is None:
        return []
    if pinged is not None and settings.loss_ratio == 1:
        expected.append(_down(pinged, scope, at))
    elif pinged is not None and settings.loss_ratio > original.loss_ratio:
        expected.append(_loss(settings.loss_ratio, pinged, scope, at))
    if pinged is not None and settings.delay_ms > original.delay_ms:
        expected.append(_delay(settings.delay_ms - original.delay_ms, 2 * original.delay_ms, pinged, scope, at))
    if (
        tested is not None
        and settings.rate_mbps is not None
        and (original.rate_mbps is None or settings.rate_mbps < original.rate_mbps)
    ):
        expected.append(_rate(settings.rate_mbps * 1e6, tested, scope, at))
    return expected


def _measured(paths: dict[int, MeasuredPath], path: PathStatus) -> MeasuredPath | None:
    ends = path.source, path.destination
    return next(
        (measured for measured in paths.values() if (measured.place.source, measured.place.destination) == ends), None
    )


def _rule(scope: RuleScope, name: str, path: MeasuredPath) -> Any:
    return scope.settings[name].get(path.path_id)


def _down(path: MeasuredPath, scope: RuleScope, at: datetime) -> Expectation:
    loss, unreachable = (
        cast("LossRule | None", _rule(scope, "loss", path)),
        cast("UnreachableRule | None", _rule(scope, "unreachable", path)),
    )
    waits_s = [] if unreachable is None else [float(max(unreachable.after_s, CYCLES * path.every_s))]
    if loss is not None:
        time = detection_time(1.0, loss, _pings(path, scope), _tests(path, at))
        waits_s.append(time.most_s or LONGEST_S)
    if not waits_s:
        return _switched_off("down", "100% loss")
    wait_s = min(waits_s) + WAITED_S
    return Expectation("down", f"100% loss: an incident usually opens within {duration_text(wait_s)}. {BOTH}", wait_s)


def _loss(loss_ratio: float, path: MeasuredPath, scope: RuleScope, at: datetime) -> Expectation:
    rule = cast("LossRule | None", _rule(scope, "loss", path))
    if rule is None:
        return _switched_off("loss", "loss")
    if loss_ratio <= rule.above_ratio:
        text = f"Loss of {percent(loss_ratio)} is not above the threshold of {percent(rule.above_ratio)}: no incident."
        return Expectation("loss", text, None)
    pings = _pings(path, scope)
    time, undelayed = (detection_time(loss_ratio, rule, pings, tests) for tests in (_tests(path, at), ()))
    beyond = duration_text(LONGEST_S)
    if time.half_s is None:
        text = f"Loss of {percent(loss_ratio)}: near the threshold of {percent(rule.above_ratio)}, an incident usually "
        return Expectation("loss", f"{text}takes more than {beyond} to open, by simulation. {BOTH}", 10 * rule.window_s)
    most_s = LONGEST_S if time.most_s is None else time.most_s + WAITED_S
    share = "9 of 10" if time.most_s is not None else percent(time.share)
    about = duration_text(time.half_s + WAITED_S)
    is_delayed = (time.half_s, time.most_s) != (undelayed.half_s, undelayed.most_s)
    text = f"Loss of {percent(loss_ratio)}: by simulation an incident opens after about {about}, "
    text += f"{share} within {duration_text(most_s)}{UNDER_LOAD if is_delayed else ''}. {BOTH}"
    return Expectation("loss", text, most_s)


def _pings(path: MeasuredPath, scope: RuleScope) -> PingCadence:
    tests = Test.objects.filter(measurements__path=path.path_id, measurements__retired_at=None, every_s=path.every_s)
    parameters = [test.parameters for test in tests.filter(kind__in=KindName.PING.alternatives)]
    packets = [each.get("count", USUAL_COUNT) for each in parameters for _ in sizes_sent(each.get("packet_bytes"))]
    share = SHARE_OF_ROUND_TRIPS if path.path_id in scope.one_way else 1.0
    return PingCadence(path.every_s, max(1, len(packets)), min(packets, default=USUAL_COUNT), share)


def _tests(path: MeasuredPath, at: datetime) -> Periods:
    tests = path_tests(path.path_id, at, at + timedelta(seconds=LONGEST_S))
    return tuple(((since - at).total_seconds(), (until - at).total_seconds()) for since, until in tests)


def _delay(rise_ms: float, rtt_ms: float, path: MeasuredPath, scope: RuleScope, at: datetime) -> Expectation:
    rule = cast("RoundTripRule | None", _rule(scope, "rtt", path))
    if rule is None:
        return _switched_off("delay", "delay")
    least_ms = min(rule.least_rise_ms, max(1.0, rule.least_rise_ratio * rtt_ms))
    if rise_ms < least_ms:
        return Expectation("delay", f"A rise of the RTT by less than {least_ms:.3g} ms opens no incident.", None)
    bursts = _answered_bursts(path, at)
    if bursts < BEFORE:
        return Expectation("delay", _too_early("RTT", "bursts", BEFORE, bursts, path.every_s), None, is_too_early=True)
    # The detector judges a change when it has AFTER bursts after it; a burst that the fault began in may count before.
    wait_s = (AFTER + 1) * path.every_s + WAITED_S
    text = f"Delay: an incident usually opens within {duration_text(wait_s)}, after {AFTER} bursts. {BOTH}"
    return Expectation("delay", text, wait_s)


def _answered_bursts(path: MeasuredPath, at: datetime) -> int:
    # Bursts before `at` for the RTT rule; beyond BEFORE not counted.
    if path.packet_bytes is None:
        return 0
    since_s = at.timestamp() - (BEFORE + SPARE_CYCLES) * path.every_s
    return len(recent_round_trips([path.path_id], [path.packet_bytes], [since_s], at).at_s)


def _rate(rate_bps: float, path: MeasuredPath, scope: RuleScope, at: datetime) -> Expectation:
    rule = cast("DropRule | None", _rule(scope, "throughput_drop", path))
    if rule is None:
        return _switched_off("rate", "rate")
    tests_bps = newest_tests([path.path_id], at - TESTS_WITHIN, at, DROP_BEFORE)["throughput_bps"]
    if len(tests_bps) < LEAST_BEFORE:
        text = _too_early("throughput", "tests", LEAST_BEFORE, len(tests_bps), path.every_s)
        return Expectation("rate", text, None, is_too_early=True)
    limit_bps = rule.below_ratio * float(np.min(tests_bps))
    if rate_bps >= limit_bps:
        text = f"A rate of {bit_rate(rate_bps)} is not below {bit_rate(limit_bps)}, {percent(rule.below_ratio)} of the "
        return Expectation("rate", f"{text}lowest of the tests before: no incident soon.", None)
    tests = f"by the second throughput test, one every {duration_text(path.every_s)}"
    wait_s = DROP_TESTS * path.every_s + WAITED_S
    text = f"Rate: an incident opens within {duration_text(wait_s)}, {tests}. Only the changed direction shows it."
    return Expectation("rate", text, wait_s)


def _too_early(rule: str, tests: str, needed: int, there_are: int, every_s: float) -> str:
    wait = duration_text((needed - there_are) * every_s)
    return (
        f"Too early: the rule on {rule} needs {needed} {tests} before the change; there are {there_are}, one every "
        f"{duration_text(every_s)}. For an incident break the path in {wait}, not before."
    )


def _switched_off(kind: str, cause: str) -> Expectation:
    return Expectation(kind, f"No incident for {cause}: mesh.toml has switched the rule off.", None)

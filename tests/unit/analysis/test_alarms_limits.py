"""Absolute limits, on random bursts and tests, through the snapshot and the live rules."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from monitor.alerts.backtest.recorded import RecordedBursts, RecordedSource
from monitor.alerts.backtest.recorded_tests import MeasuredTests
from monitor.alerts.backtest.replay import Replay, moments
from monitor.alerts.closing import SWITCHED_OFF, reason_for_end
from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.detect.rules.finding import LIMIT_CHANGED
from monitor.alerts.evaluate import snapshot_at
from monitor.analysis.mos import mos
from tests.oracles import pinger
from tests.planted import paths
from tests.planted.paths import BEGAN, PACKETS

RTT_RULES = ("rtt_median", "rtt_p95", "rtt_minimum")
NOISE_MS = 5.0


def replayed(rtts_ms, alerts, every_s=60, rules=None):
    """The alarms, and their figures, on bursts of shape (paths, bursts, packets), evaluated after each burst."""
    count, bursts, _ = rtts_ms.shape
    at_s = BEGAN.timestamp() + every_s * np.arange(bursts)
    ids = np.repeat(np.arange(1, count + 1), bursts)
    columns = RecordedBursts.from_columns(ids, np.tile(at_s, count), rtts_ms.reshape(-1, rtts_ms.shape[2]), ttl=57.0)
    runner = Replay(
        paths.scope(paths.apart(count, every_s=every_s), alerts=alerts), RecordedSource(columns), rules or tuple(alerts)
    )
    began = BEGAN + timedelta(seconds=every_s / 2)
    for now in moments(began - timedelta(seconds=every_s), began + timedelta(seconds=bursts * every_s), every_s):
        runner.at(now)
    return runner


def opened(runner):
    return [alarm for alarm in runner.alarms if alarm.opened_at is not None]


def noisy(levels_ms, count=1, seed=3):
    """Exponential noise above the level of each burst."""
    shape = (count, len(levels_ms), PACKETS)
    return np.asarray(levels_ms)[:, np.newaxis] + np.random.default_rng(seed).exponential(NOISE_MS, shape)


def test_limits_are_off_by_default():
    answered = paths.apart(1, "request-response", every_s=300)
    scope = paths.scope(paths.apart(1), paths.apart(1, "throughput", every_s=3600), answered=answered)

    off = {name for name, settings in scope.settings.items() if not settings}

    assert off == {*RTT_RULES, "mos", "throughput_limit", "request_response_limit"}


def test_a_limit_applies_to_a_path_or_a_group():
    alerts = {
        "rtt_median": {"above_ms": 100.0},
        "for": [
            {"path": ["a0", "b0"], "rtt_median": {"above_ms": 20.0}},
            {"from": "a1", "rtt_median": {"enabled": False}},
        ],
    }

    runner = replayed(noisy(np.full(30, 40.0), count=3), alerts, rules=("rtt_median",))

    assert [alarm.ever.keys() for alarm in opened(runner)] == [{(1, "rtt_median")}]


@pytest.mark.parametrize(
    ("rule", "limit_ms"),
    [
        ("rtt_median", 40.0 + NOISE_MS * 0.65),  # of ten values: between ln 2 = 0.69 and the mean of their medians
        ("rtt_p95", 40.0 + NOISE_MS * np.log(20.0)),
        ("rtt_minimum", 40.0 + NOISE_MS * np.log(2.0) / PACKETS),
    ],
)
def test_a_path_at_its_limit_raises_no_alarm(rule, limit_ms):
    """40 paths for two hours are 80 path-hours, with 0.01 expected false alarms."""
    if rule == "rtt_median":
        many = noisy(np.full(20_000, 40.0), seed=9)[0]
        limit_ms = float(np.median(np.median(many, axis=1)))

    assert opened(replayed(noisy(np.full(120, 40.0), count=40), {rule: {"above_ms": limit_ms}})) == []


@pytest.mark.parametrize("rule", RTT_RULES)
@pytest.mark.parametrize("every_s", [10, 600, 3600])
def test_a_path_above_its_limit_alarms_until_it_is_below(rule, every_s):
    """It has always been slow: no baseline would show it."""
    levels = np.r_[np.full(60, 80.0), np.full(40, 20.0)]

    runner = replayed(noisy(levels), {rule: {"above_ms": 50.0}}, every_s)

    (alarm,) = opened(runner)
    (finding,) = alarm.ever.values()
    fired_after = (alarm.found_at - BEGAN).total_seconds() / every_s
    ended_after = (alarm.ended_at - BEGAN).total_seconds() / every_s - 60
    assert fired_after <= 29
    assert finding.figures["bursts"] / 2 - 1 <= ended_after <= finding.figures["bursts"] + 1
    assert finding.figures["limit_ms"] == 50.0
    assert 80.0 < finding.figures["value_ms"] < 110.0
    assert alarm.reopenings == 0


def test_a_high_95th_percentile_alarms_with_a_normal_median():
    """A fifth of the replies take 80 ms."""
    rtts = noisy(np.full(60, 20.0))
    rtts[np.random.default_rng(5).random(rtts.shape) < 0.2] += 80.0
    alerts = {rule: {"above_ms": 50.0} for rule in RTT_RULES}

    (alarm,) = opened(replayed(rtts, alerts))

    (finding,) = alarm.ever.values()
    assert finding.rule == "rtt_p95"
    assert finding.figures["above"] / finding.figures["counted"] == pytest.approx(0.2, abs=0.08)


def test_a_single_slow_cycle_is_not_above_a_limit():
    rtts = noisy(np.full(60, 20.0))
    rtts[0, 40:42] += 500.0

    assert opened(replayed(rtts, {rule: {"above_ms": 50.0} for rule in RTT_RULES})) == []


@pytest.mark.parametrize(("rtt_ms", "ipdv_ms"), [(0.0, 0.0), (20.0, 1.0), (170.0, 3.0), (400.0, 60.0), (2000.0, 0.0)])
@pytest.mark.parametrize("loss", [0.0, 0.01, 0.1, 1.0])
def test_the_score_equals_pingers(rtt_ms, ipdv_ms, loss):
    assert float(mos(rtt_ms, ipdv_ms, loss)) == pytest.approx(pinger.mos_of(rtt_ms, ipdv_ms, loss))


@pytest.mark.parametrize("every_s", [60, 600])
@pytest.mark.parametrize("cause", ["loss", "latency"])
def test_a_low_score_alarms_until_it_recovers(cause, every_s):
    """25% loss gives a MOS of 1.5, a mean RTT of 410 ms a MOS of 3.0; without either it is above 4."""
    bad, cycles = 50, 150
    rtts = noisy(np.where(np.arange(cycles) < bad, 405.0 if cause == "latency" else 20.0, 20.0))
    if cause == "loss":
        rtts[0, :bad][np.random.default_rng(6).random((bad, PACKETS)) < 0.25] = np.nan

    runner = replayed(rtts, {"mos": {"mos_below": 3.8}}, every_s)

    (alarm,) = opened(runner)
    (finding,) = alarm.ever.values()
    oracle = pinger.mos(rtts[0, :bad])
    assert finding.figures["mos"] == pytest.approx(oracle, abs=0.4)
    assert BEGAN < alarm.found_at < BEGAN + timedelta(seconds=bad * every_s)
    assert alarm.ended_at > BEGAN + timedelta(seconds=bad * every_s)


def test_a_score_at_its_limit_raises_no_alarm():
    rtts = noisy(np.full(80, 20.0), count=10)
    rtts[np.random.default_rng(7).random(rtts.shape) < 0.05] = np.nan
    at_limit = pinger.mos_of(25.0, 0.0, 0.05)

    assert opened(replayed(rtts, {"mos": {"mos_below": float(at_limit)}})) == []


def throughput_alarms(rates_mbps, alerts):
    """The alarms on a path with these hourly tests, evaluated after each."""
    every_s = 3600
    at_s = BEGAN.timestamp() + every_s * np.arange(len(rates_mbps), dtype=np.float64)
    tests = MeasuredTests(np.ones(len(at_s), dtype=np.int64), at_s, 1e6 * np.asarray(rates_mbps, dtype=np.float64))
    source = RecordedSource(RecordedBursts.from_columns([], [], np.zeros((0, 1))), tests)
    scope = paths.scope({}, paths.apart(1, "throughput", every_s=every_s), alerts)
    runner = Replay(scope, source, tuple(alerts))
    began = BEGAN - timedelta(seconds=every_s / 2)
    for now in moments(began, began + timedelta(seconds=(len(at_s) + 1) * every_s), every_s / 2):
        runner.at(now)
    return opened(runner)


def test_a_fourth_test_below_a_limit_alarms_until_they_are_good():
    """0.05 to the fourth, times six comparisons, is 3.75e-5, and 1e-4 an hour is allowed; to the third it is not."""
    (alarm,) = throughput_alarms([*[80] * 6, *[200] * 6], {"throughput_limit": {"below_bps": 100e6}})

    (finding,) = alarm.ever.values()
    assert (finding.figures["tests_below"], finding.figures["value_bps"]) == (4, 80e6)
    assert BEGAN + timedelta(hours=3) < alarm.found_at < BEGAN + timedelta(hours=4)
    assert BEGAN + timedelta(hours=8) > alarm.ended_at > BEGAN + timedelta(hours=7)
    assert alarm.reopenings == 0


@pytest.mark.parametrize("rates", [[80, 80, 80], [100] * 12, [200] * 12, [*[200] * 10, 50, *[200] * 10]])
def test_too_few_slow_tests_are_not_below_a_limit(rates):
    assert throughput_alarms(rates, {"throughput_limit": {"below_bps": 100e6}}) == []


@pytest.mark.parametrize(
    ("rule", "key", "strict", "loose"),
    [("rtt_p95", "above_ms", 50.0, 70.0), ("mos", "mos_below", 3.8, 3.0), ("loss", "above_ratio", 0.01, 0.2)],
)
def test_a_less_strict_limit_ends_alarms_of_the_old_limit(rule, key, strict, loose):
    rtts = noisy(np.full(60, 60.0 if rule == "rtt_p95" else 400.0))
    rtts[np.random.default_rng(8).random(rtts.shape) < (0.1 if rule != "rtt_p95" else 0.0)] = np.nan
    (alarm,) = opened(replayed(rtts, {rule: {key: strict}}))
    (finding,) = alarm.ever.values()

    def reason(alerts):
        scope = paths.scope(paths.apart(1), alerts=alerts)
        columns = RecordedBursts.from_columns(np.ones(60), BEGAN.timestamp() + 60 * np.arange(60), rtts[0], ttl=57.0)
        snapshot = snapshot_at(BEGAN + timedelta(hours=1), scope, {}, {1}, source=RecordedSource(columns))
        return reason_for_end(1, "a → b", rule, finding.figures, snapshot, scope)

    assert reason({rule: {key: strict}}) is None
    assert reason({rule: {key: loose}}) == f"a → b: {LIMIT_CHANGED}"
    assert reason({rule: {"enabled": False}}) == f"a → b: {SWITCHED_OFF}"


def test_all_limits_name_their_figures():
    """The keys in mesh.toml, and that each rule has a severity and words."""
    keys = {"rtt_median": "above_ms", "rtt_p95": "above_ms", "rtt_minimum": "above_ms", "mos": "mos_below"}
    for name, key in {**keys, "throughput_limit": "below_bps"}.items():
        settings = RULES[name].settings(**{key: 2.0})
        assert (settings.is_on, settings.severity, RULES[name].settings().is_on) == (True, "warning", False)
        assert RULES[name].words

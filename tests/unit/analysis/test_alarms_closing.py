"""An alarm ends once its trouble is over, at every ping interval, and not before: troubles planted in random bursts,
evaluated by the live rules."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from monitor.alerts.backtest.recorded import HourlyPast, RecordedBursts, RecordedSource
from monitor.alerts.backtest.replay import Replay, moments
from monitor.alerts.detect.past.baselines import baselines_at
from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.detect.rules.windows import HOUR_WINDOWS
from monitor.alerts.evaluate import snapshot_at
from monitor.archive.periods import start_of
from tests.planted import paths
from tests.planted.paths import BEGAN, PACKETS, PAST_HOURS

PATH = 1
QUIET_H = 1
TROUBLE_H = 15
AFTER_H = 32
HOUR = timedelta(hours=1)
EVENT = {"loss": "lost", "loss_regression": "lost", "reordering": "reordered", "duplicates": "duplicated"}


class Trouble:
    """A path without events, except for a trouble of TROUBLE_H hours, evaluated at any moment."""

    def __init__(self, rule: str, every_s: int, ratio: float, seed: int = 1, slower_s: int | None = None) -> None:
        """After the trouble its ping interval is `slower_s` seconds, if not None."""
        self.rule, self.every_s = rule, every_s
        self.begins = BEGAN + QUIET_H * HOUR
        self.ends = self.begins + TROUBLE_H * HOUR
        random = np.random.default_rng(seed)
        until_s = self.ends.timestamp() + AFTER_H * 3600.0
        at_s = np.concatenate(
            [
                np.arange(BEGAN.timestamp(), self.ends.timestamp(), every_s),
                np.arange(self.ends.timestamp(), until_s, slower_s or every_s),
            ]
        )
        is_bad = (at_s >= self.begins.timestamp()) & (at_s < self.ends.timestamp())
        rtts = 20.0 + random.exponential(0.3, (len(at_s), PACKETS))
        happens = random.random((len(at_s), PACKETS)) < np.where(is_bad, ratio, 0.0)[:, np.newaxis]
        if EVENT[rule] == "lost":
            rtts[happens] = np.nan
        events = {name: happens.any(axis=1) if EVENT[rule] == name else 0 for name in ("reordered", "duplicated")}
        bursts = RecordedBursts.from_columns(np.full(len(at_s), PATH), at_s, rtts, ttl=57.0, **events)
        of_hour = np.full((1, PAST_HOURS), 3600.0 / every_s)
        past = HourlyPast(
            BEGAN - PAST_HOURS * HOUR,
            {"bursts": of_hour, "sent": PACKETS * of_hour, "received": PACKETS * of_hour},
        )
        self.source = RecordedSource(bursts, past=past)
        now_every_s = {False: every_s, True: slower_s or every_s}
        self.scopes = {late: paths.scope(paths.paths([("a", "b")], every_s=now_every_s[late])) for late in now_every_s}

    def snapshot(self, now: datetime):
        baselines = baselines_at(start_of("hour", now), self.source)
        return snapshot_at(now, self.scopes[now >= self.ends], {}, (), baselines, self.source)

    def first(self):
        """The time at which the rule first fires, with its figures; None if it does not during the trouble."""
        scope = self.scopes[False]
        for now in self.moments(self.begins, self.ends, 90):
            for finding in RULES[self.rule].judge(self.snapshot(now), scope.settings[self.rule]):
                return now, finding.figures
        return None

    def moments(self, since: datetime, until: datetime, most: int):
        """Half a cycle after some cycle, at most `count` moments."""
        cycles = int((until - since).total_seconds() / self.every_s)
        for number in sorted({int(place) for place in np.linspace(1, cycles - 1, min(most, cycles - 1))}):
            yield since + timedelta(seconds=(number + 0.5) * self.every_s)

    def is_over(self, now: datetime, figures) -> bool:
        return RULES[self.rule].over(PATH, figures, self.snapshot(now)) is not None


def latest_end(trouble: Trouble, figures) -> datetime:
    """Latest time at which an alarm ends: a window without trouble as long as the window that fired, at least half an
    hour or two cycles, then two cycles and, since windows of hours end with the running hour, an hour. The window is
    longer where a few bursts fired: in it so many bursts in a row without event have a probability of 0.001."""
    least_s = max(1800.0, 2 * trouble.every_s, figures["window_s"])
    ratio = (
        figures["events"] / figures["bursts"] if "events" in figures else figures["lost"] / figures["sent"] * PACKETS
    )
    showing_s = trouble.every_s * np.log(1e-3) / np.log(1.0 - min(ratio, 0.999))
    if showing_s > least_s:
        least_s = min([hours * 3600.0 for hours in HOUR_WINDOWS if (hours - 1) * 3600.0 >= showing_s] or [13 * 3600.0])
    return trouble.ends + timedelta(seconds=least_s + 2 * trouble.every_s) + HOUR


@pytest.mark.parametrize("rule", EVENT)
@settings(max_examples=6, deadline=None, derandomize=True)
@given(every_s=st.sampled_from([10, 20, 60, 120, 300, 600, 900, 1800, 3600]), ratio=st.sampled_from([0.05, 0.3, 0.9]))
def test_an_alarm_ends_after_its_trouble_at_any_ping_interval(rule, every_s, ratio):
    trouble = Trouble(rule, every_s, ratio)
    fired = trouble.first()
    assume(fired is not None)
    found_at, figures = fired

    too_early = [now for now in trouble.moments(found_at, trouble.ends, 15) if trouble.is_over(now, figures)]

    assert too_early == []
    assert trouble.is_over(latest_end(trouble, figures), figures)


@pytest.mark.parametrize("seed", [2, 6, 8, 12])
def test_few_bursts_with_less_loss_by_chance_end_no_alarm(seed):
    """Three of three bursts lost packets when it fired; of the next three at the same loss, one may lose none."""
    trouble = Trouble("loss_regression", 600, 0.3, seed)
    fired = trouble.first()
    assert fired is not None
    found_at, figures = fired

    assert [now for now in trouble.moments(found_at, trouble.ends, 200) if trouble.is_over(now, figures)] == []


@pytest.mark.parametrize("rule", EVENT)
@pytest.mark.parametrize("every_s", [10, 300, 3600])
def test_a_trouble_is_detected_at_every_ping_interval(rule, every_s):
    """Otherwise the test above would prove nothing."""
    assert Trouble(rule, every_s, 0.9).first() is not None


@pytest.mark.parametrize("rule", EVENT)
def test_an_hourly_path_that_took_half_a_day_to_fire_ends(rule):
    """Thirteen bursts in thirteen hours: the last hour has a single burst."""
    trouble = Trouble(rule, 3600, 0.9)
    _, figures = trouble.first()
    long_fired = dict(figures) | {"window_s": 12.5 * 3600, "bursts": 13, "sent": 130, "of": 13, "events": 12}

    assert not trouble.is_over(trouble.ends - timedelta(minutes=1), long_fired)
    assert trouble.is_over(trouble.ends + 14 * HOUR, long_fired)


@pytest.mark.parametrize("rule", EVENT)
def test_an_alarm_ends_after_a_change_to_a_slower_schedule(rule):
    """No window of hourly pings holds half of the bursts that fired at ten per minute."""
    trouble = Trouble(rule, 10, 0.3, slower_s=3600)
    _, figures = trouble.first()
    long_fired = dict(figures) | {"window_s": 3600.0, "bursts": 360.0, "sent": 3600, "of": 3600.0}

    assert trouble.is_over(trouble.ends + 14 * HOUR, long_fired)


@pytest.mark.parametrize(("every_s", "ratio"), [(60, 0.02), (60, 0.2), (600, 0.2), (3600, 0.2)])
def test_loss_after_a_route_change_ends_once_it_is_over(every_s, ratio):
    """2% of ten packets a minute: of ten minutes many have no more than 1%."""
    trouble, rule = Trouble("loss", every_s, ratio), RULES["route_change"]
    found_at = trouble.begins + 2 * HOUR
    figures = {
        "loss_before_ratio": 0.0, "loss_after_ratio": ratio, "together": 1.0, "since": trouble.begins.isoformat(),
        "not_before": trouble.begins.isoformat(), "until": found_at.isoformat(),
    }  # fmt: skip

    too_early = [
        reason
        for now in trouble.moments(found_at, trouble.ends, 60)
        if (reason := rule.over(PATH, figures, trouble.snapshot(now))) is not None
    ]

    assert too_early == []
    assert "again" in rule.over(PATH, figures, trouble.snapshot(trouble.ends + 8 * HOUR))


BAD, GOOD = slice(60, 120), 120
LIMIT_MS = {"above_ms": 40.0}
OTHER_RULES = {
    "rtt": {}, "jitter": {}, "unreachable": {}, "mos": {"mos_below": 3.8}, "rtt_median": LIMIT_MS, "rtt_p95": LIMIT_MS,
    "rtt_minimum": LIMIT_MS,
}  # fmt: skip


def alarms_of(rule, every_s):
    """The alarms of a path with a trouble in its bursts of BAD, and GOOD bursts after them."""
    random = np.random.default_rng(1)
    rtts = 20.0 + random.exponential(0.3, (BAD.stop + GOOD, PACKETS))
    shape = rtts[BAD].shape
    if rule == "unreachable":
        rtts[BAD] = np.nan
    elif rule == "mos":
        rtts[BAD][random.random(shape) < 0.3] = np.nan
    else:
        rtts[BAD] += random.exponential(15.0, shape) if rule == "jitter" else 30.0
    at_s = BEGAN.timestamp() + every_s * np.arange(len(rtts))
    bursts = RecordedBursts.from_columns(np.full(len(rtts), PATH), at_s, rtts, ttl=57.0)
    scope = paths.scope(paths.apart(1, every_s=every_s), alerts={rule: OTHER_RULES[rule]})
    replay = Replay(scope, RecordedSource(bursts), (rule,))
    began = BEGAN - timedelta(seconds=every_s / 2)
    for now in moments(began, began + timedelta(seconds=(len(rtts) + 1) * every_s), every_s):
        replay.at(now)
    return replay.alarms


@pytest.mark.parametrize("rule", OTHER_RULES)
@pytest.mark.parametrize("every_s", [10, 60, 300, 600])
def test_other_rules_end_within_as_many_cycles_as_they_took(rule, every_s):
    (alarm,) = alarms_of(rule, every_s)

    begun_s, ended_s = ((at - BEGAN).total_seconds() for at in (alarm.found_at, alarm.ended_at))
    assert BAD.start * every_s < begun_s < BAD.stop * every_s
    took = begun_s / every_s - BAD.start
    assert BAD.stop < ended_s / every_s <= BAD.stop + took + 5


@pytest.mark.parametrize("every_s", [1800, 3600])
@pytest.mark.parametrize("rule", OTHER_RULES)
def test_other_rules_end_at_slow_schedules_too(rule, every_s):
    """A rise of the RTT becomes the baseline after a day. With a ping an hour no 28 bursts are of a day, and it alarms
    not at all."""
    alarms = alarms_of(rule, every_s)

    is_by_steps = rule in ("rtt", "jitter")
    assert len(alarms) == (0 if is_by_steps and every_s == 3600 else 1)
    assert all(alarm.ended_at < BEGAN + timedelta(seconds=(BAD.stop + 40) * every_s) for alarm in alarms)

"""After the end of a trouble nothing else is found: an RTT that is the usual one again is no rise."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.models import Incident
from monitor.alerts.scope import scope_now
from monitor.present import read
from monitor.present.follow import Follower
from monitor.present.track import Signal
from tests.db.copied_rows import copy_rows
from tests.db.planted_faults import DELIVERED, Planted, at, between, plant

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]

PAIR = between("desy", "ornl")
NAME = "desy → ornl"
RULES = {"loss": {"above_ratio": 0.01, "window_s": 120}, "unreachable": {}, "rtt": {}}


def followed(faults, until_s, change=None):
    """The path of the pair, after evaluations each 10 s; `change` changes the RTTs of its bursts, each with the seconds
    of its packets since the onset."""
    paths, rows = plant(faults, until_s, 3, **RULES)
    pair = {path.pk for name, path in paths.items() if {*name.split(" → ")} == {"desy", "ornl"}}
    for row in rows:
        if change is not None and row.path_id in pair:
            sent_s = (row.measured_at - at(0)).total_seconds() + np.arange(10)
            row.rtts_ms = [
                None if rtt is None else float(value)
                for rtt, value in zip(row.rtts_ms, change(sent_s, row.rtts_ms), strict=True)
            ]
    rules, follower = scope_now(), Follower()
    for at_s in range(-60, until_s, 10):
        arrived = [row for row in rows if row.measured_at < at(at_s) - DELIVERED]
        rows = rows[len(arrived) :]
        copy_rows(arrived)
        evaluate(at(at_s), scope=rules, follower=follower)
    return paths[NAME]


def jitter(sent_s, rtts_ms):
    """±30 ms for six and a half minutes."""
    random = np.random.default_rng(int(sent_s[0]) + 10_000)
    active = (sent_s >= 0.0) & (sent_s < 390.0)
    return 100.0 + np.array(rtts_ms, dtype=float) + active * random.uniform(-30.0, 30.0, len(sent_s))


def shorter(sent_s, rtts_ms):
    """By 20 ms for ten minutes."""
    return 100.0 + np.array(rtts_ms, dtype=float) - 20.0 * ((sent_s >= 0.0) & (sent_s < 600.0))


@pytest.mark.parametrize(("change", "until_s"), [(jitter, 800), (shorter, 1000)])
def test_the_usual_rtt_again_is_no_rise(change, until_s):
    followed([], until_s, change)

    assert not Incident.objects.exists()


@pytest.mark.parametrize("delay_ms", [6.5, 60.0])
def test_a_rise_is_found_and_its_track_shows_it(delay_ms):
    path = followed([Planted(PAIR, 0.0, delay_ms=delay_ms)], 300)
    track = read.load([path.pk])[path.pk].track(Signal.RTT)

    assert Incident.objects.get().rule == "rtt"
    assert (bool(track.trouble), track.end) == (True, None)


def test_a_rise_after_a_shorter_rtt_is_found():
    def change(sent_s, rtts_ms):
        return shorter(sent_s, rtts_ms) + 40.0 * (sent_s >= 600.0)

    path = followed([], 900, change)

    assert Incident.objects.get().rule == "rtt"
    assert read.load([path.pk])[path.pk].track(Signal.RTT).trouble

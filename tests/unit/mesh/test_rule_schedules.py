"""Rules that cannot fire at the intervals of a mesh.toml are named, with the interval that they need."""

from __future__ import annotations

import pytest

from monitor.mesh.document.reader import parse
from monitor.mesh.document.rule_schedules import rules_without_effect
from tests.facts import lacks
from tests.unit.mesh.test_notify_routes import MESH

HOUR_S = 3600


def warnings(every_s, text="", sizes="[100, 1000]"):
    mesh = MESH.replace("every_s = 60", f"every_s = {every_s}\npacket_bytes = {sizes}")
    return rules_without_effect(parse((mesh + text).encode(), "mesh.toml"))


@pytest.mark.parametrize("every_s", [60, 1800, 3200])
def test_at_usual_intervals_every_rule_can_fire(every_s):
    assert warnings(every_s) == []


def test_pinged_hourly_the_change_of_rtt_is_named_with_its_need():
    (said,) = warnings(HOUR_S)

    # 28 bursts span 27 intervals: 86,400 s / 27 is 3,200 s.
    facts = (
        'group "hep"',
        "rtt and jitter cannot fire",
        " 2 paths",
        " 60 min",
        "28 cycles within a day",
        "every_s = 3200",
    )
    assert lacks(said, *facts) == []


def test_an_absolute_limit_is_named_where_it_is_set():
    assert not any("rtt_median" in said for said in warnings(2 * HOUR_S))

    (said,) = [said for said in warnings(2 * HOUR_S, "[alerts.rtt_median]\nabove_ms = 300\n") if "rtt_median" in said]
    assert "every_s = 6171" in said  # 86,400 s / 14


@pytest.mark.parametrize(
    ("sizes", "named"),
    [
        ("[100, 1000]", {"rtt", "jitter", "unreachable", "no_data"}),
        ("[100]", {"rtt", "jitter", "unreachable", "no_data", "loss_regression", "reordering", "duplicates"}),
    ],
)
def test_above_eight_hours_nothing_tells_that_a_path_is_dead(sizes, named):
    said = " ".join(warnings(9 * HOUR_S, sizes=sizes))

    rules = ("rtt", "jitter", "unreachable", "no_data", "loss_regression", "reordering", "duplicates")
    assert {rule for rule in rules if rule in said.replace(",", " ").split()} == named
    assert lacks(said, "3 cycles within a day", "every_s = 28800", "(8 h)") == []


def test_rules_that_are_off_are_not_named():
    off = '[alerts.rtt]\nenabled = false\n[[alerts.for]]\ngroup = "hep"\njitter = { enabled = false }\n'

    assert warnings(HOUR_S, off) == []


def test_a_path_that_another_test_pings_often_is_not_named():
    often = '[[test]]\nname = "often"\nkind = "ping"\nevery_s = 60\npacket_bytes = [56]\n[[group]]\nname = "all"\n'
    often += 'shape = "mesh"\nsites = ["cern", "slac"]\ntests = ["often"]\n'

    assert warnings(HOUR_S, often) == []

"""Rules that cannot fire at the intervals of a mesh.toml are named, with the required interval."""

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


def test_with_hourly_pings_the_rtt_change_rule_is_named():
    (warning,) = warnings(HOUR_S)

    # 28 bursts span 27 intervals: 86,400 s / 27 is 3,200 s.
    facts = (
        'group "hep"',
        "rtt and jitter cannot fire",
        " 2 paths",
        " 60 min",
        "28 cycles within a day",
        "every_s = 3200",
    )
    assert lacks(warning, *facts) == []


def test_an_absolute_limit_is_named_where_it_is_set():
    assert not any("rtt_median" in warning for warning in warnings(2 * HOUR_S))

    (warning,) = [
        warning for warning in warnings(2 * HOUR_S, "[alerts.rtt_median]\nabove_ms = 300\n") if "rtt_median" in warning
    ]
    assert "every_s = 6171" in warning  # 86,400 s / 14


@pytest.mark.parametrize(
    ("sizes", "named"),
    [
        ("[100, 1000]", {"rtt", "jitter", "unreachable", "no_data"}),
        ("[100]", {"rtt", "jitter", "unreachable", "no_data", "loss_regression", "reordering", "duplicates"}),
    ],
)
def test_above_eight_hours_no_rule_detects_a_dead_path(sizes, named):
    all_warnings = " ".join(warnings(9 * HOUR_S, sizes=sizes))

    rules = ("rtt", "jitter", "unreachable", "no_data", "loss_regression", "reordering", "duplicates")
    assert {rule for rule in rules if rule in all_warnings.replace(",", " ").split()} == named
    assert lacks(all_warnings, "3 cycles within a day", "every_s = 28800", "(8 h)") == []


def test_disabled_rules_are_not_named():
    off = '[alerts.rtt]\nenabled = false\n[[alerts.for]]\ngroup = "hep"\njitter = { enabled = false }\n'

    assert warnings(HOUR_S, off) == []


def test_a_path_with_another_frequent_ping_test_is_not_named():
    often = '[[test]]\nname = "often"\nkind = "ping"\nevery_s = 60\npacket_bytes = [56]\n[[group]]\nname = "all"\n'
    often += 'shape = "mesh"\nsites = ["cern", "slac"]\ntests = ["often"]\n'

    assert warnings(HOUR_S, often) == []

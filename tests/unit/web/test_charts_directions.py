"""The charts of a path's directions: bars of loss, lines of delay in their intervals, gaps, and their sentences."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from monitor.archive.queries.directions import DirectionPoint, DirectionSeries
from monitor.web.charts.directions import delay_sentence, delay_spec, loss_sentence, loss_spec
from monitor.web.charts.marks import TimeAxis, epoch_ms
from monitor.web.charts.svg import DELAYS_PX, LANE_PX, UNITS, delays_svg, direction_losses_svg
from tests.facts import lacks

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = TimeAxis(START, START + 60 * MINUTE)


def point(minute, forward=0, reverse=0, sent=10, counted=None, delays_ms=None):
    """A step with these losses; `delays_ms` are the ends of both intervals, forward then reverse."""
    counted = sent if counted is None else counted
    ends = delays_ms or (None,) * 4
    return DirectionPoint(
        at=START + minute * MINUTE,
        sent=sent,
        received=counted - forward - reverse,
        counted=counted,
        forward_lost=forward,
        reverse_lost=reverse,
        forward_loss_ratio=None,
        reverse_loss_ratio=None,
        forward_min_ms=None,
        forward_avg_ms=None,
        forward_delay_lo_ms=ends[0],
        forward_delay_hi_ms=ends[1],
        forward_variation_ms=None,
        reverse_min_ms=None,
        reverse_avg_ms=None,
        reverse_delay_lo_ms=ends[2],
        reverse_delay_hi_ms=ends[3],
        reverse_variation_ms=None,
    )


def series(*points):
    return DirectionSeries(1, 60, points)


def minutes(rows, *fields):
    return [tuple((row[field] - epoch_ms(START)) / 60_000 for field in fields) for row in rows]


def test_each_direction_has_bars_of_its_own_loss():
    points = [point(minute, forward=2 if minute == 5 else 0, reverse=1 if minute == 9 else 0) for minute in range(60)]
    spec = loss_spec(series(*points), HOUR, "cern")

    (there,), (back,) = spec["datasets"]["forward"], spec["datasets"]["reverse"]
    assert (minutes([there], "t", "t2"), minutes([back], "t", "t2")) == ([(5, 6)], [(9, 10)])
    # 2 of 10 there; 1 of the 10 that came there.
    assert (there["root"] ** 2, back["root"] ** 2) == (pytest.approx(0.2), pytest.approx(0.1))
    assert {row["name"]: row["value"] for row in spec["params"]}["high"] ** 2 == pytest.approx(0.2)


def test_the_drawing_has_a_strip_for_each_direction():
    points = [point(minute, forward=2 if minute == 30 else 0) for minute in range(60)]

    html = direction_losses_svg(loss_spec(series(*points), HOUR, "<cern>"))

    (bar,) = re.findall(r'<path class="forward-bar" d="M(\d+) [\d.]+V[\d.]+H(\d+)V[\d.]+z"/>', html)
    assert [int(x) / UNITS for x in bar] == [pytest.approx(30 / 60, abs=1e-3), pytest.approx(31 / 60, abs=1e-3)]
    assert "reverse-bar" not in html
    assert lacks(html, ">to &lt;cern&gt;</text>", ">from &lt;cern&gt;</text>") == []
    assert re.findall(r'class="tick" x="-7"[^>]*>([^<]*)<', html) == ["0%", "5%", "20%"] * 2


def test_a_small_loss_beside_none_is_seen():
    points = [point(minute, reverse=1 if minute == 3 else 0, sent=1000) for minute in range(60)]

    html = direction_losses_svg(loss_spec(series(*points), HOUR, "cern"))

    ((bottom, top),) = re.findall(r'"reverse-bar" d="M\d+ ([\d.]+)V([\d.]+)H', html)
    assert float(bottom) - float(top) >= 3


def test_time_without_cycles_is_no_data_and_total_loss_has_no_direction():
    points = [*(point(minute) for minute in range(20)), *(point(minute) for minute in range(30, 40))]
    points += [point(minute, counted=0) for minute in range(40, 45)]
    datasets = loss_spec(series(*points), HOUR, "cern")["datasets"]

    assert minutes(datasets["no-data"], "t", "t2") == [(20, 30), (45, 60)]
    assert minutes(datasets["all-lost"], "t", "t2") == [(40, 45)]
    assert (datasets["forward"], datasets["reverse"]) == ([], [])


def test_cycles_of_ten_minutes_have_no_gaps():
    points = [point(minute, forward=1) for minute in range(0, 60, 10)]
    datasets = loss_spec(series(*points), HOUR, "cern")["datasets"]

    assert datasets["no-data"] == []
    assert minutes(datasets["forward"], "t", "t2") == [(at, at + 10) for at in range(0, 60, 10)]


def test_delays_are_lines_in_their_intervals_and_stop_at_gaps():
    before, after = (19.0, 21.0, 9.0, 11.0), (31.0, 33.0, 9.0, 11.0)
    points = [point(minute, delays_ms=before) for minute in range(10)]
    points += [point(minute, delays_ms=after) for minute in range(20, 60)]
    spec = delay_spec(series(*points), HOUR)

    rows = spec["datasets"]["forward"]
    assert [row["middle"] for row in rows] == [20.0] * 11 + [32.0] * 41
    assert {row["run"] for row in rows[:11]} == {0}
    assert {row["run"] for row in rows[11:]} == {1}
    assert minutes([rows[10], rows[11], rows[-1]], "t") == [(10,), (20,), (60,)]
    html = delays_svg(spec)
    assert html.count("M") >= 4
    assert lacks(html, 'class="forward-interval"', 'class="forward-delay"', 'class="reverse-interval"') == []
    said = delay_sentence("slac to cern", "cern", HOUR, spec)
    assert lacks(said, "to cern 20.00 ms to 32.00 ms, ± 1.00 ms", "from cern 10.00 ms, ± 1.00 ms") == []


def test_clocks_that_cannot_tell_have_a_wide_interval_and_no_negative_delay():
    points = [point(minute, delays_ms=(0.0, 43.1, 0.0, 43.0)) for minute in range(60)]
    spec = delay_spec(series(*points), HOUR)

    assert {row["name"]: row["value"] for row in spec["params"]}["low"] >= 0
    heights = [
        float(y) for y in re.findall(r"[MV](?:\d+ )?([\d.]+)", delays_svg(spec).partition("forward-interval")[2])
    ]
    assert LANE_PX <= max(heights) <= DELAYS_PX
    assert "± 21.55 ms at most by the clocks" in delay_sentence("slac to cern", "cern", HOUR, spec)


def test_without_timestamps_there_is_no_chart_of_delays():
    assert delay_spec(series(point(1)), HOUR) is None


def test_the_sentence_has_both_directions_and_the_worst_interval():
    points = [point(minute, forward=2 if minute == 5 else 0) for minute in range(60)]

    said = loss_sentence("slac to cern", "cern", HOUR, series(*points))

    there, back = "to cern 2 of 600 lost, most 20% in the interval at 2026-11-21 12:05", "from cern 0 of 598"
    assert lacks(said, "slac to cern, 60 min", there, back) == []
    assert "no data" not in said


NO_COUNTER = "reflector keeps no counter"


@pytest.mark.parametrize(
    ("points", "words", "others"),
    [
        ([], ["not known", "no data for 60 min"], [NO_COUNTER]),
        ([point(0, counted=0)], ["not known", "all lost for at least 60 s"], [NO_COUNTER]),
        ([replace(point(0, counted=0), received=8)], ["not known", NO_COUNTER], ["all lost"]),
    ],
)
def test_without_counts_the_sentence_gives_the_reason(points, words, others):
    said = loss_sentence("slac to cern", "cern", HOUR, series(*points))

    assert lacks(said, *words) == []
    assert [word for word in others if word in said] == []


def test_several_outages_are_not_called_one():
    points = [point(minute, counted=0 if minute in (2, 6) else 10) for minute in range(9)]

    said = loss_sentence("slac to cern", "cern", HOUR, series(*points))

    assert "all lost in 2 outages, together at least 2 min" in said

"""The smoke chart: SmokePing's steps of loss, its axis, and that the SVG and the interactive chart show the same."""

import re
from datetime import UTC, datetime, timedelta

import pytest
import vl_convert

from monitor.web.charts import scales, smoke
from monitor.web.charts.layout import THROUGHPUT_PX
from monitor.web.charts.marks import Absence, LabelledSpan
from monitor.web.charts.series import throughput_chart
from monitor.web.charts.smoke import loss_step, smoke_chart
from monitor.web.charts.svg import smoke_svg, throughput_svg
from tests.unit.web.test_charts import MINUTE, START, point, rows, series, tcp_test, window


@pytest.mark.parametrize(
    ("lost", "step"),
    # SmokePing's legend for 20 pings: 0, 1, 2, 3, 4, 10 and 19 lost are the ends of its colours.
    [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (10, 5), (11, 6), (19, 6), (20, 7)],
)
def test_the_steps_of_loss_are_smokepings(lost, step):
    assert loss_step(lost, 20) == step


def test_a_tiny_loss_is_not_drawn_as_none():
    assert loss_step(1, 100_000) == 1


def shapes(svg):
    """The drawn paths by their class."""
    return dict(re.findall(r'<path class="([^"]+)" d="([^"]+)"', svg))


def test_each_interval_is_in_the_svg_in_the_colour_of_its_loss():
    measured = series(*[point(minute) for minute in range(5)], point(5, received=8), point(6, received=9), point(7))

    drawn = shapes(smoke_svg(smoke_chart(measured, [], window(10))))

    medians = {name: shape.count("M") for name, shape in drawn.items() if name.startswith("loss-step-")}
    assert medians == {"loss-step-0": 6, "loss-step-2": 1, "loss-step-4": 1}
    assert {name for name in drawn if name.startswith("loss-bar-")} == {"loss-bar-2", "loss-bar-4"}


def test_an_interval_is_at_its_time_and_rtt():
    measured = series(point(0, rtt_ms=10.0), point(1, rtt_ms=12.0))
    spec = smoke_chart(measured, [], window(10))
    ends = {param["name"]: param["value"] for param in spec["params"]}

    [first, second] = re.findall(r"M(\d+) ([\d.]+)h(\d+)", shapes(smoke_svg(spec))["loss-step-0"])

    def y_px(rtt_ms):
        length = smoke.SMOKE_PX - 18
        return smoke.SMOKE_PX - length * (rtt_ms - ends["low"]) / (ends["high"] - ends["low"])

    assert [(int(x), int(length)) for x, _, length in (first, second)] == [(0, 1000), (1000, 1000)]
    assert float(first[1]) == pytest.approx(y_px(10.0), abs=0.06)
    assert float(second[1]) == pytest.approx(y_px(12.0), abs=0.06)


def test_gaps_and_total_loss_look_different_without_colour():
    measured = series(point(0), point(1, received=0), point(2, sent=0, received=0), point(5))

    drawn = shapes(smoke_svg(smoke_chart(measured, [], window(6), own_tests=[START + 3 * MINUTE])))

    lines = {kind: drawn.get(f"{kind.style}-line") for kind in Absence}
    starts = {kind: int(re.match(r"M(\d+)", line)[1]) for kind, line in lines.items()}
    assert starts == {
        Absence.ALL_LOST: 1667,
        Absence.NOT_MEASURED: 3333,
        Absence.OWN_TEST: 5000,
        Absence.NO_DATA: 6667,
    }
    assert "loss-bar-7" in drawn, "total loss is a black bar"
    medians = re.findall(r"M(\d+) [\d.]+h(\d+)", drawn["loss-step-0"])
    assert medians == [("0", "1667"), ("8333", "1667")], "no median where there is none"


def test_late_replies_do_not_flatten_the_rest():
    measured = series(point(0, rtt_ms=100.0, rtt_max_ms=900.0), point(1, rtt_ms=110.0))

    assert smoke.rtt_scale(measured).high < 140
    assert smoke.cut_off_ms(measured) == 900.0
    assert smoke.cut_off_ms(series(point(0, rtt_ms=100.0))) is None


@pytest.mark.parametrize("values", [(0.0, 0.0), (0.031, 0.04), (155.0, 210.0), (1.0, 60_000.0), (5.0, 5.0)])
def test_ticks_are_round_and_within_the_axis(values):
    scale = scales.linear_scale(*values)

    assert scale.low <= values[0] <= values[1] <= scale.high
    assert 2 <= len(scale.ticks) <= 7
    assert all(scale.low <= tick <= scale.high for tick in scale.ticks)


@pytest.mark.parametrize("values", [[], [0.0], [94e6], [5e-324, 1e300], [1.2e6, 94e6]])
def test_the_axis_of_rates_has_ticks(values):
    scale = scales.log_scale(values)

    assert 0 < scale.low < scale.high
    assert 1 <= len(scale.ticks) <= 7
    assert all(0.0 <= scale.share(value) <= 1.0 for value in values)


@pytest.mark.parametrize("length_s", [60, 600, 3600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400, 5 * 366 * 86_400])
def test_any_length_has_a_few_round_times(length_s):
    since = datetime(2026, 11, 21, 12, 34, 56, tzinfo=UTC)

    ticks = scales.time_ticks(since, since + timedelta(seconds=length_s))

    assert 3 <= len(ticks) <= 10
    assert all(tick.second % 10 == 0 and tick.microsecond == 0 for tick in ticks)
    assert len({scales.time_label(tick) for tick in ticks}) == len(ticks)


def test_marks_and_incidents_are_in_both_drawings():
    incident = LabelledSpan(START + 4 * MINUTE, START + 6 * MINUTE, "Loss <b>4%</b>")
    measured, tests = series(*[point(minute) for minute in range(10)]), [tcp_test(1, 9e6), tcp_test(5, None, "busy")]

    smoke_spec = smoke_chart(measured, tests, window(10, incident))
    rates_spec = throughput_chart(measured, tests, window(10, incident))

    for drawing, height_px in ((smoke_svg(smoke_spec), smoke.HEIGHT_PX), (throughput_svg(rates_spec), THROUGHPUT_PX)):
        assert shapes(drawing)["incident-start"] == f"M4000 0V{height_px}"
        assert drawing.count("✕") == 1
        assert "<b>" not in drawing
    assert smoke_svg(smoke_spec).count("●") == 1
    assert [row["text"] for row in rows(smoke_spec, "tests")] == ["tcp: 9 Mbit/s", "tcp: busy"]


def test_the_interactive_chart_has_the_axis_of_the_drawing():
    spec = smoke_chart(series(*[point(minute, rtt_ms=150.0 + minute) for minute in range(10)]), [], window(10))

    svg = vl_convert.vegalite_to_svg({**spec, "width": 600}, vl_version="6.4")
    texts = re.findall(r">([^<>]+)</text>", svg)
    ticks = [text for text in re.findall(r">([^<>]+)</text>", smoke_svg(spec)) if text not in ("loss", "RTT, ms")]

    assert len(ticks) > 5
    assert set(ticks) <= set(texts)


def test_every_row_of_the_smoke_chart_is_drawn_by_a_layer():
    spec = smoke_chart(series(point(0)), [tcp_test(1, 9e6)], window(10))

    assert {layer["data"]["name"] for layer in spec["layer"] if "name" in layer["data"]} == set(spec["datasets"])

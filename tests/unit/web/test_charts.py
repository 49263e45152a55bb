"""The charts' specs: their rows, the treatment of gaps, floors and failures, and that Vega-Lite can compile them."""

import json
from datetime import UTC, datetime, timedelta

import pytest
import vl_convert

from monitor.archive.queries.paths import Series, SeriesPoint
from monitor.archive.queries.throughput.series import ThroughputPoint
from monitor.web.charts.marks import Absence, LabelledSpan, TimeAxis
from monitor.web.charts.series import absences, loss_chart, pool, rtt_chart, throughput_chart

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
START_MS = 1_795_262_400_000
MINUTE_MS = 60_000


def point(minute: int, sent: int = 10, received: int = 10, rtt_ms: float | None = 10.0, **fields) -> SeriesPoint:
    values = {
        "at": START + minute * MINUTE,
        "sent": sent,
        "received": received,
        "bursts_not_measured": 0 if sent > 0 else 1,
        **{
            f"rtt_{name}_ms": rtt_ms if received > 0 else None for name in ("min", "p25", "median", "p75", "p95", "max")
        },
        "estimate_bps": None,
        "estimate_is_floor": None,
    }
    return SeriesPoint(**{**values, **fields})


def series(*points: SeriesPoint, step_s: int = 60) -> Series:
    return Series(path_id=1, packet_bytes=100, step_s=step_s, points=points)


def window(minutes: int = 10, *incidents: LabelledSpan) -> TimeAxis:
    return TimeAxis(START, START + minutes * MINUTE, incidents)


def tcp_test(minute: int, throughput_bps: float | None, outcome: str = "measured") -> ThroughputPoint:
    return ThroughputPoint(
        at=START + minute * MINUTE,
        test="tcp",
        protocol="tcp",
        outcome=outcome,
        throughput_bps=throughput_bps,
        average_bps=throughput_bps,
        steady_s=None,
        verdict=None,
        sentence=None,
        congestion_control=None,
        peer_window_bytes=None,
        streams=1,
        duration_s=10.0,
        retransmits=None,
        rtt_mean_ms=None,
        detail=None,
    )


def rows(spec, name):
    return spec["datasets"][name]


def test_an_interval_is_drawn_over_its_whole_length():
    [step, end] = rows(rtt_chart(series(point(3)), window()), "steps")

    assert (step["t"], step["t2"]) == (START_MS + 3 * MINUTE_MS, START_MS + 4 * MINUTE_MS)
    assert (end["t"], end["t2"], end["median"]) == (START_MS + 4 * MINUTE_MS, None, 10.0)


def test_no_line_crosses_a_gap():
    steps = rows(rtt_chart(series(point(0), point(1), point(5)), window()), "steps")

    assert [(row["run"], (row["t"] - START_MS) // MINUTE_MS) for row in steps] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 5),
        (1, 6),
    ]


def test_no_line_crosses_a_total_loss():
    steps = rows(rtt_chart(series(point(0), point(1, received=0), point(2)), window()), "steps")

    assert [row["run"] for row in steps] == [0, 0, 1, 1]


def test_each_reason_for_missing_data_has_its_own_name():
    measured = series(point(0), point(1, received=0), point(2, received=0), point(3, sent=0, received=0), point(6))

    absent = absences(measured, window(7), own_tests=[START + 4 * MINUTE])

    spans = {
        kind: [((span.since - START) // MINUTE, (span.until - START) // MINUTE) for span in absent[kind]]
        for kind in absent
    }
    assert spans == {
        Absence.ALL_LOST: [(1, 3)],
        Absence.NOT_MEASURED: [(3, 4)],
        Absence.OWN_TEST: [(4, 5)],
        Absence.NO_DATA: [(5, 6)],
    }


@pytest.mark.parametrize(("minutes_since", "gaps"), [(3, 0), (4, 1)])
def test_the_newest_interval_may_be_late_before_it_is_a_gap(minutes_since, gaps):
    spans = absences(series(point(0)), window(1 + minutes_since))

    assert len(spans[Absence.NO_DATA]) == gaps


def test_a_window_without_data_is_a_single_gap():
    [gap] = absences(series(), window(10))[Absence.NO_DATA]

    assert (gap.since, gap.until) == (START, START + 10 * MINUTE)


def test_loss_is_pooled_over_longer_intervals_and_not_averaged():
    measured = series(point(0, sent=10, received=0), point(1, sent=90, received=90), point(20, sent=10, received=9))

    pooled = pool(measured, 900)

    assert [(point.at, point.sent, point.received) for point in pooled.points] == [
        (START, 100, 90),
        (START + 15 * MINUTE, 10, 9),
    ]
    assert [row["ratio"] for row in rows(loss_chart(pooled, window(30)), "steps")] == [0.1, 0.1]


def test_pooling_to_a_shorter_interval_changes_nothing():
    hours = series(point(0), step_s=3600)

    assert pool(hours, 900) is hours


def test_no_loss_is_drawn_as_a_bound_and_never_as_zero():
    [clean, lossy] = rows(loss_chart(series(point(0, 100, 100), point(1, 100, 99)), window()), "steps")

    assert (clean["ratio"], clean["bound"]) == (None, 0.03)
    assert (lossy["ratio"], lossy["bound"]) == (0.01, None)
    assert clean["text"] == "none of 100 lost: < 3%"
    assert lossy["text"] == "1 of 100 lost: 1%"


def test_an_interval_without_sent_packets_has_no_loss():
    assert rows(loss_chart(series(point(0, sent=0, received=0)), window()), "steps") == []


def test_a_floor_is_drawn_differently_from_an_estimate():
    hours = series(
        point(0, estimate_bps=2e6, estimate_is_floor=True),
        point(1, estimate_bps=1e6, estimate_is_floor=False),
        point(2, estimate_bps=None),
    )

    spec = throughput_chart(hours, [], window())

    assert [(row["run"], row["bps"], row["floor"]) for row in rows(spec, "steps")] == [
        (0, 2e6, True),
        (0, 2e6, True),
        (1, 1e6, False),
        (1, 1e6, False),
    ]
    assert [row["bps"] for row in rows(spec, "floors")] == [2e6]


def test_a_failed_test_is_marked_with_its_outcome_not_a_rate():
    spec = throughput_chart(series(), [tcp_test(1, 9e6), tcp_test(5, None, "tool_failure")], window())

    assert [row["bps"] for row in rows(spec, "measured")] == [9e6]
    assert [(row["outcome"], row["bps"], row["shown"]) for row in rows(spec, "failed")] == [
        ("test error", None, "test error")
    ]


def test_labels_that_would_overlap_are_in_the_tooltip_only():
    failures = [tcp_test(minute, None, "busy") for minute in (0, 1, 50)]

    assert [row["shown"] for row in rows(throughput_chart(series(), failures, window(100)), "failed")] == [
        "busy",
        "",
        "busy",
    ]


def test_incidents_are_cut_to_the_window():
    incident = LabelledSpan(START - 60 * MINUTE, START + 2 * MINUTE, "Loss 4%")

    [shaded] = rows(rtt_chart(series(point(0)), window(10, incident)), "incidents")

    assert (shaded["t"], shaded["t2"], shaded["label"]) == (START_MS, START_MS + 2 * MINUTE_MS, "Loss 4%")


def all_charts():
    measured = series(point(0), point(1, received=8), point(2, received=0), point(6, estimate_bps=1e6))
    chart_window = window(10, LabelledSpan(START + MINUTE, START + 2 * MINUTE, "Loss 4%"))
    tests = [tcp_test(1, 9e6), tcp_test(5, None, "busy")]
    return {
        "rtt": rtt_chart(measured, chart_window),
        "loss": loss_chart(measured, chart_window),
        "throughput": throughput_chart(measured, tests, chart_window),
        "rtt without data": rtt_chart(series(), chart_window),
        "loss without data": loss_chart(series(), chart_window),
        "throughput without data": throughput_chart(series(), [], chart_window),
    }


@pytest.mark.parametrize("name", all_charts())
def test_every_chart_can_be_drawn_without_a_browser(name):
    svg = vl_convert.vegalite_to_svg({**all_charts()[name], "width": 600}, vl_version="6.4")

    assert svg.startswith("<svg")
    assert "12:06" in svg  # the axis is in UTC


@pytest.mark.parametrize("name", all_charts())
def test_every_row_that_a_chart_carries_is_drawn_by_a_layer(name):
    spec = all_charts()[name]

    drawn = {layer["data"]["name"] for layer in spec["layer"]}
    assert drawn == set(spec["datasets"])


def test_requests_do_not_share_rows():
    full = rtt_chart(series(point(0)), window())
    empty = rtt_chart(series(), window())

    assert len(rows(full, "steps")) == 2
    assert rows(empty, "steps") == []


def test_a_spec_is_strict_json():
    for spec in all_charts().values():
        json.dumps(spec, allow_nan=False)


def test_intervals_without_loss_share_a_bound_of_minimum_length():
    clean, lossy = [point(minute) for minute in range(13)], point(13, received=9)

    spec = loss_chart(series(*clean, lossy, point(14), point(20)), window(30), 300)

    # 13 minutes are split into 6 and 7, with 60 and 70 packets; a minute after the loss stays alone, as after a gap.
    intervals = [
        ((row["t"] - START_MS) // MINUTE_MS, (row["t2"] - START_MS) // MINUTE_MS) for row in rows(spec, "steps")
    ]
    assert intervals == [(0, 6), (6, 13), (13, 14), (14, 15), (20, 21)]
    assert [row["bound"] for row in rows(spec, "steps")] == [3 / 60, 3 / 70, None, 0.3, 0.3]
    assert [row["ratio"] for row in rows(spec, "steps")] == [None, None, 0.1, None, None]

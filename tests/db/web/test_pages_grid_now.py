"""The current grid: its windows, incidents in its cells, and outages that a longer period keeps visible."""

from __future__ import annotations

import re
from datetime import timedelta
from statistics import median

import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.incidents import lifecycle
from monitor.alerts.incidents.finding_level import level_of
from monitor.alerts.models import Incident
from monitor.analysis import binomial
from monitor.archive.models import ThroughputTest
from monitor.archive.queries.metrics import Metric
from monitor.mesh.models import Measurement, Mesh
from monitor.mesh.models import Test as MeshTest
from monitor.overview.grid import GridPeriod, load_grid
from monitor.overview.grid_incidents import after_incident
from monitor.overview.incident_values import IncidentValue
from monitor.overview.path_figures import FigureState, PathFigures
from tests.db.alert_rows import only
from tests.db.merging import roll_up_raw
from tests.db.pages_mesh import MINUTE, NOW, burst, throughput
from tests.db.web.test_pages_grid import GRID_QUERIES, cell
from tests.facts import claimed, lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
CLEAN = [10.0] * 10
LOSSY = [10.0] * 8 + [None] * 2
DEAD = [None] * 10
MICROSECOND = timedelta(microseconds=1)
NOW_QUERIES = GRID_QUERIES + 1
"""And the incidents that ended in these minutes."""
RULE_QUERIES = 3
"""Of the rules and the newest bursts of paths with loss, for the sentence above the page."""
TEST_QUERIES = 3
"""Of the paths with throughput tests and their newest tests, for the sentence too."""
SENTENCE_QUERIES = 11
"""Of the loss now, by which the sentence is checked, where the page shows something else; a large mesh has none."""


@pytest.fixture
def page(client):
    def get(query=""):
        answer = client.get(f"/{query}", headers={"host": "localhost"})
        assert answer.status_code == 200, answer.content
        return answer.content.decode()

    return get


@pytest.fixture
def path(paths):
    return paths["slac", "cern"]


def bursts(path, minutes_ago, rtts_ms):
    """A burst each minute from so many minutes ago until so many minutes ago."""
    since, until = minutes_ago
    for minute in range(since, until, -1):
        burst(path, NOW - minute * MINUTE, *rtts_ms)


def test_loss_that_has_ended_is_only_in_longer_periods(page, path):
    bursts(path, (60, 15), LOSSY)
    bursts(path, (15, 0), CLEAN)
    roll_up_raw(NOW)

    assert cell(page(), path)[:2] == ("none-lost", "0")
    # 45 bursts of 10 with 2 lost each, and 15 without loss: 90 of 600.
    assert cell(page("?period=hour"), path)[:2] == ("loss-5", "15%")


def test_loss_of_the_last_minutes_is_shown_before_a_roll_up(page, path):
    bursts(path, (30, 3), CLEAN)
    bursts(path, (3, 0), LOSSY)

    style, text, sentence = cell(page(), path)

    # 3 of the 10 bursts lost 2 of 10; the lower 95% bound of 6 in 100 is 2.6%, between 2.5% and 5%.
    assert (style, text) == ("loss-3", "6%")
    assert lacks(sentence, "poor or worse", " 6 of 100 lost") == []


def test_a_path_of_long_cycles_shows_its_last_three(page, paths, path):
    slow = MeshTest.objects.create(
        name="slow", kind="ping", every_s=1800, parameters={"count": 10, "packet_bytes": [100], "spacing_s": 1.0}
    )
    Measurement.objects.filter(path=path, test__kind="ping").delete()
    Measurement.objects.create(path=path, test=slow, started_at=NOW)
    for cycle in (1, 2, 3, 4):
        burst(path, NOW - cycle * timedelta(minutes=29), *(DEAD if cycle == 4 else LOSSY))
    burst(paths["cern", "slac"], NOW - 29 * MINUTE, *LOSSY)

    html = page()

    assert cell(html, path)[1] == "20%"
    assert cell(html, paths["cern", "slac"])[1] == "no data"


def test_a_size_with_its_own_cycle_has_its_own_window(page, path):
    rare = MeshTest.objects.create(name="large", kind="ping", every_s=3600, parameters={"packet_bytes": [1400]})
    Measurement.objects.create(path=path, test=rare, started_at=NOW)
    burst(path, NOW - timedelta(hours=2), *LOSSY, packet_bytes=1400)
    burst(path, NOW - timedelta(hours=2), *LOSSY)
    roll_up_raw(NOW)

    assert cell(page("?size=1400"), path)[1] == "20%"
    assert cell(page("?size=100"), path)[1] == "no data"


@pytest.mark.parametrize(("metric", "figure"), [("rtt", median), ("min-rtt", min), ("unreachability", lambda _: 10.0)])
def test_current_metrics_equal_those_of_the_raw_bursts(page, path, metric, figure):
    rtts = [10.0 + 0.5 * number for number in range(90)]
    for number in range(9):
        burst(path, NOW - (number + 1) * MINUTE, *rtts[10 * number : 10 * number + 10])
    burst(path, NOW - 10 * MINUTE, *DEAD)

    text = cell(page(f"?metric={metric}"), path)[1]

    assert float(text.lstrip("✕").split()[0].rstrip("%")) == pytest.approx(figure(rtts), abs=0.01)


def test_every_metric_of_the_page_has_a_current_grid(page, path):
    bursts(path, (10, 0), LOSSY)

    for metric in ("ipdv", "estimate", "mos", "throughput"):
        assert cell(page(f"?metric={metric}"), path)
    assert cell(page("?metric=estimate"), path)[1].endswith("bit/s")


def test_a_failed_newest_test_is_not_hidden_by_an_earlier_rate(page, path):
    throughput(path, NOW - timedelta(hours=1), 2.89e7)
    throughput(path, NOW - timedelta(minutes=1), None)
    ThroughputTest.objects.filter(throughput_bps=None).update(outcome="refused")

    style, text, sentence = cell(page("?metric=throughput"), path)

    assert (style, text) == ("not-measured", "no connection")
    assert "test failed: no connection" in sentence


def test_current_throughput_is_the_newest_test_not_a_median(page, path):
    for hours, rate_bps in ((4, 90e6), (2, 30e6), (1, 3e6)):
        throughput(path, NOW - timedelta(hours=hours), rate_bps)

    style, text, sentence = cell(page("?metric=throughput"), path)

    assert (style, text) == ("step-0", "3 Mbit/s")
    assert sentence.endswith(" 2 of 2 tests")
    assert "newest" in sentence


def test_a_metric_of_full_hours_has_no_current_grid(client, paths):
    answer = client.get("/api/v1/grid?metric=coverage_ratio&period=now", headers={"host": "localhost"})

    assert answer.status_code == 422
    assert "hour, day, week, month" in answer.content.decode()


def test_a_path_that_is_currently_not_permitted_says_so(page, path):
    burst(path, NOW - 2 * MINUTE, outcome="not_permitted")

    assert cell(page(), path)[:2] == ("not-measured", "not permitted")


@pytest.fixture
def lossy_incident(path, paths, monkeypatch):
    """20% loss for ten minutes on a path, and the incident opened by the rules."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    for other in paths.values():
        bursts(other, (60, 15 if other == path else 5), CLEAN)
    bursts(path, (15, 5), LOSSY)
    roll_up_raw(NOW)
    evaluate(NOW - 5 * MINUTE)
    (incident,) = Incident.objects.filter(closed_at=None)
    assert {row.path_id for row in incident.paths.all()} == {path.pk}
    return incident


def test_a_cell_under_an_incident_has_its_level_now(page, paths, path, lossy_incident):
    for minute in range(5, 0, -1):
        burst(path, NOW - minute * MINUTE, *(LOSSY if minute > 4 else CLEAN))
    bursts(paths["cern", "slac"], (5, 0), CLEAN)
    evaluate(NOW)

    style, text, sentence = cell(page(), path)

    (finding,) = lossy_incident.paths.all()
    level = level_of(finding)
    detected, peak = finding.figures["lost"] / finding.figures["sent"], level.peak
    # None lost in the last three cycles; 12 of 100 in the last ten, the newest the last of its burst.
    assert detected > 0.1
    assert 0.0 < peak < 0.3
    assert (style, text) == ("none-lost incident", "▲0")
    assert (
        lacks(
            sentence,
            "no loss (below 9.4%)",
            " in the packets since 12:25:09 UTC",
            " 12% over",
            " 12 of 100 lost",
            "incident open",
        )
        == []
    )
    assert cell(page(), paths["cern", "slac"])[:2] == ("none-lost", "0")


def test_the_api_gives_the_packets_that_a_value_is_of(client, paths, path, lossy_incident):
    for minute in range(5, 0, -1):
        burst(path, NOW - minute * MINUTE, *(LOSSY if minute > 4 else CLEAN))
    bursts(paths["cern", "slac"], (5, 0), CLEAN)
    evaluate(NOW)

    answer = client.get("/api/v1/grid?period=now", headers={"host": "localhost"}).json()
    cells = {row["path_id"]: row for row in answer["cells"]}
    troubled, clean = cells[path.pk], cells[paths["cern", "slac"].pk]

    # None of 40 packets since the last loss, 12 of 100 in the window.
    assert (troubled["value"], troubled["value_sent"], troubled["value_received"]) == (0.0, 40, 40)
    assert (troubled["sent"], troubled["received"], troubled["value_measured"]) == (100, 88, pytest.approx(0.12))
    assert (clean["value"], clean["value_sent"], clean["value_received"]) == (0.0, 100, 100)


def test_a_loss_that_has_grown_since_detection_is_shown(page, path, lossy_incident):
    bursts(path, (5, 0), [10.0] * 4 + [None] * 6)

    style, text, sentence = cell(page(), path)

    # 5 bursts lost 2 of 10, and 5 lost 6.
    assert (style, text) == ("loss-5 incident", "▲40%")
    assert "newest minutes" not in sentence


def test_a_loss_under_an_incident_excludes_the_time_before(page, path, monkeypatch):
    """Detected after five minutes at 40%, it is shown as 40%, without the five healthy minutes before."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    bursts(path, (60, 5), CLEAN)
    bursts(path, (5, 0), [10.0] * 6 + [None] * 4)
    roll_up_raw(NOW)
    for seconds in (5, 0):
        evaluate(NOW - timedelta(seconds=seconds))

    style, text, sentence = cell(page(), path)

    assert (style, text) == ("loss-5 incident", "▲~40%")
    low, high = claimed(re.search(r"loss ([^%]*%)", sentence)[1])
    assert low < 0.4 < high
    assert lacks(sentence, " 20% over", " 20 of 100 lost") == []
    assert "peak" not in sentence


@pytest.fixture
def ended_outage(path, paths, monkeypatch):
    """100% loss from 20 to 6 minutes ago, and its incident, which ended 4 minutes ago."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    Mesh.objects.update(alerts=only(unreachable={}))
    for other in paths.values():
        bursts(other, (60, 20 if other == path else 0), CLEAN)
    bursts(path, (20, 6), DEAD)
    evaluate(NOW - 6 * MINUTE)
    bursts(path, (6, 4), CLEAN)
    roll_up_raw(NOW)
    ended_at = NOW - 4 * MINUTE
    evaluate(ended_at)
    incident = Incident.objects.get()
    assert incident.closed_at == ended_at
    return incident


def test_a_path_after_its_incident_has_the_loss_since(page, path, ended_outage):
    bursts(path, (4, 0), CLEAN)

    style, text, sentence = cell(page(), path)

    assert (style, text) == ("none-lost", "✓0")
    assert lacks(sentence, " 0 of 60", "since", "incident ended 12:24 UTC", "was 100%") == []
    (of_api,) = (row for row in load_grid(Metric.LOSS, GridPeriod.NOW, NOW).figures if row.path_id == path.pk)
    assert (of_api.ended_incident_id, of_api.is_since_end) == (ended_outage.pk, True)


def test_a_path_after_its_incident_has_the_figures_since_its_last_bad_burst(page, path, ended_outage):
    """The incident was resolved 4 minutes ago, 2 minutes after the path had recovered, and nothing was measured since:
    what is shown is not the outage, and does not become worse as the window moves on."""
    for later in (timedelta(0), 3 * MINUTE):
        (of_path,) = (
            row for row in load_grid(Metric.LOSS, GridPeriod.NOW, NOW + later).figures if row.path_id == path.pk
        )

        assert (of_path.sent, of_path.received, of_path.value) == (20, 20, 0.0)
        assert (of_path.ended_incident_id, of_path.is_since_end) == (ended_outage.pk, True)
    style, text, sentence = cell(page(), path)
    assert (style, text) == ("stale", "✓◷0")
    assert "no newer data" in sentence


def test_a_path_whose_finding_ended_has_the_figures_since_while_its_incident_is_open(page, paths, path, monkeypatch):
    """Both paths lost all until 6 minutes ago; the finding of one ended 4 minutes ago, the other path goes on."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    Mesh.objects.update(alerts=only(unreachable={}))
    worse = next(other for other in paths.values() if other != path and other.source_id == path.source_id)
    for other in paths.values():
        bursts(other, (60, 20 if other in (path, worse) else 0), CLEAN)
    for other in (path, worse):
        bursts(other, (20, 6), DEAD)
    evaluate(NOW - 6 * MINUTE)
    incident = Incident.objects.get()
    assert incident.paths.count() == 2
    finding = incident.paths.get(path=path)
    lifecycle.end_findings(incident.pk, {(path.pk, finding.rule): "back"}, NOW - 4 * MINUTE)
    bursts(worse, (6, 0), DEAD)
    bursts(path, (6, 0), CLEAN)
    roll_up_raw(NOW)

    style, text, sentence = cell(page(), path)

    assert (style, text) == ("none-lost", "✓0")
    assert lacks(sentence, " 0 of 40", "since this path&#x27;s part of an open incident ended 12:26 UTC") == []


def test_a_path_that_is_down_again_has_no_sign_of_an_end(page, path, monkeypatch):
    """Its outage from 20 to 12 minutes ago is over, and nothing answers since 4 minutes ago."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    Mesh.objects.update(alerts=only(unreachable={}))
    for span, rtts in (((60, 20), CLEAN), ((20, 12), DEAD), ((12, 4), CLEAN)):
        bursts(path, span, rtts)
    for minutes in (12, 5):
        evaluate(NOW - minutes * MINUTE)
    ended = Incident.objects.get(closed_at__isnull=False)
    Incident.objects.update(ended_at=NOW - 9 * MINUTE)
    bursts(path, (4, 0), DEAD)
    roll_up_raw(NOW)

    style, text, sentence = cell(page(), path)

    assert (style, text) == ("total-loss", "✕all lost")
    assert lacks(sentence, "all lost: no reply since", ", incident ended 12:21 UTC", "was 100%") == []
    assert "since the incident" not in sentence
    assert ended.pk


def redness(style):
    """The class of a cell in the order of its colours."""
    order = ("none-lost", "ended", "loss-0", "loss-1", "loss-2", "loss-3", "loss-4", "loss-5", "total-loss")
    return order.index(style.split()[0])


@pytest.fixture
def back_to_normal(paths, path, lossy_incident):
    """The 20% loss was over 4 minutes ago, while the incident lasts."""
    for minute in range(5, 0, -1):
        burst(path, NOW - minute * MINUTE, *(LOSSY if minute > 4 else CLEAN))
    bursts(paths["cern", "slac"], (5, 0), CLEAN)
    evaluate(NOW)
    return lossy_incident


def test_a_raised_rtt_is_that_of_now_before_its_incident_opens(page, path):
    bursts(path, (40, 4), [20.0] * 10)
    evaluate(NOW - 4 * MINUTE)
    bursts(path, (4, 0), [80.0] * 10)
    evaluate(NOW)

    _, text, sentence = cell(page("?metric=rtt"), path)

    assert text == "△80.00 ms"
    assert re.search(r"median RTT 80\.\d+ ms in the newest minutes, 20\.\d+ ms over the whole time shown", sentence)


def add_rtt_finding(incident, path):
    incident.paths.create(
        path=path,
        rule="rtt",
        sentence="RTT",
        added_at=NOW - 5 * MINUTE,
        since=NOW - 10 * MINUTE,
        figures={"figure": "median", "before_ms": 5.0, "after_ms": 10.0},
    )


def test_a_loss_that_ended_beside_another_finding_makes_no_cell_redder(page, path, back_to_normal):
    add_rtt_finding(back_to_normal, path)
    before = cell(page(), path)

    lifecycle.end_findings(back_to_normal.pk, {(path.pk, "loss"): "back"}, NOW)

    style, text, sentence = cell(page(), path)
    assert before[:2] == ("none-lost incident", "▲0")
    assert redness(style) <= redness(before[0])
    assert "0" in text
    assert "0 of 40" in sentence


def test_a_merged_incident_leaves_its_ended_findings_as_they_were(page, paths, path, back_to_normal):
    add_rtt_finding(back_to_normal, paths["cern", "slac"])
    lifecycle.end_findings(back_to_normal.pk, {(path.pk, "loss"): "back"}, NOW)
    before = cell(page(), path)

    whole = Incident.objects.create(rule="rtt", cause="elsewhere", opened_at=NOW - 60 * MINUTE, severity="warning")
    Incident.objects.filter(pk=back_to_normal.pk).update(closed_at=NOW, merged_into=whole)

    assert cell(page(), path)[0] == before[0] == "none-lost"


def test_the_figures_since_a_finding_ended_begin_with_its_clean_packets(page, path, back_to_normal):
    """Ended by itself, it has the 40 packets that showed the end, not only the burst since."""
    add_rtt_finding(back_to_normal, path)
    lifecycle.end_findings(back_to_normal.pk, {(path.pk, "loss"): "back"}, NOW - MICROSECOND)
    burst(path, NOW - MICROSECOND, *CLEAN[:9], None)

    style, _, sentence = cell(page(), path)

    assert lacks(sentence, " 1 of 50 lost", "since this path&#x27;s part of an open incident ended") == []
    assert redness(style) <= redness("loss-1")


@pytest.mark.parametrize(("sent", "lost", "is_shown"), [(10, 3, False), (10, 0, True), (100, 2, True)])
def test_figures_since_an_end_are_shown_where_they_are_not_worse(sent, lost, is_shown):
    """Of 100 packets of the window 3 were lost: at least 0.8%."""
    window = figures_of_packets(100, 3)
    since_end = figures_of_packets(sent, lost)

    shown = after_incident(Metric.LOSS, window, 1, NOW, IncidentValue(None, 0.2), since_end)

    assert (shown.is_since_end, shown.sent) == ((True, sent) if is_shown else (False, 100))


def figures_of_packets(sent, lost):
    return PathFigures(
        *(1, "slac", "cern", 4, None),
        state=FigureState.VALUE if lost else FigureState.NONE_LOST,
        value=lost / sent,
        sent=sent,
        received=sent - lost,
        loss_lower_ratio=float(binomial.lower_bound(lost, sent)) if lost else None,
    )


def test_an_incident_that_ended_before_the_window_leaves_no_mark(page, path, ended_outage):
    Incident.objects.update(opened_at=NOW - 20 * MINUTE, closed_at=NOW - 11 * MINUTE)

    assert "ended" not in cell(page(), path)[2]
    assert "ended" not in cell(page("?period=hour"), path)[2]


def test_1_lost_of_10_packets_is_not_very_poor(page, path):
    burst(path, NOW - MINUTE, *CLEAN[:9], None)

    style, text, sentence = cell(page(), path)

    # The lower 95% bound of 1 in 10 is 0.51%: 1 - 0.95 ** (1 / 10).
    assert (style, text) == ("loss-1", "10%")
    assert lacks(sentence, "loss 10%", "good or worse", "0.51%", " 1 of 10 lost") == []
    assert "very poor" not in sentence


def test_an_outage_of_ten_minutes_is_marked_in_the_day(page, paths, path):
    for other in (path, paths["cern", "slac"]):
        for minute in range(24 * 60, 0, -1):
            dead = other == path and 300 < minute <= 310
            burst(other, NOW - minute * MINUTE, *(DEAD[:1] if dead else CLEAN[:1]))
    roll_up_raw(NOW)

    style, text, sentence = cell(page("?period=day"), path)

    # 10 of 1,440 packets.
    assert (style, text) == ("loss-1 outage", "✕0.69%")
    assert lacks(sentence, "100% loss", " 10 of 1,440 bursts") == []
    assert cell(page("?period=day"), paths["cern", "slac"])[0] == "none-lost"
    assert cell(page(), path)[0] == "none-lost"


def test_the_current_grid_has_the_query_count_of_the_page(page, paths, django_assert_num_queries):
    burst(paths["slac", "cern"], NOW - MINUTE, *LOSSY)
    roll_up_raw(NOW)
    with django_assert_num_queries(NOW_QUERIES + RULE_QUERIES + TEST_QUERIES):
        page()
    for path in paths.values():
        bursts(path, (10, 2), LOSSY)

    with django_assert_num_queries(NOW_QUERIES + RULE_QUERIES + TEST_QUERIES):
        page()
    # And the metric computed from figures of RTTs.
    with django_assert_num_queries(NOW_QUERIES + RULE_QUERIES + TEST_QUERIES + SENTENCE_QUERIES + 1):
        page("?metric=mos")


def test_a_path_opens_over_the_last_hour(page, path):
    bursts(path, (10, 0), CLEAN)
    roll_up_raw(NOW)

    assert f'href="/paths/{path.pk}/?period=hour&amp;size=100"' in page()

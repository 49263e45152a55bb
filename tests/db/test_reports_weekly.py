"""The weekly report from rows in the database: its figures, its words at the edges, and the command that writes it."""

from __future__ import annotations

import re
from datetime import timedelta
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.models import BurstHour, ThroughputTest
from monitor.mesh.models import Measurement
from monitor.reports import page, weekly
from monitor.reports.files import report_path, write_weekly, written_reports
from monitor.reports.tasks import write_last_week
from monitor.reports.weeks import Week
from tests.db.alert_rows import make_mesh
from tests.db.merging import merge_hours, sketch_of

WEEK = Week(2026, 47)
BEFORE = WEEK.before
NOW = WEEK.until + timedelta(minutes=15)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def report_dir(settings, tmp_path):
    settings.REPORT_DIR = tmp_path / "reports"
    return settings.REPORT_DIR


@pytest.fixture
def paths():
    """Planned since long before: a cycle a minute, so 10,080 bursts of each size in a week."""
    return make_mesh(["slac", "cern"], WEEK.since - timedelta(days=100))


def make_hours(path, week, *, hours=168, lost=0, rtt_ms=159.9, size=1000, during_test=0):
    """Summaries of whole hours, 60 bursts of ten packets each; `lost` packets in the first of them."""
    for number in range(hours):
        gone = lost if number == 0 else 0
        make_hour(path, week.since + timedelta(hours=number), 600, 600 - gone, rtt_ms, size, during_test)


def make_hour(path, hour, sent, received, rtt_ms, size, during_test=0):
    answered = received > 0
    rtt = rtt_ms if answered else None
    BurstHour.objects.create(
        path_id=path.pk,
        packet_bytes=size,
        hour=hour,
        bursts=sent // 10,
        bursts_all_lost=0 if answered else sent // 10,
        bursts_none_lost=sent // 10 if received == sent else 0,
        bursts_during_test=during_test,
        bursts_not_measured=0,
        sent=sent,
        received=received,
        duplicates=0,
        reordered=0,
        rtt_min_ms=None if rtt is None else rtt - 1,
        rtt_p25_ms=rtt,
        rtt_median_ms=rtt,
        rtt_p75_ms=rtt,
        rtt_p95_ms=rtt,
        rtt_max_ms=rtt,
        rtt_avg_ms=rtt,
        ipdv_ms=0.1 if answered else None,
        rtt_sketch=sketch_of(rtt, received) if answered else None,
    )


def make_throughput(path, at, throughput_bps):
    ThroughputTest.objects.create(
        path_id=path.pk,
        measured_at=at,
        test="tcp",
        outcome="tool_failure" if throughput_bps is None else "measured",
        streams=1,
        throughput_bps=throughput_bps,
    )


class Text(HTMLParser):
    """The text of a page without its styles, white space folded."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.hidden = 0
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.hidden += tag == "style"

    def handle_endtag(self, tag):
        self.hidden -= tag == "style"

    def handle_data(self, data):
        if not self.hidden:
            self.parts.append(data)

    def __str__(self) -> str:
        return " ".join(" ".join(self.parts).split())


def collect(week=WEEK, now=NOW):
    merge_hours(now)
    return weekly.collect(week, now)


def text_of(week=WEEK, now=NOW) -> str:
    return str(Text(page.render(collect(week, now))))


def row_of(name: str, text: str) -> str:
    """What follows a path's name in the first table, up to the coverage."""
    table = text[text.index("Pings of") :]
    return table[table.index(name) : table.index(" planned bursts", table.index(name))]


def line(name: str, size: int = 1000):
    """The worded row of one path."""
    report = collect(WEEK, NOW)
    (one_size,) = [one for one in report.sizes if one.packet_bytes == size]
    (path,) = [one for one in one_size.paths if one.name == name]
    return page._row(path, report)


def test_the_figures_of_a_path(paths):
    """168 hours of 600 packets: 100,800 sent, 1,008 lost is 1% of them; the week before lost 504."""
    path = paths["slac → cern"]
    make_hours(path, WEEK, hours=167)
    make_hour(path, WEEK.since + timedelta(hours=167), 1008 + 600, 600, 159.9, 1000)
    make_hours(path, BEFORE, lost=504, rtt_ms=158.0)
    for hour, rate_bps in enumerate((80e6, 100e6, 90e6, None)):
        make_throughput(path, WEEK.since + timedelta(hours=hour), rate_bps)

    row = line("slac → cern")

    assert (row.loss.value, row.loss.mark) == ("0.99%", "good")
    assert row.loss.note == "1,008 of 101,808; +0.49 points (was 0.5%)"
    assert (row.rtt.value, row.rtt.note) == ("159.9 ms", "min 158.9 ms; +1.9 (was 158.0 ms)")
    assert (row.measured.value, row.measured.note) == ("90 Mbit/s", "3 of 4 tests")
    assert row.estimate.value == "734 kbit/s"  # 1460 · 8 / (0.160 s · sqrt(1008/101808))
    assert row.coverage.note == "10,180 of 10,080"


def test_nothing_lost_is_a_bound_and_its_estimate_a_floor(paths):
    make_hours(paths["slac → cern"], WEEK)

    row = line("slac → cern")

    assert row.loss.value == "< 0.003%"  # 3 / 100,800, rounded up
    assert (row.loss.mark, row.estimate.value[:2], row.estimate.note) == ("excellent", "≥ ", "none lost: a floor")


def test_nothing_lost_of_few_packets_is_not_called_excellent(paths):
    make_hour(paths["slac → cern"], WEEK.since, 10, 10, 159.9, 1000)

    row = line("slac → cern")

    assert (row.loss.value, row.loss.mark, row.loss.tone) == ("< 30%", "none lost", "unrated")


def test_total_loss_all_week(paths):
    for number in range(168):
        make_hour(paths["slac → cern"], WEEK.since + timedelta(hours=number), 600, 0, None, 1000)

    row = line("slac → cern")

    assert (row.loss.value, row.loss.mark, row.loss.tone) == ("100%", "all lost", "bad")
    assert (row.rtt.value, row.estimate.value) == ("no reply", "none")
    assert row.coverage.value == "100%"
    assert "Every packet lost on 1 path: slac → cern." in text_of()


def test_a_path_without_data_is_no_data_and_never_zero(paths):
    make_hours(paths["slac → cern"], WEEK)

    row = line("cern → slac")

    assert (row.loss.value, row.loss.tone, row.rtt.value) == ("no data", "gap", "no data")
    assert (row.coverage.value, row.coverage.note, row.coverage.tone) == ("0%", "0 of 10,080", "gap")
    assert "No data on 1 path: cern → slac." in text_of()


def test_a_path_that_could_not_be_measured_is_no_data_too(paths):
    make_hour(paths["cern → slac"], WEEK.since, 0, 0, None, 1000)
    BurstHour.objects.update(bursts_not_measured=60)

    assert line("cern → slac").loss.value == "no data"


def test_a_new_path_has_no_week_before(paths):
    make_hours(paths["slac → cern"], WEEK)
    make_hours(paths["cern → slac"], WEEK)
    Measurement.objects.filter(path=paths["cern → slac"]).update(started_at=WEEK.since + timedelta(days=2))

    assert line("slac → cern").loss.note.endswith("; no data the week before")
    assert line("cern → slac").loss.note.endswith("; new this week")


def test_a_path_retired_in_the_week_stays_in_its_report(paths):
    path = paths["slac → cern"]
    make_hours(path, WEEK, hours=48)
    path.retired_at = WEEK.since + timedelta(days=2)
    path.save()
    path.measurements.get().periods.update(ended_at=path.retired_at)

    row = line("slac → cern")

    assert row.note == "retired 2026-11-18"
    assert row.coverage.note == "2,880 of 2,880"


def test_a_change_below_a_thousandth_is_not_told_as_a_change(paths):
    make_hours(paths["slac → cern"], WEEK, lost=100)
    make_hours(paths["slac → cern"], BEFORE, lost=100)

    row = line("slac → cern")

    assert (row.loss.note, row.rtt.note) == ("100 of 100,800; was 0.099%", "min 158.9 ms; was 159.9 ms")


def test_a_fall_has_a_minus_sign(paths):
    make_hours(paths["slac → cern"], WEEK, lost=100, rtt_ms=155.2)
    make_hours(paths["slac → cern"], BEFORE, lost=604)

    row = line("slac → cern")

    assert (row.loss.note, row.rtt.note) == (
        "100 of 100,800; −0.50 points (was 0.6%)",
        "min 154.2 ms; −4.7 (was 159.9 ms)",
    )


def test_packet_sizes_are_kept_apart_and_the_largest_comes_first(paths):
    make_hours(paths["slac → cern"], WEEK, size=1000, lost=100)
    make_hours(paths["slac → cern"], WEEK, size=100)

    report = collect(WEEK, NOW)

    assert [(size.packet_bytes, size.lost) for size in report.sizes] == [(1000, 100), (100, 0)]
    assert line("slac → cern", 100).loss.value == "< 0.003%"


def test_bursts_beside_our_own_tests_count_as_measured_only(paths):
    make_hours(paths["slac → cern"], WEEK, hours=1, during_test=20)

    row = line("slac → cern")

    assert row.coverage.note == "80 of 10,080"
    assert row.loss.note.startswith("0 of 600;")


def test_other_weeks_do_not_leak_in(paths):
    make_hour(paths["slac → cern"], WEEK.since - timedelta(hours=1), 600, 0, None, 1000)
    make_hour(paths["slac → cern"], WEEK.until, 600, 0, None, 1000)
    make_hour(paths["slac → cern"], WEEK.until - timedelta(hours=1), 600, 600, 159.9, 1000)
    make_hour(paths["slac → cern"], BEFORE.since - timedelta(hours=1), 600, 0, None, 1000)

    (path,) = [one for one in collect(WEEK, NOW).sizes[0].paths if one.name == "slac → cern"]

    assert (path.sent, path.lost) == (600, 0)
    assert (path.before.sent, path.before.lost) == (600, 600)


def test_the_incidents_of_the_week_are_told_and_others_are_not(paths):
    def make_incident(summary, opened_at, closed_at):
        incident = Incident.objects.create(
            rule="loss", cause=f"cause of {summary}", opened_at=opened_at, closed_at=closed_at, summary=summary
        )
        IncidentPath.objects.create(
            incident=incident,
            path=paths["slac → cern"],
            added_at=opened_at,
            window_s=600,
            sent=100,
            lost=10,
            loss_lower_ratio=0.05,
            threshold_ratio=0.01,
        )

    make_incident("of the week before", BEFORE.since, WEEK.since - timedelta(hours=1))
    make_incident("reaching in", WEEK.since - timedelta(hours=2), WEEK.since + timedelta(minutes=30))
    make_incident("in the week", WEEK.since + timedelta(days=1), WEEK.since + timedelta(days=1, minutes=25))
    make_incident("still open", WEEK.until - timedelta(hours=3), None)
    make_incident("of the next week", WEEK.until, None)

    text = text_of()

    assert "3 incidents." in text
    assert [word in text for word in ("of the week before", "of the next week")] == [False, False]
    assert "reaching in" in text
    assert "in the week. Tue 17 Nov 00:00 to Tue 17 Nov 00:25 UTC (25 min). Paths: slac → cern." in text
    assert "Since Sun 22 Nov 21:00 UTC, still open after 3.2 h" in text


def test_an_empty_installation_has_a_report():
    text = text_of()

    assert "No pings were planned and none were measured in this week." in text
    assert "0%" not in text.partition("How this is counted")[0]


def test_a_week_that_is_not_over_says_so_and_plans_only_up_to_now(paths):
    now = WEEK.since + timedelta(hours=2)
    make_hours(paths["slac → cern"], WEEK, hours=2)

    text = text_of(now=now)

    assert "The week is not over" in text
    assert "120 of 120" in text


def test_more_lossy_paths_than_are_named_are_counted(paths):
    make_hours(paths["slac → cern"], WEEK, hours=1, lost=30)
    make_hours(paths["cern → slac"], WEEK, hours=1, lost=60)

    sentences = page.mentions(collect(WEEK, NOW))

    assert "Loss of 1% or more on 2 paths: cern → slac (10%), slac → cern (5%)." in sentences


def test_a_path_with_throughput_tests_only_is_listed_apart(paths):
    Measurement.objects.filter(path=paths["slac → cern"]).get().periods.all().delete()
    make_throughput(paths["slac → cern"], WEEK.since, 50e6)

    text = text_of()

    assert "Throughput of paths that are not pinged Path TCP, measured slac → cern 50 Mbit/s 1 of 1 tests" in text


def test_failed_tests_are_no_result_and_not_zero(paths):
    make_hours(paths["slac → cern"], WEEK)
    make_throughput(paths["slac → cern"], WEEK.since, None)

    assert (line("slac → cern").measured.value, line("cern → slac").measured.value) == ("no result", "not tested")


def test_the_page_stands_alone(paths):
    html = page.render(collect(WEEK, NOW))

    assert not re.search(r"<(script|link|img|iframe)|@import|url\(|https?:", html)


def test_names_are_escaped(paths):
    paths["slac → cern"].source.name = "<b>slac</b>"
    paths["slac → cern"].source.save()

    assert "&lt;b&gt;slac&lt;/b&gt; → cern" in page.render(collect(WEEK, NOW))


@pytest.mark.parametrize("sites", [2, 4])
def test_the_number_of_queries_does_not_depend_on_the_number_of_paths(django_assert_num_queries, sites):
    for path in make_mesh(["slac", "cern", "fnal", "desy"][:sites], WEEK.since).values():
        make_hours(path, WEEK, hours=1)

    with django_assert_num_queries(8):
        weekly.collect(WEEK, NOW)


def test_the_command_writes_the_last_whole_week_and_prints_where(paths, monkeypatch, report_dir):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)
    out = StringIO()

    call_command("report", "weekly", stdout=out)

    assert out.getvalue() == f"{report_dir}/2026-W47.html\n"
    assert "week 2026-W47" in Path(out.getvalue().strip()).read_text()
    assert list(report_dir.iterdir()) == [report_dir / "2026-W47.html"]


def test_the_command_writes_the_week_and_the_file_that_it_is_given(paths, tmp_path, monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)
    target = tmp_path / "for" / "monday.html"

    call_command("report", "weekly", "--week", "2026-W46", "--out", str(target), stdout=StringIO())

    assert "week 2026-W46" in target.read_text()


def test_a_week_that_has_not_begun_is_refused(monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)

    with pytest.raises(CommandError, match="2026-W49 begins 2026-11-30 UTC; choose a week that has begun"):
        call_command("report", "weekly", "--week", "2026-W49")


def test_a_place_that_cannot_be_written_is_said_and_nothing_is_left_there(tmp_path):
    (tmp_path / "folder.html").mkdir()

    with pytest.raises(CommandError, match=r"cannot write .*folder.html: Is a directory .*another place with --out"):
        call_command("report", "weekly", "--week", "2026-W46", "--out", str(tmp_path / "folder.html"))

    assert [path.name for path in tmp_path.iterdir()] == ["folder.html"]


def test_a_bad_week_is_a_usage_error():
    with pytest.raises(CommandError, match="write the year and the week, as in 2026-W47"):
        call_command("report", "weekly", "--week", "47")


def test_the_task_writes_last_week(paths, monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)

    write_last_week()

    assert report_path(WEEK).exists()


def test_written_reports_are_listed_newest_first(report_dir):
    assert written_reports() == []
    for week in (Week(2026, 46), Week(2027, 1), Week(2026, 47)):
        write_weekly(week, NOW)
    (report_dir / "notes-W.html").write_text("")
    (report_dir / "2025-W53.html").write_text("")

    assert [str(report.week) for report in written_reports()] == ["2027-W01", "2026-W47", "2026-W46"]
    assert written_reports()[0].path == report_dir / "2027-W01.html"

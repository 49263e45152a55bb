"""The weekly report from rows in the database: its figures, its wording at the edges, and the command that writes
it."""

from __future__ import annotations

import io
import os
import re
from contextlib import nullcontext
from datetime import datetime, timedelta
from io import StringIO
from zoneinfo import ZoneInfo

import pytest
from django.core.management import CommandError, call_command
from pypdf import PdfReader

from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.models import Burst, BurstHour, DirtyHour
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.paths import path_summaries
from monitor.archive.queries.tables import grid
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from monitor.archive.upkeep.samples import take as take_sample
from monitor.mesh.models import Group, Measurement, Mesh, Site, Slot, Test
from monitor.reports.contents.compose import report_of
from monitor.reports.contents.report import ReportScope, ServiceTarget
from monitor.reports.files import due_report, next_report_at, report_path, write_report, written_reports
from monitor.reports.formats import mail, page, pdf
from monitor.reports.formats.cells import row
from monitor.reports.formats.view import view_of
from monitor.reports.management.commands import report as report_command
from monitor.reports.numbers import Numbers
from monitor.reports.periods import Period, Week
from monitor.reports.tasks import write_last_week
from tests.db.alert_rows import make_mesh
from tests.db.finding_levels import stored_loss
from tests.db.merging import merge_hours
from tests.db.planned_bursts import planned_bursts
from tests.db.report_rows import (
    BEFORE,
    ENGLISH,
    NOW,
    UTC,
    WEEK,
    Text,
    hour,
    make_hours,
    make_throughput,
    report,
    sketch_of,
)
from tests.facts import lacks

pytestmark = pytest.mark.django_db

ZURICH = ZoneInfo("Europe/Zurich")


@pytest.fixture(autouse=True)
def report_dir(settings, tmp_path):
    settings.REPORT_DIR = tmp_path / "reports"
    return settings.REPORT_DIR


@pytest.fixture
def paths():
    """Planned since long before: a cycle per minute, so 10,080 bursts of each size per week."""
    return make_mesh(["slac", "cern"], WEEK.since - timedelta(days=100))


def text_of(period=WEEK, now=NOW) -> str:
    return str(Text(page.render(report(period, now), ENGLISH)))


def text_with(words: str, period=WEEK, now=NOW) -> str:
    """The only text of the page with these words."""
    [matching] = [text for text in Text(page.render(report(period, now), ENGLISH)).lines if words in text]
    return matching


def line(name: str, period=WEEK, numbers=ENGLISH):
    """The row of a path as shown."""
    weekly = report(period, NOW)
    (path,) = [path for path in weekly.paths if path.name == name]
    return row(path, weekly, numbers)


def path_report(name: str, period=WEEK, now=NOW):
    (path,) = [path for path in report(period, now).paths if path.name == name]
    return path


def sentences(weekly):
    return {sentence.rule: sentence.text for sentence in weekly.sentences}


def test_the_figures_of_a_path_equal_hand_calculation(paths):
    """168 hours of 600 packets: 100,800 sent, 1,008 lost is 1% of them; the week before lost 504."""
    path = paths["slac → cern"]
    make_hours(path, WEEK.since, hours=167)
    hour(path, WEEK.since + timedelta(hours=167), 1008 + 600, 600, 159.9).save()
    make_hours(path, BEFORE.since, lost=504, rtt_ms=158.0)
    for number, rate_bps in enumerate((80e6, 100e6, 90e6, None)):
        make_throughput(path, WEEK.since + timedelta(hours=number), rate_bps)

    row = line("slac → cern")

    assert (row.loss.value, row.loss.mark) == ("0.99%", "good")
    assert row.loss.note == "1,008 of 101,808; +0.49 points (was 0.5%)"
    assert (row.rtt.value, row.rtt.note) == ("159.9 ms", "min 158.9 ms; +1.9 (was 158.0 ms)")
    assert (row.measured.value, row.measured.note) == ("90 Mbit/s", "3 of 4 tests")
    assert row.estimate.value == "734 kbit/s"  # 1460 · 8 / (0.160 s · sqrt(1008/101808))
    assert row.coverage.note == "10,180 of 10,080"


def test_no_loss_is_a_bound_and_its_estimate_a_floor(paths):
    make_hours(paths["slac → cern"], WEEK.since)

    row = line("slac → cern")

    assert row.loss.value == "< 0.003%"  # 3 / 100,800, rounded up
    marks = (row.loss.mark, row.estimate.value[:2], row.estimate.note)
    assert marks == ("excellent", "≥ ", "no loss: a lower bound")


def test_no_loss_of_few_packets_is_not_called_excellent(paths):
    hour(paths["slac → cern"], WEEK.since, 10, 10, 159.9).save()

    row = line("slac → cern")

    assert (row.loss.value, row.loss.mark, row.loss.tone) == ("< 30%", "no loss", "unrated")


def test_total_loss_all_week_is_shown(paths):
    for number in range(168):
        hour(paths["slac → cern"], WEEK.since + timedelta(hours=number), 600, 0, None).save()

    row = line("slac → cern")

    assert (row.loss.value, row.loss.mark, row.loss.tone) == ("100%", "all lost", "bad")
    assert (row.rtt.value, row.estimate.value) == ("no reply", "none")
    assert row.coverage.value == "100%"
    assert lacks(text_with("100% loss"), "100% loss", " 1 path", "slac → cern.") == []


def test_a_path_without_data_is_no_data_and_never_zero(paths):
    make_hours(paths["slac → cern"], WEEK.since)

    row = line("cern → slac")

    assert (row.loss.value, row.loss.tone, row.rtt.value) == ("no data", "gap", "no data")
    assert (row.coverage.value, row.coverage.note, row.coverage.tone) == ("0%", "0 of 10,080", "gap")
    assert lacks(text_with("No data for"), "No data", " 1 path", "cern → slac.") == []


def test_a_path_with_failed_tests_only_is_no_data(paths):
    hour(paths["cern → slac"], WEEK.since, 0, 0, None).save()
    BurstHour.objects.update(bursts_not_measured=60)

    assert line("cern → slac").loss.value == "no data"


def test_a_new_path_has_no_week_before(paths):
    make_hours(paths["slac → cern"], WEEK.since)
    make_hours(paths["cern → slac"], WEEK.since)
    Measurement.objects.filter(path=paths["cern → slac"]).update(started_at=WEEK.since + timedelta(days=2))

    assert lacks(line("slac → cern").loss.note, "; no data", "week before") == []
    assert line("cern → slac").loss.note.endswith("; new this week")


def test_a_path_retired_in_the_week_stays_in_its_report(paths):
    path = paths["slac → cern"]
    make_hours(path, WEEK.since, hours=48)
    path.retired_at = WEEK.since + timedelta(days=2)
    path.save()
    path.measurements.get().periods.update(ended_at=path.retired_at)

    row = line("slac → cern")

    assert row.note == "retired 2026-11-18"
    assert row.coverage.note == "2,880 of 2,880"


def test_a_change_below_a_thousandth_is_not_reported(paths):
    make_hours(paths["slac → cern"], WEEK.since, lost=100)
    make_hours(paths["slac → cern"], BEFORE.since, lost=100)

    row = line("slac → cern")

    assert (row.loss.note, row.rtt.note) == ("100 of 100,800; was 0.099%", "min 158.9 ms; was 159.9 ms")


def test_a_fall_has_a_minus_sign(paths):
    make_hours(paths["slac → cern"], WEEK.since, lost=100, rtt_ms=155.2)
    make_hours(paths["slac → cern"], BEFORE.since, lost=604)

    row = line("slac → cern")

    assert (row.loss.note, row.rtt.note) == (
        "100 of 100,800; −0.50 points (was 0.6%)",
        "min 154.2 ms; −4.7 (was 159.9 ms)",
    )


def test_packet_sizes_are_never_mixed_and_the_largest_is_shown(paths):
    make_hours(paths["slac → cern"], WEEK.since, size=1000, lost=100)
    make_hours(paths["slac → cern"], WEEK.since, size=100)

    path = path_report("slac → cern")

    assert (path.packet_bytes, path.lost, path.sent) == (1000, 100, 100_800)


def test_bursts_during_our_own_tests_are_measured(paths):
    """60 bursts with a fifth of their packets excluded, and 20 bursts with all packets excluded."""
    make_hours(paths["slac → cern"], WEEK.since, hours=1, during_test=20)
    BurstHour.objects.update(bursts_excluded=12.0)

    row = line("slac → cern")

    assert row.coverage.note == "80 of 10,080"
    assert row.loss.note.startswith("0 of 600;")


def loaded_burst(path, at, loaded_ms, size=1000):
    """A burst of ten packets, all sent under load; two of them were lost."""
    Burst.objects.create(
        path_id=path.pk, packet_bytes=size, measured_at=at, outcome="measured", during_test=True, sent=10, received=8,
        duplicates=0, reordered=0, rtts_ms=[loaded_ms] * 8 + [None] * 2, loaded_rtts_ms=[],
    )  # fmt: skip


def test_latency_under_load_is_reported_largest_increase_first(paths):
    at = WEEK.since + timedelta(minutes=30)
    for name, loaded_ms in (("slac → cern", 200.0), ("cern → slac", 300.0)):
        make_hours(paths[name], WEEK.since, hours=2, rtt_ms=160.0)
        make_throughput(paths[name], at, 1e9, duration_s=10.0)
        for second in range(5):
            loaded_burst(paths[name], at + timedelta(seconds=second), loaded_ms)
        loaded_burst(paths[name], at, 10.0, size=100)

    increases = view_of(report(), ENGLISH).under_load

    assert [line[0] for line in increases] == ["cern → slac", "slac → cern"]
    rtts_ms = [float(cell.removesuffix(" ms")) for line in increases for cell in line[1:4]]
    assert rtts_ms == pytest.approx([160.0, 300.0, 300.0, 160.0, 200.0, 200.0], rel=0.003)
    assert {line[4] for line in increases} == {"20% of 50 packets"}
    assert "Latency under load" in text_of()


@pytest.mark.parametrize("case", ["of another path", "never connected", "no slower"])
def test_only_slower_paths_under_their_own_load_are_reported(paths, case):
    path, at = paths["slac → cern"], WEEK.since + timedelta(minutes=30)
    make_hours(path, WEEK.since, hours=2, rtt_ms=118.9)
    make_hours(path, WEEK.since, hours=2, rtt_ms=90.0, size=100)
    tested = paths["cern → slac"] if case == "of another path" else path
    make_throughput(tested, at, None if case == "never connected" else 1e9, duration_s=10.0)
    for second in range(5):
        loaded_burst(path, at + timedelta(seconds=second), 118.6 if case == "no slower" else 200.0)
    BurstHour.objects.filter(path_id=path.pk, hour=WEEK.since).update(
        loaded_sent=50, loaded_received=40, loaded_rtt_sketch=sketch_of(200.0, 40)
    )

    assert view_of(report(), ENGLISH).under_load == ()


def test_without_tests_latency_under_load_is_not_mentioned(paths):
    make_hours(paths["slac → cern"], WEEK.since, hours=1)

    assert "Latency under load" not in text_of()


def test_other_weeks_have_no_influence(paths):
    hour(paths["slac → cern"], WEEK.since - timedelta(hours=1), 600, 0, None).save()
    hour(paths["slac → cern"], WEEK.until, 600, 0, None).save()
    hour(paths["slac → cern"], WEEK.until - timedelta(hours=1), 600, 600, 159.9).save()
    hour(paths["slac → cern"], BEFORE.since - timedelta(hours=1), 600, 0, None).save()

    path = path_report("slac → cern")

    assert (path.sent, path.lost) == (600, 0)
    assert (path.before.sent, path.before.lost) == (600, 600)


def test_only_incidents_of_the_week_are_reported(paths):
    def make_incident(summary, opened_at, closed_at, path="slac → cern"):
        incident = Incident.objects.create(
            rule="loss",
            cause=f"cause of {summary}",
            opened_at=opened_at,
            closed_at=closed_at,
            summary=summary,
            title=f"cause of {summary} loses 4%",
        )
        IncidentPath.objects.create(
            incident=incident,
            path=paths[path],
            added_at=opened_at,
            rule="loss",
            sentence="loss 4%",
            since=opened_at,
            figures={},
            is_over=closed_at is not None,
        )

    make_incident("of the week before", BEFORE.since, WEEK.since - timedelta(hours=1))
    make_incident("reaching in", WEEK.since - timedelta(hours=2), WEEK.since + timedelta(minutes=30))
    make_incident("in the week", WEEK.since + timedelta(days=1), WEEK.since + timedelta(days=1, minutes=25))
    make_incident("still open", WEEK.until - timedelta(hours=3), None)
    make_incident("of the next week", WEEK.until, None, "cern → slac")

    text = text_of()

    worst = ("3 incidents", " 1 path", "worst", "cause of still open loses 4%")
    assert lacks(text_with("3 incidents"), *worst) == []
    assert [word in text for word in ("of the week before", "of the next week")] == [False, False]
    assert "reaching in" in text
    closed = text_with("Tue 17 Nov 00:00")
    assert lacks(closed, "Tue 17 Nov 00:00", "Tue 17 Nov 00:25", "(25 min)", "Paths: slac → cern.") == []
    assert lacks(text_with("Sun 22 Nov 21:00"), "Since", "Sun 22 Nov 21:00", "still open", " 3.2 h") == []


def test_the_summary_names_the_worst_incident(paths):
    """11% for an hour and a half, beside 20% for a quarter of an hour, an outage of both paths for 25 s, and a changed
    route that lasted longest."""

    def make_incident(rule, cause, severity, minutes, path, **finding):
        opened_at = WEEK.since + timedelta(days=2)
        incident = Incident.objects.create(
            rule=rule, cause=cause, severity=severity, opened_at=opened_at, summary="as detected",
            closed_at=opened_at + timedelta(minutes=minutes), title=f"{cause}: {rule}",
        )  # fmt: skip
        IncidentPath.objects.create(
            incident=incident, path=paths[path], added_at=opened_at, rule=rule, sentence="", since=opened_at,
            is_over=True, **finding,
        )  # fmt: skip

    level = stored_loss(100, 20, WEEK.since + timedelta(days=2), WEEK.since + timedelta(days=2, minutes=15))
    make_incident("loss", "cern ↔ slac", "critical", 15, "slac → cern", figures={"lost": 9, "sent": 100}, level=level)
    make_incident("loss", "desy ↔ slac", "critical", 90, "cern → slac", figures={"lost": 11, "sent": 100})
    make_incident("rtt", "all 2 paths", "warning", 900, "cern → slac", figures={"before_ms": 1.0, "after_ms": 90.0})
    make_incident("unreachable", "all paths", "critical", 25 / 60, "slac → cern", figures={})

    sentence = text_with("4 incidents")

    assert lacks(sentence, "4 incidents", " 2 paths", "worst", "desy ↔ slac: loss") == []
    assert lacks(text_of(), "Summary", "desy ↔ slac: loss", "Compared with earlier periods") == []


def test_an_open_incident_has_its_title(paths):
    began = WEEK.until - timedelta(minutes=4)
    title = "cern ↔ slac answers again since 23:58:00 UTC; dead from 23:56:00 UTC"
    incident = Incident.objects.create(
        rule="loss", cause="cern ↔ slac", severity="critical", opened_at=began + timedelta(minutes=1), title=title,
        began_at=began, over_since=began + timedelta(minutes=2), summary="as detected",
    )  # fmt: skip
    IncidentPath.objects.create(
        incident=incident, path=paths["slac → cern"], added_at=incident.opened_at, rule="loss", sentence="",
        since=began, figures={"lost": 9, "sent": 100},
    )  # fmt: skip

    assert lacks(text_with("One incident"), title) == []


def test_the_times_of_a_title_are_in_the_zone_of_the_report(paths):
    """In winter Zurich is an hour ahead of UTC."""
    at = WEEK.since + timedelta(days=1, hours=23, minutes=30)
    Incident.objects.create(
        rule="loss", cause="slac", severity="warning", opened_at=at, closed_at=at + timedelta(hours=1), summary="",
        title="slac lost 2%, from 2026-11-17 23:30 to 2026-11-18 00:30 UTC",
    )  # fmt: skip

    text = text_of(Period.of_week(Week(2026, 47), ZURICH))

    assert text.count("slac lost 2%, from 2026-11-18 00:30 to 2026-11-18 01:30 CET") == 1
    assert text.count("Slac lost 2%, from 2026-11-18 00:30 to 2026-11-18 01:30 CET") == 1
    assert "Wed 18 Nov 00:30 to Wed 18 Nov 01:30" in text
    assert "23:30" not in text


def test_an_empty_installation_has_a_report():
    text = text_with("Nothing was measured")

    assert lacks(text, "Nothing was measured", "nothing was planned", "no data yet") == []
    assert "0%" not in text_of().partition("Method")[0]


def test_an_unfinished_week_says_so_and_plans_up_to_now(paths):
    now = WEEK.since + timedelta(hours=2)
    make_hours(paths["slac → cern"], WEEK.since, hours=2)

    text = text_of(now=now)

    assert "The week is not over" in text
    assert "120 of 120" in text


def test_paths_beyond_those_named_are_counted():
    """Of four sites twelve paths, none of which was measured: five are named."""
    make_mesh(["anl", "cern", "desy", "slac"], BEFORE.since)

    names = "anl → cern, anl → desy, anl → slac, cern → anl, cern → desy"
    assert lacks(sentences(report())["no data"], "No data", " 12 paths", f": {names} and", " 7 more") == []


def test_a_path_with_throughput_tests_only_is_listed_separately(paths):
    Measurement.objects.filter(path=paths["slac → cern"]).get().periods.all().delete()
    make_throughput(paths["slac → cern"], WEEK.since, 50e6)

    apart = text_of().partition(" not pinged ")[2].partition("Method")[0]

    assert lacks(apart, "TCP, measured", "slac → cern 50 Mbit/s 1 of 1 tests") == []


def test_two_tests_have_both_rates_and_no_median(paths):
    """A median of 28.9 and 1.05 Mbit/s is a rate that neither test had."""
    make_hours(paths["slac → cern"], WEEK.since)
    for hours, rate_bps in enumerate((28.9e6, 1.05e6)):
        make_throughput(paths["slac → cern"], WEEK.since + timedelta(hours=hours), rate_bps)

    assert line("slac → cern").measured.value == "1.05 Mbit/s to 28.9 Mbit/s"


def test_each_figure_of_the_pdf_is_below_its_heading(paths):
    """The longest values: the range of two tests, and a count of bursts without a plan."""
    make_hours(paths["slac → cern"], WEEK.since)
    make_hours(paths["cern → slac"], WEEK.since)
    Measurement.objects.filter(path=paths["cern → slac"]).get().periods.all().delete()
    for hours, rate_bps in enumerate((28.9e6, 1.05e6)):
        make_throughput(paths["slac → cern"], WEEK.since + timedelta(hours=hours), rate_bps)

    text = PdfReader(io.BytesIO(pdf.render(report(), ENGLISH))).pages[-1].extract_text()
    heads, unplanned, tested = text.partition("Paths\n")[2].partition("Method\n")[0].splitlines()[1:]

    assert re.search(r"coverage +loss per day +RTT per day$", heads)
    for head, cell, shown in (
        ("TCP, measured", "1.05 Mbit/s to 28.9 Mbit/s", tested),
        ("coverage", "100%", tested),
        ("coverage", "10,080 bursts", unplanned),
        ("RTT, median", "159.9 ms", unplanned),
    ):
        assert shown.rindex(cell) + len(cell) == heads.index(head) + len(head)


def test_failed_tests_are_no_result_and_not_zero(paths):
    make_hours(paths["slac → cern"], WEEK.since)
    make_throughput(paths["slac → cern"], WEEK.since, None)

    assert (line("slac → cern").measured.value, line("cern → slac").measured.value) == ("no result", "not tested")


def test_the_page_is_self_contained(paths):
    html = page.render(report(), ENGLISH)

    assert not re.search(r"<(script|img|iframe)|<link(?![^>]*\"data:)|@import|url\(|https?:", html)


def test_names_are_escaped(paths):
    paths["slac → cern"].source.name = "<b>slac</b>"
    paths["slac → cern"].source.save()

    assert "&lt;b&gt;slac&lt;/b&gt; → cern" in page.render(report(), ENGLISH)


@pytest.mark.parametrize("sites", [2, 4])
def test_the_number_of_queries_is_independent_of_the_paths(django_assert_num_queries, sites):
    for path in make_mesh(["slac", "cern", "fnal", "desy"][:sites], WEEK.since).values():
        make_hours(path, WEEK.since, hours=1)

    with django_assert_num_queries(31):  # its days are not merged yet: a query for the first data
        report_of(ReportScope(), WEEK, NOW, ENGLISH)


def test_the_command_writes_the_last_full_week_and_prints_where(paths, monkeypatch, report_dir):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)
    make_hours(paths["slac → cern"], WEEK.since)
    out = StringIO()

    call_command("report", "weekly", stdout=out)

    assert out.getvalue() == f"{report_dir}/2026-W47.html\n{report_dir}/2026-W47.pdf\n"
    assert "week 2026-W47" in (report_dir / "2026-W47.html").read_text()
    assert (report_dir / "2026-W47.pdf").read_bytes()[:5] == b"%PDF-"
    assert len(list(report_dir.iterdir())) == 2


def test_the_command_says_that_a_week_has_no_data(paths, monkeypatch, report_dir):
    """On the first day last week has none, and the running week has some."""
    now = WEEK.since + timedelta(hours=3)
    monkeypatch.setattr("django.utils.timezone.now", lambda: now)
    with pytest.raises(CommandError, match=r"no data in 2026-W46, and none in any other week.*nothing written"):
        call_command("report", "weekly", stdout=StringIO())

    make_hours(paths["slac → cern"], WEEK.since, hours=2)
    with pytest.raises(CommandError) as refused:
        call_command("report", "weekly", stdout=StringIO())
    assert lacks(str(refused.value), "no data", "2026-W46", "2026-11-16 00:00 UTC", "--week 2026-W47") == []
    assert written_reports() == []

    said = StringIO()
    call_command("report", "weekly", "--week", "2026-W47", stdout=StringIO(), stderr=said)
    assert said.getvalue() == ""


def test_only_the_owner_can_read_the_files_of_a_report(paths, report_dir, tmp_path, monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)
    make_hours(paths["slac → cern"], WEEK.since)
    target = tmp_path / "week.html"
    before = os.umask(0o022)
    try:
        call_command("report", "weekly", stdout=StringIO())
        call_command("report", "weekly", "--out", str(target), stdout=StringIO())
    finally:
        os.umask(before)

    written = [target, *report_dir.iterdir()]
    assert {path.suffix for path in written} == {".html", ".pdf"}
    assert {path.stat().st_mode & 0o777 for path in written} == {0o600}


def test_the_command_writes_the_given_week_to_the_given_file(paths, tmp_path, monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)
    target = tmp_path / "for" / "monday.html"
    steps = []
    monkeypatch.setattr(report_command, "progress", lambda _: nullcontext(steps.append))

    call_command("report", "weekly", "--week", "2026-W46", "--out", str(target), stdout=StringIO())
    assert "week 2026-W46" in target.read_text()
    assert [step.split()[1] for step in steps] == ["loading", "computing", "writing"]


def test_a_week_that_has_not_begun_is_refused(monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)

    with pytest.raises(CommandError, match="2026-W49 begins 2026-11-30 in UTC"):
        call_command("report", "weekly", "--week", "2026-W49")


def test_an_unwritable_target_is_reported_and_left_untouched(tmp_path):
    (tmp_path / "folder.html").mkdir()

    with pytest.raises(CommandError, match=r"cannot write .*folder\.html: Is a directory.* --out"):
        call_command("report", "weekly", "--week", "2026-W46", "--out", str(tmp_path / "folder.html"))

    assert [path.name for path in tmp_path.iterdir()] == ["folder.html"]


def test_an_invalid_week_is_a_usage_error():
    with pytest.raises(CommandError, match=r"'47' is not an ISO week.* 2026-W47"):
        call_command("report", "weekly", "--week", "47")


def test_the_task_writes_last_week(paths, monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)

    write_last_week()

    assert report_path(WEEK, ReportScope()).exists()


def test_written_reports_are_listed_newest_first(report_dir):
    assert written_reports() == []
    for week in (Week(2026, 46), Week(2027, 1), Week(2026, 47)):
        weekly = report(Period.of_week(week, UTC), NOW)
        write_report(weekly, NOW, ENGLISH, *([report_dir / f"{week}.html"] if week.number == 1 else []))
    (report_dir / "notes-W.html").write_text("")
    (report_dir / "2025-W53.html").write_text("")

    assert [str(written_report.week) for written_report in written_reports()] == ["2027-W01", "2026-W47", "2026-W46"]
    assert [written_report.pdf_name for written_report in written_reports()] == [None, "2026-W47.pdf", "2026-W46.pdf"]
    assert written_reports()[0].content(".html") == (report_dir / "2027-W01.html").read_bytes()


def test_a_report_is_there_for_web_servers_without_the_folder(paths, monkeypatch, settings, client):
    """Another machine's worker wrote it."""
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)
    make_hours(paths["slac → cern"], WEEK.since)
    write_last_week()
    written = {suffix: report_path(WEEK, ReportScope(), suffix).read_bytes() for suffix in (".html", ".pdf")}
    settings.REPORT_DIR = settings.REPORT_DIR / "nowhere"

    html, pdf = (client.get(f"/reports/2026-W47{suffix}", SERVER_NAME="localhost") for suffix in ("", ".pdf"))

    assert {".html": html.content, ".pdf": pdf.content} == written
    assert due_report(NOW) is None


def test_a_report_that_is_written_again_replaces_the_earlier_one(paths, monkeypatch, report_dir):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)
    write_last_week()
    before = written_reports()[0].content(".html")
    make_hours(paths["slac → cern"], WEEK.since)

    call_command("report", "weekly", stdout=StringIO())

    [written] = written_reports()
    assert written.content(".html") == (report_dir / "2026-W47.html").read_bytes() != before


def test_the_figures_equal_those_of_the_pages(paths):
    """The same named queries as the grid and the path page, over the same seven days."""
    for number, path in enumerate(paths.values()):
        make_hours(path, WEEK.since, lost=100 + number, rtt_ms=20.0 + number)
        hour(path, WEEK.until, 600, 0, None).save()
    weekly = report()
    ids = {path.path_id: path for path in weekly.paths}

    for summary in path_summaries(WEEK.since, WEEK.until, packet_bytes=1000):
        assert ids[summary.path_id].summary == summary
    for metric, of in (
        (Metric.LOSS, lambda summary: summary.loss_ratio),
        (Metric.RTT_MEDIAN, lambda summary: summary.rtt_median_ms),
        (Metric.IPDV, lambda summary: summary.ipdv_ms),
        (Metric.ZERO_LOSS, lambda summary: summary.bursts_none_lost / summary.bursts),
        (Metric.ESTIMATE, lambda summary: summary.estimate_bps),
    ):
        cells = {cell.path_id: cell.value for cell in grid(metric, WEEK.since, WEEK.until, packet_bytes=1000)}
        assert {path_id: of(path.summary) for path_id, path in ids.items()} == pytest.approx(cells)


def test_a_week_of_another_zone_has_exactly_its_own_hours(paths):
    """In Zurich the week begins at 23:00 UTC: the hour before is not in it, that hour is."""
    week = Period.of_week(Week(2026, 47), ZURICH)
    for offset, received in ((-1, 0), (0, 590), (100, 600), (167, 580), (168, 0)):
        hour(paths["slac → cern"], week.since + timedelta(hours=offset), 600, received, 20.0).save()

    path = path_report("slac → cern", week)

    assert (path.sent, path.lost) == (1800, 10 + 0 + 20)
    assert path.bursts_planned == 10_080


@pytest.mark.parametrize(("week", "hours"), [(Week(2026, 13), 167), (Week(2026, 43), 169)])
def test_a_week_with_a_clock_change_plans_its_own_hours(week, hours):
    period = Period.of_week(week, ZURICH)
    path = make_mesh(["slac", "cern"], period.since - timedelta(days=30))["slac → cern"]
    make_hours(path, period.since, hours=hours)

    row = line("slac → cern", period)

    assert row.coverage.note == f"{60 * hours:,} of {60 * hours:,}"
    assert lacks(text_with("clocks changed", period), "clocks changed", "week", f" {hours} hours") == []
    assert ", Europe/Zurich" in text_of(period)


def test_a_path_added_in_the_middle_is_planned_from_then_on(paths):
    began_at = WEEK.since + timedelta(days=5)
    path = paths["slac → cern"]
    Measurement.objects.filter(path=path).update(started_at=began_at)
    path.measurements.get().periods.update(started_at=began_at)
    make_hours(path, began_at, hours=48)

    row = line("slac → cern")

    assert row.coverage.note == "2,880 of 2,880"
    assert row.loss.note.endswith("; new this week")


def test_the_state_is_compared_with_last_week_and_a_year_before(paths):
    """W47 of 2025 begins on 17 November, 52 weeks before this week."""
    path = paths["slac → cern"]
    make_hours(path, WEEK.since, lost=1008)
    make_hours(path, BEFORE.since, lost=504)
    make_hours(path, datetime(2025, 11, 17, tzinfo=UTC), lost=252)

    weekly = report()

    assert [(figures.sent, figures.lost) for figures in (weekly.state, weekly.before, weekly.year_before)] == [
        (100_800, 1008),
        (100_800, 504),
        (100_800, 252),
    ]


def test_a_report_has_no_goal_that_nobody_set(paths):
    make_hours(paths["slac → cern"], WEEK.since, lost=1008)

    assert "0.1%" not in text_of().partition("Method")[0]
    assert [line(name).sign for name in ("slac → cern", "cern → slac")] == ["", "–"]


def test_a_path_below_its_service_level_has_a_sign(paths):
    Mesh.objects.update(service_levels={"loss_ratio": 0.02})
    make_hours(paths["slac → cern"], WEEK.since, lost=600)
    for number in range(168):
        hour(paths["cern → slac"], WEEK.since + timedelta(hours=number), 600, 580, 20.0).save()

    assert [line(name).sign for name in ("slac → cern", "cern → slac")] == ["", "●"]
    assert "● service level missed" in text_of()


def test_a_period_without_data_has_the_time_of_the_first_data(paths):
    make_hours(paths["slac → cern"], WEEK.until + timedelta(hours=2), hours=1)

    now = WEEK.until + timedelta(hours=4)
    text = text_of(now=now)

    assert lacks(sentences(report(now=now))["nothing"], "first data", " 2026-11-23 02:00.") == []
    assert "no bytes" not in text
    assert lacks(text_with("tested for changes", now=now), "No path", "tested for changes", " 3 whole days") == []


@pytest.mark.parametrize(("waits_s", "hour", "told"), [(61, 4, True), (59, 4, False), (3600, -1, False)])
def test_results_that_wait_for_their_hour_are_told(paths, waits_s, hour, told):
    """On Wednesday at 05:10; the hour before the week began is not in the report."""
    make_hours(paths["slac → cern"], WEEK.since, hours=48)
    now = WEEK.since + timedelta(days=2, hours=5, minutes=10)
    hour_at = WEEK.since + (timedelta(days=2, hours=hour) if hour >= 0 else timedelta(hours=hour))
    merge_hours(now)
    DirtyHour.objects.create(path_id=paths["slac → cern"].pk, hour=hour_at, marked_at=now - timedelta(seconds=waits_s))

    weekly = report_of(ReportScope(), WEEK, now, ENGLISH)

    notice = "Figures are as of Wed 18 Nov 05:08: later results wait for their summary."
    message = mail.message(weekly, ENGLISH, to="lead@example.org", format_="html", unsubscribe="https://x.example")
    for text in (page.render(weekly, ENGLISH), message.body, message.alternatives[0][0]):
        assert (notice in " ".join(str(text).split())) == told


def test_a_pause_of_the_evaluation_is_reported_before_incidents(paths):
    """The centre ran and stored its samples, but did not evaluate on Wednesday from 01:12 to 03:24."""
    make_hours(paths["slac → cern"], WEEK.since)
    stalled, resumed = WEEK.since + timedelta(days=2, minutes=72), WEEK.since + timedelta(days=2, minutes=204)
    for minute in range(60, 300, 4):
        at = WEEK.since + timedelta(days=2, minutes=minute)
        if not stalled < at < resumed:
            freshness.note(RecurringWork.EVALUATION, at)
        take_sample(at)

    weekly = report(now=WEEK.since + timedelta(days=2, minutes=300))

    [pause] = weekly.pauses
    assert (pause.since, pause.until) == (stalled, resumed)
    rules = list(sentences(weekly))
    assert rules.index("not evaluated") < rules.index("incidents")
    sentence = sentences(weekly)["not evaluated"]
    assert lacks(sentence, "not evaluated", "from Wed 18 Nov 01:12", "to Wed 18 Nov 03:24", "(2.2 h)") == []
    assert sentences(weekly)["incidents"] == "No incidents at other times."
    assert "No incidents." not in str(Text(page.render(weekly, ENGLISH)))


def test_a_stalled_evaluation_is_reported_since_its_last_run(paths):
    stalled = WEEK.since + timedelta(days=2)
    freshness.note(RecurringWork.EVALUATION, stalled)

    weekly = report_of(ReportScope(), WEEK, NOW, ENGLISH)

    assert [(pause.since, pause.until) for pause in weekly.pauses] == [(stalled, None)]
    assert "since Wed 18 Nov 00:00" in sentences(weekly)["not evaluated"]


def test_an_evaluation_that_never_ran_has_no_incidents_to_report(paths):
    weekly = report_of(ReportScope(), WEEK, NOW, ENGLISH)

    assert [pause.until for pause in weekly.pauses] == [None]
    assert "since Mon 16 Nov 00:00" in sentences(weekly)["not evaluated"]
    assert "incidents" not in sentences(weekly)


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        ("iperf3: unable to connect to server - server may have stopped: Connection refused", "connection refused"),
        ("iperf3: unable to connect to server: Connection timed out", "timeout"),
        ("unable to send control message: Bad file descriptor", ""),
    ],
)
def test_a_refused_test_is_counted_by_its_own_reason(paths, detail, words):
    test = Test.objects.create(name="tcp", kind="throughput", every_s=3600, parameters={"duration_s": 10})
    measurement = Measurement.objects.create(path=paths["slac → cern"], test=test, started_at=WEEK.since)
    for minutes, outcome, reason in ((0, "refused", detail), (10, "not_permitted", "throughput.hours: …")):
        at = WEEK.since + timedelta(minutes=minutes)
        Slot.objects.create(
            measurement=measurement, starts_at=at, ends_at=at + timedelta(seconds=15), outcome=outcome, detail=reason
        )

    text = text_of()

    assert f"tcp no connection{words and ': ' + words} 1 50%" in text
    assert "tcp not permitted 1 50%" in text
    assert "limits" not in text.partition("Coverage")[2].partition("Paths")[0]


def test_small_tables_keep_their_headers_on_a_phone(paths):
    make_hours(paths["slac → cern"], WEEK.since)

    html = page.render(report(), ENGLISH)

    small = re.search(r'<table class="small">.*?</table>', html, re.DOTALL)[0]
    cells = re.findall(r"<td([^>]*)>", small.partition("<tbody>")[2])
    assert cells
    assert all("data-label=" in cell for cell in cells)


def test_the_task_writes_no_report_of_a_week_before_the_mesh(monkeypatch):
    make_mesh(["slac", "cern"], WEEK.until + timedelta(minutes=5))
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)

    write_last_week()

    assert written_reports() == []
    assert next_report_at(NOW) == WEEK.until + timedelta(days=7, minutes=15)


def test_a_missing_report_of_last_week_is_due_within_the_hour(paths):
    assert next_report_at(NOW + timedelta(minutes=1)) == NOW + timedelta(hours=1)


def test_a_site_has_its_own_paths_and_a_group_those_within():
    make_mesh(["slac", "cern", "anl"], BEFORE.since)
    group = Group.objects.create(name="america", shape="mesh")
    group.sites.set(Site.objects.filter(name__in=["slac", "anl"]))

    assert {path.name for path in report(scope=ReportScope("site", "anl")).paths} == {
        "anl → cern",
        "anl → slac",
        "cern → anl",
        "slac → anl",
    }
    assert {path.name for path in report(scope=ReportScope("group", "america")).paths} == {"anl → slac", "slac → anl"}


def test_service_levels_have_their_used_error_budget(paths):
    """Of 100,800 packets 126 lost: 0.125%, of a target of 0.1% 125%. Of 10,080 bursts 20 without a reply: 0.198%, of
    0.5% 39.7%. 12 of 168 hours above 20 ms: 7.14%, of 5% 143%. 1 of 4 tests below 90 Mbit/s: 25%, of 5% 500%."""
    Mesh.objects.update(
        service_levels={"loss_ratio": 0.001, "availability_ratio": 0.995, "rtt_ms": 20.0, "throughput_bps": 90e6}
    )
    path = paths["slac → cern"]
    make_hours(path, WEEK.since, lost=126, rtt_ms=20.0)
    hours = BurstHour.objects.filter(path_id=path.pk)
    hours.filter(hour=WEEK.since).update(bursts_all_lost=20)
    hours.filter(hour__gte=WEEK.until - timedelta(hours=12)).update(rtt_median_ms=20.1)
    for number, rate_bps in enumerate((91e6, 90e6, 89e6, 95e6, None)):
        make_throughput(path, WEEK.since + timedelta(hours=number), rate_bps)

    weekly = report()
    (path_row,) = [path_row for path_row in weekly.paths if path_row.path_id == path.pk]

    assert {service_level.target: service_level.budget_used for service_level in path_row.targets} == pytest.approx(
        {
            ServiceTarget.LOSS: 126 / 100_800 / 0.001,
            ServiceTarget.AVAILABILITY: 20 / 10_080 / 0.005,
            ServiceTarget.RTT: 12 / 168 / 0.05,
            ServiceTarget.THROUGHPUT: 1 / 4 / 0.05,
        }
    )
    assert [service_level.target for service_level in path_row.targets if service_level.is_kept] == [
        ServiceTarget.AVAILABILITY
    ]
    levels = sentences(weekly)["service levels"]
    assert levels.startswith("1 of 1 path ")
    assert lacks(levels, "missed", "service level", ": slac → cern.") == []


def test_a_report_of_a_single_family_says_so(paths):
    assert "All paths are IPv4." in text_of()


def test_coverage_is_relative_to_the_plan_of_the_mesh(paths):
    make_hours(paths["slac → cern"], WEEK.since, hours=10)

    path = path_report("slac → cern")

    assert path.bursts_planned == planned_bursts(WEEK.since, WEEK.until)[path.path_id, 1000] == 10_080
    assert path.bursts_measured == 600
    sentence = sentences(report())["coverage"]
    assert lacks(sentence, "Under 95%", "planned bursts", "measured", " 1 path", ": slac → cern.") == []


def test_scheduled_but_missing_results_have_a_reason(paths):
    """No agent has reported yet: every cycle of both paths is pending, in a single line."""
    (covered,) = report().coverage

    assert (covered.test, covered.outcome, covered.count) == ("pinger", "awaited", 2 * 10_080)
    assert "pinger pending 20,160 100%" in text_of()


def test_the_limit_and_the_most_effective_change_are_reported(paths):
    """2 Mbit/s at 100 ms show a window of 25 kB. 0 of 100,800 were lost, so the loss is at most 3/100,800, and CUBIC
    gets at least (C (3 + β) / (4 (1 - β)))^(1/4) (RTT / p)^(3/4) segments per RTT (RFC 9438, section 5.1; C = 0.4, β =
    0.7): 465 of 1,460 bytes, 54 Mbit/s, 27 times as much."""
    path = paths["slac → cern"]
    make_hours(path, WEEK.since, rtt_ms=100.0)
    diagnosis_fields = {
        "verdict": "window-limited",
        "sentence": "window-limited at 2 Mbit/s: the receiver's window is 25 kB",
        "diagnosis": {"evidence": [{"name": "receiver's window", "value": 25e3, "unit": "B"}]},
    }
    for number in range(3):
        make_throughput(path, WEEK.since + timedelta(hours=number), 2e6, **diagnosis_fields)
    segments = (0.4 * 3.7 / (4 * 0.3)) ** 0.25 * (0.1 / (3 / 100_800)) ** 0.75
    rate_bps = segments * 1460 * 8 / 0.1

    (advice,) = report().advice

    assert (advice.measure, advice.site, advice.paths) == ("raise the receive buffer", "cern", ("slac → cern",))
    assert advice.times == pytest.approx(rate_bps / 2e6, rel=1e-3)
    assert advice.window_bytes == pytest.approx(rate_bps / 8 * 0.1, rel=1e-3)
    gain = text_with(" 680 kB")
    assert lacks(gain, "Raise the receive buffer", " cern", "at least 680 kB", " 1 path") == []
    assert lacks(gain, " 1 path", " 27 times", "(slac → cern)") == []
    assert f"window-limited 1 slac → cern: {diagnosis_fields['sentence']}" in text_of()


def test_no_site_is_advised_on_a_window_that_may_be_the_others(paths):
    make_hours(paths["slac → cern"], WEEK.since, rtt_ms=100.0)
    diagnosis_fields = {
        "verdict": "window-limited",
        "sentence": "window-limited at 2 Mbit/s: the receiver's window or the send buffer is full",
        "diagnosis": {"evidence": [{"name": "window open", "value": 1.0, "unit": ""}]},
    }
    make_throughput(paths["slac → cern"], WEEK.since, 2e6, **diagnosis_fields)

    assert report().advice == ()


def test_numbers_are_in_the_readers_language(paths):
    make_hours(paths["slac → cern"], WEEK.since, lost=1008)

    row = line("slac → cern", numbers=Numbers("de"))

    assert (row.loss.value, row.rtt.value) == ("1%", "159,9 ms")
    assert row.loss.note.startswith("1.008 of 100.800;")


def test_titles_verdicts_and_notes_are_in_the_readers_language(paths):
    make_hours(paths["slac → cern"], WEEK.since)
    make_throughput(
        paths["slac → cern"], WEEK.since, 2.5e6, verdict="window-limited", sentence="window-limited at 2.5 Mbit/s",
        diagnosis={"evidence": []},
    )  # fmt: skip
    Incident.objects.create(
        rule="loss", cause="slac", severity="warning", opened_at=WEEK.since, closed_at=WEEK.since + timedelta(hours=1),
        summary="", title="slac lost 2.5%",
    )  # fmt: skip

    text = str(Text(page.render(report(numbers=Numbers("de")), Numbers("de"))))

    assert text.count("lost 2,5%") == 2  # in the summary and below
    assert lacks(text, "window-limited at 2,5 Mbit/s", "1.000 bytes", "under 0,1% excellent", "(1.460 bytes") == []
    assert "2.5" not in text


def test_each_sentence_can_be_traced_to_figures(paths):
    make_hours(paths["slac → cern"], WEEK.since)

    for sentence in report().sentences:
        assert sentence.figures
        assert f'data-rule="{sentence.rule}"' in page.render(report(), ENGLISH)


def test_a_report_can_cover_any_days(paths, monkeypatch, tmp_path):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)
    make_hours(paths["slac → cern"], WEEK.since, hours=48)
    out = tmp_path / "days.html"

    call_command("report", "weekly", "--from", "2026-11-16", "--to", "2026-11-17", "--out", str(out), stdout=StringIO())

    assert "2026-11-16 to 2026-11-17" in out.read_text()
    assert "2,880 of 2,880" in out.read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--from", "2026-11-16"], "give both --from and --to"),
        (["--from", "2026-11-16", "--to", "2026-11-15"], "2026-11-16 to 2026-11-15 is 0 days.*first day.* last"),
        (["--from", "2026-11-16", "--to", "2026-11-17", "--week", "2026-W47"], "give either --week or --from"),
        (["--from", "monday", "--to", "2026-11-17"], '"monday" is not a day.* 2026-11-16'),
        (["--out", "report.doc"], r'"report\.doc".* neither .*\.html nor .*\.pdf'),
        (["--zone", "Mars"], '"Mars" is not .*time zone'),
        (["--site", "nowhere"], 'site "nowhere" is not known.* cern, slac'),
    ],
)
def test_an_invalid_command_line_is_reported(paths, arguments, complaint):
    with pytest.raises(CommandError, match=complaint):
        call_command("report", "weekly", *arguments)


def test_the_task_writes_missing_reports_and_keeps_existing_ones(paths, monkeypatch, report_dir):
    """It runs each hour: a report delayed by an outage on Monday is written on Thursday, and once."""
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW + timedelta(days=3))

    write_last_week()
    (report_dir / "2026-W47.html").write_text("as it was forwarded")
    write_last_week()

    assert (report_dir / "2026-W47.html").read_text() == "as it was forwarded"
    assert (report_dir / "2026-W47.pdf").exists()

"""Baselines without earlier incidents: what rules compare with after an outage, and the figures that are stated."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import Sum
from django.utils import timezone

from monitor.alerts.detect.past.baselines import baselines_since
from monitor.alerts.detect.past.incident_times import MeasureKind
from monitor.alerts.evaluate import evaluate, stored_baselines
from monitor.alerts.evidence.ticket import ticket_text
from monitor.alerts.incidents import lifecycle, queries
from monitor.alerts.incidents.past_times import incident_times
from monitor.alerts.models import Incident, IncidentPath, QuietPeriod
from monitor.alerts.scope import scope_now
from monitor.analysis import figures as shown
from monitor.archive.models import Burst, BurstDay, BurstHour
from monitor.archive.periods import start_of
from monitor.archive.queries.for_alerts import HOUR, LeftOutHours, baseline_counts
from monitor.mesh.models import KindName, Measurement
from monitor.mesh.models import Test as MeshTest
from tests.db.alert_rows import make_mesh
from tests.db.alerts.test_alerts_rules import every_minute, history, summary
from tests.db.alerts.test_alerts_throughput import USUAL, measure
from tests.db.evidence_rows import BEGAN, MINUTE, bursts, finding, gathered, incident
from tests.db.evidence_rows import NOW as GATHERED

NOW = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)
DAY = timedelta(days=1)
BACK = "loss none in 30 min"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def confirmed_at_once(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)


@pytest.fixture
def path():
    return make_mesh(["slac", "cern"], NOW - 60 * DAY, loss_regression={}, throughput_drop={})["slac → cern"]


def past_incident(path, since, ended_at, *, rule="loss_regression", closing=BACK, closed_at=None):
    """An incident as the life cycle leaves it, detected two minutes after its onset."""
    closed_at = ended_at + 10 * MINUTE if closed_at is None else closed_at
    row = Incident.objects.create(
        rule=rule, cause=str(path), is_pending=False, opened_at=since + 2 * MINUTE, began_at=since, closed_at=closed_at,
        ended_at=ended_at, summary=rule, closing=f"{path}: {closing}",
    )  # fmt: skip
    IncidentPath.objects.create(
        incident=row, path=path, added_at=row.opened_at, rule=rule, since=since, figures={}, sentence=rule,
        is_over=True, ended_at=closed_at,
    )  # fmt: skip
    return row


def all_lost(path, hour):
    """All packets of an hour are lost, also in the summary of its day if that is not of the last days."""
    BurstHour.objects.filter(path_id=path.pk, hour=hour).delete()
    BurstHour.objects.create(
        **{
            field.attname: getattr(summary(BurstHour, path, hour, bursts=60, lossy=60, lost=600), field.attname)
            for field in BurstHour._meta.concrete_fields
        }
    )


def faint_loss(path):
    """The fault under test: 4 of 600 packets."""
    every_minute(path, 60, lost=lambda number: 1 if number in (31, 44, 51, 58) else 0)


def clean_counts(path, bad_hour=None):
    """Packets lost and sent of the rows that a baseline pools, counted by Django, without this hour."""
    until = start_of("hour", NOW) - 12 * HOUR
    hours_since = baselines_since(NOW) + 28 * DAY
    hours = BurstHour.objects.filter(path_id=path.pk, hour__gte=hours_since, hour__lt=until).exclude(hour=bad_hour)
    days = BurstDay.objects.filter(path_id=path.pk, day__gte=baselines_since(NOW), day__lt=hours_since)
    totals = [rows.aggregate(sent=Sum("sent"), received=Sum("received")) for rows in (hours, days)]
    sent = sum(total["sent"] for total in totals)
    return sent - sum(total["received"] for total in totals), sent


OUTAGE = start_of("hour", NOW) - 50 * HOUR


def test_a_faint_loss_after_an_outage_is_compared_with_the_clean_past(path):
    history(path)
    all_lost(path, OUTAGE)
    past_incident(path, OUTAGE + 3 * MINUTE, OUTAGE + 58 * MINUTE)
    faint_loss(path)
    evaluate(NOW)

    assert evaluate(NOW + timedelta(seconds=61)).opened == 1, "its track shows no trouble, so newer packets are awaited"

    (row,) = IncidentPath.objects.filter(is_over=False)
    lost, sent = clean_counts(path, OUTAGE)
    assert (lost, sent) == (0, row.figures["base_of"])
    assert (row.figures["base_hits"], row.figures["base_ratio"]) == (0.0, 0.0)
    assert f"was {shown.loss(lost, sent)} (0 of {sent:,} packets)" in row.sentence


@pytest.mark.parametrize("reason", ["loss 10% for a day: accepted as the new baseline", "limit changed in mesh.toml"])
def test_what_was_accepted_as_new_baseline_remains(path, reason):
    history(path)
    all_lost(path, OUTAGE)
    past_incident(path, OUTAGE + 3 * MINUTE, OUTAGE + 58 * MINUTE, closing=reason)

    base = stored_baselines(NOW, scope_now().every).columns

    assert (base["sent"][0] - base["received"][0], base["sent"][0]) == clean_counts(path)


def test_a_lasting_incident_is_left_out_so_far(path):
    history(path)
    all_lost(path, OUTAGE)
    row = past_incident(path, OUTAGE, OUTAGE + HOUR)
    Incident.objects.filter(pk=row.pk).update(closed_at=None, ended_at=None)
    IncidentPath.objects.update(is_over=False, ended_at=None)

    base = stored_baselines(NOW, scope_now().every).columns

    until = start_of("hour", NOW) - 12 * HOUR
    lost, sent = clean_counts(path)
    assert base["sent"][0] == sent - 600 * ((until - OUTAGE) / HOUR)
    assert base["sent"][0] == base["received"][0]
    assert lost == 600


def test_maintenance_is_left_out_each_time(path):
    history(path)
    all_lost(path, OUTAGE)
    all_lost(path, OUTAGE + DAY)
    QuietPeriod.objects.create(
        kind=QuietPeriod.Kind.MAINTENANCE, starts_at=OUTAGE, ends_at=OUTAGE + HOUR, every_s=86_400,
        site=path.source.site, made_by="operator", made_at=OUTAGE,
    )  # fmt: skip

    base = stored_baselines(NOW, scope_now().every).columns

    assert base["sent"][0] - base["received"][0] == 0.0


class TestDays:
    """An outage twenty days ago: its day has 24 × 60 bursts."""

    day = start_of("day", NOW) - 20 * DAY

    @pytest.fixture(autouse=True)
    def stored(self, path):
        history(path)
        BurstDay.objects.filter(path_id=path.pk, day=self.day).update(bursts_none_lost=1440 - 60, received=14_400 - 600)

    def base(self, path):
        past_incident(path, self.day + 7 * HOUR + 20 * MINUTE, self.day + 7 * HOUR + 30 * MINUTE)
        return stored_baselines(NOW, scope_now().every).columns

    def test_the_bad_hour_is_taken_off_its_day_while_hours_are_stored(self, path):
        BurstHour.objects.bulk_create(
            summary(
                BurstHour, path, self.day + number * HOUR, bursts=60, lossy=60 * (number == 7), lost=600 * (number == 7)
            )
            for number in range(24)
        )
        lost, sent = clean_counts(path)

        base = self.base(path)

        assert lost == 600
        assert (base["sent"][0], base["received"][0]) == (sent - 600, sent - 600)
        assert base["lossy"][0] == 0.0

    def test_the_day_is_left_out_where_its_hours_are_no_longer_stored(self, path):
        _, sent = clean_counts(path)

        base = self.base(path)

        assert (base["sent"][0], base["received"][0]) == (sent - 14_400, sent - 14_400)


def test_a_path_in_trouble_for_most_of_the_time_keeps_all(path):
    history(path, lossy_an_hour=6)
    past_incident(path, NOW - 40 * DAY, NOW - 10 * DAY)

    base = stored_baselines(NOW, scope_now().every).columns

    assert (base["sent"][0] - base["received"][0], base["sent"][0]) == clean_counts(path)


@pytest.mark.parametrize(("days", "is_kept"), [(4, False), (5, True)])
def test_trouble_at_the_same_hour_of_five_days_is_its_pattern(path, days, is_kept):
    first = start_of("day", NOW) - 20 * DAY + 18 * HOUR
    for number in range(days):
        past_incident(path, first + number * DAY, first + number * DAY + 50 * MINUTE)
    since = baselines_since(NOW)

    hours = incident_times(since, NOW, {}).hours(since, NOW - 12 * HOUR - 30 * MINUTE)

    assert (hours.path_id == ()) is is_kept
    if not is_kept:
        own = [begin for path_id, begin in zip(hours.path_id, hours.first, strict=True) if path_id == path.pk]
        assert own == [round((first + number * DAY).timestamp()) // 3600 for number in range(days)]


@pytest.mark.parametrize(("weeks", "lossy"), [((1,), 0.0), ((1, 3), 120.0)])
def test_trouble_at_the_same_hour_of_two_weeks_is_its_pattern(path, weeks, lossy):
    hour = start_of("hour", NOW)
    season = [hour - timedelta(weeks=number, hours=apart) for number in range(1, 5) for apart in (-1, 0, 1)]
    BurstHour.objects.bulk_create(
        summary(BurstHour, path, at, bursts=60, lossy=60 * is_bad, lost=600 * is_bad)
        for at in season
        for is_bad in [at in [hour - timedelta(weeks=number) for number in weeks]]
    )
    first = [round((hour - timedelta(weeks=number)).timestamp()) // 3600 for number in weeks]
    left_out = LeftOutHours((path.pk,) * len(first), tuple(first), tuple(number + 1 for number in first))
    BurstDay.objects.bulk_create(
        summary(BurstDay, path, start_of("day", NOW) - number * DAY, bursts=1440, lossy=0, lost=0)
        for number in range(5, 30)
    )
    since = baselines_since(NOW)

    base = baseline_counts(since, since + 28 * DAY, hour - 12 * HOUR, season, left_out)

    assert base["season_lossy"][0] == lossy
    assert base["season_bursts"][0] == 60 * 12 - (60 if len(weeks) == 1 else 0)


class TestThroughput:
    """Hourly tests at 30 Mbit/s; ten at 3 Mbit/s two days ago were an incident."""

    begins = NOW - 58 * HOUR
    low_from = begins + 10 * HOUR

    @pytest.fixture(autouse=True)
    def tested(self, path):
        tcp = MeshTest.objects.create(name="tcp", kind=KindName.THROUGHPUT, every_s=3600)
        Measurement.objects.create(path=path, test=tcp, started_at=NOW - 60 * DAY)
        rates = [*USUAL[:10], *[3.0 + 0.01 * number for number in range(10)], *USUAL[:24], *USUAL[:14]]
        measure(path, rates, self.begins)
        measure(path, [10.0, 10.1], NOW)

    def evaluated(self, path, closing):
        past_incident(
            path, self.low_from, self.low_from + 9 * HOUR + MINUTE, rule="throughput_drop", closing=closing,
            closed_at=self.low_from + 12 * HOUR,
        )  # fmt: skip
        return evaluate(NOW + HOUR + MINUTE).opened

    def test_a_second_smaller_fall_is_compared_with_the_tests_before_the_first(self, path):
        assert self.evaluated(path, "throughput 30 Mbit/s, median of the last 3 tests") == 1

        (row,) = IncidentPath.objects.filter(is_over=False)
        clean = sorted([*USUAL[:10], *USUAL[:24], *USUAL[:14]][-38:])
        assert row.figures["before_bps"] == clean[(len(clean) - 1) // 2] * 1e6
        assert row.figures["tests_before"] == 38
        assert f"of the 38 before, {min(clean):.1f} Mbit/s" in row.sentence

    def test_a_rate_that_was_accepted_is_the_baseline(self, path):
        assert self.evaluated(path, "throughput 3 Mbit/s for a week: accepted as the new baseline") == 0


class TestKnownAtAMoment:
    """Nothing that happened after a moment changes the times by then."""

    def times(self, path, now):
        times = incident_times(NOW - 30 * DAY, now, {}).times.get(MeasureKind.PACKETS, ())
        return {(time.path_id, time.begin_s, time.end_s, time.is_over) for time in times}

    def test_an_incident_is_none_before_it_opens_and_lasts_until_it_ends(self, path):
        begin = NOW - 5 * HOUR
        past_incident(path, begin, begin + HOUR, closing="loss for a day: accepted as the new baseline")
        back = path.__class__.objects.get(source=path.destination, destination=path.source)
        during = begin + 20 * MINUTE

        assert self.times(path, begin + MINUTE) == set()
        assert self.times(path, during) == {
            (path_id, begin.timestamp(), during.timestamp(), False) for path_id in (path.pk, back.pk)
        }
        assert self.times(path, begin + 2 * HOUR) == set(), "by then it is accepted"

    def test_its_end_is_the_last_bad_burst(self, path):
        begin, end = NOW - 5 * HOUR, NOW - 4 * HOUR
        past_incident(path, begin, end)

        (ends,) = {end_s for _, _, end_s, is_over in self.times(path, NOW) if is_over}
        assert 0 < ends - end.timestamp() < 0.01


class TestEvidence:
    """An outage of twenty minutes, an hour before a loss of a quarter of the packets."""

    @pytest.fixture
    def second(self, path):
        back = path.__class__.objects.get(source=path.destination, destination=path.source)
        for of in (path, back):
            bursts(of, GATHERED - 6 * HOUR, BEGAN - 80 * MINUTE, [20.0, 20.2, 20.1, 20.4])
            bursts(of, BEGAN - 80 * MINUTE, BEGAN - 60 * MINUTE, [], lost=4)
            bursts(of, BEGAN - 60 * MINUTE, BEGAN, [20.0, 20.2, 20.1, 20.4])
        past_incident(path, BEGAN - 80 * MINUTE, BEGAN - 61 * MINUTE, rule="unreachable")
        bursts(path, BEGAN, GATHERED, [20.0, 20.2, 20.1], lost=1)
        bursts(back, BEGAN, GATHERED, [20.0, 20.2, 20.1, 20.4])
        return incident(finding(path))

    def clean(self, path, facts):
        outage = (BEGAN - 80 * MINUTE, BEGAN - 60 * MINUTE - timedelta(seconds=1))
        before = Burst.objects.filter(path_id=path.pk, measured_at__lt=facts.paths[0].there.before.until)
        return 4 * before.exclude(measured_at__range=outage).count()

    def test_figures_before_are_without_the_outage_in_both_directions(self, path, second):
        facts = gathered(second)

        sent = self.clean(path, facts)
        there, back = facts.paths[0].there.before, facts.paths[0].back.before
        assert (there.lost, there.sent, back.lost) == (0, sent, 0)

    def test_the_same_figure_is_stated_everywhere_and_after_the_end(self, path, second, client, settings, monkeypatch):
        facts = gathered(second)
        sent = self.clean(path, facts)
        before = f"before {shown.loss(0, sent)}"
        assert before in facts.cause.sentence
        assert f"0 of {sent:,}" in ticket_text(second, facts)
        settings.PUBLIC_READ = True
        monkeypatch.setattr(timezone, "now", lambda: GATHERED)
        page = client.get(f"/incidents/{second.pk}/").content.decode()
        assert before.replace("<", "&lt;") in page
        assert f"(0 of {sent:,})</td>" in page

        bursts(path, GATHERED, GATHERED + 40 * MINUTE, [20.0, 20.2, 20.1, 20.4])
        ended = GATHERED + 40 * MINUTE
        lifecycle.close(second.pk, [(path.pk, "loss")], "loss none", ended, ended_at=GATHERED - MINUTE)
        after = gathered(queries.incident_with_paths(second.pk), ended)

        assert before in after.cause.sentence
        assert f"0 of {sent:,}" in ticket_text(queries.incident_with_paths(second.pk), after)

    def test_an_incident_that_reopens_keeps_its_figures_before(self, path, second):
        sent = self.clean(path, gathered(second))
        lifecycle.close(second.pk, [(path.pk, "loss")], "loss none", GATHERED + MINUTE, ended_at=GATHERED)
        bursts(path, GATHERED, GATHERED + 8 * MINUTE, [20.0, 20.2, 20.1], lost=1)
        again = finding(path, since=GATHERED + 2 * MINUTE)
        lifecycle.add_findings("cern ↔ slac", [again], GATHERED + 8 * MINUTE)

        facts = gathered(queries.incident_with_paths(second.pk), GATHERED + 9 * MINUTE)

        there = facts.paths[0].there.before
        assert (there.lost, there.sent) == (0, sent)

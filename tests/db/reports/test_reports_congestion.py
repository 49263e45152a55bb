"""Daily congestion in the summary of the weekly report."""

from datetime import timedelta

import pytest

from monitor.archive.models import BurstHour
from tests.db.alert_rows import make_mesh
from tests.db.report_rows import WEEK, report

pytestmark = pytest.mark.django_db


def hours(path, is_congested):
    """Hourly summaries of the two weeks to the end of WEEK: 20 ms, and 45 ms where congested."""
    counts = {"bursts": 60, "bursts_all_lost": 0, "bursts_none_lost": 60, "bursts_during_test": 0}
    counts |= {"bursts_not_measured": 0, "sent": 600, "received": 600, "duplicates": 0, "reordered": 0}
    BurstHour.objects.bulk_create(
        BurstHour(
            path_id=path.pk,
            packet_bytes=100,
            hour=at,
            **counts,
            **dict.fromkeys(
                ("rtt_min_ms", "rtt_p25_ms", "rtt_median_ms", "rtt_p75_ms", "rtt_p95_ms", "rtt_max_ms", "rtt_avg_ms"),
                45.0 if is_congested(at) else 20.0,
            ),
            ipdv_ms=0.1,
            slot_minima_ms=[45.0 if is_congested(at) else 20.0] * 12,
        )
        for at in (WEEK.until - timedelta(hours=number) for number in range(1, 14 * 24 + 1))
    )


def of_congestion():
    return [sentence for sentence in report().sentences if sentence.rule == "congestion"]


def test_a_path_congested_on_weekdays_is_named_with_its_hours():
    paths = make_mesh(["slac", "cern"], WEEK.since - timedelta(days=60))
    hours(paths["slac → cern"], lambda at: 15 <= at.hour < 20 and at.weekday() < 5)
    hours(paths["cern → slac"], lambda at: False)

    (sentence,) = of_congestion()

    assert "slac → cern congested 15:00 to 20:00 UTC (±5 min) on 10 of 14 " in sentence.text
    assert sentence.figures == {"slac → cern": pytest.approx(25.0)}


def test_without_recurring_hours_there_is_no_sentence():
    paths = make_mesh(["slac", "cern"], WEEK.since - timedelta(days=60))
    hours(paths["slac → cern"], lambda at: at.date() == (WEEK.since + timedelta(days=2)).date() and at.hour < 9)

    assert of_congestion() == []

"""Daily congestion on the path page and in the API, from the minimum RTTs of 5 minutes."""

import json
import re
from datetime import UTC, datetime, time, timedelta

import pytest

from monitor.archive.models import BurstHour
from tests.db.pages_mesh import HOUR, NO_RTT

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]


@pytest.fixture
def path(paths):
    return paths["cern", "slac"]


@pytest.fixture
def get(client):
    def answer(address):
        response = client.get(address, headers={"host": "localhost"})
        assert response.status_code == 200, response.content
        return response.content.decode()

    return answer


def hours(path, days, is_congested):
    """Hourly summaries of the days before HOUR: 20 ms, and 43 ms in the slots that are congested as a whole."""
    every = [HOUR - timedelta(hours=number) for number in range(1, 24 * days + 1)]
    counts = {"bursts": 60, "bursts_all_lost": 0, "bursts_none_lost": 60, "bursts_during_test": 0}
    counts |= {"bursts_not_measured": 0, "sent": 600, "received": 600, "duplicates": 0, "reordered": 0}
    BurstHour.objects.bulk_create(
        BurstHour(
            path_id=path.pk,
            packet_bytes=100,
            hour=at,
            **counts,
            **NO_RTT,
            slot_minima_ms=[
                43.0
                if is_congested(slot) and is_congested(slot + timedelta(minutes=5))
                else 20.0 + 0.01 * (at.hour % 5)
                for slot in (at + timedelta(minutes=5 * number) for number in range(12))
            ],
        )
        for at in every
    )


def sentence(text):
    note = re.search(r'<p class="note" id="congestion">(.*?)</p>', text)
    return None if note is None else re.sub(r"<[^>]+>", "", note[1])


def test_congested_evenings_are_named(get, path):
    """On all evenings but one, from 19:38 to 23:11 UTC: at Geneva it is the evening too."""
    spared = datetime(2026, 11, 15, tzinfo=UTC).date()
    hours(path, 14, lambda at: time(19, 38) <= at.time() < time(23, 11) and at.date() != spared)

    text = sentence(get(f"/paths/{path.pk}/"))

    assert text.endswith("congested 19:40 to 23:10 UTC (±5 min) on 13 of 14 evenings, +23 ms")
    api = json.loads(get(f"/api/v1/paths/{path.pk}/congestion"))
    (named,) = api["hours"]
    assert (named["days_congested"], named["days_measured"], api["can_tell"]) == (13, 14, True)
    assert named["begin_h"] == pytest.approx(19 + 38 / 60, abs=named["begin_within_min"] / 60)
    assert named["end_h"] == pytest.approx(23 + 11 / 60, abs=named["end_within_min"] / 60)
    assert max(named["begin_within_min"], named["end_within_min"]) <= 5.0
    assert named["rise_ms"] == pytest.approx(23.0, abs=0.1)


def test_a_path_without_congestion_has_no_sentence(get, path):
    hours(path, 14, lambda at: at.date() == datetime(2026, 11, 15, tzinfo=UTC).date() and at.hour > 18)

    assert sentence(get(f"/paths/{path.pk}/")) is None
    assert json.loads(get(f"/api/v1/paths/{path.pk}/congestion"))["hours"] == []


def test_too_few_days_cannot_tell(get, path):
    hours(path, 3, lambda at: 19 <= at.hour < 23)

    assert "cannot tell" in sentence(get(f"/paths/{path.pk}/"))
    assert json.loads(get(f"/api/v1/paths/{path.pk}/congestion"))["can_tell"] is False

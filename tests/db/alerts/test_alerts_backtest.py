"""The archive replayed: incidents that the rules would have opened, without writes and notifications."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from monitor.alerts.evaluate import evaluate
from monitor.alerts.models import Incident, JudgedPath
from monitor.archive.models import Burst
from tests.db.alert_rows import make_bursts, make_mesh
from tests.facts import lacks

NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

pytestmark = pytest.mark.django_db


def backtest(*arguments):
    out = StringIO()
    call_command("alerts", "backtest", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def path():
    """Half an hour without loss, ten minutes with 20%, an hour without."""
    path = make_mesh(["slac", "cern"], NOW - timedelta(days=2), loss={}, no_data={})["slac → cern"]
    make_bursts(path, [0] * 30 + [2] * 10 + [0] * 60, NOW)
    return path


def test_a_replay_equals_the_live_evaluation_and_writes_nothing(path):
    figures = json.loads(backtest("--from", "2026-11-21T10:00", "--to", "2026-11-21T11:30", "--rule", "loss", "--json"))
    assert not Incident.objects.exists()
    assert not JudgedPath.objects.exists()

    for minute in range(1, 91):
        evaluate(NOW + minute * MINUTE)
    live = Incident.objects.get(rule="loss")

    (incident,) = figures["incidents"]
    assert (incident["rule"], incident["cause"]) == ("loss", live.cause)
    assert datetime.fromisoformat(incident["found_at"]) == live.opened_at
    assert datetime.fromisoformat(incident["ended_at"]) == live.closed_at
    assert incident["findings"][0]["sentence"] == live.paths.get().sentence
    assert [rule["rule"] for rule in figures["rules"]] == ["loss"]
    weeks = 90 * 60 / (7 * 86_400)
    assert figures["path_weeks"] == pytest.approx(weeks, rel=0.02)
    assert figures["rules"][0]["incidents_per_path_week"] == pytest.approx(1 / figures["path_weeks"])


@pytest.mark.timeout(900)
def test_a_finding_ends_before_the_others_of_its_incident():
    paths = make_mesh(["slac", "cern"], NOW - timedelta(days=2), loss={}, no_data={})
    make_bursts(paths["slac → cern"], [0] * 30 + [2] * 10 + [0] * 50 + [3] * 15 + [0] * 75, NOW)
    make_bursts(paths["cern → slac"], [0] * 30 + [2] * 90 + [0] * 60, NOW)
    period = ("--from", "2026-11-21T10:00", "--to", "2026-11-21T13:00", "--rule", "loss", "--json")

    figures = json.loads(backtest(*period))
    for minute in range(1, 181):
        evaluate(NOW + minute * MINUTE)

    live = Incident.objects.get()
    joined = live.paths.get(path=paths["slac → cern"]).added_at
    assert joined > NOW + 90 * MINUTE, "joins again after it was over"
    (incident,) = figures["incidents"]
    # The replay ends findings by their rules, an evaluation by the tracks of their paths.
    assert abs(datetime.fromisoformat(incident["ended_at"]) - live.closed_at) <= 10 * MINUTE
    assert figures["rules"][0]["fired"] == 3


def test_later_measurements_do_not_affect_the_past(path):
    arguments = (
        "--from",
        "2026-11-21T10:00",
        "--to",
        "2026-11-21T11:00",
        "--rule",
        "loss",
        "--rule",
        "loss_regression",
        "--json",
    )
    before = backtest(*arguments)

    make_bursts(path, [9] * 30, NOW + 100 * MINUTE)

    assert backtest(*arguments) == before


def test_the_output_is_a_table_and_the_incidents(path):
    output = backtest("--from", "2026-11-21T10:00", "--to", "2026-11-21T11:30", "--rule", "loss")

    assert "path-weeks, evaluated every 60 s" in output
    assert "cern ↔ slac" in output


def test_a_period_without_data_reports_the_available_period(path):
    with pytest.raises(CommandError) as error:
        backtest("--from", "2026-10-01", "--to", "2026-10-01T01:00")

    requested = ("from 2026-10-01 00:00", "to 2026-10-01 01:00 UTC")
    available = ("from 2026-11-21 10:00", "to 2026-11-21 11:39 UTC")
    assert lacks(str(error.value), "no burst", *requested, "archive has", *available) == []


def test_an_empty_archive_or_mesh_is_reported():
    with pytest.raises(CommandError, match=r"no path is measured.*mesh\.toml"):
        backtest("--from", "2026-10-01", "--to", "2026-10-02")
    make_mesh(["slac", "cern"], NOW, loss={})
    assert not Burst.objects.exists()
    with pytest.raises(CommandError, match="the archive is empty"):
        backtest("--from", "2026-10-01", "--to", "2026-10-01T01:00")

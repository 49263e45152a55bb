"""An RTT that rose in both directions of a pair, and ended while the agent of an end delivers nothing."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence import gather
from monitor.alerts.evidence.words import headline, lasted_s
from monitor.alerts.incidents import lifecycle, queries
from monitor.archive.models import Burst
from monitor.archive.queries.metrics import Metric
from monitor.archive.upkeep import freshness
from monitor.mesh.models import MeasurementPeriod
from monitor.mesh.models import Test as MeshTest
from monitor.overview.grid import GridPeriod, load_grid
from monitor.overview.mesh_state import load_mesh_state
from monitor.web.pages.grid.cells import sentence
from tests.db.alert_rows import make_mesh
from tests.db.copied_rows import copy_rows
from tests.db.finding_levels import level_of
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
ONSET = datetime(2026, 11, 26, 9, 10, tzinfo=UTC)
CYCLE_S = 10
SILENT_S, END_S = 372, 590
"""The agent of in2p3 stops at 09:16:12; the delay ends at 09:19:50."""


def at(seconds):
    return ONSET + timedelta(seconds=seconds)


@pytest.fixture(autouse=True)
def paths(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    paths = make_mesh(["cern", "in2p3", "ornl"], at(-60 * 86400), rtt={})
    MeshTest.objects.update(every_s=CYCLE_S)
    MeasurementPeriod.objects.update(every_s=CYCLE_S)
    return paths


def plant(path, *, is_risen, until_s, end_s=END_S):
    """Bursts of ten packets of 8.4 ms, of 128.4 ms from the onset to the end."""
    rows = []
    for seconds in range(-1200, until_s, CYCLE_S):
        rtt_ms = 128.4 if is_risen and 0 <= seconds < end_s else 8.4
        rtts_ms = [rtt_ms + (seconds // CYCLE_S + packet) % 7 * 0.02 for packet in range(10)]
        rows.append(
            Burst(
                path_id=path.pk, packet_bytes=100, measured_at=at(seconds), outcome="measured", sent=10, received=10,
                duplicates=0, reordered=0, during_test=False, rtts_ms=rtts_ms,
            )
        )  # fmt: skip
    copy_rows(rows)


def judged(until_s, since_s=-20):
    for seconds in range(since_s, until_s + 1, 20):
        evaluate(at(seconds))
    (incident,) = queries.open_incidents()
    return incident


def cell(path, seconds):
    grid = load_grid(Metric.RTT_MEDIAN, GridPeriod.NOW, at(seconds))
    return sentence(grid, next(figures for figures in grid.figures if figures.path_id == path.pk))


def page(client, monkeypatch, address, seconds):
    monkeypatch.setattr(timezone, "now", lambda: at(seconds))
    html = client.get(address, headers={"host": "localhost"}).content.decode()
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_the_direction_that_is_measured_tells_the_end(paths, client, monkeypatch):
    for name, path in paths.items():
        until_s = SILENT_S if name.startswith("in2p3") else 660
        plant(path, is_risen="ornl" not in name, until_s=until_s)

    incident = judged(640)

    levels = {str(row.path): level_of(row) for row in incident.paths.all()}
    assert levels["in2p3 → cern"].now is None
    assert abs((levels["cern → in2p3"].over_since - at(END_S)).total_seconds()) <= CYCLE_S
    assert lacks(headline(incident), "RTT normal again (8.4", "since 09:19:50", "128 ms from") == []
    assert incident.title in load_mesh_state(freshness.load(), at(640)).sentence
    shown = page(client, monkeypatch, f"/incidents/{incident.pk}/", 645)
    assert "ongoing" not in shown

    # Ten minutes later the finding of cern → in2p3 is over.
    for path in (paths["cern → in2p3"], paths["cern → ornl"], paths["ornl → cern"]):
        Burst.objects.filter(path_id=path.pk).delete()
        plant(path, is_risen=path == paths["cern → in2p3"], until_s=900)
    incident = judged(880, 660)
    assert [row.is_over for row in incident.paths.all() if str(row.path) == "cern → in2p3"] == [True]


def test_a_pair_without_newer_data_is_not_called_ongoing(paths, client, monkeypatch):
    """Both agents are frozen: the last figure is of 09:16, whatever it is by now."""
    for name, path in paths.items():
        plant(path, is_risen="ornl" not in name, until_s=SILENT_S if "ornl" not in name else 660)

    incident = judged(640)

    assert lacks(headline(incident), "cern ↔ in2p3", "128 ms", "as of 09:16:10 UTC") == []
    shown = page(client, monkeypatch, f"/incidents/{incident.pk}/", 645)
    assert lacks(shown, "as of 09:16:10 UTC", "no newer data since") == []
    assert "ongoing" not in shown


def test_a_cell_of_now_says_when_its_newest_burst_began(paths):
    for name, path in paths.items():
        until_s = SILENT_S if name.startswith("in2p3") else 660
        plant(path, is_risen="ornl" not in name, until_s=until_s)

    evaluate(at(400))
    assert "as of" not in cell(paths["in2p3 → cern"], 400)
    evaluate(at(640))
    assert lacks(cell(paths["in2p3 → cern"], 640), "as of 09:16:10 UTC", "128") == []
    assert "09:16:10" not in cell(paths["cern → in2p3"], 640)


def test_an_incident_that_waits_to_close_has_lasted_to_its_end(paths, client, monkeypatch):
    for name, path in paths.items():
        plant(path, is_risen="ornl" not in name, until_s=660)

    incident = judged(640)

    assert lasted_s(incident, at(640)) == pytest.approx(END_S, abs=CYCLE_S)
    gather.store_facts(incident, at(560))
    assert "evidence of 2026-11-26 09:19 UTC , while it lasted" in page(
        client, monkeypatch, f"/incidents/{incident.pk}/", 645
    )

"""The conditions of paths for Prometheus: those that are stored, each path once, and no more than may be read."""

from __future__ import annotations

from pathlib import Path as File

import pytest
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from monitor.accounts import read_limits
from monitor.analysis.segments.stretches import CLEAN, DEAD, LOSSY
from monitor.api.prometheus import views
from monitor.present.conditions import Condition
from monitor.present.models import PathTrack
from tests.db.mesh_of_three import HOUR, NOW, make_mesh
from tests.db.track_rows import delay, segment, store_delays, store_finding, store_track

pytestmark = pytest.mark.django_db
AT_S = HOUR.timestamp()
CONDITION, LOSS, ONSET = (f"soundings_path_{name}" for name in ("condition", "loss_ratio", "onset_timestamp_seconds"))


@pytest.fixture
def mesh(settings, tmp_path, monkeypatch):
    """slac to cern loses large packets, slac to anl is dead after a loss, cern to slac is normal again."""
    settings.REDIS_URL = f"redis+socket://{tmp_path / 'nothing.sock'}"
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    mesh = make_mesh()
    store_track(mesh.slac_cern, Condition.NORMAL, segment(LOSSY, AT_S, 1000, 50))
    store_track(mesh.slac_cern, Condition.BAD, segment(LOSSY, AT_S + 60, 500, 50), packet_bytes=1000)
    dead = segment(CLEAN, AT_S, 900), segment(LOSSY, AT_S + 300, 100, 20), segment(DEAD, AT_S + 600, 40, 40)
    store_track(mesh.slac_anl, Condition.DEAD, *dead)
    store_track(mesh.cern_slac, Condition.NORMAL, segment(LOSSY, AT_S, 100, 20), segment(CLEAN, AT_S + 300, 900))
    return mesh


def scrape(address="/metrics/paths"):
    """The values of each path by metric and ID."""
    answer = Client(HTTP_HOST="localhost").get(address)
    assert answer.status_code == 200, answer.content
    return {
        family.name: {int(sample.labels["path"]): sample.value for sample in family.samples}
        for family in text_string_to_metric_families(answer.content.decode())
        if family.samples and family.name.startswith("soundings_path_")
    }


def test_each_path_has_the_highest_condition_of_its_tracks(mesh):
    assert scrape()[CONDITION] == {mesh.slac_cern.pk: 5, mesh.slac_anl.pk: 7, mesh.cern_slac.pk: 0}


def test_loss_and_onset_are_of_paths_in_trouble(mesh):
    scraped = scrape()

    assert scraped[LOSS] == {mesh.slac_cern.pk: 0.1, mesh.slac_anl.pk: 1.0}
    assert scraped[ONSET] == {mesh.slac_cern.pk: AT_S + 60, mesh.slac_anl.pk: AT_S + 300}


def test_a_condition_has_the_labels_of_the_other_metrics_of_a_path(mesh):
    answer = Client(HTTP_HOST="localhost").get("/metrics/paths")
    [family] = (of for of in text_string_to_metric_families(answer.content.decode()) if of.name == CONDITION)

    labels = {"host": "cern", "source": "slac", "source_site": "slac", "destination_site": "cern"}
    assert {**labels, "path": str(mesh.slac_cern.pk)} in [sample.labels for sample in family.samples]


def test_a_path_with_several_signals_has_a_sample(mesh):
    store_delays(mesh.cern_slac, Condition.SUSPECT, delay(0, AT_S), delay(1, AT_S + 900))
    store_finding(mesh.cern_slac, Condition.SUSPECT)
    PathTrack.objects.filter(path=mesh.slac_anl).delete()
    store_finding(mesh.slac_anl, Condition.BAD)

    scraped = scrape()

    assert scraped[CONDITION] == {mesh.slac_cern.pk: 5, mesh.slac_anl.pk: 5, mesh.cern_slac.pk: 4}
    assert scraped[LOSS] == {mesh.slac_cern.pk: 0.1, mesh.cern_slac.pk: 0.0}
    assert scraped[ONSET] == {mesh.slac_cern.pk: AT_S + 60, mesh.cern_slac.pk: AT_S + 900}


def test_a_path_without_packets_has_no_loss_and_no_onset(mesh):
    PathTrack.objects.all().delete()
    store_track(mesh.slac_cern, Condition.OVERDUE)
    store_track(mesh.slac_anl, Condition.DEAD, segment(DEAD, AT_S))

    assert scrape() == {
        CONDITION: {mesh.slac_cern.pk: 3, mesh.slac_anl.pk: 7},
        ONSET: {mesh.slac_anl.pk: AT_S},
    }


def test_a_source_has_its_own_paths_and_a_retired_path_none(mesh):
    mesh.slac_anl.retired_at = NOW
    mesh.slac_anl.save()

    assert {*scrape("/metrics/paths?source=slac")[CONDITION]} == {mesh.slac_cern.pk}
    assert {*scrape("/metrics/paths?source=cern")[CONDITION]} == {mesh.cern_slac.pk}


def test_more_conditions_than_series_are_refused(mesh, monkeypatch):
    monkeypatch.setattr(views, "MOST_SERIES", 2)

    assert Client(HTTP_HOST="localhost").get("/metrics/paths").status_code == 422
    assert len(scrape("/metrics/paths?source=slac")[CONDITION]) == 2


def test_a_reader_with_limits_sees_the_conditions_of_its_paths(mesh):
    read_limits.limit([mesh.slac.pk, mesh.cern.pk])
    try:
        collected = {family.name: family.samples for family in views._path_collector(None).collect()}
    finally:
        read_limits.unlimit()

    seen = {int(sample.labels["path"]): sample.value for sample in collected[CONDITION]}
    assert seen == {mesh.slac_cern.pk: 5, mesh.cern_slac.pk: 0}


def test_the_page_has_each_condition_with_its_number():
    page = (File(__file__).resolve().parents[3] / "docs/prometheus.md").read_text()

    assert [of for of in Condition if f"| {of} | `{of.name.lower()}` |" not in page] == []

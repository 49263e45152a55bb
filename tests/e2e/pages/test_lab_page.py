"""The lab's page in a real browser: a path is broken, its incident appears, and the path is restored."""

from datetime import timedelta

import pytest
from django.utils import timezone

from monitor.alerts.models import Incident, IncidentPath
from tests.db.fake_lab import ORIGINAL, FakeLab
from tests.db.pages_mesh import make_mesh
from tests.e2e.pages.screens import SCREENS, logged_in, refreshed, shot
from tests.e2e.visits import TOO_WIDE, wrong_for_readers

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def lab(tmp_path, settings):
    settings.LAB_DIR = tmp_path
    server = FakeLab(tmp_path, timezone.now() - timedelta(minutes=2))
    yield server
    server.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_a_path_is_broken_shown_with_its_incident_and_restored(browser, served, lab, screen):
    paths = make_mesh(now=timezone.now() - timedelta(hours=1))
    page = logged_in(browser, served, "/lab/?path=slac:cern", screen)
    page.fill("#id_loss_percent", "20")
    page.click("text=Break this path")
    page.wait_for_selector("[data-path='slac:cern']")
    planted = lab.settings["slac", "cern"].loss_ratio

    at = lab.planted_at + timedelta(seconds=108)
    opened = Incident.objects.create(rule="loss", cause="path", opened_at=at, summary="loss")
    finding = {"rule": "loss", "sentence": "loss", "figures": {}, "since": at, "added_at": at}
    IncidentPath.objects.create(incident=opened, path=paths["slac", "cern"], **finding)
    lab.centre = "down"
    refreshed(page)

    assert page.locator("#cut-off").is_visible()
    row = page.locator("[data-path='slac:cern']")
    assert planted == 0.2
    assert "1 min 48 s" in row.inner_text()
    assert row.locator("a").get_attribute("href") == f"/incidents/{opened.pk}/"
    assert (wrong_for_readers(page), page.evaluate(TOO_WIDE), page.said) == ([], [], [])
    shot(page, f"lab-{screen}")
    row.locator("button").click()
    page.wait_for_selector("text=as in the scenario")
    assert lab.settings["slac", "cern"] == ORIGINAL

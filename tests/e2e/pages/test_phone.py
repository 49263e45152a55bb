"""The grid on a phone in an incident: the grid is on the first screen, navigation and choices are folded above it."""

from datetime import timedelta

import pytest
from django.utils import timezone

from monitor.alerts.models import Incident, IncidentPath
from tests.db.pages_mesh import make_mesh
from tests.e2e.pages.screens import logged_in, shot
from tests.e2e.visits import TOO_WIDE, wrong_for_readers

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_incident_leaves_the_grid_on_a_phones_first_screen(browser, served):
    now = timezone.now()
    paths = make_mesh(now=now - timedelta(hours=1))
    opened = Incident.objects.create(rule="loss", cause="path", opened_at=now, summary="loss")
    finding = {"rule": "loss", "sentence": "loss 20%", "figures": {}, "since": now, "added_at": now}
    IncidentPath.objects.create(incident=opened, path=paths["slac", "cern"], **finding)

    page = logged_in(browser, served, "/", "phone")
    shot(page, "grid-phone-folded")
    assert page.locator("#matrix").bounding_box()["y"] < 700
    assert not page.locator("nav.pages").is_visible()
    assert not page.locator("#choices").is_visible()
    assert (wrong_for_readers(page), page.evaluate(TOO_WIDE), page.said) == ([], [], [])

    for toggle in ("#menu summary", "#fold-choices summary"):
        page.focus(toggle)
        page.keyboard.press("Enter")
    assert page.locator("nav.pages").is_visible()
    assert page.locator("#choices").is_visible()
    assert (wrong_for_readers(page), page.evaluate(TOO_WIDE)) == ([], [])
    shot(page, "grid-phone-open")

    page.set_viewport_size({"width": 1280, "height": 900})
    assert not page.locator("#menu").is_visible()
    assert page.locator("nav.pages").is_visible()

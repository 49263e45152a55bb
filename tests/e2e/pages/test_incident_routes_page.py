"""The incident page with traces in a browser: statement and traces fit, in light, in dark and on a phone."""

from __future__ import annotations

import pytest

from monitor.mesh.models import Path
from tests.db.alert_rows import make_mesh
from tests.db.alerts.test_incident_routes import NOW, as_names, finding, opened, plant_lossy_link
from tests.e2e.pages.screens import SCREENS, open_page, shot
from tests.e2e.visits import wrong_for_readers

pytestmark = pytest.mark.django_db(transaction=True)

CUT_OFF = """() => [...document.querySelectorAll("#routes .scrolls, #ticket")]
    .filter((frame) => frame.scrollWidth > frame.clientWidth + 1).map((frame) => frame.ariaLabel ?? frame.id)"""

__all__ = ["as_names"]


def test_traces_of_an_incident_fit_each_screen(browser, served, as_names):
    make_mesh(["slac", "cern"], NOW.replace(day=1))
    there, back = Path.objects.order_by("pk")
    plant_lossy_link(there, back)
    incident = opened(finding(there, "loss", sent=200, lost=60))

    for screen, (width, _, _) in SCREENS.items():
        page = open_page(browser, f"{served}/incidents/{incident.pk}/", screen)
        shot(page, f"incident-routes-{screen}")

        assert "between hop 2 (AS 20965 GEANT) and hop 3 (AS 513 CERN)" in page.locator("#cause").inner_text()
        assert page.locator("#routes tbody tr").count() == 10
        assert page.evaluate(CUT_OFF) == [], screen
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        assert wrong_for_readers(page) == []
        assert page.said == []

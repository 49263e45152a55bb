"""The grid on a phone: navigation and choices are folded, so that the grid stands higher, and unfold by keyboard."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.db.alert_rows import make_bursts
from tests.db.alert_rows import make_mesh as make_watched
from tests.db.incident_rows import RULE, lossy, watched
from tests.db.pages_mesh import make_mesh
from tests.e2e.pages.screens import SCREENS, logged_in, shot
from tests.e2e.visits import TOO_WIDE, wrong_for_readers

pytestmark = pytest.mark.django_db(transaction=True)

FOLDED_PX = 200
"""Navigation and choices together take more."""


def grid_y(page):
    return page.locator("#matrix").bounding_box()["y"]


def test_a_phone_folds_navigation_and_choices(browser, served):
    make_mesh(now=timezone.now() - timedelta(hours=1))

    page = logged_in(browser, served, "/", "phone")
    shot(page, "grid-phone-folded")
    folded_y = grid_y(page)
    assert not page.locator("nav.pages").is_visible()
    assert not page.locator("#choices").is_visible()
    assert (wrong_for_readers(page), page.evaluate(TOO_WIDE), page.said) == ([], [], [])

    for toggle in ("#menu summary", "#fold-choices summary"):
        page.focus(toggle)
        page.keyboard.press("Enter")
    assert page.locator("nav.pages").is_visible()
    assert page.locator("#choices").is_visible()
    assert grid_y(page) - folded_y > FOLDED_PX
    assert (wrong_for_readers(page), page.evaluate(TOO_WIDE)) == ([], [])
    shot(page, "grid-phone-open")

    page.set_viewport_size({"width": 1280, "height": 900})
    assert not page.locator("#menu").is_visible()
    assert page.locator("nav.pages").is_visible()


@pytest.mark.parametrize("metric", ["loss", "rtt"])
def test_five_sites_fit_a_phone(browser, served, metric):
    at = timezone.now().replace(microsecond=0)
    paths = make_watched(["cern", "in2p3", "ornl", "slac", "fnal"], at - timedelta(days=30), loss=RULE)
    for name, path in paths.items():
        if {"cern", "slac"} != set(name.split(" → ")):
            make_bursts(path, [0] * 10, at - timedelta(minutes=10))
    lossy(paths["cern → slac"], at)

    page = logged_in(browser, served, f"/?metric={metric}", "phone")
    shot(page, f"grid-phone-five-{metric}")

    assert page.locator(".matrix-frame").evaluate("(frame) => frame.scrollWidth <= frame.clientWidth")
    assert "Tap a cell" in page.locator("#readout").inner_text()
    assert "Hover" not in page.locator("#readout").inner_text()


def test_in_an_incident_the_grid_is_on_the_first_screen(browser, served):
    lossy(watched()["slac → cern"], timezone.now().replace(microsecond=0))

    page = logged_in(browser, served, "/", "phone")
    # That the alert rules do not run in this test is a banner of its own.
    page.evaluate("() => document.getElementById('trouble').remove()")
    shot(page, "grid-phone-incident")

    assert page.locator("#open-incidents a.what").count() == 1
    assert page.locator("#matrix tbody td").first.bounding_box()["y"] < SCREENS["phone"][1] - 50
    assert page.evaluate(TOO_WIDE) == []

"""Routes on the path page in a real browser: the strip in line with the chart's axis, routes chosen by mouse and
keyboard, every screen."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone
from msgspec.structs import replace

from monitor.mesh.models import Site
from probes.trace.flow_effect import effect_of
from probes.trace.spec import MplsLabel
from tests.db.incident_rows import watched
from tests.db.mesh_of_three import batch
from tests.db.pages_mesh import burst
from tests.db.trace_rows import delivered, hop, trace
from tests.deliveries import store
from tests.e2e.pages.screens import SCREENS, logged_in, open_page, shot
from tests.e2e.visits import DRAWN, too_wide, wrong_for_readers

pytestmark = pytest.mark.django_db(transaction=True)
MINUTE = timedelta(minutes=1)
TABLE = "8.1.0.0,8.1.255.255,64500,Coast\n8.2.0.0,8.2.255.255,3356,Level3\n8.3.0.0,8.3.255.255,174,Cogent\n"
PLACES = """() => {
  const chart = document.querySelector('.smoke-drawn svg').getBoundingClientRect();
  const band = [...document.querySelectorAll('.route-strip .seen')].map((rect) => rect.getBoundingClientRect());
  return band.map((box) => [(box.left - chart.left) / chart.width, (box.right - chart.left) / chart.width]);
}"""


@pytest.fixture
def path(tmp_path):
    """Two routes of an hour in both directions, with a rate limit, a silent hop, MPLS and balanced load."""
    paths = watched()
    there, back = paths["slac → cern"], paths["cern → slac"]
    Site.objects.update(has_agent=True)
    now = timezone.now()
    (tmp_path / "asn.csv").write_text(TABLE)
    call_command("routes", "asn", "load", str(tmp_path / "asn.csv"), stdout=None)
    for minute in range(1, 61):
        burst(there, now - minute * MINUTE, 100.0, 101.0, 160.0)
    for path, first in ((there, "1"), (back, "3")):
        runs = [route(now - minute * MINUTE, first, "2" if minute > 30 else "3") for minute in range(60, 0, -3)]
        if path == there:
            runs[-2] = replace(runs[-2], flow_effect=effect_of([[100.1] * 5, [107.8] * 5] * 4))
        results = [delivered(path, run, sequence) for sequence, run in enumerate(runs, 1)]
        assert store(path.source.site_id, batch(*results), now).refused == ()
    return there


def route(at, first, middle):
    hops = (
        hop(1, "A", address=f"8.{first}.0.1", rtts_ms=(0.5, 0.6, 0.7)),
        hop(2, "B", address=f"8.{middle}.0.2", rtts_ms=(None, None, 14.0), others=(f"8.{middle}.0.22",)),
        hop(
            3,
            "C",
            address=f"8.{middle}.0.3",
            rtts_ms=(55.0, 54.0, 57.0),
            mpls=(MplsLabel(label=24001, traffic_class=0, ttl=1),),
        ),
        hop(4, "*"),
        hop(5, "D", address="192.0.2.2", rtts_ms=(100.0, 101.0, 100.5)),
    )
    return trace(hops=hops, at=at)


def test_routes_are_chosen_by_mouse_and_keyboard(browser, served, path):
    page = logged_in(browser, served, f"/paths/{path.pk}/?period=hour")
    old, new, *_ = page.evaluate(PLACES)
    assert (old[0], old[1], new[1]) == pytest.approx((0.0, 0.5, 1.0), abs=0.06)
    page.wait_for_function(DRAWN)
    shot(page, "routes-strip")

    page.locator(".route-strip a").first.click()
    page.wait_for_url("**route=**")
    assert page.locator("#tab-routes").is_visible()
    assert page.locator(".hop-table").count() == 1
    page.get_by_role("link", name="compare: forward route 2").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#comparison")

    assert "AS 3356 → AS 174" in page.locator("#comparison .verdict").inner_text()
    assert page.locator(".route-strip a.selected").count() == 2
    assert "rate limit" in page.locator("[data-hop='2']").first.inner_text()
    shot(page, "routes-comparison")
    assert wrong_for_readers(page) == []
    page.get_by_role("button", name="Trace this path now").click()
    page.wait_for_selector("#test-now-progress [data-running]")
    assert "waiting for the agent of slac" in page.locator("#test-now-progress .traced").inner_text()
    assert page.said == []


@pytest.mark.parametrize("screen", SCREENS)
def test_hops_fit_the_screen_and_are_accessible(browser, served, path, screen):
    page = open_page(browser, f"{served}/paths/{path.pk}/?period=hour&tab=routes", screen)
    page.wait_for_function(DRAWN)
    shot(page, f"routes-{screen}")

    assert page.locator(".hop-table").count() == 2
    assert wrong_for_readers(page) == []
    assert too_wide(page) == []
    assert page.said == []

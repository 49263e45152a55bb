"""How the charts of the path page load: the page is painted with the centre's drawings, the interactive charts come
after it, follow new data, and come later if the centre could not answer."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from tests.db.incident_rows import lossy, watched
from tests.db.pages_mesh import burst
from tests.e2e.pages.screens import open_page, refreshed
from tests.e2e.visits import DRAWN

pytestmark = pytest.mark.django_db(transaction=True)
PIXELS = "() => document.querySelector('[data-chart=rtt-spec] canvas').toDataURL()"


@pytest.fixture
def path():
    path = watched()["slac → cern"]
    lossy(path, timezone.now().replace(second=0, microsecond=0))
    return path


def test_charts_come_after_the_paint_and_follow_new_data(browser, served, path):
    page = open_page(browser, f"{served}/paths/{path.pk}/?period=hour")
    page.wait_for_function(DRAWN)
    painted, fetched = page.evaluate(
        "() => [performance.getEntriesByName('first-contentful-paint')[0].startTime,"
        " performance.getEntriesByType('resource').filter((entry) => entry.name.includes('charts.json'))"
        " .map((entry) => entry.startTime)]"
    )
    before = page.evaluate(PIXELS)

    burst(path, timezone.now(), *[900.0] * 10)
    refreshed(page)
    page.wait_for_function(f"(before) => ({PIXELS})() !== before", arg=before)

    assert len(fetched) == 1, "both charts are in one answer"
    assert painted < fetched[0]
    assert page.said == []


def test_a_tooltip_has_the_figures_of_its_interval(browser, served, path):
    page = open_page(browser, f"{served}/paths/{path.pk}/?period=hour")
    page.wait_for_function(DRAWN)
    box = page.locator("[data-chart=rtt-spec] canvas").bounding_box()

    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    tip = page.locator("#vg-tooltip-element.visible")
    lines = dict(line.split("\t") for line in tip.inner_text().strip().split("\n"))
    assert lines["median RTT, ms"] == "20"
    assert "of 10 lost" in lines["loss"]
    at = datetime.strptime(f"{lines['from (UTC)']} +0000", "%Y-%m-%d %H:%M:%S %z")
    middle = timezone.now() - timedelta(minutes=30)
    assert abs(at - middle) < timedelta(minutes=3)


def test_the_first_paint_has_the_figures(browser, served, path):
    page = open_page(browser, "about:blank")
    page.add_init_script(
        "new PerformanceObserver((list) => { window.atPaint ??= document.querySelector('#figures .tiles') !== null; })"
        ".observe({ type: 'paint', buffered: true });"
    )
    page.goto(f"{served}/paths/{path.pk}/?period=hour")
    page.wait_for_function("() => window.atPaint !== undefined")

    assert page.evaluate("() => window.atPaint") is True


def test_nothing_in_the_page_stops_its_parser(browser, served, path):
    page = open_page(browser, f"{served}/paths/{path.pk}/?period=hour")

    blocking = page.eval_on_selector_all(
        "body link[rel=stylesheet], body script[src]:not([defer]):not([async])",
        "(found) => found.map((it) => it.outerHTML)",
    )

    assert blocking == []


def test_the_grid_brings_the_path_pages_styles(browser, served, path):
    page = open_page(browser, "about:blank")
    asked = []
    page.on("request", lambda request: asked.append(request.url.partition("/static/web/")[2].partition(".")[0]))
    page.goto(f"{served}/", wait_until="networkidle")
    before = set(asked)
    page.goto(f"{served}/paths/{path.pk}/?period=hour")

    styles = page.eval_on_selector_all("link[rel=stylesheet]", "(links) => links.map((link) => link.href)")
    needed = {style.partition("/static/web/")[2].partition(".")[0] for style in styles}
    assert "path_routes" in needed
    assert needed <= before


def test_charts_that_the_centre_could_not_give_come_later(browser, served, path):
    page = open_page(browser, "about:blank")
    page.route("**/charts.json**", lambda route: route.fulfill(status=500))
    page.goto(f"{served}/paths/{path.pk}/?period=hour")
    reason = page.locator(".smoke-chart .reason")
    reason.wait_for()

    assert "500" in reason.inner_text()
    drawing, told = page.locator(".smoke-drawn").bounding_box(), reason.bounding_box()
    assert drawing["height"] > 200, "the first drawing stays whole"
    assert told["y"] >= drawing["y"] + drawing["height"]
    page.unroute("**/charts.json**")
    refreshed(page)
    page.wait_for_function(DRAWN)
    assert page.locator("[data-chart=rtt-spec] canvas").is_visible()
    assert reason.count() == 0

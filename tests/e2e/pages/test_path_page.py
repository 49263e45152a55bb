"""The path page in a real browser: the drawing of the server and the interactive charts in its place, tabs by keyboard,
without scripts and on paper, one screen, and what a screen reader gets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from monitor.archive.models import Burst, StoredInventory
from monitor.archive.rollup.recompute import roll_up
from tests.db.incident_rows import lossy, watched
from tests.db.mesh_of_three import batch
from tests.db.pages_mesh import burst, throughput
from tests.db.stamp_rows import delivered_stamp, stamp_burst
from tests.deliveries import store
from tests.e2e.pages.screens import SCREENS, open_page, shot
from tests.e2e.visits import A4_PX, DRAWN, too_wide, wrong_for_readers
from tests.facts import lacks

pytestmark = pytest.mark.django_db(transaction=True)
MINUTE = timedelta(minutes=1)
BOXES = """() => [...document.querySelectorAll('.chart:has(.first-drawing)')].map((chart) => {
  const box = chart.getBoundingClientRect();
  return [box.left, box.top, box.width, box.height].map(Math.round);
})"""
CUT_OFF = """() => [...document.querySelectorAll('.tiles *, .plain th, .plain td, .tabs a, .choice a')]
  .filter((element) => element.checkVisibility() && element.clientWidth > 0)
  .filter((element) => element.scrollWidth > element.clientWidth + 1)
  .map((element) => element.textContent)"""


@pytest.fixture
def path():
    """Pings with a gap, an outage and a failed test, throughput tests, and an open incident of loss."""
    path = watched()["slac → cern"]
    now = timezone.now().replace(second=0, microsecond=0)
    lossy(path, now)
    Burst.objects.filter(measured_at__gte=now - 50 * MINUTE, measured_at__lt=now - 20 * MINUTE).delete()
    for minute in (*range(40, 35, -1), *range(30, 20, -1)):
        rtts = (None,) * 10 if minute > 35 else () if minute > 28 else (20.0, 21.0, 26.0)
        burst(path, now - minute * MINUTE, *rtts)
    throughput(path, now - 30 * MINUTE, 94e6, retransmits=3)
    throughput(path, now - 15 * MINUTE, None)
    return path


def test_the_interactive_charts_replace_the_drawing_in_place(browser, served, path):
    page = open_page(browser, "about:blank")
    requested = []
    page.on("request", lambda request: requested.append(request.url))
    held = []
    page.route("**/charts/vega-*", lambda route: held.append(route))
    page.goto(f"{served}/paths/{path.pk}/?period=hour", wait_until="domcontentloaded")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => done()))")
    before = page.evaluate(BOXES)
    assert page.locator(".smoke-drawn").is_visible()
    shot(page, "path-drawing")
    name = page.get_by_role("img", name="RTT of slac to cern, ")
    told = page.locator("#rtt-sentence").text_content()
    assert name.count() == 1

    while not held:
        page.wait_for_timeout(50)
    held[0].continue_()
    page.wait_for_function(DRAWN)

    assert page.evaluate(BOXES) == before, "something moved"
    assert not page.locator(".smoke-drawn").is_visible()
    assert page.locator("[data-chart=rtt-spec] canvas").is_visible()
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    names = [node["name"]["value"] for node in tree if node.get("role", {}).get("value") in ("image", "img")]
    assert told in names
    assert not any("Vega" in name for name in names)
    [bundle] = [place for place, address in enumerate(requested) if "/charts/vega-" in address]
    assert bundle == max(place for place, address in enumerate(requested) if address.endswith((".js", ".css")))
    timing = page.evaluate(
        "() => [performance.getEntriesByName('first-contentful-paint')[0].startTime,"
        " performance.getEntriesByType('resource').find((entry) => entry.name.includes('/charts/vega-')).startTime]"
    )
    assert timing[0] < timing[1], "the charts' program was fetched before the page was painted"
    assert page.said == []


def test_tabs_work_by_keyboard_and_stay_in_the_links(browser, served, path):
    page = open_page(browser, f"{served}/paths/{path.pk}/?period=hour")
    tabs = page.get_by_role("tab")
    tabs.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")

    assert page.get_by_role("tab", selected=True).inner_text().startswith("Incidents")
    assert page.get_by_role("tabpanel").get_attribute("id") == "tab-incidents"
    assert page.get_by_role("tabpanel").get_by_role("link").first.is_visible()
    assert "tab=incidents" in page.url
    assert "tab=incidents" in page.get_by_role("link", name="← earlier").get_attribute("href")
    page.keyboard.press("End")
    assert page.get_by_role("tabpanel").get_attribute("id") == "tab-download"
    page.evaluate("() => { location.hash = '#test-list'; }")
    page.wait_for_selector("#tab-tests", state="visible")
    page.get_by_role("link", name="zoom out").click()
    page.wait_for_url("**since=**")
    assert page.get_by_role("tabpanel").get_attribute("id") == "tab-tests"
    assert page.said == []


def test_without_scripts_charts_tabs_and_links_work(browser, served, path):
    page = open_page(browser, f"{served}/paths/{path.pk}/?period=hour", java_script_enabled=False)

    page.get_by_role("link", name="Incidents 1").click()

    assert page.locator("#tab-incidents").is_visible()
    assert not page.locator("#tab-tests").is_visible()
    assert page.locator(".smoke-drawn .loss-step-0").count() == 1
    page.get_by_role("link", name="← earlier").click()
    assert page.locator("#tab-incidents").is_visible()
    assert page.get_by_role("link", name="back to live").get_attribute("href") == "?tab=incidents&period=hour"


def test_all_tabs_and_the_drawings_are_printed(browser, served, path):
    page = open_page(browser, f"{served}/paths/{path.pk}/?period=hour", "dark")
    page.wait_for_function(DRAWN)
    page.emulate_media(media="print")

    assert page.locator(".tab-panel:visible").count() == 6
    assert page.locator(".smoke-drawn").is_visible()
    assert not page.locator("[data-chart=rtt-spec] canvas").is_visible()
    assert wrong_for_readers(page, "color-contrast") == []


def test_charts_are_as_wide_as_the_paper_while_printing(browser, served, path):
    page = open_page(browser, f"{served}/paths/{path.pk}/?period=hour")
    page.wait_for_function(DRAWN)
    width = "document.querySelector('[data-chart=rtt-spec] canvas').clientWidth"
    before = page.evaluate(width)

    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function(f"{width} <= {A4_PX}")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.wait_for_function(f"{width} === {before}")

    assert before > A4_PX
    assert page.said == []


def test_the_figures_are_of_the_step_under_the_pointer(browser, served, path):
    page = open_page(browser, f"{served}/paths/{path.pk}/?period=hour")
    page.wait_for_function(DRAWN)
    loss = page.locator("#figures dt:text-is('loss') + dd")
    of_period = page.locator("#figures").inner_text()
    box = page.locator("[data-chart=rtt-spec] canvas").bounding_box()

    page.mouse.move(box["x"] + 0.93 * box["width"], box["y"] + 0.3 * box["height"])  # in the incident: 2 of 10 lost
    expect(loss).to_have_text("20%")
    of_step = page.locator("#figures [data-step=t]").inner_text()
    page.mouse.move(0, 0)
    expect(loss).not_to_have_text("20%")

    at = datetime.strptime(of_step, "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
    assert timedelta() < timezone.now() - at < 12 * MINUTE
    assert page.locator("#figures").inner_text() == of_period
    assert page.said == []


@pytest.mark.parametrize("screen", SCREENS)
def test_the_page_fits_and_is_accessible(browser, served, path, screen):
    page = open_page(browser, f"{served}/paths/{path.pk}/?period=hour", screen)
    page.wait_for_function(DRAWN)
    shot(page, f"path-{screen}")

    assert wrong_for_readers(page) == []
    assert too_wide(page) == []
    assert page.evaluate(CUT_OFF) == []
    assert page.said == []


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1440, 900)])
def test_incident_tiles_and_both_charts_are_on_one_screen(browser, served, path, width, height):
    context = browser.new_context(viewport={"width": width, "height": height})
    page = context.new_page()
    page.goto(f"{served}/paths/{path.pk}/?period=hour")
    # That the alert rules do not run in this test is a banner of its own.
    page.evaluate("() => document.getElementById('trouble').remove()")

    order = page.evaluate(
        "() => ['#alarm p', '.tiles', '.smoke-chart', '.throughput-chart'].map((one) => {"
        " const box = document.querySelector(one).getBoundingClientRect(); return [box.top, box.bottom]; })"
    )

    assert order == sorted(order)
    assert order[-1][1] <= height


def test_the_charts_of_directions_fit_each_screen(browser, served, path):
    now = timezone.now().replace(second=0, microsecond=0)
    results = [
        stamp_burst(
            at=now - minute * MINUTE,
            sent=60,
            forward_lost=6 if minute < 10 else 0,
            reverse_lost=int(minute == 33),
            forward_ms=21.0 if minute > 25 else 33.0,
        )
        for minute in (*range(59, 45, -1), *range(40, 0, -1))
    ]
    rows = [delivered_stamp(path, result, number) for number, result in enumerate(results, 1)]
    assert store(path.source.site_id, batch(*rows), timezone.now()).refused == ()
    roll_up(timezone.now())
    for screen in SCREENS:
        page = open_page(browser, f"{served}/paths/{path.pk}/?period=hour&tab=directions", screen)
        page.wait_for_function(DRAWN)
        shot(page, f"path-directions-{screen}")

        assert page.get_by_role("img", name="Loss by direction of slac to cern").is_visible(), screen
        assert page.get_by_role("img", name="One-way delay of slac to cern").is_visible(), screen
        assert page.locator(".directions-drawn .forward-bar").count() == 1, screen
        assert too_wide(page) == [], screen
        assert page.evaluate(CUT_OFF) == [], screen
        assert wrong_for_readers(page) == [], screen
        assert page.said == [], screen


def test_a_delay_that_the_clocks_hardly_bound_fits_its_tile(browser, served, path):
    now = timezone.now().replace(second=0, microsecond=0)
    results = [
        stamp_burst(
            at=now - minute * MINUTE, sent=60, forward_ms=51.0, reverse_ms=51.0, rtts_ms=(102.4,) * 60,
            offset_ms=(-50.8, 51.3),
        )
        for minute in range(59, 0, -1)
    ]  # fmt: skip
    rows = [delivered_stamp(path, result, number) for number, result in enumerate(results, 1)]
    assert store(path.source.site_id, batch(*rows), timezone.now()).refused == ()
    roll_up(timezone.now())
    for screen in SCREENS:
        page = open_page(browser, f"{served}/paths/{path.pk}/?period=hour", screen)
        page.wait_for_function(DRAWN)
        shot(page, f"path-loose-delay-{screen}")

        tile = page.locator(".tiles div:has-text('delay to cern')").first.text_content()
        assert lacks(tile, "not known", "the clocks allow", " to 102.") == [], screen
        assert page.evaluate(CUT_OFF) == [], screen
        assert too_wide(page) == [], screen


@pytest.mark.parametrize("screen", ["desktop", "phone"])
def test_streams_and_settings_of_hosts_fit_the_screen(browser, served, path, screen):
    """The settings of both hosts are folded away; what changed and the slow stream are not."""
    at = timezone.now().replace(microsecond=0) - 10 * MINUTE
    before, after, sender = (
        StoredInventory.objects.create(digest=name.encode(), inventory=inventory, last_at=at)
        for name, inventory in (
            ("before", {"mtu_bytes": 1500, "sysctls": {"net.core.rmem_max": "6291456"}}),
            ("after", {"mtu_bytes": 1500, "sysctls": {"net.core.rmem_max": "67108864"}}),
            (
                "sender",
                {
                    "cpu_model": "AMD EPYC 9354P 32-Core Processor",
                    "interface": "enp65s0f0np0",
                    "speed_bps": 1e11,
                    "mtu_bytes": 9000,
                    "offloads": {"generic-segmentation-offload": True, "large-receive-offload": False},
                    "sysctls": {"net.ipv4.tcp_rmem": "4096 131072 536870912"},
                },
            ),
        )
    )
    streams = [
        {
            "throughput_bps": rate,
            "duration_s": 10.0,
            "retransmits": 3,
            "steps_bps": [round(rate * share) for share in (0.8, 1.2, 1.1, 0.9)],
        }
        for rate in (9e9, 9.1e9, 8.8e9, 1.2e9)
    ]
    for minutes, receiver, transfer in ((30, before, None), (0, after, {"streams": streams})):
        throughput(
            path,
            at - minutes * MINUTE,
            28.1e9,
            streams=4,
            tool="iperf 3.12",
            transfer=transfer,
            sender_inventory_id=sender.pk,
            receiver_inventory_id=receiver.pk,
        )

    told = at.isoformat().replace("+", "%2B")
    page = open_page(browser, f"{served}/paths/{path.pk}/?period=hour&tab=tests&test={told}", screen)
    shown = page.locator("#transfer-facts")

    text = shown.inner_text()
    assert "receiver: net.core.rmem_max 6.29 MB → 67.1 MB since" in text
    assert "slow: 13.5% of the median" in text
    assert "AMD EPYC" not in text
    shown.locator("#hosts summary").click()
    assert "AMD EPYC 9354P 32-Core Processor" in shown.inner_text()
    shot(page, f"path-hosts-{screen}")
    assert too_wide(page) == []

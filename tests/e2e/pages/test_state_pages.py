"""The state of the mesh, the wall screen and the status page in a real browser: they fit, stay current, and never show
old data as the present."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.utils import timezone

from monitor.alerts.models import Incident
from monitor.mesh.models import Path
from monitor.web.pages.status import view as status_view
from monitor.web.pages.wall import view as wall_view
from tests.db.alert_rows import make_bursts, make_mesh
from tests.db.incident_rows import MINUTE, RULE, lossy
from tests.e2e.pages import screens
from tests.e2e.pages.screens import SCREENS, open_page, refreshed, shot
from tests.e2e.visits import wrong_for_readers

pytestmark = pytest.mark.django_db(transaction=True)
NAMES = ["slac", "cern", "fnal", "ornl", "bnl"]
WALLS = {"wall-hd": (1920, 1080, "light"), "wall-4k": (3840, 2160, "light")}


BESIDE_ITS_CELL = """() => [...document.querySelectorAll(".wall-grid text:not(.name)")]
    .filter((text) => text.getBBox().width > 71).map((text) => text.textContent)"""
"""Figures wider than their cell, in the units of the drawing."""


def now() -> datetime:
    return timezone.now().replace(microsecond=0)


@pytest.fixture
def paths():
    at = now()
    paths = make_mesh(NAMES, at - timedelta(days=30), loss=RULE)
    for name, path in paths.items():
        if {"slac", "cern"} != set(name.split(" → ")):
            make_bursts(path, [0] * 130, at - 130 * MINUTE)
    lossy(paths["slac → cern"], at)
    return paths


@pytest.fixture
def public(settings):
    settings.PUBLIC_STATUS = True
    status_view.forget()
    yield
    status_view.forget()


def scrolls(page) -> bool:
    return page.evaluate(
        "() => document.documentElement.scrollWidth > innerWidth || document.documentElement.scrollHeight > innerHeight"
    )


def test_the_wall_fits_its_screen_and_is_dark(browser, served, paths, monkeypatch):
    monkeypatch.setattr(screens, "SCREENS", SCREENS | WALLS)
    for screen in WALLS:
        page = open_page(browser, f"{served}/?wall=1", screen)
        shot(page, screen)

        assert "1 of 20 paths has a problem" in page.locator("h1").inner_text()
        assert not scrolls(page), screen
        assert page.locator(".wall-grid").bounding_box()["height"] > 0.5 * WALLS[screen][1]
        assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(16, 22, 28)"
        assert page.locator("[data-incident]").count() == 1
        assert page.locator("a, button, nav").count() == 0
        assert wrong_for_readers(page) == []
        assert page.said == []
        page.goto(f"{served}/?wall=1&metric=rtt")
        shot(page, f"{screen}-rtt")
        assert page.locator(".wall-grid text", has_text="▲").count() == 1
        assert page.evaluate(BESIDE_ITS_CELL) == []
    page.goto(f"{served}/?wall=1&theme=light")
    shot(page, "wall-light")
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(246, 248, 249)"
    assert wrong_for_readers(page) == []


def test_on_a_narrow_screen_incidents_of_the_wall_are_below_the_grid(browser, served, paths):
    page = open_page(browser, f"{served}/?wall=1", "phone")
    shot(page, "wall-phone")

    grid, incidents = (page.locator(part).bounding_box() for part in (".wall-grid", ".wall-incidents"))
    assert incidents["y"] >= grid["y"] + grid["height"]
    assert incidents["width"] > 0.9 * SCREENS["phone"][0]
    assert incidents["y"] < SCREENS["phone"][1] - 100
    assert not scrolls(page)


def test_the_wall_refreshes_and_keeps_nothing(browser, served, paths, monkeypatch):
    monkeypatch.setattr(wall_view, "EVERY_S", 0.05)
    page = open_page(browser, f"{served}/?wall=1")
    page.evaluate("() => { window.kept = 'since the beginning'; }")
    session = page.context.new_cdp_session(page)

    def held() -> tuple[int, float]:
        """Nodes and bytes; the least of ten counts, since a refresh in progress has the page twice."""
        counts = []
        for _ in range(10):
            session.send("HeapProfiler.collectGarbage")
            nodes = session.send("Memory.getDOMCounters")["nodes"]
            counts.append((nodes, session.send("Runtime.getHeapUsage")["usedSize"]))
        return min(counts)

    def refresh(times: int) -> None:
        page.evaluate("() => { window.refreshes = 0; }")
        page.wait_for_function("(times) => window.refreshes >= times", arg=times, polling=200)

    page.evaluate(
        "() => new MutationObserver(() => { window.refreshes += 1; })"
        ".observe(document.getElementById('wall'), { childList: true })"
    )
    refresh(15)
    nodes, bytes_used = held()
    refresh(30)
    nodes_after, bytes_after = held()
    Incident.objects.update(severity="critical")
    page.wait_for_selector("li.critical")

    assert page.evaluate("() => window.kept") == "since the beginning", "the page was loaded again"
    assert nodes_after <= nodes + 10
    assert bytes_after < 1.2 * bytes_used
    assert page.said == []


def test_the_wall_says_that_its_state_is_old(browser, served, paths, monkeypatch):
    monkeypatch.setattr(wall_view, "EVERY_S", 0.5)
    page = open_page(browser, f"{served}/?wall=1")
    page.context.set_offline(True)
    page.wait_for_selector("body.not-current")
    said = page.locator("#wall-unreachable").inner_text()
    shot(page, "wall-unreachable")
    page.context.set_offline(False)
    page.wait_for_selector("body:not(.not-current)")
    assert said.startswith("NOT CURRENT: the centre does not answer. The screen shows the state of")
    assert page.locator("#wall-unreachable").inner_text() == ""

    # An answer that is no newer, as of a cache, and one that never comes.
    old = page.evaluate("() => fetch(location.href).then((answer) => answer.text())")
    page.route("**/?wall=1", lambda route: route.fulfill(body=old, content_type="text/html"))
    page.wait_for_selector("body.not-current")
    assert "stands still" in page.locator("#wall-unreachable").inner_text()
    page.unroute("**/?wall=1")
    page.wait_for_selector("body:not(.not-current)")
    page.route("**/?wall=1", lambda route: None)
    page.wait_for_selector("body.not-current")


def test_the_wall_shows_stale_work_of_the_centre(browser, served, paths):
    at = now() - 10 * MINUTE
    with connection.cursor() as cursor:
        cursor.execute("UPDATE last_run SET at = %s", [at])
    page = open_page(browser, f"{served}/?wall=1")

    assert page.locator("[data-stale=evaluation]").is_visible()
    assert f"{at:%H:%M} UTC" in page.locator("[data-stale=evaluation]").inner_text()
    assert "State unknown" in page.locator("h1").inner_text()
    assert not scrolls(page)
    shot(page, "wall-stale")


@pytest.mark.parametrize("screen", SCREENS)
def test_pages_with_the_state_fit_and_are_accessible(browser, served, paths, public, screen):
    page = open_page(browser, f"{served}/", screen)

    for name, address in {"grid": "/", "map": "/map/", "incidents": "/incidents/", "sites": "/sites/",
                          "throughput": "/throughput/", "status": "/status/"}.items():  # fmt: skip
        page.goto(served + address)
        shot(page, f"state-{name}-{screen}")
        assert wrong_for_readers(page) == [], name
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), f"{name} is too wide"
    assert page.said == []


def test_the_sentence_and_the_title_follow_the_state(browser, served, paths):
    page = open_page(browser, f"{served}/sites/")
    before = page.title()
    Path.objects.filter(source__site__name="bnl").update(retired_at=now())
    refreshed(page)

    assert "1 of 20 paths" in before
    assert "1 of 16 paths" in page.title()
    assert "1 of 16 paths" in page.locator("#mesh-state").inner_text()

"""The page of routes in a browser: the graph filters and opens, the slider goes back in time, on every screen."""

from datetime import timedelta

import pytest
from django.utils import timezone

from monitor.alerts.models import Incident, IncidentPath
from monitor.mesh.models import Measurement
from tests.db.pages_mesh import MINUTE, make_mesh
from tests.db.route_mesh import COGENT, GEANT, SILENT, campus, cogent, over, trace_mesh, trace_path
from tests.e2e.pages.screens import SCREENS, logged_in, shot
from tests.e2e.visits import too_wide, wrong_for_readers

pytestmark = pytest.mark.django_db(transaction=True)
SITES = ("bern", "cern", "desy", "fnal", "kek", "ornl", "slac", "uct")


@pytest.fixture
def now():
    return timezone.now().replace(microsecond=0)


@pytest.fixture
def traced(now):
    """Eight sites; those in America moved to Cogent an hour ago, and lose packets there; silent hops on two paths."""
    paths = make_mesh(SITES, now - timedelta(days=2))
    Measurement.objects.update(started_at=now - timedelta(days=2))
    trace_mesh(paths, now)
    incident = Incident.objects.create(rule="loss", cause="Cogent", opened_at=now - 50 * MINUTE, summary="Loss")
    for source, destination in [("slac", "cern"), ("slac", "desy"), ("fnal", "cern")]:
        path = paths[source, destination]
        trace_path(path, now - 60 * MINUTE, cogent(path))
        trace_path(path, now - 2 * MINUTE, cogent(path))
        IncidentPath.objects.create(
            incident=incident, path=path, rule="loss", sentence="loss", figures={}, since=now - 50 * MINUTE,
            added_at=now - 50 * MINUTE,
        )  # fmt: skip
    for source in ("kek", "uct"):
        path = paths[source, "bern"]
        trace_path(path, now - 2 * MINUTE, over(path, "198.18.1.7", SILENT, "198.18.1.8"))
    unfinished = paths["ornl", "kek"]
    trace_path(unfinished, now - 2 * MINUTE, [campus(unfinished.source), "198.18.1.7"], reached=False)
    return paths


def box(page, label):
    return page.locator(f'.route-graph .part > a:first-child[aria-label^="{label}"]')


def faults(page):
    return wrong_for_readers(page), too_wide(page), page.said


@pytest.mark.parametrize("screen", SCREENS)
def test_the_graph_filters_opens_and_goes_back_in_time(browser, served, traced, screen):
    page = logged_in(browser, served, "/routes/", screen)
    shot(page, f"routes-{screen}")
    assert faults(page) == ([], [], [])
    assert "3 of 3 paths" in box(page, f"AS {COGENT}").get_attribute("aria-label")

    box(page, f"AS {COGENT}").click()
    page.wait_for_url(f"**as={COGENT}")
    shot(page, f"routes-filtered-{screen}")
    assert page.locator('th a[href^="/paths/"]').count() == 3
    page.get_by_label("all, not only AS").click()
    page.wait_for_url(lambda address: "as=" not in address)

    page.get_by_label(f"Open AS {GEANT}", exact=False).first.click()
    page.wait_for_url("**open=**")
    shot(page, f"routes-opened-{screen}")
    assert page.locator(".route-graph .silent").count() == 2
    assert faults(page) == ([], [], [])

    page.goto(f"{served}/routes/")
    slider = page.locator("#slider input[type=range]")
    slider.fill(str(int(slider.get_attribute("max")) - 2 * 3600))
    page.wait_for_url("**at=**")
    shot(page, f"routes-before-{screen}")
    assert box(page, f"AS {COGENT}").count() == 0
    page.get_by_text("later change →").click()
    page.wait_for_url("**at=**Z*")
    assert box(page, f"AS {COGENT}").count() == 1
    assert page.said == []

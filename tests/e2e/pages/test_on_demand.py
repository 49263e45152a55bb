""" "Test this path now" in a real browser: the replies appear while they arrive, for the eye and for screen readers."""

from __future__ import annotations

import pytest
from django.utils import timezone

from monitor.mesh.models import PingRun, Site
from monitor.mesh.schedule import requests
from probes.contract import Outcome
from probes.site.wire import OnDemandPingReport
from tests.db.incident_rows import watched
from tests.db.pages_mesh import throughput
from tests.e2e.pages.screens import SCREENS, logged_in, open_page, shot
from tests.e2e.visits import wrong_for_readers

pytestmark = pytest.mark.django_db(transaction=True)
RTTS_MS = (151.2, 151.9, 150.8, None, 152.4, 151.1, 163.0, 151.3, 151.2, 150.9)


@pytest.fixture
def paths():
    paths = watched()
    Site.objects.update(has_agent=True)
    return paths


def report(path, *rtts_ms, **fields):
    """What the agent at the source of a path reports."""
    site = path.source.site
    now = timezone.now()
    requests.hand_out_pings(site.pk, now)
    run = PingRun.objects.get(path=path, ended_at=None)
    requests.record(site.pk, OnDemandPingReport(run_id=run.pk, started_at=now, rtts_ms=rtts_ms, **fields), now)


def test_replies_appear_while_they_arrive(browser, served, paths):
    there, back = paths["slac → cern"], paths["cern → slac"]
    throughput(there, timezone.now(), 94e6)
    page = logged_in(browser, served, f"/paths/{there.pk}/")
    shot(page, "on-demand-before")
    page.get_by_role("button", name="Test this path now").click()
    page.wait_for_selector("#test-now-progress [data-running]")
    page.evaluate("() => { window.kept = 'since the request'; }")
    assert "Waiting for the agent of slac" in page.locator("#test-now-progress").inner_text()

    report(there, *RTTS_MS[:8], None, awaited=(8,))
    page.wait_for_selector(".direction:first-child .reply:nth-of-type(8)")
    counts = {
        kind: page.locator(f".direction:first-child .{kind}").count() for kind in ("reply", "lost", "awaited", "unsent")
    }
    assert counts == {"reply": 7, "lost": 1, "awaited": 1, "unsent": 11}
    shot(page, "on-demand-running")
    assert wrong_for_readers(page) == []
    report(there, *RTTS_MS, *RTTS_MS, outcome=Outcome.MEASURED)
    report(back, detail="ping.min_spacing_s: 0.2 s between packets", outcome=Outcome.NOT_PERMITTED)
    page.wait_for_selector("#test-now-progress:not(:has([data-running]))")

    said = page.locator("#test-now-announcement").inner_text()
    assert "slac → cern: 20 of 20 sent, 2 lost (10%)" in said
    assert "cern → slac: not permitted: ping.min_spacing_s" in said
    assert page.evaluate("() => window.kept") == "since the request", "the page was loaded again"
    assert page.said == []


@pytest.mark.parametrize("screen", SCREENS)
def test_the_replies_fit_the_screen_with_and_without_scripts(browser, served, paths, screen):
    there = paths["slac → cern"]
    requests.ask_pings(there, by="les", now=timezone.now())
    report(there, *RTTS_MS, outcome=Outcome.MEASURED)
    report(paths["cern → slac"], detail="ping.min_spacing_s: 0.2 s between packets", outcome=Outcome.NOT_PERMITTED)

    if screen != "desktop":
        page = logged_in(browser, served, f"/paths/{there.pk}/", screen)
        shot(page, f"on-demand-after-{screen}")
        assert wrong_for_readers(page) == []
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        return
    page = open_page(browser, f"{served}/paths/{there.pk}/", java_script_enabled=False)

    assert page.locator(".direction:first-child .reply").count() == 9
    assert "10 of 20 sent, 1 lost (10%)" in page.locator("#test-now-progress").inner_text()

"""Request and response, slow start after idle and aggregate tests on demand, on every screen."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from monitor.archive.models import RequestResponseResult
from monitor.mesh.kinds.throughput import ThroughputSettings
from monitor.mesh.models import Test as MeshTest
from monitor.mesh.schedule.on_demand import AggregateSettings, ask_aggregate
from probes.contract import Outcome
from probes.idle_restart.spec import IdleRestartRun
from tests.db.any_batch import idle_restart
from tests.db.incident_rows import watched
from tests.db.mesh_of_three import batch, delivered
from tests.db.pages_mesh import MINUTE, burst
from tests.deliveries import store
from tests.e2e.pages.screens import SCREENS, logged_in, shot
from tests.e2e.pages.test_every_page_fits import CUT_OFF
from tests.e2e.visits import DRAWN, too_wide, wrong_for_readers

pytestmark = pytest.mark.django_db(transaction=True)
BUSY = "the server of the other end served somebody else until the end of the slot"


@pytest.fixture
def measured():
    """A path with runs of both kinds, measured and not."""
    path, now = watched()["slac → cern"], timezone.now().replace(microsecond=0)
    burst(path, now - 10 * MINUTE, 20.0, 21.0)
    RequestResponseResult.objects.bulk_create(
        RequestResponseResult(
            path_id=path.pk, measured_at=now - (5 * number + 1) * MINUTE, test="blocks",
            outcome="measured" if number != 2 else "busy", detail=None if number != 2 else BUSY, request_bytes=100,
            response_bytes=65_536, transactions=100, latencies_ms=[], median_ms=151.2 + number,
            minimum_ms=150.9, p95_ms=162.4 + number, p99_ms=431.7, maximum_ms=1203.5, transactions_per_s=6.4,
            payload_bytes_per_s=4.2e5, connect_ms=151.0, first_ms=453.2, after_idle_ms=456.1, retransmits=3,
            far_retransmits=None, during_test=False,
        )
        for number in range(12)
    )  # fmt: skip
    refused = IdleRestartRun(
        target="cern",
        address=None,
        family=4,
        started_at=now - timedelta(minutes=20),
        outcome=Outcome.REFUSED,
        detail=BUSY,
    )
    runs = (
        idle_restart(now - 15 * MINUTE),
        refused,
        idle_restart(now - 30 * MINUTE, is_steady=False),
    )
    results = [delivered(path, run, number) for number, run in enumerate(runs, 1)]
    assert store(path.source.site_id, batch(*results), now).refused == ()
    return path


@pytest.fixture
def requested():
    """An aggregate test of mesh.toml, and another requested a moment ago."""
    watched()
    hosts = {"shape": "many-to-one", "senders": ["slac", "fnal"], "receivers": ["cern"]}
    MeshTest.objects.create(
        name="into-cern", kind="aggregate", every_s=3600, parameters={**ThroughputSettings().parameters, **hosts}
    )
    settings = AggregateSettings("many-to-one", ("slac", "fnal"), ("cern",), ThroughputSettings())
    for _ in range(2):
        ask_aggregate(settings, by="les", now=timezone.now() + timedelta(seconds=60))


def faults(page, screen):
    rules = ("target-size", "scrollable-region-focusable") if screen == "phone" else ("color-contrast",)
    return [*wrong_for_readers(page, *rules), *page.evaluate(CUT_OFF), *too_wide(page), *page.said]


def test_panels_of_transfers_fit_every_screen(browser, served, measured):
    for screen in SCREENS:
        page = logged_in(browser, served, f"/paths/{measured.pk}/?period=hour&tab=tests", screen)
        page.wait_for_function(DRAWN)
        page.get_by_role("img", name="Median and 95th percentile").scroll_into_view_if_needed()
        page.locator("[data-chart=response-latency-spec] canvas").wait_for()
        shot(page, f"path-transfers-{screen}")

        assert "453.2" in page.locator("#responses-list").inner_text(), screen
        assert "Cannot tell" in page.locator("#idle-restart-list").inner_text(), screen
        assert faults(page, screen) == [], screen


def test_aggregate_tests_on_demand_fit_every_screen(browser, served, requested):
    for screen in SCREENS:
        page = logged_in(browser, served, "/aggregates/", screen)
        page.get_by_text("Other hosts").click()
        shot(page, f"aggregates-now-{screen}")

        assert page.get_by_role("button", name="Test into-cern now").count() == 1, screen
        assert page.get_by_role("button", name="Cancel").count() == 2, screen
        assert "slac, fnal → cern" in page.locator("#test-now-progress").inner_text(), screen
        assert faults(page, screen) == [], screen

"""The use of links on the pages of a path and a site, with the annotations of the site, on every screen."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from django.utils import timezone

from monitor.alerts.incidents.actions import QuietScope
from monitor.alerts.incidents.annotations import annotate
from monitor.archive.models import InterfaceResult, InterfaceWeek
from tests.db.incident_rows import watched
from tests.db.pages_mesh import burst
from tests.e2e.pages.screens import SCREENS, logged_in, shot
from tests.e2e.visits import DRAWN, too_wide, wrong_for_readers

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def filling():
    """A path whose link fills, with readings of a day and half a year of weeks; an annotation of its site."""
    path, now = watched()["slac → cern"], timezone.now().replace(microsecond=0)
    burst(path, now - timedelta(minutes=10), 20.0, 21.0)
    random, monday = np.random.default_rng(1), now.date() - timedelta(days=now.weekday())
    InterfaceWeek.objects.bulk_create(
        InterfaceWeek(
            path_id=path.pk, test="uplink", week=monday - timedelta(weeks=26 - number), is_dirty=False,
            five_minutes=2016, in_p95_bps=2e8, out_p95_bps=4e8 + 1.6e7 * number + random.normal(0, 2e7), speed_bps=1e9,
        )
        for number in range(26)
    )  # fmt: skip
    InterfaceResult.objects.bulk_create(
        InterfaceResult(
            path_id=path.pk, measured_at=now - timedelta(minutes=5 * number, seconds=9), test="uplink",
            outcome="measured", router="192.0.2.1", interface="xe-0/0/1", alias="transit to the east", speed_bps=1e9,
            interval_s=60.0, in_bps=2e8 * random.gamma(20, 0.05), out_bps=7e8 * random.gamma(20, 0.05), in_errors=0,
            out_errors=0, in_drops=0, out_drops=1, during_test=False,
        )
        for number in range(288)
    )  # fmt: skip
    annotate(QuietScope(site=path.source.site), now - timedelta(days=2), "router replaced", "eva", now)
    return path


def test_the_use_of_a_link_is_charted_on_every_screen(browser, served, filling):
    for screen in SCREENS:
        page = logged_in(browser, served, f"/paths/{filling.pk}/?period=hour&tab=tests", screen)
        page.wait_for_function(DRAWN)
        for name in ("Bit rate of the interface", "95th percentile of each week"):
            chart = page.get_by_role("img", name=name)
            chart.scroll_into_view_if_needed()
            chart.locator("canvas, svg").first.wait_for()
        shot(page, f"path-links-{screen}")

        assert "Full in about" in page.locator("#link-1-facts").inner_text(), screen
        assert too_wide(page) == [], screen
        assert wrong_for_readers(page) == [], screen
        assert page.said == [], screen


def test_a_site_lists_its_links_and_annotations_on_every_screen(browser, served, filling):
    for screen in SCREENS:
        page = logged_in(browser, served, f"/sites/{filling.source.site.name}/", screen)
        shot(page, f"site-links-{screen}")

        assert "xe-0/0/1 (transit to the east) of 192.0.2.1" in page.locator("#link-list").inner_text(), screen
        assert "router replaced" in page.locator("#annotation-list").inner_text(), screen
        assert page.get_by_role("button", name="Add annotation").count() == 1, screen
        assert too_wide(page) == [], screen
        assert wrong_for_readers(page) == [], screen
        assert page.said == [], screen

"""The last reply before an outage, and the first after it, of a site that is down for long enough to be unreachable."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

import pytest

from monitor.alerts.models import Incident
from monitor.mesh.models import Mesh
from tests.db.alert_rows import only
from tests.db.finding_levels import level_of
from tests.db.site_outage_rows import DOWN, SiteOutage, evaluate_at

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
UP = DOWN + timedelta(seconds=243.5)
SPACING_S, LATE_S = 1.5, 0.5
"""Packets of a size follow each other by a second, some are sent this much later."""


def seconds_after(text, words, truth):
    """The times of the day after these words, in seconds from the truth."""
    clocks = re.findall(rf"{words} (?:\d{{4}}-\d\d-\d\d )?(\d\d:\d\d:\d\d)", text)
    at = [datetime.combine(truth.date(), time.fromisoformat(clock), UTC) for clock in clocks]
    return [(moment - truth).total_seconds() for moment in at]


@pytest.mark.parametrize("rules", [("loss", "unreachable"), ("unreachable",)], ids=" and ".join)
def test_an_outage_keeps_its_times(rules):
    """The rule has the begin of a burst, whose later packets were answered."""
    rows, titles = SiteOutage(UP, lambda name, at: False).plant(400), []
    settings = {"loss": {"above_ratio": 0.01, "window_s": 120}, "unreachable": {}}
    Mesh.objects.update(alerts=only(**{name: settings[name] for name in rules}))

    for _ in evaluate_at(rows, (-20, 40, 200, 220, 240, 260, 270, 300, 380, 400)):
        titles += Incident.objects.filter(closed_at=None).values_list("title", flat=True)

    (incident,) = Incident.objects.all()
    assert incident.closed_at is not None
    last_replies = [at for title in titles for at in seconds_after(title, "dead,? (?:since|from)", DOWN)]
    outages = [level_of(row) for row in incident.paths.filter(rule="unreachable")]
    last_replies += [(of.last_reply - DOWN).total_seconds() for of in outages]
    assert len(last_replies) >= len(outages) == 8
    assert all(-SPACING_S <= at_s <= LATE_S for at_s in last_replies), (titles, last_replies)
    first_replies = [(of.first_reply - UP).total_seconds() for of in outages]
    assert all(-1 <= at_s <= SPACING_S for at_s in first_replies), incident.closing

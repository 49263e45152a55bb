"""A loss on a path whose outage was another incident, which is resolved: the outage is not told again."""

from __future__ import annotations

import pytest

from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.stated import Fault
from monitor.alerts.evidence.words import headline
from monitor.alerts.incidents import queries
from monitor.alerts.incidents.own_track import peak_of
from monitor.alerts.models import Incident
from tests.db.planted_faults import Planted, at, between, look_at, plant, site

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]

DOWN_S, LOSS_S = 120.0, 480.0
RULES = {"loss": {"above_ratio": 0.01, "window_s": 120}, "unreachable": {}}
"""As in the lab."""


def test_an_outage_that_was_resolved_is_not_part_of_a_later_loss():
    """cern is down for 120 s; six minutes later cern ↔ slac loses 40% for 130 s."""
    faults = [
        Planted(site("cern"), 0.0, DOWN_S, lost_ratio=1.0),
        Planted(between("cern", "slac"), LOSS_S, 130.0, lost_ratio=0.4),
    ]
    _, rows = plant(faults, LOSS_S + 330, **RULES)

    causes = 0
    for _, now, _ in look_at(rows, [60, 100, *range(180, int(LOSS_S) + 320, 20)]):
        for pk in Incident.objects.filter(opened_at__gt=at(LOSS_S)).values_list("pk", flat=True):
            incident = queries.incident_with_paths(pk)
            title, facts = headline(incident), evidence(incident, now)
            assert not [word for word in ("dead", "answers", "flap") if word in title], title
            peaks = [peak_of(row) for row in incident.paths.all()]
            assert all(peak < 0.7 for peak in peaks), peaks
            if facts.gathered_at is not None:
                causes += 1
                assert facts.cause.fault is Fault.LOSS, facts.cause
    assert Incident.objects.count() == 2
    assert causes >= 3

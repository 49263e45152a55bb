"""The severity of a loss and its entry in the history agree with the figure of the title."""

from __future__ import annotations

import re

import pytest

from monitor.alerts.models import HistoryEvent, IncidentTurn
from tests.db.planted_faults import Planted, between, look_at, plant

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]

RULES = {"loss": {"above_ratio": 0.01, "window_s": 300}, "unreachable": {}}
"""As in the lab."""


@pytest.mark.parametrize("seed", [1, 2])
def test_a_loss_above_10_percent_by_its_title_is_critical(seed):
    """30% from the onset on: of the five minutes by which the rule fires it is less than a tenth."""
    _, rows = plant([Planted(between("ornl", "slac"), 0.0, lost_ratio=0.3)], 220, seed, **RULES)

    severities = {}
    for at_s, _, lasting in look_at(rows, range(30, 220, 10)):
        for incident in lasting.values():
            percent = re.search(r"loses (?:about )?([0-9.]+)%", incident.title)
            if percent is not None:
                incident.refresh_from_db()
                severities[at_s] = float(percent[1]), incident.severity

    # The first packets do not prove 10%, though the title has the likeliest loss.
    first_s = min(severities)
    told = [severity for at_s, (percent, severity) in severities.items() if at_s > first_s + 30 and percent > 10.0]
    assert told
    assert set(told) == {"critical"}, severities
    for turn in IncidentTurn.objects.filter(turn=HistoryEvent.WORSENED):
        assert float(re.search(r"loss (?:about )?([0-9.]+)%", turn.note)[1]) > 10.0, turn.note

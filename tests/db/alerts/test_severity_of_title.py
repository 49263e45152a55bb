"""The severity of a loss and its entry in the history: by the figure that the title has at the time."""

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

    titles = {}
    for _, now, lasting in look_at(rows, range(30, 220, 10)):
        for incident in lasting.values():
            titles[now] = incident.title
            least = re.match(r"loss ([0-9.]+)(?: to [0-9.]+)?%", incident.title)
            if least is not None and float(least[1]) > 10.0:
                incident.refresh_from_db()
                assert incident.severity == "critical", incident.title
    assert titles

    for turn in IncidentTurn.objects.filter(turn=HistoryEvent.WORSENED):
        figure = turn.note.partition("loss ")[2]
        assert f"loss {figure}" in titles[turn.at], (turn.note, titles[turn.at])

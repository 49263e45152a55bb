"""The likely cause of a path that flaps is named by what is seen, not as one interruption."""

from __future__ import annotations

import pytest

from monitor.alerts.evidence.evidence import evidence
from tests.db.planted_faults import Planted, between, look_at, plant
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]

RULES = {"loss": {"above_ratio": 0.01, "window_s": 120}, "unreachable": {}, "rtt": {}}
LOOKS_S = range(60, 370, 10)


def causes(outages, looks_s):
    faults = [Planted(between("desy", "ornl"), at_s, lasts_s, lost_ratio=1.0) for at_s, lasts_s in outages]
    _, rows = plant(faults, max(looks_s), 3, **RULES)
    for at_s, now, lasting in look_at(rows, looks_s):
        for incident in lasting.values():
            yield at_s, evidence(incident, now).cause, incident


def test_an_outage_again_and_again_flaps():
    """An outage of 30 s in each minute, six times."""
    told = {at_s: (cause, incident) for at_s, cause, incident in causes([(60.0 * n, 30.0) for n in range(6)], LOOKS_S)}

    for at_s, (cause, _) in told.items():
        # Ten packets a cycle tell an outage, and that it is over, within 30 s.
        begun = sum(60.0 * number + 30.0 <= at_s for number in range(6))
        if begun >= 4:
            assert lacks(cause.sentence, "between desy and ornl", "a link or route", "back") == [], (at_s, cause)
            assert "nterrupted" not in cause.sentence, at_s
    *_, (last, incident) = told.values()
    assert last.sentence.startswith("Flapped" if incident.over_since else "Flaps")
    assert begun == 6


def test_one_outage_does_not_flap():
    told = [cause.sentence for at_s, cause, _ in causes([(0.0, 100.0)], range(60, 100, 10)) if at_s >= 80]

    assert told
    assert all(sentence.startswith("Interrupted between desy and ornl") for sentence in told), told


@pytest.mark.parametrize("offset_s", [0.0, 3.0, 6.0])
def test_no_begin_of_an_outage_is_told_as_a_loss(offset_s):
    """An outage of 20 s each 40 s: the packets without a reply so far are those of an outage."""
    faults = [Planted(between("desy", "ornl"), 40.0 * n + offset_s, 20.0, lost_ratio=1.0) for n in range(7)]
    _, rows = plant(faults, 280.0, 3, **RULES)
    titles = [incident.title for *_, lasting in look_at(rows, range(20, 280, 10)) for incident in lasting.values()]

    assert titles
    assert [title for title in titles if "loses" in title] == []

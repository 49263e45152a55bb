"""The status page has the begin of the present trouble of an open incident, as its title has."""

from __future__ import annotations

import pytest

from monitor.web.pages.status.load import load_status
from tests.db.planted_faults import Planted, at, between, look_at, plant

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]

RULES = {"loss": {"above_ratio": 0.01, "window_s": 120}, "unreachable": {}, "rtt": {}}
PAIR = between("desy", "ornl")
WITHIN_S = 12.0


def begun(faults, looks_s):
    """The only open incident at the last of these times: its begin in seconds after the planted onset, the line
    of the page and the incident."""
    _, rows = plant(faults, looks_s[-1] + 20, 3, **RULES)
    _, now, lasting = list(look_at(rows, looks_s))[-1]
    (public,), (incident,) = load_status(now).open, lasting.values()
    return (public.began_at - at(0)).total_seconds(), public, incident


def test_an_outage_after_a_loss_has_its_own_begin():
    loss, outage = Planted(PAIR, 0.0, 120.0, lost_ratio=0.3), Planted(PAIR, 180.0, lost_ratio=1.0)

    began_s, public, incident = begun([loss, outage], range(60, 270, 10))

    assert public.symptom == "no reply"
    assert abs(began_s - 180.0) <= WITHIN_S
    assert f"dead since {public.began_at:%H:%M:%S} UTC" in incident.title
    assert incident.began_at < at(60)


def test_a_path_that_flaps_does_so_since_its_first_outage():
    outages = [Planted(PAIR, 40.0 * turn, 20.0, lost_ratio=1.0) for turn in range(6)]

    began_s, public, incident = begun(outages, range(60, 260, 10))

    assert abs(began_s) <= WITHIN_S
    assert f"since {public.began_at:%H:%M:%S} UTC" in incident.title


def test_a_loss_that_comes_back_has_its_own_begin():
    losses = [Planted(PAIR, 0.0, 120.0, lost_ratio=0.3), Planted(PAIR, 220.0, lost_ratio=0.3)]

    began_s, public, incident = begun(losses, range(60, 300, 10))

    assert abs(began_s - 220.0) <= 2 * WITHIN_S
    assert f"since {public.began_at:%H:%M:%S} UTC" in incident.title


def test_what_is_over_keeps_its_first_begin():
    _, public, incident = begun([Planted(PAIR, 0.0, 120.0, lost_ratio=0.3)], range(60, 220, 10))

    assert public.over_since is not None
    assert public.began_at == incident.began_at

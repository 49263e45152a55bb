"""The columns of the evidence: no packet of the fault in the baseline, and each packet in a column or said to be left
out."""

from __future__ import annotations

from datetime import timedelta

import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence import gather
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.incidents import queries
from tests.db.alerts.test_short_outage import DOWN, UP, plant
from tests.db.copied_rows import copy_rows
from tests.db.planted_faults import ONSET, Planted, between, look_at
from tests.db.planted_faults import plant as plant_faults

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
RULES = {"loss": {"above_ratio": 0.01, "window_s": 120}, "unreachable": {}, "rtt": {}}
SECOND = timedelta(seconds=1)


def directions_of(facts):
    return [direction for path in facts.paths for direction in (path.there, path.back) if direction is not None]


@pytest.mark.parametrize("seed", [1, 4])
def test_the_packets_of_an_outage_are_all_since_its_onset(seed):
    rows = [burst for arrives_at, burst in plant(seed) if arrives_at < DOWN + timedelta(seconds=57)]
    copy_rows(rows)
    for seconds in (37, 57):
        evaluate(DOWN + timedelta(seconds=seconds))
    (incident,) = queries.lasting_incidents()

    facts = gather.store_facts(incident, DOWN + timedelta(seconds=57))

    for direction in directions_of(facts):
        own = [burst for burst in rows if burst.path_id == direction.path_id]
        before, after = direction.before, direction.after
        assert (before.lost, after.lost) == (0, sum(burst.sent - burst.received for burst in own))
        assert after.sent == after.lost
        assert direction.left_out is None
        assert abs(after.since - DOWN) <= SECOND
        assert abs(after.until - UP) <= SECOND


@pytest.mark.parametrize("fault", [{"delay_ms": 118.0}, {"lost_ratio": 0.3}])
def test_no_packet_of_the_fault_is_in_the_baseline(fault):
    _, rows = plant_faults([Planted(between("cern", "slac"), 0.0, **fault)], 250)
    for _, now, lasting in look_at(rows, range(60, 200, 20)):
        latest = (now, lasting)
    now, lasting = latest
    (incident,) = lasting.values()

    facts = gather.store_facts(incident, now)

    for direction in directions_of(facts):
        before, after = direction.before, direction.after
        assert before.until <= facts.began.earliest
        assert before.rtt_p95_ms < 25.0
        assert before.rtt_max_ms < 100.0
        assert before.lost <= 1
        own = [row for row in rows if row.path_id == direction.path_id and row.measured_at < after.until]
        own = [row for row in own if row.measured_at < now - timedelta(seconds=13)]
        first, last = direction.left_out or (before.until, before.until)
        left_out = sum(row.sent for row in own if first <= row.measured_at < last)
        assert before.sent + after.sent + left_out == sum(row.sent for row in own)


def test_a_path_delivered_later_has_figures_since_the_onset():
    paths, rows = plant_faults([Planted(between("cern", "slac"), 0.0, lost_ratio=0.3)], 300)
    late = paths["slac → cern"].pk
    prompt = [row for row in rows if row.path_id != late or row.measured_at < ONSET - timedelta(seconds=30)]
    for _, now, lasting in look_at(prompt, range(60, 160, 20)):
        latest = (now, lasting)
    now, lasting = latest
    (incident,) = [incident for incident in lasting.values() if "cern ↔ slac" in incident.cause]
    copy_rows(row for row in rows if row not in prompt and row.measured_at < now)

    (direction,) = [side for side in directions_of(evidence(incident, now)) if side.path_id == late]

    assert direction.now.lost > 5
    assert direction.after.lost >= direction.now.lost - 1


def test_a_path_without_newer_data_is_not_called_bad():
    """The agent of the other faulty path delivers nothing any more."""
    faults = [Planted(between(*pair), 0.0, lost_ratio=0.4) for pair in (("cern", "slac"), ("desy", "ornl"))]
    paths, rows = plant_faults(faults, 700, **RULES)
    silent = {paths["desy → ornl"].pk, paths["ornl → desy"].pk}
    delivered = [row for row in rows if row.path_id not in silent or row.measured_at < ONSET + timedelta(seconds=150)]
    told = {}
    for at_s, _, lasting in look_at(delivered, range(100, 700, 60)):
        shares = [share for incident in lasting.values() if "slac" in incident.cause for share in incident.shares]
        told[at_s] = sum(share["bad"] for share in shares)

    assert max(told[at_s] for at_s in (160, 220)) > 0, told
    assert told[640] == 0, told

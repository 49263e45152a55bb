"""The onset of an incident: one on all pages from its detection on, and never before a reply that came in an outage."""

from __future__ import annotations

from datetime import timedelta

import pytest

from monitor.alerts.evidence import words
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.incidents import queries
from monitor.alerts.models import IncidentState
from tests.db.finding_levels import level_of
from tests.db.planted_faults import ONSET, Planted, between, look_at, plant

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]

LOOKS_S = range(20, 200, 10)
RULES = {"loss": {"above_ratio": 0.01, "window_s": 120}, "unreachable": {}, "rtt": {}}
"""As in the lab."""
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("fault", [{"lost_ratio": 0.3}, {"delay_ms": 60.0}, {"lost_ratio": 1.0, "lasts_s": 40.0}])
def test_a_pending_incident_has_the_onset_of_the_open_one(fault):
    _, rows = plant([Planted(between("cern", "slac"), 0.0, **fault)], 250, **RULES)

    onsets = {}
    for _, _, lasting in look_at(rows, LOOKS_S):
        for incident in lasting.values():
            seen = queries.incident_with_paths(incident.pk)
            onsets.setdefault(seen.state, []).append((words.since(seen) - ONSET).total_seconds())

    assert onsets[IncidentState.PENDING], "seen while it was pending"
    assert all(-10.0 <= at_s <= 15.0 for of_state in onsets.values() for at_s in of_state), onsets
    assert len({round(at_s) for of_state in onsets.values() for at_s in of_state}) == 1, onsets


def test_throughput_tests_that_begin_with_a_loss_do_not_put_off_its_onset():
    """They leave one packet of each burst of the first 70 seconds, and of these few are lost, as chance allows; both
    paths of the pair tell the onset together."""
    paths, rows = plant([Planted(between("cern", "slac"), 0.0, lost_ratio=0.2)], 250, **RULES)
    pair = {paths["cern → slac"].pk, paths["slac → cern"].pk}
    loaded = [row for row in rows if row.path_id in pair and 5.0 <= (row.measured_at - ONSET).total_seconds() < 75.0]
    loaded.sort(key=lambda row: row.measured_at)
    for row in loaded:
        is_lost = row in loaded[:2]
        row.sent, row.received, row.rtts_ms = 1, int(not is_lost), [None if is_lost else 20.0]
    assert len(loaded) >= 12

    seen = 0
    for _, now, lasting in look_at(rows, LOOKS_S):
        for incident in lasting.values():
            began = evidence(incident, now).began
            if began is None:
                continue
            seen += 1
            assert began.path in ("cern → slac", "slac → cern")
            assert began.earliest <= ONSET <= began.latest, (began.earliest - ONSET, began.latest - ONSET)
            assert words.since(queries.incident_with_paths(incident.pk)) < ONSET + 15 * SECOND
    assert seen


@pytest.mark.parametrize("seed", range(4))
def test_an_outage_begins_after_its_last_reply_whatever_was_lost_before(seed):
    """A packet lost by chance in the cycle before is none of it."""
    paths, rows = plant([Planted(between("cern", "slac"), 0.0, 45.0, lost_ratio=1.0)], 250, seed, **RULES)
    pair = {paths["cern → slac"].pk, paths["slac → cern"].pk}
    for row in rows:
        is_before = -20.0 < (row.measured_at - ONSET).total_seconds() <= -10.0
        if is_before and row.rtts_ms[4] is not None and row.path_id in pair:
            row.rtts_ms[4], row.received = None, row.received - 1

    told = 0
    for _, now, lasting in look_at(rows, LOOKS_S):
        for incident in lasting.values():
            seen = queries.incident_with_paths(incident.pk)
            levels, facts = [level_of(row) for row in seen.paths.all()], evidence(seen, now)
            if facts.began is None or not all(level and level.first_reply for level in levels):
                continue
            told += 1
            last_reply = max(level.last_reply for level in levels)
            assert last_reply - SECOND <= facts.began.earliest <= facts.began.at <= facts.began.latest
            assert ONSET - SECOND <= words.since(seen) <= ONSET + 2 * SECOND
    assert told

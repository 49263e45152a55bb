"""When a loss ended, as titles, levels and the API say it: one time, soon after the newest lost packet."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

import numpy as np
import pytest

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence import gather
from monitor.alerts.incidents import lifecycle, queries
from monitor.alerts.models import Incident
from monitor.archive.models import Burst, DirectionBurst
from monitor.mesh.models import KindName, Measurement, MeasurementPeriod, Mesh
from monitor.mesh.models import Test as MeshTest
from tests.db.alert_rows import make_mesh, only
from tests.db.copied_rows import copy_rows
from tests.db.finding_levels import level_of
from tests.db.site_outage_rows import burst_of

pytestmark = pytest.mark.django_db
ONSET = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
LASTS_S = 187.3
LOST_RATIO = 0.3
PAIR = ("slac → cern", "cern → slac")
STAMP_S = 4.5
"""From the first of ten packets to the last."""
SPACING_S = 1.0
"""Of the packets of a size."""
LOOKS_S = (60, 120, 180, 200, 210, 220, 230, 240, 270, 280)


def after(seconds):
    return ONSET + timedelta(seconds=seconds)


@pytest.fixture
def paths(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    paths = make_mesh(("slac", "cern", "niit"), after(-1200), loss={"above_ratio": 0.01, "window_s": 120})
    parameters = {"count": 10, "packet_bytes": [100, 1000], "spacing_s": 0.5, "pattern": "even"}
    MeshTest.objects.update(every_s=10, parameters=parameters)
    MeasurementPeriod.objects.update(every_s=10, packet_bytes=[100, 1000])
    return paths


def pings(paths, random):
    """Even cycles of two sizes that take turns, and when the newest lost packet was sent, in seconds after the
    onset."""
    rows, newest_s = [], 0.0
    for name, path in paths.items():
        phase_s = 10 * random.random()
        for cycle_s in np.arange(-1200, 280, 10):
            due_s = cycle_s + phase_s + (np.arange(20) + random.random(20) / 3.0) * 0.5
            lost = (random.random(20) < LOST_RATIO) & (due_s >= 0) & (due_s < LASTS_S) & (name in PAIR)
            newest_s = max([newest_s, *due_s[lost].tolist()])
            for number, size in enumerate((100, 1000)):
                sent_at = [after(at_s) for at_s in due_s[number::2].tolist()]
                rtts = [None if is_lost else 20.0 for is_lost in lost[number::2].tolist()]
                rows.append(burst_of(path, size, sent_at, rtts, [False] * 10))
    return rows, newest_s


def stamp(paths, newest_s):
    """A cycle every ten seconds, two packets lost of each until one that begins after the newest lost ping; when that
    was over."""
    test = MeshTest.objects.create(
        name="oneway", kind=KindName.STAMP, every_s=10, parameters={"count": 10, "packet_bytes": 200, "spacing_s": 0.5}
    )
    rows, last_s = [], newest_s + 0.7
    for number, name in enumerate(PAIR):
        Measurement.objects.create(path=paths[name], test=test, started_at=after(-1200))
        for cycle_s in np.arange(last_s - 1200, 280, 10).tolist():
            lost = [0, 0]
            lost[number] = 2 * (0 <= cycle_s <= last_s + 1e-6)
            rows.append(
                DirectionBurst(
                    path_id=paths[name].pk, measured_at=after(cycle_s), packet_bytes=200, test="oneway",
                    outcome="measured", during_test=False, dscp=0, sent=10, received=10 - sum(lost), undecided=0,
                    forward_lost=lost[0], reverse_lost=lost[1],
                )
            )  # fmt: skip
    return rows, last_s + STAMP_S


def looks(rows):
    """The incident at each time, with what has arrived by then."""
    number = 0
    rows.sort(key=lambda row: row.measured_at)
    for at_s in LOOKS_S:
        arrived = [row for row in rows[number:] if row.measured_at < after(at_s - 12.5)]
        number += len(arrived)
        for kind in (Burst, DirectionBurst):
            copy_rows(row for row in arrived if isinstance(row, kind))
        if at_s == LOOKS_S[-1]:
            Mesh.objects.update(alerts=only())  # the incident is resolved, whatever its rule waits for
        evaluate(after(at_s))
        gather.gather_due(after(at_s))
        if Incident.objects.exists():
            (pk,) = Incident.objects.values_list("pk", flat=True)
            yield queries.incident_with_paths(pk)


def stated(text, words):
    clock = re.search(rf"{words} (?:\d{{4}}-\d\d-\d\d )?(\d\d:\d\d:\d\d)", text)
    return clock and datetime.combine(ONSET.date(), time.fromisoformat(clock[1]), UTC)


@pytest.mark.parametrize("has_stamp", [False, True], ids=["pings", "stamp"])
@pytest.mark.parametrize("seed", range(2))
def test_a_loss_has_one_end_wherever_it_is_stated(paths, client, has_stamp, seed):
    rows, newest_s = pings(paths, np.random.default_rng(seed))
    if has_stamp:
        rows += stamp(paths, newest_s)[0]
    over, closed = {}, None
    for incident in looks(rows):
        if incident.closed_at is None and incident.over_since is not None:
            over[incident.over_since] = stated(incident.title, "since")
            assert max(level_of(row).over_since for row in incident.paths.all()) == incident.over_since
            waits = client.get(f"/api/v1/incidents/{incident.pk}", headers={"host": "localhost"}).json()
            assert (datetime.fromisoformat(waits["over_since"]), waits["ended_at"]) == (incident.over_since, None)
        elif incident.closed_at is not None:
            closed = client.get(f"/api/v1/incidents/{incident.pk}", headers={"host": "localhost"}).json()
            assert stated(incident.title, "to") == incident.ended_at.replace(microsecond=0)

    assert closed is not None
    assert closed["over_since"] is None
    ended_at = datetime.fromisoformat(closed["ended_at"])
    assert ended_at in over
    assert {of.replace(microsecond=0): said for of, said in over.items()} == {of: of for of in over.values()}
    for of in over:
        assert -SPACING_S <= (of - after(newest_s)).total_seconds() <= 11.0, (of, newest_s)

"""The view `reporting.path_condition`: it says of each path what `read.load` says, as the role of Grafana reads it."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from django.db import connection

from dashboards.reader import ROLE, grant
from monitor.analysis.segments.stretches import CLEAN, DEAD, LOSSY
from monitor.present import read
from monitor.present.conditions import Condition
from monitor.present.follow import Follower
from monitor.present.loss_tracks import TrackLimits
from monitor.present.track import Signal
from tests.db.alert_rows import make_mesh
from tests.db.copied_rows import copy_rows
from tests.db.planted_faults import ONSET, SITES, Planted, at, between, plant, site
from tests.db.track_rows import delay, segment, store_delays, store_finding, store_track

pytestmark = pytest.mark.django_db
COLUMNS = "path_id, name, source, destination, family, condition, loss_ratio, since, newest_at, onset_at"


def in_view():
    """The rows as the role of Grafana reads them, by ID."""
    with connection.cursor() as cursor:
        grant(cursor, "of the test")
        cursor.execute(f"SET LOCAL ROLE {ROLE}")
        cursor.execute(f"SELECT {COLUMNS} FROM reporting.path_condition")
        rows = {row[0]: row for row in cursor.fetchall()}
        cursor.execute("RESET ROLE")
        return rows


def by_load(paths):
    """The same of what `read.load` returns."""
    ids = {path.pk: path for path in paths.values()}
    return {path_id: row_of(ids[path_id], present) for path_id, present in read.load().items()}


def row_of(path, present):
    source, destination = path.source.site.name, path.destination.site.name
    newest, onset, loss = present.worst.now, present.onset, present.track(Signal.LOSS)
    return (
        path.pk, f"{path.source.name} → {path.destination.name}", source, destination, path.family,
        present.condition.name.lower(), present.loss_ratio, time_of(newest and newest.since.at_s),
        time_of(loss and loss.newest_s), time_of(onset and onset.at_s),
    )  # fmt: skip


def time_of(seconds):
    return datetime.fromtimestamp(seconds, UTC) if seconds and np.isfinite(seconds) else None


def test_the_view_says_what_load_says_of_planted_faults():
    faults = [
        Planted(site("ornl"), 100.0, lost_ratio=1.0),
        Planted(between("cern", "slac"), 0.0, lost_ratio=0.2),
        Planted(between("cern", "desy"), -600.0, 200.0, lost_ratio=0.3),
    ]
    paths, rows = plant(faults, 220.0)
    copy_rows(rows)
    Follower().follow(at(220.0), TrackLimits({path.pk: 0.01 for path in paths.values()}))

    shown = in_view()

    assert shown == by_load(paths)
    assert {row[5] for row in shown.values()} >= {"normal", "bad", "dead"}


@pytest.mark.parametrize("seed", range(5))
def test_the_view_says_what_load_says_of_any_tracks(seed):
    random = np.random.default_rng(seed)
    paths = make_mesh(SITES, ONSET)
    for path in paths.values():
        store_delays(path, random.choice(list(Condition)), delay(0, 1e9), *(delay(1, 2e9), delay(0, 3e9))[: seed % 3])
        if random.random() < 0.5:
            store_finding(path, random.choice([Condition.SUSPECT, Condition.BAD]))
        for size in (0, 100, 1000)[: random.integers(0, 4)]:
            begins_s = ONSET.timestamp() + np.cumsum(random.integers(1, 500, random.integers(0, 6)))
            segments = [
                segment(int(random.choice([CLEAN, LOSSY, DEAD])), begin_s, sent, int(random.integers(0, sent + 1)))
                for begin_s, sent in zip(begins_s.tolist(), random.integers(0, 99, len(begins_s)).tolist(), strict=True)
            ]
            newest_s = float(begins_s[-1]) if len(begins_s) else None
            store_track(path, random.choice(list(Condition)), *segments, packet_bytes=size, newest_s=newest_s)

    assert in_view() == by_load(paths)


def test_every_condition_has_its_word():
    paths = make_mesh(SITES, ONSET)
    for condition, path in zip(Condition, paths.values(), strict=False):
        store_track(path, condition)

    assert sorted(row[5] for row in in_view().values()) == sorted(condition.name.lower() for condition in Condition)


def test_a_retired_path_has_no_condition():
    paths = make_mesh(SITES, ONSET)
    path = paths["cern → slac"]
    store_track(path, Condition.BAD)
    path.retired_at = ONSET
    path.save()

    assert in_view() == {}

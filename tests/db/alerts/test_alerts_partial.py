"""A fault for which only some of the affected paths have alarmed: a single incident with its name, from stored
bursts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.alerts.detect import rtt_progress
from monitor.alerts.detect.sources import StoredSource
from monitor.alerts.evaluate import evaluate
from monitor.alerts.incidents import lifecycle, queries
from monitor.alerts.models import Incident
from monitor.archive.models import Burst
from monitor.archive.queries.for_alerts import recent_round_trips
from tests.db.alert_rows import make_bursts, make_mesh
from tests.db.copied_rows import copy_rows
from tests.facts import lacks

NOW = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SITES = ["anl", "cern", "fnal", "kek", "slac"]
ALARMED = ("cern → slac", "fnal → cern", "kek → cern")

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def confirmed_at_once(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)


def mesh_with(**rules):
    return make_mesh(SITES, NOW - timedelta(days=60), **rules)


def lose(paths, lost_of_path, minutes=10, until=NOW):
    """Bursts of ten packets, a minute apart, on each path. Together they lose `lost_of_path` packets, or none."""
    for name, path in paths.items():
        lost = lost_of_path.get(name, 0)
        make_bursts(
            path, [lost // minutes + (number < lost % minutes) for number in range(minutes)], until - minutes * MINUTE
        )


def of_cern(paths):
    return {name for name in paths if "cern" in name}


def named():
    return {incident.cause: incident.paths.count() for incident in queries.open_incidents()}


def test_three_alarms_and_five_slightly_lossy_paths_are_the_site():
    paths = mesh_with(loss={})
    lose(paths, dict.fromkeys(of_cern(paths), 4) | dict.fromkeys(ALARMED, 20))

    assert evaluate(NOW).opened == 1

    assert named() == {"cern": 3}
    shares = ("cern: 3 of 8 paths", "5 more likely", "all other paths normal (12 paths)")
    assert lacks(Incident.objects.get().summary, *shares) == []


def test_three_alarms_and_normal_paths_are_three_pairs():
    paths = mesh_with(loss={})
    lose(paths, dict.fromkeys(ALARMED, 20))

    evaluate(NOW)

    assert named() == {"cern ↔ slac": 1, "cern ↔ fnal": 1, "cern ↔ kek": 1}


def test_two_alarms_are_no_site_without_other_measurements():
    """All other paths were last answered half an hour ago."""
    paths = mesh_with(loss={})
    for path in paths.values():
        make_bursts(path, [0], NOW - 30 * MINUTE)
    lose({name: paths[name] for name in ALARMED[:2]}, dict.fromkeys(ALARMED[:2], 20))

    evaluate(NOW)

    assert named() == {"cern ↔ slac": 1, "cern ↔ fnal": 1}


def test_an_incident_of_a_pair_is_renamed_when_it_is_the_site():
    paths = mesh_with(loss={})
    lose(paths, dict.fromkeys(ALARMED[:1], 20))
    evaluate(NOW)
    (pair,) = queries.open_incidents()
    assert pair.cause == "cern ↔ slac"

    later = NOW + 10 * MINUTE
    lose(paths, dict.fromkeys(of_cern(paths), 4) | dict.fromkeys(ALARMED, 20), until=later)
    evaluate(later)

    (site,) = queries.open_incidents()
    assert (site.pk, site.cause, site.paths.count()) == (pair.pk, "cern", 3)
    assert [turn.note for turn in site.turns.filter(turn="merged")] == ["cern: was cern ↔ slac"]


def test_a_direction_is_not_called_normal_before_it_is_measured():
    """All pings of cern lose 20%; those in the reverse direction have not arrived since."""
    paths = mesh_with(loss={})
    out = {name: path for name, path in paths.items() if name.startswith("cern")}
    lose(paths, {}, minutes=2, until=NOW - 20 * MINUTE)
    lose(out, dict.fromkeys(out, 20))
    lose({name: path for name, path in paths.items() if "cern" not in name}, {})

    evaluate(NOW)

    (incident,) = queries.open_incidents()
    assert incident.cause == "cern outbound"
    assert "inbound 0 of 4 (4 unclear)" in incident.summary
    assert "check the agent" not in incident.summary


def step(paths, until_min, level_ms):
    """A burst a minute on each path from an hour before NOW until so many minutes before it, at a level by minute."""
    random = np.random.default_rng(3)
    copy_rows(
        Burst(
            path_id=path.pk,
            packet_bytes=100,
            measured_at=NOW - minute * MINUTE,
            outcome="measured",
            sent=10,
            received=10,
            duplicates=0,
            reordered=0,
            during_test=False,
            rtts_ms=(level_ms(minute) + random.exponential(0.3, 10)).tolist(),
        )
        for path in paths
        for minute in range(60, until_min, -1)
    )


@pytest.mark.parametrize(("others_ms", "expected"), [(20.0, {"cern": 2}), (0.0, {"cern ↔ slac": 1, "cern ↔ fnal": 1})])
def test_paths_without_significant_steps_indicate_the_site(others_ms, expected):
    """Two paths have the fourteen bursts since the step that significance needs, the others ten, evaluated already."""
    paths = mesh_with(rtt={})
    proven = [paths[name] for name in ALARMED[:2]]
    waiting = [paths[name] for name in sorted(of_cern(paths) - set(ALARMED[:2]))]
    normal = [paths[name] for name in sorted(set(paths) - of_cern(paths))]
    step(proven, 0, lambda minute: 70.0 if minute <= 14 else 50.0)
    step(waiting, 4, lambda minute: 50.0 + others_ms if minute <= 14 else 50.0)
    step(normal, 0, lambda minute: 50.0)
    judged = {path.pk: (NOW - 4.5 * MINUTE).timestamp() + 60.0 for path in waiting}
    rtt_progress.write(judged | {path.pk: (NOW - 1.5 * MINUTE).timestamp() for path in proven + normal})

    evaluate(NOW)

    assert named() == expected


@pytest.mark.parametrize(
    ("proven_paths", "expected"), [(2, {"cern ↔ slac": 1, "cern ↔ fnal": 1}), (1, {"cern ↔ slac": 1})]
)
def test_round_trips_are_read_only_for_a_common_cause(proven_paths, expected, monkeypatch):
    """The RTTs of paths without new bursts are read again if two paths are bad, and not those of the others."""
    paths = mesh_with(rtt={})
    proven = [paths[name] for name in ALARMED[:proven_paths]]
    waiting = [paths[name] for name in sorted(of_cern(paths) - set(ALARMED))]
    normal = [path for path in paths.values() if path not in proven + waiting]
    step(proven, 0, lambda minute: 70.0 if minute <= 14 else 50.0)
    step(waiting, 4, lambda minute: 50.0)
    step(normal, 0, lambda minute: 50.0)
    judged = {path.pk: (NOW - 4.5 * MINUTE).timestamp() + 60.0 for path in waiting}
    rtt_progress.write(judged | {path.pk: (NOW - 1.5 * MINUTE).timestamp() for path in proven + normal})
    reads = []

    def counted(path_ids, *rest):
        reads.append(set(path_ids))
        return recent_round_trips(path_ids, *rest)

    monkeypatch.setattr(StoredSource, "recent_round_trips", staticmethod(counted))

    evaluate(NOW)

    assert named() == expected
    due = {path.pk for path in proven + normal}
    assert reads == [due, {path.pk for path in waiting}][:proven_paths]

"""The paths of a large mesh by state, counted from what is remembered of them: as if all were looked up each time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from monitor.archive.queries.path_states import MaintainedPlaces, path_states
from monitor.archive.upkeep import freshness
from monitor.mesh.models import Measurement
from monitor.overview import mesh_state
from monitor.overview.wide import remembered_states
from monitor.overview.wide.remembered_states import RememberedStates
from tests.db.alert_rows import make_bursts
from tests.db.incident_rows import HOUR, MINUTE, NOW, watched

pytestmark = pytest.mark.django_db
SECOND = timedelta(seconds=1)


@pytest.fixture
def paths():
    return list(watched().values())


@pytest.fixture
def looked_up(monkeypatch):
    """The paths that each count looked up."""
    asked, look_up = [], remembered_states.newest_results

    def record(now, path_ids=None):
        results = look_up(now, path_ids)
        asked.append(set(results.path_ids.tolist()))
        return results

    monkeypatch.setattr(remembered_states, "newest_results", record)
    return asked


def measured(path, at):
    make_bursts(path, [0], at)


def test_counts_are_those_of_a_look_at_every_path(paths):
    steady, ending, late, starting, failing, quiet = paths
    remembered, maintained = RememberedStates(), MaintainedPlaces(paths={quiet.pk})
    for path in (steady, ending, late, failing, quiet):
        measured(path, NOW - 5 * MINUTE)
    Measurement.objects.filter(path=starting).update(started_at=NOW - MINUTE)

    seen = set()
    for minutes in range(25):
        now = NOW + minutes * MINUTE
        measured(steady, now - 10 * SECOND)
        measured(quiet, now - 10 * SECOND)
        if minutes == 12:
            measured(late, now - 7 * MINUTE)  # was spooled at its site
            measured(starting, now - 20 * SECOND)
        problems = {failing.pk} if minutes >= 3 else set()

        counts = remembered.count(now, problems, maintained)

        assert counts == path_states(now, problems, maintained), minutes
        seen.add(tuple(getattr(counts, name) for name in ("with_problems", "normal", "awaited", "without_data")))
    assert seen == {
        (0, 4, 1, 0),  # before the incident
        (1, 3, 1, 0),
        (1, 1, 1, 2),  # ten minutes after the last results of two paths
        (1, 1, 0, 3),  # ten minutes after the beginning of the first test
        (1, 3, 0, 1),  # the results of 12 minutes
        (1, 2, 0, 2),
        (1, 1, 0, 3),
    }


def test_paths_with_a_known_current_result_are_not_looked_up(paths, looked_up):
    silent, *others = paths
    remembered = RememberedStates()
    for path in others:
        measured(path, NOW - 10 * SECOND)

    for seconds in (0, 10, 20):
        remembered.count(NOW + seconds * SECOND, set(), MaintainedPlaces())

    assert looked_up == [{path.pk for path in paths}, {silent.pk}, {silent.pk}]


def test_known_results_are_renewed_before_all_are_too_old(paths, looked_up):
    """Half of their ten minutes before, some at each count."""
    remembered = RememberedStates()
    for number, path in enumerate(paths):
        measured(path, NOW - number * SECOND)
    remembered.count(NOW, set(), MaintainedPlaces())
    for path in paths:
        measured(path, NOW + 5 * MINUTE)
    first = paths[-1]

    for seconds in range(300, 360, 10):
        remembered.count(NOW + seconds * SECOND, set(), MaintainedPlaces())

    assert looked_up[1] == {first.pk}, "its result is the oldest"
    assert all(len(of_count) == 1 for of_count in looked_up[1:])
    assert set.union(*looked_up[1:]) == {path.pk for path in paths}


def test_a_large_mesh_is_looked_up_before_its_first_reader(paths, looked_up, monkeypatch):
    monkeypatch.setattr(mesh_state, "_remembered", RememberedStates())
    monkeypatch.setattr(mesh_state, "_last_count", [])

    mesh_state.remember_paths(NOW)
    assert looked_up == [], "small meshes are not remembered"
    monkeypatch.setattr(mesh_state, "LARGE_FROM_PATHS", 6)
    for path in paths:
        measured(path, NOW - 10 * SECOND)
    mesh_state.remember_paths(NOW)
    counts = mesh_state.load_mesh_state(freshness.load(), NOW).states

    assert (counts.paths, counts.normal) == (6, 6)
    assert looked_up == [{path.pk for path in paths}], "the reader has no path looked up"


def test_a_change_of_the_mesh_counts_at_once(paths):
    remembered = RememberedStates()
    for path in paths:
        measured(path, NOW - 10 * SECOND)
    assert remembered.count(NOW, set(), MaintainedPlaces()).paths == 6

    Measurement.objects.filter(path=paths[0]).update(retired_at=NOW - HOUR)

    assert remembered.count(NOW, set(), MaintainedPlaces()).paths == 5

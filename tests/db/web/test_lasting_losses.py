"""The loss of a path without an incident: judged alike in the state of the mesh and in evidence, with its figure."""

from __future__ import annotations

import re

import msgspec
import pytest

from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.detect.suspects import possible_losses, reverse_paths
from monitor.alerts.evaluate import evaluate, scope_now, snapshot_at
from monitor.alerts.incidents import lifecycle
from monitor.alerts.incidents.finding_level import FindingLevel, LevelUnit
from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.models import Burst
from monitor.archive.queries.metrics import Metric
from monitor.mesh.models import MeasurementPeriod
from monitor.mesh.models import Test as MeshTest
from monitor.overview.grid import GridPeriod, load_grid
from tests.db.alert_rows import make_mesh
from tests.db.web.test_mesh_state_now import at, one_in_ten, plant, state_at
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]


@pytest.fixture
def paths(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    paths = make_mesh(["slac", "ornl", "fnal"], at(-7200), loss={"above_ratio": 0.01, "window_s": 120})
    MeshTest.objects.update(every_s=10)
    MeasurementPeriod.objects.update(every_s=10)
    return paths


def test_a_loss_that_is_checked_has_its_own_figure(paths):
    """The cell of ten minutes has another: 12 of 600."""
    for name, path in paths.items():
        plant(path, -600, 0, lambda s, name=name: one_in_ten(s) if name == "slac → ornl" else 0)

    state = state_at(0)

    assert "(slac → ornl: 12 of 120 packets lost since 12:28:00 UTC)" in state.title
    (cell,) = (cell for cell in load_grid(Metric.LOSS, GridPeriod.NOW, at(0)).figures if cell.value)
    assert (cell.value_sent, cell.value_received) == (600, 588)


def test_a_loss_that_may_be_over_says_since_when_no_packet_was_lost(paths):
    for name, path in paths.items():
        plant(path, -600, 0, lambda s, name=name: one_in_ten(s) * (s < -30) if name == "slac → ornl" else 0)

    assert "9 of 120 packets lost since 12:28:00 UTC, none since 12:29:30 UTC" in state_at(0).title


def test_two_packets_beside_a_throughput_test_do_not_tell_that_none_is_lost(paths):
    """All others since the last loss are of the test: `none since` would be as true of a loss that goes on."""
    for name, path in paths.items():
        plant(path, -600, 0, lambda s, name=name: one_in_ten(s) * (s < -40) if name == "slac → ornl" else 0)
    newest = Burst.objects.filter(path_id=paths["slac → ornl"].pk, measured_at__gte=at(-40))
    newest.update(during_test=True)
    first_at = newest.earliest("measured_at").measured_at
    newest.filter(measured_at=first_at).update(during_test=False, sent=2, received=2, rtts_ms=[20.0, 20.0])

    title = state_at(0).title

    assert "8 of 82 packets lost since 12:28:00 UTC" in title
    assert "none since" not in title


def of_forward_path(paths, until_s, ends_s):
    """An incident of loss on slac → ornl alone, as where STAMP names the direction; the pings of both paths lose 10%
    until `until_s`."""
    both = ("slac → ornl", "ornl → slac")
    for name, path in paths.items():
        plant(path, -600, 0, lambda s, name=name: one_in_ten(s) * (s < until_s) if name in both else 0)
    figures = {"sent": 60, "lost": 6, "threshold_ratio": 0.01}
    found = RuleFinding("loss", paths[both[0]].pk, both[0], "loss is high", at(-120), figures=figures)
    lifecycle.add_findings("slac → ornl", [found], at(-60))
    lifecycle.open_if_confirmed(Incident.objects.get().pk, at(-60))
    if ends_s is not None:
        level = FindingLevel(
            LevelUnit.LOSS_RATIO, 0.0, 0.1, sent=50, window_s=50.0, recovered_at=at(ends_s), is_ended=True
        )
        IncidentPath.objects.update(level=msgspec.to_builtins(level))


def test_the_loss_of_an_incident_on_the_reverse_path_is_not_checked_apart(paths):
    of_forward_path(paths, 0, None)

    state = state_at(0)

    assert "1 path with the loss of the incident on the reverse path (ornl → slac)" in state.sentence
    assert lacks(state.sentence, "1 of 6 paths has problems", "4 normal") == []
    assert "being checked" not in state.sentence
    assert state.checked.paths == 1


def test_the_loss_of_a_pending_incident_is_told_of_both_its_paths(paths):
    """No incident is open, so neither path has the loss of one."""
    both = ("slac → ornl", "ornl → slac")
    for name, path in paths.items():
        plant(path, -600, 0, lambda s, name=name: one_in_ten(s) if name in both else 0)
    figures = {"sent": 60, "lost": 6, "threshold_ratio": 0.01}
    found = [RuleFinding("loss", paths[name].pk, name, "loss is high", at(-120), figures=figures) for name in both]
    lifecycle.add_findings("slac ↔ ornl", found, at(-1))

    state = state_at(0)

    assert Incident.objects.get().is_pending
    assert "reverse path" not in state.sentence
    for name in both:
        assert f"{name}: 12 of 120 packets lost since 12:28:00 UTC" in state.title


def test_the_loss_of_an_incident_that_is_over_is_over_on_the_reverse_path(paths):
    """50 s after its end, which 10% of a single path does not prove."""
    of_forward_path(paths, -50, -50)

    state = state_at(0)

    assert "ornl → slac" not in state.sentence
    assert (state.checked.paths, "5 normal" in state.sentence) == (0, True)


def test_a_loss_after_a_resolved_incident_has_its_own_packets(paths):
    """A minute after the end of the incident."""
    for name, path in paths.items():
        is_lossy = name == "slac → ornl"
        plant(path, -600, 0, lambda s, is_lossy=is_lossy: 3 * (is_lossy and (-400 <= s < -120 or s >= -60)))
    found = RuleFinding("loss", paths["slac → ornl"].pk, "slac → ornl", "loss is high", at(-300))
    lifecycle.add_findings("slac → ornl", [found], at(-300))
    lifecycle.open_if_confirmed(Incident.objects.get().pk, at(-300))
    Incident.objects.update(closed_at=at(-70), ended_at=at(-130))

    assert "(slac → ornl: 18 of 60 packets lost since 12:29:00 UTC)" in state_at(0).title


@pytest.mark.parametrize(
    "lost_of", [one_in_ten, lambda s: one_in_ten(s) * (s < -60), lambda s: 4 * (s in (-120, -110))]
)
def test_the_evidence_calls_the_paths_normal_that_the_state_calls_normal(paths, lost_of):
    """A loss that goes on, one that ended a minute ago and may be over, and one that is over."""
    for name, path in paths.items():
        plant(path, -600, 0, lambda s, name=name: lost_of(s) if name == "slac → ornl" else 0)
    scope = scope_now()
    snapshot = snapshot_at(at(0), scope, {})
    ids = [path.pk for path in paths.values()]
    thresholds = dict.fromkeys(ids, 0.01)

    possible = possible_losses(ids, thresholds, snapshot, reverse_paths(snapshot.paths.values()), {})

    is_checked = "slac → ornl" in state_at(0).title
    assert possible == ([paths["slac → ornl"].pk] if is_checked else [])


@pytest.mark.parametrize(("until_s", "is_told"), [(-10, False), (-50, True)])
def test_an_incident_whose_loss_may_be_over_says_since_when_none_was_lost(paths, until_s, is_told):
    """50 s without a loss, which 10% has a chance of 0.5% of; half of it, which an end is proven against, of 8%."""
    for name, path in paths.items():
        lost_of = {"slac → ornl": lambda s: int(-400 <= s < until_s)}.get(name, lambda _: 0)
        plant(path, -1800, 0, lost_of)
    for seconds in (-60, -30, -1):
        evaluate(at(seconds))

    sentence = state_at(0).sentence

    assert re.search(r"loss \S+( to \S+)?% ", sentence), sentence
    assert ("for 6 min, none lost since 12:29:10 UTC" in sentence) == is_told
    assert "no loss" not in sentence

"""The sentence on the mesh while paths have too few packets to call them normal."""

from __future__ import annotations

import pytest

from monitor.archive.models import Burst
from monitor.web.pages.status.load import load_status
from tests.db.planted_cycles import at, paths_of_three_sites
from tests.db.web.test_mesh_state_now import one_in_ten, plant, state_at
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]


@pytest.fixture
def paths(monkeypatch):
    return paths_of_three_sites(monkeypatch)


def test_few_packets_are_too_early_to_tell(paths):
    """None lost of 290 packets does not exclude the 1% of the rule (3 / 290)."""
    for path in paths.values():
        plant(path, -290, 0)

    state = state_at(0)

    assert lacks(state.title, "Too early to tell: 6 of 6 paths") == []
    assert (state.tally.awaited, state.style) == (6, "unknown")
    assert load_status(at(0)).state == state.title
    for path in paths.values():
        plant(path, -310, -290)
    assert (state_at(0).sentence, state_at(0).style) == ("All 6 paths are normal.", "calm")


def test_a_new_path_is_not_judged_yet(paths):
    """The others have packets enough; a lossy one is being checked, not too early."""
    for name, path in paths.items():
        plant(path, -60 if name.startswith("fnal") else -600, 0, one_in_ten if name == "fnal → slac" else lambda _: 0)

    state = state_at(0)

    assert lacks(state.sentence, "1 of 6 paths is being checked: fnal ↔ slac", "4 normal", "1 with too few") == []
    assert (state.tally.checked, state.tally.awaited, state.tally.normal) == (1, 1, 4)


def test_bursts_during_tests_make_no_path_new(paths):
    """Two of three bursts are excluded: those before tell the loss all the same."""
    for path in paths.values():
        plant(path, -1200, 0)
    Burst.objects.filter(measured_at__second__lt=40).update(during_test=True)

    assert state_at(0).sentence == "All 6 paths are normal."

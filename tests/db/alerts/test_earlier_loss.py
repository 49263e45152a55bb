"""An incident of a loss after a weaker one that had ended, and was never an incident: it begins with its own loss."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.stated import BY_STAMP
from monitor.alerts.evidence.words import since
from monitor.alerts.incidents import queries
from monitor.archive.models import DirectionBurst
from tests.db.finding_levels import level_of
from tests.db.planted_faults import ONSET, Planted, at, between, look_at, plant

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]

WEAKER_S, GAP_S = 300.0, 130.0
STRONGER_S = WEAKER_S + GAP_S
RULES = {"loss": {"above_ratio": 0.01, "window_s": 300}, "unreachable": {}}
"""As in the lab."""


def store_stamp(paths, ratio_of, until_s, random):
    """STAMP cycles with the losses of each direction."""
    for name, path in paths.items():
        there = name.split(" → ")
        for begin_s in np.arange(-900.0 + random.uniform(0, 10), until_s, 10).tolist():
            forward, reverse = (
                sum(random.random() < ratio_of(*ends, begin_s + number) for number in range(10))
                for ends in (there, there[::-1])
            )
            DirectionBurst.objects.create(
                path_id=path.pk, measured_at=at(begin_s), packet_bytes=200, test="oneway", outcome="measured",
                during_test=False, dscp=0, sent=10, received=10 - forward - reverse, undecided=0,
                forward_lost=forward, reverse_lost=reverse,
            )  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2])
def test_a_loss_after_a_proven_end_is_one_of_its_own(seed):
    """4% ornl → slac for 300 s, none for 130 s, then 30% slac → ornl."""
    faults = [
        Planted(between("ornl", "slac"), 0.0, WEAKER_S, lost_ratio=0.04),
        Planted(between("ornl", "slac"), STRONGER_S, lost_ratio=0.3),
    ]
    paths, rows = plant(faults, STRONGER_S + 200, seed, **RULES)

    def ratio_of(source, destination, at_s):
        if (source, destination) == ("ornl", "slac"):
            return 0.04 if 0 <= at_s < WEAKER_S else 0.0
        return 0.3 if (source, destination) == ("slac", "ornl") and at_s >= STRONGER_S else 0.0

    store_stamp(paths, ratio_of, STRONGER_S + 200, np.random.default_rng(seed))

    looks = 0
    for at_s, now, lasting in look_at(rows, range(int(STRONGER_S) + 30, int(STRONGER_S) + 200, 20)):
        for incident in lasting.values():
            seen, facts = queries.incident_with_paths(incident.pk), evidence(incident, now)
            if facts.began is None:
                continue
            looks += 1
            assert abs((since(seen) - at(STRONGER_S)).total_seconds()) <= 15.0, (at_s, since(seen) - ONSET)
            # Dated with the packets of its first half minute: not before the last lossy burst of the weaker loss.
            assert facts.began.earliest >= at(WEAKER_S - 25.0)
            sides = [side.after for path in facts.paths for side in (path.there, path.back)]
            assert all(side.loss_ratio > 0.15 for side in sides), (at_s, sides)
            if at_s < STRONGER_S + 100:
                continue
            assert (facts.cause.direction_name, facts.cause.toward_by) == ("slac → ornl", BY_STAMP), facts.cause
            for level in filter(None, map(level_of, seen.paths.filter(is_over=False))):
                assert level.sent <= 2 * (at_s - STRONGER_S), "no packet from before the onset"
                assert level.peak > 0.15
    assert looks >= 3

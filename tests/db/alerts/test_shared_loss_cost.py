"""The rule `shared_loss` looks at the settings of all paths as often in a mesh of many sites as in a small one."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from monitor.alerts.detect.rules.shared_loss import SharedLoss, path_pools
from monitor.alerts.evaluate import snapshot_at
from monitor.alerts.scope import scope_now
from tests.db.alert_rows import make_mesh

NOW = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)


class CountedSettings(dict):
    """Settings by path that count how often somebody goes through them."""

    passes = 0

    def __iter__(self):
        self.passes += 1
        return super().__iter__()

    def items(self):
        self.passes += 1
        return super().items()

    def values(self):
        self.passes += 1
        return super().values()


def passes(sites):
    """Through the settings of the paths among these sites, and the number of sets of paths that are judged."""
    scope = scope_now()
    among = {
        path_id: path
        for path_id, path in scope.pinged.items()
        if {path.place.source, path.place.destination} <= set(sites)
    }
    scope = replace(scope, pinged=among)
    snapshot = snapshot_at(NOW, scope, {})
    snapshot = replace(snapshot, baseline=dict.fromkeys(snapshot.baseline, np.full(len(snapshot.paths), 1e5)))
    settings = CountedSettings({path_id: scope.settings["shared_loss"][path_id] for path_id in among})
    pools = list(path_pools(snapshot, settings))

    settings.passes = 0
    SharedLoss().judge(snapshot, settings)

    return settings.passes, len(pools)


@pytest.mark.django_db
def test_settings_are_not_read_again_for_each_site():
    sites = ["slac", "cern", "fnal", "desy", "kek", "bnl", "ral"]
    make_mesh(sites, NOW, shared_loss={})

    of_five, five = passes(sites[:5])
    of_seven, seven = passes(sites)

    assert (five, seven) == (5, 7)
    assert 0 < of_five == of_seven

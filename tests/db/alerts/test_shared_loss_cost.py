"""The rule `shared_loss` looks at the settings of all paths once, not once for each site."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from monitor.alerts.detect.rules.shared_loss import SharedLoss, path_pools
from monitor.alerts.evaluate import scope_now, snapshot_at
from tests.db.alert_rows import make_mesh

NOW = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)


class CountedSettings(dict):
    """Settings by path that count how often somebody goes through them."""

    passes = 0

    def items(self):
        self.passes += 1
        return super().items()


@pytest.mark.django_db
def test_settings_are_read_once_for_all_sites():
    make_mesh(["slac", "cern", "fnal", "desy", "kek"], NOW, shared_loss={})
    scope = scope_now()
    snapshot = snapshot_at(NOW, scope, {})
    snapshot = replace(snapshot, baseline=dict.fromkeys(snapshot.baseline, np.full(len(snapshot.paths), 1e5)))
    settings = CountedSettings(scope.settings["shared_loss"])
    pools = list(path_pools(snapshot, settings))

    SharedLoss().judge(snapshot, settings)

    assert len(pools) == 5
    assert settings.passes == 1

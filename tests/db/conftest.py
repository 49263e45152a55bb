"""Fixtures of the tests of pages and users' API: three sites, and a clock stopped at noon."""

from datetime import datetime, timedelta
from functools import cache

import pytest
from django.utils import timezone

from monitor.alerts import evaluate
from monitor.archive.models import Burst, DirectionBurst
from monitor.archive.periods import start_of
from monitor.mesh.models import Site
from monitor.present.follow import Follower
from monitor.present.followed_loss import KNOWN_BURSTS
from tests.db.pages_mesh import NOW, make_mesh


@pytest.fixture
def at_noon(monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: NOW)


@pytest.fixture
def paths():
    return make_mesh()


@pytest.fixture(autouse=True)
def as_manage_py_up_has_it(settings):
    """This machine reads without a login, and plain HTTP is accepted."""
    settings.LOCAL_READ = True
    settings.ALLOW_PLAIN_HTTP = True


# Bursts of ten seconds that a Follower recognises when it reads them again.
KNOWN = timedelta(seconds=10 * KNOWN_BURSTS)


class PlantingFollower(Follower):
    """Takes bursts that a test stores without a batch: newer ones as they come, all anew after a late one."""

    def follow(self, now, *args):
        if self._looked_at is not None and late_before(self._looked_at) != self._late:
            self.restart()
        super().follow(now, *args)
        self._late = late_before(now)

    def _arrived(self):
        since_s = (self._looked_at - KNOWN).timestamp()
        return dict.fromkeys(Site.objects.values_list("pk", flat=True), since_s)


def late_before(at):
    return [table.objects.filter(measured_at__lt=at - KNOWN).count() for table in (Burst, DirectionBurst)]


@pytest.fixture(autouse=True)
def kept_tracks(monkeypatch):
    """`evaluate` keeps the tracks of all paths, as the worker does: half of its processor time."""
    follower = PlantingFollower()
    monkeypatch.setattr(evaluate, "Follower", lambda: follower)


@pytest.fixture
def as_worker(monkeypatch):
    """`evaluate` keeps the scope of the mesh, and the baselines of an hour, as the worker does: 40% of its processor
    time. For tests that leave mesh.toml and past hours as they are from their first evaluation on."""
    scope_now, stored_baselines, kept = cache(evaluate.scope_now), evaluate.stored_baselines, {}

    def baselines_of(now: datetime, paths):
        hour = start_of("hour", now)
        if hour not in kept:
            kept.clear()
            kept[hour] = stored_baselines(now, paths)
        return kept[hour]

    monkeypatch.setattr(evaluate, "scope_now", scope_now)
    monkeypatch.setattr(evaluate, "stored_baselines", baselines_of)

"""Fixtures of the tests of pages and users' API: three sites, and a clock stopped at noon."""

from datetime import datetime
from functools import cache

import pytest
from django.utils import timezone

from monitor.alerts import evaluate
from monitor.archive.periods import start_of
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

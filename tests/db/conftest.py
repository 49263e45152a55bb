"""Fixtures of the tests of pages and users' API: three sites, and a clock stopped at noon."""

import pytest
from django.utils import timezone

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

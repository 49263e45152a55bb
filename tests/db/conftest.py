"""What the tests of pages and users' API share: three sites, and a clock that stands at noon."""

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
    """This machine reads without a login, and plain HTTP is taken."""
    settings.LOCAL_READ = True
    settings.ALLOW_PLAIN_HTTP = True

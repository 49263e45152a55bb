"""Fixtures of the tests of pages and users' API: three sites, a clock stopped at noon; and a real Redis."""

import subprocess
import time

import pytest
from django.utils import timezone

from monitor.stack import broker
from tests.db.pages_mesh import NOW, make_mesh


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory):
    path = tmp_path_factory.mktemp("redis") / "redis.sock"
    process = subprocess.Popen(broker.command(path), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not broker.answers(path):
        assert time.monotonic() < deadline, "Redis does not start"
        time.sleep(0.05)
    yield f"redis+socket://{path}"
    process.terminate()
    process.wait(timeout=10)


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

"""Fixtures and settings shared by all tests. The database server is in `tests/postgres.py`."""

from __future__ import annotations

import gc
import os
import subprocess
import time
from collections.abc import Iterator

import pytest
from django.conf import settings as django_settings
from django.db import connection
from django.template.base import Template
from django.test.utils import _TestState
from hypothesis import HealthCheck, settings
from pytest_django.plugin import DjangoDbBlocker
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from monitor.stack import broker
from probes.lab.namespaces import namespaces_available
from tests import template_cluster
from tests.flush import flush_filled_tables
from tests.postgres import given_database_url

# A busy machine is slow at times. In CI the examples are the same in each run; elsewhere they are random.
settings.register_profile(
    "soundings", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("soundings")

END_TO_END = "tests/e2e/"
SHARED = "tests/e2e/lab/"
AWAITED = (f"{SHARED}test_scheduled_kinds.py", f"{SHARED}test_sweep.py")
"""They wait for scheduled tests, as long as the other files of the folder take: on a second stack, beside those."""
LONGEST = (SHARED, "tests/e2e/test_pages.py", "tests/e2e/test_up.py", "tests/e2e/test_site_agent.py")
"""Minutes each: they begin first, so that none of them is left at the end for a single process."""


def pytest_configure() -> None:
    """Hashing a password takes half a second by design; hundreds of tests do it."""
    django_settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    flush_filled_tables()


class ByStack(LoadFileScheduling):  # type: ignore[misc]
    """With several processes, a file's tests run in the same process, and so do the files that share a stack."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(AWAITED):
            return AWAITED[0]
        return SHARED if nodeid.startswith(SHARED) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByStack:
    return ByStack(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """The slowest tests, those with real stacks, begin first; otherwise the order of pytest-django."""
    yield
    items.sort(key=lambda item: (_rank(item), not _starts_a_stack(item)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """The objects of ten thousand tests stay: looking through them for garbage is a tenth of the processor time, and
    while they are made another tenth."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
        # With the default a tenth of the processor time of the tests goes into looking for garbage.
        gc.set_threshold(50_000, 20, 50)


def _rank(item: pytest.Item) -> int:
    """The place of the item's file among the longest; after them for any other."""
    return next((rank for rank, start in enumerate(LONGEST) if item.nodeid.startswith(start)), len(LONGEST))


def _starts_a_stack(item: pytest.Item) -> bool:
    return item.nodeid.startswith(END_TO_END) and item.get_closest_marker("django_db") is None


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis of the module's tests."""
    path = tmp_path_factory.mktemp("redis") / "redis.sock"
    process = subprocess.Popen(broker.command(path), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not broker.answers(path):
        assert time.monotonic() < deadline, "Redis does not start"
        time.sleep(0.05)
    yield f"redis+socket://{path}"
    process.terminate()
    process.wait(timeout=10)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres_server: str, request: pytest.FixtureRequest) -> None:
    """Pytest-django's hook before it creates the test database: the server must run by then. Processes that share a
    given server have a database each."""
    if given_database_url is not None:
        request.getfixturevalue("django_db_modify_db_settings_parallel_suffix")


@pytest.fixture(scope="session")
def django_db_setup(postgres_server: str, request: pytest.FixtureRequest, django_db_blocker: DjangoDbBlocker) -> None:
    """The tests' database: migrated already in a cluster of ours, made by pytest-django on a given server."""
    if given_database_url is not None:
        request.getfixturevalue("django_db_setup")
    else:
        with django_db_blocker.unblock():
            connection.close()
            connection.settings_dict["NAME"] = template_cluster.DATABASE


@pytest.fixture(scope="session")
def namespaces_required() -> None:
    """Skip a test, or fail it in CI, where this machine has no network namespaces."""
    reason = namespaces_available()
    if reason is not None:
        _skip_or_fail(f"network namespaces: {reason}")


@pytest.fixture(scope="session")
def root_required() -> None:
    """Skip a test, or fail it in CI, where we are not root."""
    if os.geteuid() != 0:
        _skip_or_fail("root")


def _skip_or_fail(requirement: str) -> None:
    """Fail in CI for a missing privilege, and skip elsewhere."""
    if os.environ.get("CI"):
        pytest.fail(f"CI must have {requirement}")
    pytest.skip(f"needs {requirement}")


@pytest.fixture(scope="session", autouse=True)
def uninstrumented_templates(django_test_environment: None) -> None:
    """Django's test environment copies the whole context of each template rendered, for `response.context`, which no
    test reads: a quarter of the processor time of a page."""
    Template._render = _TestState.saved_data.template_render

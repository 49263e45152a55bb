"""What all tests share. The database server itself is in `tests/postgres.py`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from probes.lab.namespaces import namespaces_available

END_TO_END = Path(__file__).parent / "e2e"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several processes share the tests (`--dist loadgroup`), a file stays in one of them, and all that uses the
    one stack over the lab does."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group("lab" if _uses_the_lab(item) else item.path.stem))


class LongestFirst:
    """What takes longest, the real stacks, begins first; pytest-django has put its own in order by then."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: (not _uses_the_lab(item), not _starts_a_stack(item)))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(LongestFirst())


def _uses_the_lab(item: pytest.Item) -> bool:
    return _starts_a_stack(item) and "lab" in getattr(item, "fixturenames", ())


def _starts_a_stack(item: pytest.Item) -> bool:
    return END_TO_END in item.path.parents and item.get_closest_marker("django_db") is None


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres_server: str) -> None:
    """Pytest-django's hook before it makes the test database: by then the server must run."""


@pytest.fixture(scope="session")
def namespaces_required() -> None:
    """Skip a test, or in CI fail it, where this machine gives no network namespaces."""
    reason = namespaces_available()
    if reason is not None:
        _cannot_be_had(f"network namespaces: {reason}")


@pytest.fixture(scope="session")
def root_required() -> None:
    """Skip a test, or in CI fail it, where we are not root."""
    if os.geteuid() != 0:
        _cannot_be_had("root")


def _cannot_be_had(what: str) -> None:
    """A missing privilege is a failure in CI, and elsewhere a skip."""
    if os.environ.get("CI"):
        pytest.fail(f"CI must have {what}")
    pytest.skip(f"needs {what}")

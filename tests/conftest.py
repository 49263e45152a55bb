"""What all tests share. The database server itself is in `tests/postgres.py`."""

from __future__ import annotations

import os

import pytest

from probes.lab.namespaces import namespaces_available


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

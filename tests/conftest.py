"""What all tests share. The database server itself is in `tests/postgres.py`."""

import pytest


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres_server: str) -> None:
    """Pytest-django's hook before it makes the test database: by then the server must run."""

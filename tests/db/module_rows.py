"""Rows that the tests of a module share: made once, and rolled back after the module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
from pytest_django.plugin import DjangoDbBlocker


@contextmanager
def module_rows(blocker: DjangoDbBlocker) -> Iterator[None]:
    """Rows written within stay until the end, for a fixture of module scope. What a test of the module writes is rolled
    back after that test, but the database's `now()` is the beginning of the whole."""
    with blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)

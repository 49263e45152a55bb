"""Report a missing or outdated database to a command's user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management.base import CommandError
from django.db import OperationalError, ProgrammingError

from probes.commands.own_command import MANAGE

START_DATABASE = (
    f"start it with {MANAGE} up; if that runs with --data DIR, set SOUNDINGS_DATA=DIR; or set SOUNDINGS_DATABASE_URL"
)
OTHER_USER = f"run this as the user who runs {MANAGE} up, or set SOUNDINGS_DATABASE_URL"


@contextmanager
def reported_to_user() -> Iterator[None]:
    """Raise `CommandError` with a fix if the database does not answer or lacks a table."""
    try:
        yield
    except OperationalError as error:
        raise CommandError(unusable(error)) from error
    except ProgrammingError as error:
        raise CommandError(f"the database schema is out of date: {first_line(error)}; run {MANAGE} migrate") from error


def unusable(error: OperationalError) -> str:
    if "Permission denied" in str(error):
        return f"the database cannot be used: {first_line(error)}; {OTHER_USER}"
    return f"the database cannot be used: {first_line(error)}; {START_DATABASE}"


def first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]

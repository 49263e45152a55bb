"""Why deliveries cannot be stored now: what went wrong with the database, for agents, pages and `archive status`.

In: the database's errors. Out: a `Trouble` with the newest moment of each kind. It cannot be kept in the database that
is in trouble, so it is the age of an empty file in the data folder: a full disk takes one still.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from django.conf import settings
from django.db import Error

logger = logging.getLogger(__name__)


class Kind(StrEnum):
    """What is wrong, in the words that everybody is told."""

    DISK_FULL = "the disk of the database is full"
    NO_RESOURCES = "the database is out of memory or connections"
    SLOW = "the database is too slow"
    AWAY = "the database is away"


@dataclass(frozen=True, slots=True)
class Trouble:
    """That results were turned away, at last at `at`."""

    kind: Kind
    at: datetime


KINDS = {"53100": Kind.DISK_FULL, "57014": Kind.SLOW, "55P03": Kind.SLOW, "40P01": Kind.SLOW}
"""By SQLSTATE, https://www.postgresql.org/docs/current/errcodes-appendix.html."""


def kind_of(error: Error) -> Kind:
    """What an error of the database means for those who deliver."""
    sqlstate = getattr(error.__cause__, "sqlstate", None) or ""
    return KINDS.get(sqlstate, Kind.NO_RESOURCES if sqlstate.startswith("53") else Kind.AWAY)


def note(kind: Kind) -> None:
    """Let everybody on this machine see it."""
    file = _file(kind)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    except OSError as error:
        logger.error("trouble: cannot write %s: %s; the pages will not show that %s", file, error.strerror, kind)


def over() -> None:
    """A batch was stored, so nothing is wrong any more."""
    for kind in Kind:
        _file(kind).unlink(missing_ok=True)


def now_known() -> list[Trouble]:
    """What keeps results from being stored, the newest first; nothing since a batch was stored."""
    found = []
    for kind in Kind:
        try:
            at = datetime.fromtimestamp(_file(kind).stat().st_mtime, UTC)
        except FileNotFoundError:
            continue
        found.append(Trouble(kind, at))
    return sorted(found, key=lambda trouble: trouble.at, reverse=True)


def _file(kind: Kind) -> Path:
    folder: Path = settings.DATA_DIR / "trouble"
    return folder / kind.name.lower()

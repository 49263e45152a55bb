"""Finds the results that the database cannot store, among those that passed every check.

In: an error of the database, something that stores a part of a batch. Out: the reason for each result that cannot be
stored. Called only after storing the whole batch has failed, so that a sound batch pays nothing for it.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import Protocol, Self, TypeVar

from django.db import DatabaseError, DataError, transaction

from monitor.archive.ingest.arrivals import BatchTooLarge

logger = logging.getLogger(__name__)

MOST_CULPRITS = 50
"""In one batch. Each costs about two trials for each halving; with more, the agent halves the batch by itself."""
OF_VALUES = ("22", "23", "54")
"""Classes of SQLSTATE that speak of the values: data exception, integrity constraint violation, program limit exceeded.
All others speak of the database, or are faults of ours: they say nothing about any result.
https://www.postgresql.org/docs/current/errcodes-appendix.html"""
CANNOT_BE_STORED = (DatabaseError, ArithmeticError, ValueError, struct.error)


class Part(Protocol):
    """Results that can be divided."""

    def __len__(self) -> int: ...

    def part(self, first: int, last: int) -> Self: ...

    def numbers(self) -> list[int]: ...


PartT = TypeVar("PartT", bound=Part)


def reason_of(error: Exception) -> str | None:
    """Why values cannot be stored; None where the error is not of the values."""
    if not isinstance(error, DatabaseError):
        return f"it cannot be stored: {error}".replace("\0", "\ufffd")
    cause = error.__cause__
    sqlstate = getattr(cause, "sqlstate", None)
    if sqlstate is None and isinstance(error, DataError):  # psycopg itself could not write the value
        return f"the database cannot store it: {error}".replace("\0", "\ufffd")
    if sqlstate is None or not sqlstate.startswith(OF_VALUES):
        return None
    said = getattr(getattr(cause, "diag", None), "message_primary", None) or str(error)
    return f"the database cannot store it: {said}".replace("\0", "\ufffd")


def find_culprits(results: PartT, store: Callable[[PartT], object]) -> dict[int, str]:
    """The reason for each result that cannot be stored, by sequence number; what was stored is undone.

    Raises `BatchTooLarge` where there are more than `MOST_CULPRITS`, and the error itself where it is not of a result.
    """
    culprits: dict[int, str] = {}
    with transaction.atomic():
        _halve(results, store, culprits)
        transaction.set_rollback(True)
    logger.warning("%d of %d results cannot be stored: %s", len(culprits), len(results), sorted(set(culprits.values())))
    return culprits


def _halve(results: PartT, store: Callable[[PartT], object], culprits: dict[int, str]) -> None:
    """Store what can be, each attempt in a savepoint, and note what cannot."""
    try:
        with transaction.atomic():
            store(results)
    except CANNOT_BE_STORED as error:
        reason = reason_of(error)
        if reason is None or len(results) == 0:
            raise
        if len(results) > 1:
            middle = len(results) // 2
            _halve(results.part(0, middle), store, culprits)
            _halve(results.part(middle, len(results)), store, culprits)
        elif len(culprits) == MOST_CULPRITS:
            raise BatchTooLarge(f"more than {MOST_CULPRITS} results cannot be stored; send smaller batches") from error
        else:
            culprits[results.numbers()[0]] = reason

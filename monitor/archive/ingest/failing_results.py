"""Find the results that the database rejects although they passed every check, after storing the batch failed."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import Protocol, Self, TypeVar

from django.db import DatabaseError, DataError, transaction

from monitor.archive.ingest.arrivals import BatchTooLarge

logger = logging.getLogger(__name__)

# Maximum failing results, each about two attempts per bisection step; above it the agent must halve the batch.
MOST_CULPRITS = 50
# SQLSTATE classes about values, not the database or our code.
# https://www.postgresql.org/docs/current/errcodes-appendix.html
OF_VALUES = ("22", "23", "54")
CANNOT_BE_STORED = (DatabaseError, ArithmeticError, ValueError, struct.error)


class BatchPart(Protocol):
    """Results that can be divided."""

    def __len__(self) -> int: ...

    def part(self, first: int, last: int) -> Self: ...

    def numbers(self) -> list[int]: ...


PartT = TypeVar("PartT", bound=BatchPart)


def reason_of(error: Exception) -> str | None:
    """Reason why values cannot be stored; None where the error is not about values."""
    if not isinstance(error, DatabaseError):
        return f"cannot be stored: {error}".replace("\0", "\ufffd")
    cause = error.__cause__
    sqlstate = getattr(cause, "sqlstate", None)
    if sqlstate is None and isinstance(error, DataError):  # psycopg itself could not write the value
        return f"the database cannot store it: {error}".replace("\0", "\ufffd")
    if sqlstate is None or not sqlstate.startswith(OF_VALUES):
        return None
    said = getattr(getattr(cause, "diag", None), "message_primary", None) or str(error)
    return f"the database cannot store it: {said}".replace("\0", "\ufffd")


def find_culprits(results: PartT, store: Callable[[PartT], object]) -> dict[int, str]:
    """Bisect for results that cannot be stored; all stores are rolled back.

    Raises `BatchTooLarge` above `MOST_CULPRITS`, and the original error where it is not about a result.
    """
    culprits: dict[int, str] = {}
    with transaction.atomic():
        _halve(results, store, culprits)
        transaction.set_rollback(True)
    logger.warning("%d of %d results cannot be stored: %s", len(culprits), len(results), sorted(set(culprits.values())))
    return culprits


def _halve(results: PartT, store: Callable[[PartT], object], culprits: dict[int, str]) -> None:
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

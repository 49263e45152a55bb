"""Move days of bursts from the database to files; list, verify and delete the files.

Retention deletes a day's rows only once `ColdFile` lists its files, and while their key sum is unchanged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, Max, Min, Sum, Value
from django.db.models.functions import Coalesce

from monitor.archive.cold.files import ColdFileError, ColdFolder, select_list
from monitor.archive.models import ColdFile
from monitor.archive.periods import start_of
from monitor.archive.statements import run_statement, statement
from probes.contract import Deadline

# A file ends with the path that reaches this number.
BURSTS_OF_FILE = 2_000_000
ROWS_AT_ONCE = 20_000
ONE_DAY = timedelta(days=1)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Keys:
    bursts: int
    keys: Decimal


@dataclass(frozen=True, slots=True)
class ColdTotals:
    """Sums of all files; days are None without files."""

    first: date | None
    last: date | None
    files: int
    bursts: int
    size_bytes: int


def place() -> ColdFolder | None:
    """Folder of old bursts; None where they stay in the database."""
    return ColdFolder(settings.COLD_BURSTS) if settings.COLD_BURSTS else None


def move(since: datetime, before: datetime, deadline: Deadline) -> datetime:
    """Write at least one missing day in [since, before), until the deadline; return the time before which all bursts
    are in files.

    Raises `ColdFileError`.
    """
    into = place()
    if into is None:
        return before
    begin, has_written = start_of("day", since), False
    while begin < before:
        rows = _rows_of(begin)
        if rows.bursts and not _is_written(begin.date(), rows):
            if has_written and deadline.passed:
                return begin
            _write(into, begin, rows)
            has_written = True
        begin += ONE_DAY
    return before


def delete_expired(before: datetime) -> int:
    """Delete files of days that end by `before`; return their number. Raises `ColdFileError`."""
    into = place()
    if into is None:
        return 0
    expired = list(ColdFile.objects.filter(day__lt=before.astimezone(UTC).date()))
    for file in expired:
        into.delete(file.name)
        file.delete()
    return len(expired)


def damages() -> Iterator[tuple[ColdFile, str | None]]:
    """Read each file whole and yield its damage, or None. Raises `ColdFileError`."""
    into = place()
    if into is None:
        raise ColdFileError("SOUNDINGS_COLD_BURSTS is not set: name the folder of the files")
    for file in ColdFile.objects.order_by("day", "pk"):
        try:
            is_same = into.digest(file.name) == (file.sha256, file.size_bytes)
        except ColdFileError as error:
            yield file, str(error)
        else:
            yield file, None if is_same else f"{into.path(file.name)}: changed since it was written"


def totals() -> ColdTotals:
    sums = ColdFile.objects.aggregate(
        first=Min("day"),
        last=Max("day"),
        files=Count("pk"),
        bursts=Coalesce(Sum("bursts"), Value(0)),
        size_bytes=Coalesce(Sum("size_bytes"), Value(0)),
    )
    return ColdTotals(**sums)


def _rows_of(begin: datetime) -> _Keys:
    _, rows = run_statement("keys_of_day", since=begin, until=begin + ONE_DAY)
    return _Keys(*rows[0])


def _is_written(day: date, rows: _Keys) -> bool:
    return ColdFile.objects.filter(day=day, day_bursts=rows.bursts, day_keys=rows.keys).exists()


def _write(into: ColdFolder, begin: datetime, rows: _Keys) -> None:
    day = begin.date()
    writing = ColdFile.objects.filter(day=day).values("day_keys").distinct().count() + 1
    with transaction.atomic():
        files = list(_files_of(into, begin, writing))
        if sum(file.bursts for file in files) != rows.bursts or _rows_of(begin) != rows:
            raise ColdFileError(f"the bursts of {day} changed while they were written; the next run retries")
        for file in files:
            file.day_bursts, file.day_keys = rows.bursts, rows.keys
        ColdFile.objects.bulk_create(files)
    logger.info("cold bursts: %s in %d files, %d bursts", day, len(files), rows.bursts)


def _files_of(into: ColdFolder, begin: datetime, writing: int) -> Iterator[ColdFile]:
    day = begin.date()
    text = statement("bursts_of_day", columns=select_list())
    with connection.chunked_cursor() as cursor:
        cursor.execute(text, {"since": begin, "until": begin + ONE_DAY})
        rows = cursor.fetchmany(ROWS_AT_ONCE)
        while rows:
            first, bursts = rows[0][0], 0
            name = f"{day:%Y/%m}/bursts-{day}-{writing}-{first}.parquet"
            with into.writing(name) as file:
                while rows:
                    last = rows[-1][0]
                    is_full = bursts + len(rows) >= BURSTS_OF_FILE
                    here = [row for row in rows if row[0] != last] if is_full and rows[0][0] != last else rows
                    file.write(here)
                    bursts += len(here)
                    final = here[-1][0]
                    rows = rows[len(here) :] + cursor.fetchmany(ROWS_AT_ONCE)
                    if is_full and (not rows or rows[0][0] != final):
                        break
            sha256, size_bytes = into.digest(name)
            yield ColdFile(
                day=day,
                name=name,
                first_path_id=first,
                last_path_id=final,
                bursts=bursts,
                size_bytes=size_bytes,
                sha256=sha256,
            )

"""What alert rules ask of all paths at once: one statement a question, answered as arrays.

In: periods as aware times, half open. Out: columns of one length as float64, NaN where there is nothing, times in
seconds since the epoch; rows of a path need not be together. The columns are sent in binary, ten times as fast as rows
of Python's numbers. Questions about one path are in `queries`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from monitor.archive.round_trips import unpack
from monitor.archive.statements import LONGEST_RAW, check_period, statement

Floats = NDArray[np.float64]
Columns = dict[str, Floats]

COUNTS = ("bursts", "sent", "received", "lossy", "reordered", "duplicated")
"""Measured bursts and packets, and the bursts with any loss, any reply out of order, any duplicate."""

TIMES = ("tried_s", "measured_s", "answered_s")
EVENTS = ("lossy", "reordered", "duplicated")

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """Answered bursts by path and time: when each began, its TTL, and its round trips of shape (bursts, packets)."""

    path_id: Floats
    at_s: Floats
    ttl: Floats
    rtts_ms: Floats


def recent_counts(until: datetime, step_s: float, steps: int) -> Columns:
    """`path_id`, `step` (0 is the newest), `COUNTS` and `TIMES` of so many steps before `until`, a day at most."""
    if step_s * steps > LONGEST_RAW.total_seconds():
        raise ValueError(f"{steps} steps of {step_s:g} s would scan raw bursts for more than a day")
    names = ("path_id", "step", *COUNTS, *TIMES)
    since = until - timedelta(seconds=step_s * steps)
    return _columns("recent_counts", names, since=since, until=until, step_s=step_s)


def hourly_counts(since: datetime, until: datetime) -> Columns:
    """`path_id`, `step` (0 is the newest) and `COUNTS` of the hours that begin in the period; both ends on the hour."""
    check_period(since, until)
    return _columns("hourly_counts", ("path_id", "step", *COUNTS), since=since, until=until)


def baseline_counts(since: datetime, hours_since: datetime, until: datetime, season: Sequence[datetime]) -> Columns:
    """`path_id`, `COUNTS`, how hours scatter, and the hours `season`; sql/baseline_counts.sql has the columns.

    Days up to `hours_since`, then hours; so the first two lie on days, the last on an hour.
    """
    check_period(since, until)
    scatter = ("hours", "hours_bursts", *(f"hours_{one}" for one in EVENTS), *(f"{one}_squares" for one in EVENTS))
    names = ("path_id", *COUNTS, *scatter, "season_bursts", "season_lossy")
    asked = {"since": since, "hours_since": hours_since, "until": until, "season": list(season)}
    return _columns("baseline_counts", names, **asked)


def newest_tests(path_ids: Sequence[int], since: datetime, until: datetime, most: int) -> Columns:
    """`path_id`, `place` (0 is the newest), `at_s` and `throughput_bps` of the newest measured tests of each path."""
    check_period(since, until)
    asked = {"path_ids": list(path_ids), "since": since, "until": until, "most": most}
    return _columns("newest_tests", ("path_id", "place", "at_s", "throughput_bps"), **asked)


def daily_figures(since: datetime, until: datetime) -> Columns:
    """`path_id`, `place` (0 is the newest day), `rtt_median_ms` and `estimate_bps` of whole days; both ends at
    midnight."""
    check_period(since, until)
    names = ("path_id", "place", "rtt_median_ms", "estimate_bps")
    return _columns("daily_figures", names, since=since, until=until)


def recent_round_trips(
    path_ids: Sequence[int], packet_bytes: Sequence[int], since_s: Sequence[float], until: datetime
) -> RoundTrips:
    """The answered bursts of each path and size from its own time on (seconds since the epoch), a day at most before
    `until`."""
    asked: dict[str, Any] = {
        "path_ids": list(path_ids),
        "sizes": list(packet_bytes),
        "since_s": list(since_s),
        "earliest_s": max(min(since_s, default=until.timestamp()), (until - LONGEST_RAW).timestamp()),
        "until": until,
    }
    *numbers, rtts = _row_of(statement("recent_round_trips"), asked, 5)
    path_id, at_s, ttl, packets = (_floats(column) for column in numbers)
    return RoundTrips(path_id, at_s, ttl, unpack(packets.astype(np.int64), rtts or b""))


def _columns(name: str, names: Sequence[str], **asked: Any) -> Columns:
    columns = (f"string_agg(float8send(coalesce({one}::double precision, 'NaN')), '')" for one in names)
    row = _row_of(statement("sweep", columns=", ".join(columns), rows=statement(name)), asked, len(names))
    return dict(zip(names, map(_floats, row), strict=True))


def _row_of(text: str, asked: Mapping[str, Any], columns: int) -> tuple[bytes | None, ...]:
    """The one row of a statement, so many columns of bytes; copied in binary, as text is twice as long."""
    with connection.cursor() as cursor, connection.wrap_database_errors:
        copying = f"COPY ({cursor.mogrify(text, asked)}) TO STDOUT (FORMAT BINARY)"
        with cursor.copy(copying) as copy:
            copy.set_types(["bytea"] * columns)
            (row,) = copy.rows()
    return row


def _floats(column: bytes | None) -> Floats:
    return np.frombuffer(column or b"", dtype=">f8").astype(np.float64)

"""Input of the alert rules for all paths, as float64 columns, NaN where empty.

Times are seconds since the epoch, periods half open; rows of a path need not be contiguous.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from django.db import connection

from monitor.archive.path_groups import groups_of, is_since
from monitor.archive.round_trips import unpack
from monitor.archive.statements import LONGEST_RAW, check_period, check_raw_period, statement
from monitor.arrays import Floats
from monitor.prepared import array_text

Columns = dict[str, Floats]

# Measured bursts and packets, and bursts with loss, reordering or duplicates.
COUNTS = ("bursts", "sent", "received", "lossy", "reordered", "duplicated")

TIMES = ("tried_s", "measured_s", "answered_s", "counted_s")
EVENTS = ("lossy", "reordered", "duplicated")

# Prefixes of the columns of a direction.
DIRECTIONS = ("forward", "reverse")

# Sizes of a path's blocks with series of runs in full length.
MOST_SIZES = 4

MINUTE_S = 60
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """Answered bursts by path and time; RTTs have shape (bursts, packets)."""

    path_id: Floats
    at_s: Floats
    ttl: Floats
    rtts_ms: Floats


@dataclass(frozen=True, slots=True)
class LeftOutHours:
    """Hours that a baseline leaves out, in disjoint ranges of hours since the epoch."""

    path_id: tuple[int, ...] = ()
    first: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    most: float = 0.5  # a path with a larger share of its bursts in them keeps all

    @property
    def parameters(self) -> dict[str, Any]:
        ranges = {"left_out_paths": self.path_id, "left_out_first": self.first, "left_out_end": self.end}
        return {name: array_text(values) for name, values in ranges.items()} | {"most_left_out": self.most}


NO_HOURS = LeftOutHours()


def recent_counts(until: datetime, step_s: float, steps: int) -> Columns:
    """`path_id`, `step` (0 is the newest), `COUNTS` and `TIMES` of intervals before `until`, a day at most."""
    if step_s * steps > LONGEST_RAW.total_seconds():
        raise ValueError(f"{steps} steps of {step_s:g} s would scan raw bursts for more than a day")
    columns = _counts_by_step(until - timedelta(seconds=step_s * steps), until, step_s)
    columns["step"] = np.round((until.timestamp() - columns.pop("begins_s")) / step_s) - 1
    return columns


def minute_counts(since: datetime, until: datetime, path_ids: Sequence[int] | None = None) -> Columns:
    """As `recent_counts`, by `minute` since the epoch; `since` is a whole minute."""
    check_raw_period(since, until)
    columns = _counts_by_step(since, until, MINUTE_S, path_ids)
    columns["minute"] = columns.pop("begins_s") / MINUTE_S
    return columns


def _counts_by_step(since: datetime, until: datetime, step_s: float, path_ids: Sequence[int] | None = None) -> Columns:
    names = ("path_id", "begins_s", *COUNTS, *TIMES)
    parts = {"of_paths": "" if path_ids is None else " AND path_id = ANY(%(path_ids)s::integer[])"}
    parameters = {} if path_ids is None else {"path_ids": array_text(path_ids)}
    return _columns("recent_counts", names, parts, since=since, until=until, step_s=step_s, **parameters)


def hourly_counts(since: datetime, until: datetime) -> Columns:
    """`path_id`, `step` (0 is the newest) and `COUNTS`; both ends on the hour."""
    check_period(since, until)
    return _columns("hourly_counts", ("path_id", "step", *COUNTS), since=since, until=until)


def baseline_counts(
    since: datetime,
    hours_since: datetime,
    until: datetime,
    season: Sequence[datetime],
    left_out: LeftOutHours = NO_HOURS,
) -> Columns:
    """`path_id`, `COUNTS`, scatter and `season` hours (sql/baseline_counts.sql): days up to `hours_since`, then hours.

    `since` and `hours_since` are at midnight, `until` on the hour. Season hours are left out only if of a single week.
    """
    check_period(since, until)
    scatter = (
        "hours",
        "hours_bursts",
        *(f"hours_{event}" for event in EVENTS),
        *(f"{event}_squares" for event in EVENTS),
    )
    names = ("path_id", *COUNTS, *scatter, "season_bursts", "season_lossy")
    parameters = {"since": since, "hours_since": hours_since, "until": until, "season": list(season)}
    return _columns("baseline_counts", names, **parameters, **left_out.parameters)


def recent_directions(until: datetime, step_s: float, steps: int) -> Columns:
    """As `recent_counts`, for STAMP cycles with a counting reflector, by direction; `delayed_s` is the newest cycle
    with both delays."""
    if step_s * steps > LONGEST_RAW.total_seconds():
        raise ValueError(f"{steps} steps of {step_s:g} s would scan raw cycles for more than a day")
    since = until - timedelta(seconds=step_s * steps)
    names = ("path_id", "step", "bursts", *_of_directions("sent", "lost", "lossy"), "delayed_s")
    return _columns("recent_directions", names, since=since, until=until, step_s=step_s)


def hourly_directions(since: datetime, until: datetime) -> Columns:
    """As `hourly_counts`, with `recent_directions` columns."""
    check_period(since, until)
    names = ("path_id", "step", "bursts", *_of_directions("sent", "lost", "lossy"))
    return _columns("hourly_directions", names, since=since, until=until)


def baseline_directions(
    since: datetime,
    hours_since: datetime,
    until: datetime,
    season: Sequence[datetime],
    left_out: LeftOutHours = NO_HOURS,
) -> Columns:
    """As `baseline_counts`, with `recent_directions` columns."""
    check_period(since, until)
    of_each = _of_directions("sent", "lost", "lossy", "hours_lossy", "lossy_squares", "season_lossy")
    names = ("path_id", "bursts", "hours", "hours_bursts", "season_bursts", *of_each)
    parameters = {"since": since, "hours_since": hours_since, "until": until, "season": list(season)}
    return _columns("baseline_directions", names, **parameters, **left_out.parameters)


def newest_directions(path_ids: Sequence[int], since_s: Sequence[float], until: datetime) -> Columns:
    """As `newest_bursts`, for STAMP cycles with a counting reflector."""
    names = ("path_id", "at_s", *_of_directions("sent", "received"))
    return _columns_of_paths("newest_directions", names, path_ids, since_s, until)


def recent_delays(path_ids: Sequence[int], since_s: Sequence[float], until: datetime) -> Columns:
    """As `newest_directions`, for cycles with both delays: in ms, raw by both ends' clocks, with clock offset bounds.
    The smallest packets count."""
    names = ("path_id", "at_s", *_of_directions("median", "minimum", "jitter"), "offset_lo", "offset_hi", "test_rank")
    delays = _columns_of_paths("recent_delays", names, path_ids, since_s, until)
    ranks, path = delays.pop("test_rank"), np.unique(delays["path_id"], return_inverse=True)[1]
    smallest = np.full(path.max(initial=-1) + 1, np.inf)
    np.minimum.at(smallest, path, ranks)
    return {name: column[ranks == smallest[path]] for name, column in delays.items()}


def _of_directions(*names: str) -> tuple[str, ...]:
    return tuple(f"{direction}_{name}" for direction in DIRECTIONS for name in names)


def newest_tests(
    path_ids: Sequence[int], since: datetime, until: datetime, most: int, *, on_demand: bool = False
) -> Columns:
    """`path_id`, `place` (0 is the newest), `at_s` and `throughput_bps` of each path's newest tests."""
    check_period(since, until)
    parameters = {"path_ids": list(path_ids), "since": since, "until": until, "most": most, "on_demand": on_demand}
    return _columns("newest_tests", ("path_id", "place", "at_s", "throughput_bps"), **parameters)


def newest_responses(path_ids: Sequence[int], since: datetime, until: datetime, most: int) -> Columns:
    """Newest request-response runs of each path and sizes, at most `MOST_SIZES` times `most` a path; `place` 0 is the
    newest."""
    check_period(since, until)
    names = ("path_id", "request_bytes", "response_bytes", "place", "at_s", "median_ms", "p95_ms")
    limits = {"most": most, "most_of_path": MOST_SIZES * most}
    return _columns("newest_responses", names, path_ids=list(path_ids), since=since, until=until, **limits)


def hourly_responses(since: datetime, until: datetime) -> Columns:
    """As `newest_responses`, without `place`, the first run of each hour; both ends on the hour."""
    check_period(since, until)
    names = ("path_id", "request_bytes", "response_bytes", "at_s", "median_ms", "p95_ms")
    return _columns("hourly_responses", names, since=since, until=until)


def daily_figures(since: datetime, until: datetime) -> Columns:
    """`path_id`, `place` (0 is the newest day), `rtt_median_ms` and `estimate_bps`; both ends at midnight."""
    check_period(since, until)
    names = ("path_id", "place", "rtt_median_ms", "estimate_bps")
    return _columns("daily_figures", names, since=since, until=until)


def recent_round_trips(
    path_ids: Sequence[int], packet_bytes: Sequence[int], since_s: Sequence[float], until: datetime
) -> RoundTrips:
    """Answered bursts since each path's own time (seconds since the epoch), a day at most; paths are listed once."""
    ids, sizes, first_s = np.asarray(path_ids, dtype=np.int64), np.asarray(packet_bytes), np.asarray(since_s)
    parts = []
    for size in np.unique(sizes).tolist():
        of_size = np.flatnonzero(sizes == size)
        for group in groups_of(first_s[of_size], until):
            places = of_size[group.places]
            parameters = {"path_ids": array_text(ids[places].tolist()), "packet_bytes": size}
            parameters |= {"since": group.since, "until": until}
            *numbers, rtts = row_of_bytes(statement("recent_round_trips"), parameters, 5)
            path_id, at_s, ttl, packets = (floats_of(column) for column in numbers)
            rtts_ms = unpack(packets.astype(np.int64), rtts or b"")
            is_own = is_since(path_id, at_s, ids[places], first_s[places])
            parts.append(RoundTrips(path_id[is_own], at_s[is_own], ttl[is_own], rtts_ms[is_own]))
    return _round_trips_by_path(parts)


def newest_bursts(path_ids: Sequence[int], since_s: Sequence[float], until: datetime) -> Columns:
    """`path_id`, `at_s`, `sent` and `received` of measured bursts, with periods as for `recent_round_trips`."""
    return _columns_of_paths("newest_bursts", ("path_id", "at_s", "sent", "received"), path_ids, since_s, until)


def requests(path_ids: Sequence[int], since_s: Sequence[float], until: datetime) -> Columns:
    """As `newest_bursts`, with `packet_bytes` and `answered` (0 or 1)."""
    names = ("path_id", "at_s", "packet_bytes", "answered")
    return _columns_of_paths("requests", names, path_ids, since_s, until)


def _columns_of_paths(
    name: str, names: Sequence[str], path_ids: Sequence[int], since_s: Sequence[float], until: datetime
) -> Columns:
    ids, first_s = np.asarray(path_ids, dtype=np.int64), np.asarray(since_s, dtype=np.float64)
    parts = []
    for group in groups_of(first_s, until):
        of_group = ids[group.places].tolist()
        columns = _columns(name, names, path_ids=array_text(of_group), since=group.since, until=until)
        is_own = is_since(columns["path_id"], columns["at_s"], of_group, first_s[group.places])
        parts.append({name: column[is_own] for name, column in columns.items()})
    if len(parts) == 1:
        return parts[0]
    together = {name: np.concatenate([np.zeros(0), *(part[name] for part in parts)]) for name in names}
    order = np.argsort(together["path_id"], kind="stable")
    return {name: column[order] for name, column in together.items()}


def _round_trips_by_path(parts: Sequence[RoundTrips]) -> RoundTrips:
    if len(parts) == 1:
        return parts[0]
    none = np.zeros(0)
    packets = max((part.rtts_ms.shape[1] for part in parts), default=0)
    rtts_ms = [
        np.pad(part.rtts_ms, ((0, 0), (0, packets - part.rtts_ms.shape[1])), constant_values=np.nan) for part in parts
    ]
    path_id = np.concatenate([none, *(part.path_id for part in parts)])
    order = np.argsort(path_id, kind="stable")
    return RoundTrips(
        path_id[order],
        np.concatenate([none, *(part.at_s for part in parts)])[order],
        np.concatenate([none, *(part.ttl for part in parts)])[order],
        np.concatenate([np.zeros((0, packets)), *rtts_ms])[order],
    )


def _columns(name: str, names: Sequence[str], parts: Mapping[str, str] | None = None, /, **parameters: Any) -> Columns:
    # Binary columns are ten times as fast as rows of Python numbers.
    columns = (f"string_agg(float8send(coalesce({name}::double precision, 'NaN')), '')" for name in names)
    left_out = {"left_out": statement("left_out_hours")} if "left_out_paths" in parameters else {}
    rows = statement(name, **left_out, **(parts or {}))
    row = row_of_bytes(statement("sweep", columns=", ".join(columns), rows=rows), parameters, len(names))
    return dict(zip(names, map(floats_of, row), strict=True))


def row_of_bytes(text: str, parameters: Mapping[str, Any], columns: int) -> tuple[bytes | None, ...]:
    """Single row of bytes, copied in binary, since text is twice as long."""
    with connection.cursor() as cursor, connection.wrap_database_errors:
        copying = f"COPY ({cursor.mogrify(text, parameters)}) TO STDOUT (FORMAT BINARY)"
        with cursor.copy(copying) as copy:
            copy.set_types(["bytea"] * columns)
            (row,) = copy.rows()
    return row


def floats_of(column: bytes | None) -> Floats:
    """Decode concatenated `float8send` numbers."""
    return np.frombuffer(column or b"", dtype=">f8").astype(np.float64)

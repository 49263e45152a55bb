"""Raw bursts and ICMP errors of a few paths around a moment, a day at most, as evidence of an incident."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from monitor.archive.round_trips import unpack
from monitor.archive.statements import check_period, check_raw_period, records, run_statement, select, statement
from monitor.arrays import Floats

MOST_ERRORS = 20


@dataclass(frozen=True, slots=True)
class BurstColumns:
    """Measured bursts by path and time, also during throughput tests; RTTs have shape (bursts, packets), NaN where
    lost."""

    path_id: Floats
    at_s: Floats
    packet_bytes: Floats
    sent: Floats
    received: Floats
    duplicates: Floats
    reordered: Floats
    during_test: Floats
    ttl: Floats
    rtts_ms: Floats

    def where(self, keep: NDArray[np.bool_]) -> BurstColumns:
        return self._at(keep)

    def in_order(self) -> BurstColumns:
        return self._at(np.argsort(self.at_s, kind="stable"))

    def _at(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> BurstColumns:
        return BurstColumns(**{column.name: getattr(self, column.name)[rows] for column in fields(BurstColumns)})


@dataclass(frozen=True, slots=True)
class IcmpErrors:
    """ICMP error returned by a router or the target for `count` requests; `name` as in
    `probes.packets.spec.IcmpError`."""

    path_id: int
    name: str
    router: str
    count: int


@dataclass(frozen=True, slots=True)
class TestAround:
    path_id: int
    at: datetime
    throughput_bps: float | None  # None where the test failed
    is_on_demand: bool
    outcome: str
    transferred_bytes: int | None  # received, else written to the sender's socket; None where unknown
    duration_s: float | None
    resent_ratio: float | None  # share of segments retransmitted; None where unknown
    has_queue: bool  # whether its own queue was its limit

    @property
    def most_bps(self) -> float | None:
        """Rate, or an upper bound for a failed test; None where unknown."""
        if self.throughput_bps is not None or not self.transferred_bytes or not self.duration_s:
            return self.throughput_bps
        return 8.0 * self.transferred_bytes / self.duration_s


def bursts_around(path_ids: Sequence[int], since: datetime, until: datetime) -> BurstColumns:
    """Measured bursts that began in the period. Raises `ValueError` for more than a day."""
    check_raw_period(since, until)
    with connection.cursor() as cursor:
        cursor.execute(statement("bursts_around"), {"path_ids": list(path_ids), "since": since, "until": until})
        *numbers, packets, rtts = cursor.fetchone()
    names = (field.name for field in fields(BurstColumns) if field.name != "rtts_ms")
    columns = (np.frombuffer(column or b"", dtype=">f8").astype(np.float64) for column in numbers)
    sizes = np.frombuffer(packets or b"", dtype=">f8").astype(np.int64)
    return BurstColumns(**dict(zip(names, columns, strict=True)), rtts_ms=unpack(sizes, rtts or b""))


def icmp_errors(path_ids: Sequence[int], since: datetime, until: datetime) -> list[IcmpErrors]:
    """The `MOST_ERRORS` most frequent ICMP errors of these paths."""
    check_raw_period(since, until)
    parameters = {"path_ids": list(path_ids), "since": since, "until": until, "limit": MOST_ERRORS}
    return records(IcmpErrors, *run_statement("icmp_errors", **parameters))


def tests_around(
    path_ids: Sequence[int],
    since: datetime,
    until: datetime,
    most: int,
    queue_figure: str,
    failed_since: datetime,
) -> list[TestAround]:
    """Newest TCP tests of each path, also on demand, and failures since `failed_since`, newest first.

    `queue_figure` is the evidence of a queue verdict.
    """
    check_period(since, until)
    return select(
        TestAround,
        "tests_around",
        path_ids=list(path_ids),
        since=since,
        until=until,
        most=most,
        queue_figure=queue_figure,
        failed_since=failed_since,
    )


def diagnosed_tests(paths: Sequence[tuple[int, int, datetime]]) -> dict[int, int]:
    """Count diagnosed or failed TCP tests by group, from (group, path, begin)."""
    groups, path_ids, begins = zip(*paths, strict=True) if paths else ((), (), ())
    columns = {"groups": list(groups), "path_ids": list(path_ids), "begins": list(begins)}
    return dict(run_statement("diagnosed_tests", **columns)[1])


def newest_addresses(path_ids: Sequence[int], since: datetime, until: datetime) -> dict[int, str]:
    check_raw_period(since, until)
    return dict(run_statement("newest_addresses", path_ids=list(path_ids), since=since, until=until)[1])

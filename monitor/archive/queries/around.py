"""What a few paths measured around a moment: the raw bursts that an incident's evidence is made of.

In: paths by their id and a period of a day at most, as aware times, half open. Out: columns of one length as float64,
and records. One statement in sql/ each. What all paths measured is in `sweeps`, one path over time in `queries`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from monitor.archive.round_trips import unpack
from monitor.archive.statements import ask, check_raw_period, records, statement

Floats = NDArray[np.float64]

MOST_ERRORS = 20


@dataclass(frozen=True, slots=True)
class Bursts:
    """Measured bursts by path and time, own tests included and marked: columns of shape (bursts,), and the round trips
    in ms of shape (bursts, packets), NaN where lost."""

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


@dataclass(frozen=True, slots=True)
class IcmpErrors:
    """What a router, or the target itself, said of `count` requests; `name` as `probes.ping.spec.IcmpError` has it."""

    path_id: int
    name: str
    router: str
    count: int


def bursts_around(path_ids: Sequence[int], since: datetime, until: datetime) -> Bursts:
    """All measured bursts of these paths that began in the period; `ValueError` where it is longer than a day."""
    check_raw_period(since, until)
    with connection.cursor() as cursor:
        cursor.execute(statement("bursts_around"), {"path_ids": list(path_ids), "since": since, "until": until})
        *numbers, packets, rtts = cursor.fetchone()
    names = (one.name for one in fields(Bursts) if one.name != "rtts_ms")
    columns = (np.frombuffer(column or b"", dtype=">f8").astype(np.float64) for column in numbers)
    sizes = np.frombuffer(packets or b"", dtype=">f8").astype(np.int64)
    return Bursts(**dict(zip(names, columns, strict=True)), rtts_ms=unpack(sizes, rtts or b""))


def icmp_errors(path_ids: Sequence[int], since: datetime, until: datetime) -> list[IcmpErrors]:
    """The ICMP errors that bursts of these paths drew in at most a day; `MOST_ERRORS` of them, the most frequent."""
    check_raw_period(since, until)
    asked = {"path_ids": list(path_ids), "since": since, "until": until, "limit": MOST_ERRORS}
    return records(IcmpErrors, *ask("icmp_errors", **asked))


def newest_addresses(path_ids: Sequence[int], since: datetime, until: datetime) -> dict[int, str]:
    """The address that each path's newest burst within a day at most was sent to, where it is known."""
    check_raw_period(since, until)
    return dict(ask("newest_addresses", path_ids=list(path_ids), since=since, until=until)[1])

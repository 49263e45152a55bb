"""STAMP results as an agent delivers them."""

from __future__ import annotations

from datetime import datetime, timedelta

from monitor.archive.models import DirectionBurst
from monitor.mesh.models import Path
from probes.contract import Outcome
from probes.site.wire import Delivered
from probes.stamp.spec import ClockBound, StampBurst, StampDirection
from tests.db.mesh_of_three import HOUR

MINUTE = timedelta(minutes=1)


def direction(lost: int | None = 0, raw_ms: float | None = None, spread_ms: float = 4.0, **fields: object):
    """A direction with raw delays from `raw_ms` on; without it, no delays."""
    delays = {}
    if raw_ms is not None:
        delays = {
            "min_ms": raw_ms,
            "median_ms": raw_ms + spread_ms / 4,
            "p95_ms": raw_ms + spread_ms,
            "max_ms": raw_ms + 2 * spread_ms,
            "ipdv_ms": spread_ms / 8,
        }
    return StampDirection(lost=lost, **{**delays, **fields})


def stamp_burst(
    *,
    at: datetime = HOUR,
    sent: int = 10,
    forward_lost: int | None = 0,
    reverse_lost: int | None = 0,
    undecided: int = 0,
    forward_ms: float | None = 21.0,
    reverse_ms: float | None = 19.0,
    offset_ms: tuple[float, float] | None = (-1.0, 3.0),
    **fields: object,
) -> StampBurst:
    """A measured burst; its first replies came back in 40 ms, its last packets were lost."""
    lost = (forward_lost or 0) + (reverse_lost or 0) + undecided
    has_delays = lost < sent
    values: dict[str, object] = {
        "target": "cern",
        "address": "192.0.2.2",
        "family": 4,
        "packet_bytes": 200,
        "started_at": at,
        "outcome": Outcome.MEASURED,
        "sent": sent,
        "received": sent - lost,
        "rtts_ms": (40.0,) * (sent - lost) + (None,) * lost,
        "stamp": "kernel",
        "is_stateful": None if forward_lost is None else True,
        "undecided": undecided,
        "forward": direction(forward_lost, forward_ms if has_delays else None),
        "reverse": direction(reverse_lost, reverse_ms if has_delays else None, ttl=57 if has_delays else None),
        "own_clock": ClockBound(is_synchronised=True, error_ms=1.0, source="chrony"),
        "far_clock": ClockBound(is_synchronised=True, error_ms=1.0),
    }
    if offset_ms is not None and has_delays:
        values |= {"offset_lo_ms": offset_ms[0], "offset_hi_ms": offset_ms[1]}
    return StampBurst(**{**values, **fields})


def delivered_stamp(path: Path | int, result: StampBurst, sequence: int = 1, **fields: object) -> Delivered:
    path_id = path if isinstance(path, int) else path.pk
    return Delivered(**{"sequence": sequence, "path_id": path_id, "test": "oneway", "result": result, **fields})


def store_cycles(path: Path, since: datetime, until: datetime, **counts: int | None) -> None:
    """Stored STAMP cycles, one a minute, with these counts."""
    DirectionBurst.objects.bulk_create(
        DirectionBurst(
            path_id=path.pk,
            measured_at=since + number * MINUTE,
            packet_bytes=200,
            test="oneway",
            outcome="measured",
            during_test=False,
            dscp=0,
            **counts,
        )
        for number in range(round((until - since) / MINUTE))
    )

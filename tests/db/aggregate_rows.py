"""Stored results of aggregate tests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from monitor.analysis.aggregate import Harm, jain_index
from monitor.archive.models import AggregateRun
from monitor.archive.queries.throughput.aggregates import AggregateDetails, HarmedPath, MemberResult
from monitor.mesh.models import Path

RATES_BPS = (12e6, 9e6, 8.5e6, 8e6)


def aggregate_run(
    members: Sequence[Path], at: datetime, *, missing: int = 0, others: Sequence[Path] = (), **fields: Any
) -> AggregateRun:
    """A run with these members, the last of which are missing. The RTT of the first of `others` rose."""
    measured = len(members) - missing
    rates = RATES_BPS[:measured]
    results = tuple(
        _member(path, number, rates[number] if number < measured else None) for number, path in enumerate(members)
    )
    slot_id = 900 + AggregateRun.objects.count()
    harm = tuple(_harmed(path, is_slower=number == 0) for number, path in enumerate(others))
    values = {
        "test": "into-cern",
        "shape": "many-to-one",
        "starts_at": at,
        "ends_at": at + timedelta(seconds=25),
        "state": "failed" if not measured else "partial" if missing else "complete",
        "is_final": True,
        "members": len(members),
        "measured": measured,
        "sum_bps": None if missing else sum(rates),
        "partial_sum_bps": sum(rates) if missing and measured else None,
        "fairness": jain_index(rates),
        "common_began_at": at + timedelta(seconds=0.4),
        "common_s": 19.5,
        "start_spread_s": 0.31,
        "path_ids": [path.pk for path in members],
        "details": msgspec.to_builtins(AggregateDetails(members=results, harm=harm)),
        "computed_at": at + timedelta(minutes=4),
    }
    return AggregateRun.objects.create(pk=slot_id, **{**values, **fields})


def _member(path: Path, number: int, bps: float | None) -> MemberResult:
    ends = {"path_id": path.pk, "slot_id": 900 + number, "source": path.source.name}
    ends["destination"] = path.destination.name
    if bps is None:
        return MemberResult(**ends, outcome="missed", detail="neither agent reported within 10 minutes of its end")
    return MemberResult(
        **ends,
        outcome="measured",
        late_s=0.1 * number,
        duration_s=20.0,
        throughput_bps=1.05 * bps,
        common_bps=bps,
        retransmits=40 + number,
        rtt_mean_ms=48.0,
    )


def _harmed(path: Path, *, is_slower: bool) -> HarmedPath:
    return HarmedPath(
        path_id=path.pk,
        source=path.source.name,
        destination=path.destination.name,
        shares="uplink cern/wan",
        packet_bytes=100,
        harm=Harm.SLOWER if is_slower else Harm.NONE,
        loaded_sent=20,
        loaded_received=19,
        loaded_rtt_median_ms=86.4 if is_slower else 20.2,
        loaded_rtt_p95_ms=112.9 if is_slower else 21.0,
        rest_sent=600,
        rest_received=600,
        rest_rtt_median_ms=20.1,
        rest_rtt_p95_ms=20.9,
    )

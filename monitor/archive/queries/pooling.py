"""SQL that pools a path's summaries over a period to a single row, and its quantiles by NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
from django.utils import timezone

from monitor.analysis.summaries import grouped_weighted_medians
from monitor.archive.columns import nullable
from monitor.archive.models import BurstSummary
from monitor.archive.periods import TierStretch, cover, cover_exactly, start_of
from monitor.archive.statements import optional_list, statement

_SKETCHES = ("rtt_sketch", "ipdv_sketch", "loaded_rtt_sketch")
COLUMNS = ", ".join(field.attname for field in BurstSummary._meta.fields if field.attname not in _SKETCHES)
_FIGURE = np.dtype(">f8")
_QUANTILE, _WEIGHT = np.dtype(">f4"), np.dtype(">i4")


def pooled(
    since: datetime,
    until: datetime,
    *,
    packet_bytes: int | None,
    path_ids: Sequence[int] | None,
    quantile: str = "rtt_median_ms",
    exact: bool = False,
    first: int = 0,
    by_plan_at: datetime | None = None,
) -> tuple[str, dict[str, Any]]:
    """Text and parameters of sql/pooled.sql; `first` numbers the first stretch, `exact` is to the hour.

    With `by_plan_at` (now), `bursts_planned` counts the plan's cycles to the last whole hour, else the summaries'
    plans.
    """
    if by_plan_at is not None:
        until = max(since, min(until, start_of("hour", by_plan_at)))
    pieces, parameters = pieces_of(
        since, until, packet_bytes=packet_bytes, path_ids=path_ids, columns=COLUMNS, exact=exact, first=first
    )
    planned = "sum(bursts_planned)"
    if by_plan_at is not None:
        last = first + sum(name.startswith("until_") for name in parameters) - 1
        planned = statement("planned_cycles", first=str(first), last=str(last))
    return statement("pooled", pieces=pieces, quantile=quantile, planned=planned), parameters


def pieces_of(
    since: datetime,
    until: datetime,
    *,
    packet_bytes: int | None,
    path_ids: Sequence[int] | None,
    columns: str,
    exact: bool = False,
    first: int = 0,
) -> tuple[str, dict[str, Any]]:
    """sql/piece.sql for each stretch, with parameters; see `pooled`."""
    stretches = cover_exactly(since, until) if exact else cover(since, until, timezone.now())
    parameters: dict[str, Any] = {
        "packet_bytes": packet_bytes,
        "path_ids": optional_list(path_ids),
    }
    pieces = []
    for number, stretch in enumerate(stretches or [TierStretch("hour", since, since)], first):
        parameters |= {f"since_{number}": stretch.since, f"until_{number}": stretch.until}
        pieces.append(statement("piece", tier=stretch.tier, number=str(number), columns=columns))
    return "\nUNION ALL\n".join(pieces), parameters


def quantiles_of(quantiles: Sequence[bytes | None], weights: Sequence[bytes | None]) -> list[float | None]:
    """Medians of packed quantiles, weighted by packets received."""
    sizes = np.array([0 if part is None else len(part) for part in quantiles], dtype=np.int64) // _QUANTILE.itemsize
    values = np.frombuffer(b"".join(part for part in quantiles if part), dtype=_QUANTILE)
    received = np.frombuffer(b"".join(part for part in weights if part), dtype=_WEIGHT)
    medians = grouped_weighted_medians(np.repeat(np.arange(len(quantiles)), sizes), values, received, len(quantiles))
    return nullable(medians)


def medians_of(packed: Sequence[bytes]) -> list[tuple[float, int]]:
    """The median and the number of each element's packed figures."""
    counts = np.array([len(part) for part in packed], dtype=np.int64) // _FIGURE.itemsize
    figures = np.frombuffer(b"".join(packed), dtype=_FIGURE).astype(np.float64)
    ordered = figures[np.lexsort((figures, np.repeat(np.arange(len(packed)), counts)))]
    firsts = np.cumsum(counts) - counts
    medians = (ordered[firsts + (counts - 1) // 2] + ordered[firsts + counts // 2]) / 2
    return list(zip(medians.tolist(), counts.tolist(), strict=True))

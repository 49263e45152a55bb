"""Results of aggregate tests: sum, members, fairness, and other paths' packets."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import msgspec
from django.db.models import QuerySet

from monitor.analysis.aggregate import AggregateState, Harm
from monitor.archive.models import AggregateRun
from monitor.archive.statements import check_period
from monitor.mesh.document.entries import ON_DEMAND_AGGREGATE


class MemberResult(msgspec.Struct, frozen=True, kw_only=True):
    """Member of a run; rates are None unless measured."""

    path_id: int
    slot_id: int
    source: str
    destination: str
    outcome: str | None  # None until its agent reported
    detail: str | None = None
    began_at: datetime | None = None
    late_s: float | None = None  # from the first member's begin to its own
    duration_s: float | None = None
    throughput_bps: float | None = None  # of its whole test
    common_bps: float | None = None  # while all measured members sent
    retransmits: int | None = None
    rtt_mean_ms: float | None = None

    @property
    def is_measured(self) -> bool:
        return self.throughput_bps is not None


class HarmedPath(msgspec.Struct, frozen=True, kw_only=True):
    """Path that shares a host or uplink with the test: packets under load, and in the hour before."""

    path_id: int
    source: str
    destination: str
    shares: str
    packet_bytes: int
    harm: Harm
    loaded_sent: int
    loaded_received: int
    loaded_rtt_median_ms: float | None
    loaded_rtt_p95_ms: float | None
    rest_sent: int
    rest_received: int
    rest_rtt_median_ms: float | None
    rest_rtt_p95_ms: float | None

    @property
    def loaded_lost(self) -> int:
        return self.loaded_sent - self.loaded_received

    @property
    def rest_lost(self) -> int:
        return self.rest_sent - self.rest_received


class AggregateDetails(msgspec.Struct, frozen=True, kw_only=True):
    members: tuple[MemberResult, ...] = ()
    harm: tuple[HarmedPath, ...] = ()


@dataclass(frozen=True, slots=True)
class AggregateResult:
    slot_id: int
    test: str
    shape: str
    starts_at: datetime
    ends_at: datetime
    state: AggregateState
    is_final: bool
    member_count: int
    measured: int
    sum_bps: float | None  # None unless all members measured at the same time
    partial_sum_bps: float | None  # sum of the members that measured at the same time
    fairness: float | None
    common_began_at: datetime | None
    common_s: float | None
    start_spread_s: float | None
    members: tuple[MemberResult, ...]
    harm: tuple[HarmedPath, ...]

    @property
    def is_on_demand(self) -> bool:
        return self.test == ON_DEMAND_AGGREGATE

    @property
    def missing(self) -> tuple[MemberResult, ...]:
        return tuple(member for member in self.members if not member.is_measured)

    @property
    def missing_names(self) -> str:
        return ", ".join(f"{member.source} → {member.destination}" for member in self.missing)

    @property
    def sentence(self) -> str:
        if self.state is AggregateState.COMPLETE:
            return f"All {self.member_count} members sent together for {self.common_s:.1f} s."
        if self.state is AggregateState.APART:
            return "All members measured, but not at the same time: no sum."
        awaited = all(member.outcome is None for member in self.missing) and not self.is_final
        reason = f"{'no report yet from' if awaited else 'without a result:'} {self.missing_names}"
        if self.state is AggregateState.FAILED:
            return f"No member measured; {reason}." if self.member_count else "No member measured."
        return f"Partial: {self.measured} of {self.member_count} members measured; {reason}."

    @property
    def harmed(self) -> tuple[HarmedPath, ...]:
        """Other paths with more delay or loss meanwhile."""
        return tuple(path for path in self.harm if path.harm not in (Harm.NONE, Harm.UNDETERMINED))


@dataclass(frozen=True, slots=True)
class AggregateSummary:
    """Runs of an aggregate test in a period; `complete` have a sum."""

    test: str
    shape: str
    runs: int
    complete: int
    sum_median_bps: float | None
    sum_min_bps: float | None
    sum_max_bps: float | None
    fairness_median: float | None


def aggregate_summaries(since: datetime, until: datetime, path_ids: Collection[int]) -> list[AggregateSummary]:
    """Tests of mesh.toml with a member on these paths, started in [since, until), by name."""
    check_period(since, until)
    columns = ("test", "shape", "path_ids", "sum_bps", "fairness")
    wanted, by_test = frozenset(path_ids), dict[tuple[str, str], list[tuple[float | None, float | None]]]()
    rows = _planned_runs(since, until)
    for test, shape, members, sum_bps, fairness in rows.values_list(*columns).order_by("test", "shape"):
        if not wanted.isdisjoint(members):
            by_test.setdefault((test, shape), []).append((sum_bps, fairness))
    return [_summary(test, shape, runs) for (test, shape), runs in by_test.items()]


def _summary(test: str, shape: str, runs: Sequence[tuple[float | None, float | None]]) -> AggregateSummary:
    complete = [(sum_bps, fairness) for sum_bps, fairness in runs if sum_bps is not None]
    sums_bps = [sum_bps for sum_bps, _ in complete]
    fair = [fairness for _, fairness in complete if fairness is not None]
    return AggregateSummary(
        test=test,
        shape=shape,
        runs=len(runs),
        complete=len(complete),
        sum_median_bps=statistics.median(sums_bps) if sums_bps else None,
        sum_min_bps=min(sums_bps, default=None),
        sum_max_bps=max(sums_bps, default=None),
        fairness_median=statistics.median(fair) if fair else None,
    )


def _planned_runs(since: datetime, until: datetime) -> QuerySet[AggregateRun]:
    rows = AggregateRun.objects.filter(starts_at__gte=since, starts_at__lt=until, is_final=True)
    return rows.exclude(test=ON_DEMAND_AGGREGATE)


def aggregate_results(since: datetime, until: datetime, most: int) -> list[AggregateResult]:
    check_period(since, until)
    rows = AggregateRun.objects.filter(starts_at__gte=since, starts_at__lt=until).order_by("-starts_at", "-slot_id")
    return [_result(row) for row in rows[:most]]


def newest_final_runs(since: datetime, until: datetime) -> list[AggregateResult]:
    check_period(since, until)
    rows = _planned_runs(since, until)
    return [_result(row) for row in rows.order_by("test", "-starts_at").distinct("test")]


def aggregate_result(slot_id: int) -> AggregateResult | None:
    """The run with this slot of its first member, or None."""
    row = AggregateRun.objects.filter(pk=slot_id).first()
    return None if row is None else _result(row)


def newest_of_path(path_id: int, since: datetime, until: datetime, most: int) -> list[AggregateResult]:
    check_period(since, until)
    rows = AggregateRun.objects.filter(starts_at__gte=since, starts_at__lt=until, path_ids__contains=path_id).order_by(
        "-starts_at"
    )
    return [_result(row) for row in rows[:most]]


def _result(row: AggregateRun) -> AggregateResult:
    details = msgspec.convert(row.details, AggregateDetails)
    values: dict[str, Any] = {field.name: getattr(row, field.name, None) for field in fields(AggregateResult)}
    values |= {"state": AggregateState(row.state), "member_count": row.members}
    return AggregateResult(**values | {"members": details.members, "harm": details.harm})


MOST_IN_CSV = 5000
_OF_RUN = (
    "slot_id", "test", "shape", "starts_at", "state", "is_final", "member_count", "measured", "sum_bps",
    "partial_sum_bps", "fairness", "common_s", "start_spread_s",
)  # fmt: skip
_OF_MEMBER = ("source", "destination", "outcome", "detail", "late_s", "throughput_bps", "common_bps", "retransmits")
# Columns of the CSV: run columns, repeated for each member, and member columns.
MEMBER_COLUMNS = (*_OF_RUN, *_OF_MEMBER)


def member_rows(results: Iterable[AggregateResult]) -> list[Sequence[Any]]:
    return [
        [getattr(result, name) for name in _OF_RUN] + [getattr(member, name) for name in _OF_MEMBER]
        for result in results
        for member in result.members
    ]

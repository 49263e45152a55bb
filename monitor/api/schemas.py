"""Answers of the users' API.

Units are in the names, null means not known, times are ISO 8601 in UTC.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Schema

from monitor.analysis.daily_congestion import RecurringHours
from monitor.analysis.directions import DirectionLosses
from monitor.api.record_schemas import with_fields_of
from monitor.archive.queries.directions import DirectionPoint, RawDirection
from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.operation.ledger import LedgerLine
from monitor.archive.queries.paths import SeriesPoint
from monitor.archive.queries.throughput.inventories import InventoryChange
from monitor.archive.queries.throughput.series import ThroughputPoint
from monitor.archive.queries.throughput.transfers import StoredTransfer
from monitor.archive.queries.throughput.under_load import LatencyUnderLoad, LoadedPoint
from monitor.overview.changes import PathChange
from monitor.overview.grid import ComparedPeriod, GridPeriod
from monitor.overview.path_figures import FigureState


class SiteOut(Schema):
    """A place. `has_agent` is false for a site without an agent."""

    name: str
    title: str
    latitude_deg: float
    longitude_deg: float
    country: str
    region: str
    has_agent: bool


class HostOut(Schema):
    site: str
    name: str
    address: str


class PathOut(Schema):
    """An ordered pair of hosts, the unit of every series. `retired_at` is null while it is in use. `measured_by` says
    which packets its loss and RTT are of, such as "ping" or "TCP handshake to port 443"; null where nothing measures
    them now."""

    id: int
    source: HostOut
    destination: HostOut
    family: int
    retired_at: datetime | None
    measured_by: str | None = None


@with_fields_of(DirectionLosses)
class DirectionLossesOut(Schema):
    """Packets of a path's STAMP tests by the reflector's counters: `sent` forward, `sent` less `forward_lost` back.
    `forward_lossy` and `reverse_lossy` of the `bursts` lost any. `undecided` were lost in a direction that is not
    known, and are in no other count."""


class CellOut(Schema):
    """A path of the grid: `value` is the metric's. `loss_bound_ratio` is the upper 95% bound if there was no loss, else
    null, `loss_lower_ratio` the lower 95% bound if there was; `loss_evidence` has the counts in words, as in
    `0 of 1,530, so below 0.2% (95%)`; `outcome` is that of the newest failed test; `tests_on_demand` are
    counted in no other figure;
    `bursts_all_lost` counts those of `bursts` without any reply. `condition` is what the path is like now, in a grid of
    any period: normal, awaited, own_tests, overdue, suspect, bad, flaps, dead, set_aside or not_permitted; null where
    nothing pings it.

    For the period `now` `value` is of the packets shown; in a trouble, and after one that ended in that time, it is the
    level since that began, of the packets of all sizes, or of this size where the sizes differ; `value_measured` is
    that of all packets shown where it differs. `value` is of
    `value_sent` packets, of which `value_received` were answered; null where packets are not counted, as in an outage.
    At the newest burst the level had lasted for `level_s`. `ended_at` is when the last trouble of the path ended, if
    within the time shown: then `value` is the level since (`is_since_end`), and `ended_incident_id` the incident, if
    any. `value_peak` is the worst of the trouble that lasts or has ended, null where the packets do not prove it above
    the level. `unanswered_since` is the last reply of a path whose condition is dead: its state is `total_loss`.
    `directions` are the counts of STAMP tests in the same time, for the loss only; null where none counts, and for a
    path that is down."""

    path_id: int
    source: str
    destination: str
    family: int
    state: FigureState
    condition: str | None
    value: float | None
    sent: int | None
    received: int | None
    loss_ratio: float | None
    loss_bound_ratio: float | None
    tests: int | None
    tests_measured: int | None
    tests_on_demand: int | None
    not_measured: int | None
    outcome: str | None
    incident_id: int | None
    value_before: float | None
    in_maintenance: bool
    bursts: int | None
    bursts_all_lost: int | None
    value_measured: float | None
    level_s: float | None
    loss_lower_ratio: float | None
    value_peak: float | None
    ended_incident_id: int | None
    ended_at: datetime | None
    is_since_end: bool
    unanswered_since: datetime | None
    value_sent: int | None
    value_received: int | None
    loss_evidence: str | None
    directions: DirectionLossesOut | None


class GridOut(Schema):
    """The grid as the page shows it: over the whole hours that overlap [since, until), or, for the period `now`, each
    path over the last ten minutes or three cycles, whichever is longer, with the level of its track.
    `against` is the period of `value_before`: a week or 52 weeks before; both are null unless requested. `cells` has at
    most `limit` paths, in the order of their ids, after the first `offset` of `paths_in_all`."""

    metric: Metric
    period: GridPeriod
    against: ComparedPeriod | None
    packet_bytes: int | None
    since: datetime
    until: datetime
    newest_measured_at: datetime | None
    paths_in_all: int
    cells: list[CellOut]


@with_fields_of(SeriesPoint)
class SeriesPointOut(Schema):
    """A step. Steps without any data are not listed: a gap is the absence of points."""


@with_fields_of(LoadedPoint)
class LoadedPointOut(Schema):
    """A step with packets sent during a throughput test."""


@with_fields_of(LatencyUnderLoad)
class LatencyUnderLoadOut(Schema):
    """RTT and loss of the packets sent while a throughput test of ours ran from or to either end of the path. They
    are in no other figure."""


class SeriesOut(Schema):
    """RTT, loss and the Mathis estimate of a path and packet size, in steps of `step_s` seconds. `under_load` has the
    packets sent during throughput tests, over all of the period and in the same steps; null without any."""

    path_id: int
    packet_bytes: int
    step_s: int
    since: datetime
    until: datetime
    points: list[SeriesPointOut]
    under_load: LatencyUnderLoadOut | None
    under_load_points: list[LoadedPointOut]


@with_fields_of(ThroughputPoint)
class ThroughputOut(Schema):
    """A throughput test. `throughput_bps` is null unless the outcome is `measured`; it is the rate after slow start,
    over `steady_s` seconds, and where that is null the average of the test, as `average_bps` always is. `verdict` is
    the limit of the test, `sentence` the verdict with its evidence; null where the test left no intervals."""


@with_fields_of(InventoryChange)
class InventoryChangeOut(Schema):
    """A setting of the sender's or receiver's host that was another at the test before `at`."""


@with_fields_of(
    StoredTransfer,
    findings=dict[str, Any] | None,
    transfer=dict[str, Any] | None,
    sender_inventory=dict[str, Any] | None,
    receiver_inventory=dict[str, Any] | None,
)
class TransferOut(Schema):
    """A throughput test in detail. `findings` has the evidence for its verdict, the recoveries from loss, pauses of the
    sender, round trips and the figures of RFC 6349; `transfer` the data of both ends, interval by interval
    in columns of equal length, times in seconds from its start. Null where the test left no intervals. The inventories
    are the settings of both hosts: network interface, processor and sysctls of TCP; `inventory_changes` those that
    changed in the 90 days before, newest first."""

    inventory_changes: list[InventoryChangeOut]


@with_fields_of(DirectionPoint)
class DirectionPointOut(Schema):
    """An interval of both directions. Loss is by the reflector's counters, of `counted` packets; null without. The true
    mean delay lies between `…_delay_lo_ms` and `…_delay_hi_ms`; `…_min_ms` and `…_avg_ms` are raw, by the clocks of
    both ends, and may be negative."""


class DirectionSeriesOut(Schema):
    """Loss and delay of a path by direction, in steps of `step_s` seconds; empty without a STAMP test."""

    path_id: int
    step_s: int
    since: datetime
    until: datetime
    points: list[DirectionPointOut]


@with_fields_of(RawDirection)
class StampCycleOut(Schema):
    """A STAMP cycle of a path. Delays are raw, by the clocks of both ends, as in `DirectionPointOut`; the far clock is
    ahead of that of the source by `offset_lo_ms` to `offset_hi_ms`. `peer_packets` are those of the far end's own tests
    that the reflector of the source received since the cycle before, null if not known; `source_address` is the local
    address of the packets."""


@with_fields_of(PathChange)
class ChangeOut(Schema):
    """A change of the plan of a path or of its route, in words."""


@with_fields_of(RecurringHours)
class RecurringHoursOut(Schema):
    """Hours of the day, from `begin_h` to `end_h` (beyond 24 on the next day), in which the path is congested on
    `days_congested` of `days_measured` days; with 90% confidence the queue typically begins and ends within
    `begin_within_min` and `end_within_min` minutes of them, to either side. `rise_ms` is the median rise of the
    minimum RTT in them, `worst_weekday` the weekday with the largest, 0 for Monday, null if alike."""


class CongestionOut(Schema):
    """Daily congestion in [since, until), by the hours of UTC. `can_tell` is false with too few days."""

    path_id: int
    since: datetime
    until: datetime
    can_tell: bool
    hours: list[RecurringHoursOut]
    sentences: list[str]


@with_fields_of(LedgerLine, without=("path_id",))
class LedgerLineOut(Schema):
    """Planned measurements of a test with the same outcome. `missed` were not run, `awaited` are not reported yet,
    `unknown` were planned before the first report of the agent. `reason` says why they were missed or refused."""


class LedgerOut(Schema):
    """The outcomes of all measurements of a path planned to begin in [since, until): the counts add up to `planned`."""

    path_id: int
    since: datetime
    until: datetime
    planned: int
    lines: list[LedgerLineOut]

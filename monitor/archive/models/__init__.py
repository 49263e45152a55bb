"""Measurements: raw results, summaries and delivery records."""

from __future__ import annotations

from monitor.archive.models.aggregates import AggregateMember, AggregateRun
from monitor.archive.models.deliveries import (
    AgentAccount,
    AgentGap,
    CycleDay,
    DeliveredDay,
    ReceivedBatch,
    RefusedResult,
)
from monitor.archive.models.directions import (
    DirectionBurst,
    DirectionDay,
    DirectionHour,
    DirectionMonth,
    DirectionYear,
    OneWaySummary,
)
from monitor.archive.models.interfaces import InterfaceResult, InterfaceWeek
from monitor.archive.models.results import (
    Burst,
    CapacityResult,
    DiskToDiskTest,
    IdleRestartResult,
    PolicerResult,
    RequestResponseResult,
    StoredCapture,
    StoredInventory,
    ThroughputTest,
    UndiagnosedTest,
)
from monitor.archive.models.routes import NO_FLOW, PathRoute, Route, Trace
from monitor.archive.models.summaries import (
    BurstDay,
    BurstHour,
    BurstMonth,
    BurstSummary,
    BurstYear,
    DirtyHour,
    DirtySummary,
    ThroughputDay,
    ThroughputHour,
    ThroughputMonth,
    ThroughputSummary,
    ThroughputYear,
)
from monitor.archive.models.sweeps import SweepCell, ThroughputSweep
from monitor.archive.models.upkeep import CentreSample, ColdFile, KeptSince, LastRun, TableSize

__all__ = [
    "NO_FLOW",
    "AgentAccount",
    "AgentGap",
    "AggregateMember",
    "AggregateRun",
    "Burst",
    "BurstDay",
    "BurstHour",
    "BurstMonth",
    "BurstSummary",
    "BurstYear",
    "CapacityResult",
    "CentreSample",
    "ColdFile",
    "CycleDay",
    "DeliveredDay",
    "DirectionBurst",
    "DirectionDay",
    "DirectionHour",
    "DirectionMonth",
    "DirectionYear",
    "DirtyHour",
    "DirtySummary",
    "DiskToDiskTest",
    "IdleRestartResult",
    "InterfaceResult",
    "InterfaceWeek",
    "KeptSince",
    "LastRun",
    "OneWaySummary",
    "PathRoute",
    "PolicerResult",
    "ReceivedBatch",
    "RefusedResult",
    "RequestResponseResult",
    "Route",
    "StoredCapture",
    "StoredInventory",
    "SweepCell",
    "TableSize",
    "ThroughputDay",
    "ThroughputHour",
    "ThroughputMonth",
    "ThroughputSummary",
    "ThroughputSweep",
    "ThroughputTest",
    "ThroughputYear",
    "Trace",
    "UndiagnosedTest",
]

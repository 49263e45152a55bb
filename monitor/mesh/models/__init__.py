"""The mesh: sites, hosts, paths, tests, and their measurements and slots.

`monitor.mesh.apply` deletes only slots that have not begun; rows no longer in the file get `retired_at`.
"""

from __future__ import annotations

from monitor.mesh.models.measurements import KindName, Measurement, MeasurementPeriod, Test
from monitor.mesh.models.on_demand import PingRequest, PingRun, TraceRequest
from monitor.mesh.models.places import Family, Group, Host, InUseQuerySet, Mesh, Path, Site, Uplink
from monitor.mesh.models.plans import PlanEpoch, SitePlan, SitePlanChange
from monitor.mesh.models.slots import Slot, SlotHost, SlotRequest, SlotUplink

__all__ = [
    "Family",
    "Group",
    "Host",
    "InUseQuerySet",
    "KindName",
    "Measurement",
    "MeasurementPeriod",
    "Mesh",
    "Path",
    "PingRequest",
    "PingRun",
    "PlanEpoch",
    "Site",
    "SitePlan",
    "SitePlanChange",
    "Slot",
    "SlotHost",
    "SlotRequest",
    "SlotUplink",
    "Test",
    "TraceRequest",
    "Uplink",
]

"""The mesh: sites, hosts, paths, tests, and the measurements and slots derived from them.

`monitor.mesh.apply` writes the rows from `mesh.toml`, `monitor.mesh.schedule.slots` writes slots. An apply deletes only
slots that have not begun; rows no longer in the file get `retired_at`, so that their history keeps its name. The
querysets here and the functions of `queries` read them.
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

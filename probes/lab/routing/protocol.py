"""Requests and status of routes and routers in the lab's control protocol."""

from __future__ import annotations

from datetime import datetime

import msgspec

from probes.lab.routing.network import RouterCounters
from probes.lab.routing.topology import Router, Routes


class RouteRequest(msgspec.Struct, frozen=True, kw_only=True, tag="route", tag_field="do", forbid_unknown_fields=True):
    source: str
    destination: str
    routes: Routes | None  # None restores the scenario's
    is_one_way: bool = False  # else the reverse path follows


class RouteStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Present and original routes of an ordered path."""

    source: str
    destination: str
    routes: Routes
    original: Routes
    changed_at: datetime | None = None  # None while they are the same


class RouterStatus(msgspec.Struct, frozen=True, kw_only=True):
    settings: Router
    counts: RouterCounters

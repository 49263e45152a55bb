"""The request that changes routes, and the status of routes and routers, in the lab's control protocol."""

from __future__ import annotations

from datetime import datetime

import msgspec

from probes.lab.routing.network import RouterCounters
from probes.lab.routing.topology import Router, Routes


class RouteRequest(msgspec.Struct, frozen=True, kw_only=True, tag="route", tag_field="do", forbid_unknown_fields=True):
    """Change the routes of a path; None restores those of the scenario.

    The reverse path gets them backwards, or its own of the scenario, unless `is_one_way`.
    """

    source: str
    destination: str
    routes: Routes | None
    is_one_way: bool = False


class RouteStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The present and the original routes of an ordered path; `changed_at` is None while they are the same."""

    source: str
    destination: str
    routes: Routes
    original: Routes
    changed_at: datetime | None = None


class RouterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A router and its counters."""

    settings: Router
    counts: RouterCounters

"""Paths through an AS, by the AS of their routers."""

from __future__ import annotations

from datetime import datetime

from monitor.archive.queries.routes.periods import Passage, paths_through_any
from monitor.archive.queries.routes.routers import routers_between
from monitor.routes.places import of_addresses


def paths_through_as(asn: int, since: datetime, until: datetime) -> list[Passage]:
    """Periods with a hop in this AS, by path and time. Hops are named as at present."""
    names = of_addresses(routers_between(since, until))
    addresses = [address for address, name in names.items() if name.asn == asn]
    return paths_through_any(addresses, since, until) if addresses else []

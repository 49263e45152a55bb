"""Paths through an AS, by the AS of the routers on their routes."""

from __future__ import annotations

from datetime import datetime

from monitor.archive.queries.routes.periods import Passage, paths_through_any
from monitor.archive.queries.routes.routers import routers_between
from monitor.routes.places import of_addresses


def paths_through_as(asn: int, since: datetime, until: datetime) -> list[Passage]:
    """The periods within a period in which paths had a hop in this AS, by path and time: with the first of its hops.

    A hop is in the AS that `of_addresses` gives it at present, so without a table only in those of own networks.
    """
    names = of_addresses(routers_between(since, until))
    addresses = [address for address, name in names.items() if name.asn == asn]
    return paths_through_any(addresses, since, until) if addresses else []

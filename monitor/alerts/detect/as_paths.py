"""The paths through each autonomous system, by their present routes and the loaded AS table.

In: a moment, and routes of paths. Out: path ids by AS, as in "AS 64500 Example", which the rule `shared_loss` pools.
Without an AS table or traces there are none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from monitor.analysis.routes.compare import RouteHops
from monitor.routes.loaded_tables import current_tables
from monitor.routes.places import of_addresses


def has_as_table() -> bool:
    """Whether an AS table is loaded: a query."""
    return current_tables().asn is not None


def paths_by_as(routes: Mapping[int, RouteHops]) -> dict[str, frozenset[int]]:
    """The paths whose route has a router in the AS, by the AS with its name."""
    addresses = {address for route in routes.values() for address in route.hops if address is not None}
    names = {address: name.as_text for address, name in of_addresses(sorted(addresses)).items()}
    through: dict[str, set[int]] = defaultdict(set)
    for path_id, route in routes.items():
        for address in route.hops:
            name = None if address is None else names[address]
            if name is not None:
                through[name].add(path_id)
    return {name: frozenset(path_ids) for name, path_ids in through.items()}

"""Changes routes on request, and lists routes and routers."""

from __future__ import annotations

from datetime import datetime

from probes.lab.routing.network import Network
from probes.lab.routing.protocol import RouteRequest, RouterStatus, RouteStatus
from probes.lab.routing.topology import Pair, Routes, backwards
from probes.lab.settings import LabError


class RoutingControl:
    def __init__(self, network: Network) -> None:
        self._network = network
        self._original = dict(network.routes)
        self._changed_at: dict[Pair, datetime] = {}

    def change(self, request: RouteRequest, now: datetime) -> None:
        """Change the routes of a path, and of its reverse unless one-way. Raises `LabError`, with all routes as
        before."""
        pair = (request.source, request.destination)
        if pair not in self._original:
            raise LabError(f"{pair[0]}-{pair[1]} has no route in the scenario: it goes from site to site")
        changes: dict[Pair, Routes] = {pair: self._original[pair] if request.routes is None else request.routes}
        if not request.is_one_way:
            reverse = pair[::-1]
            changes[reverse] = self._original[reverse] if request.routes is None else backwards(request.routes)
        self._network.change_routes(changes)
        for path, routes in changes.items():
            if routes == self._original[path]:
                self._changed_at.pop(path, None)
            else:
                self._changed_at[path] = now

    def routes(self) -> tuple[RouteStatus, ...]:
        return tuple(
            RouteStatus(
                source=pair[0],
                destination=pair[1],
                routes=routes,
                original=self._original[pair],
                changed_at=self._changed_at.get(pair),
            )
            for pair, routes in self._network.routes.items()
        )

    def routers(self) -> tuple[RouterStatus, ...]:
        return tuple(
            RouterStatus(settings=router.settings, counts=router.counts) for router in self._network.routers.values()
        )

"""On-demand aggregate tests: several pairs of hosts at the same time, at the next time when all are free.

In: a test of mesh.toml by its name, or a shape with hosts and settings. Out: the slot of the first member, whose id
identifies the test everywhere. All rules of `on_demand` apply, and the bounds below: such a test loads many sites at
once. `monitor.archive.queries.throughput.on_demand_aggregates` has the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

import msgspec
from django.db import transaction

from monitor.mesh.document.entries import ON_DEMAND_AGGREGATE
from monitor.mesh.kinds.aggregate import KIND, MOST_MEMBERS, Shape, pairs_of
from monitor.mesh.kinds.throughput import ThroughputSettings
from monitor.mesh.models import Path, Slot, Test
from monitor.mesh.schedule import lock, on_demand
from monitor.mesh.schedule.on_demand import NoFreeSlot, OnDemandError, OnDemandTest, UnknownPath
from monitor.mesh.schedule.server_ports import clash, lasting_servers
from monitor.mesh.schedule.slots import LEAD_S

MOST_SECONDS = 300
"""Duration and omitted time together."""
MOST_BITS = 10 * 10**12
"""Sent by all members together, where their rate is given: ten minutes of a link of 16 Gbit/s."""
MOST_AT_A_TIME = 3
"""Planned or running in the whole mesh."""
FIRST_PORT, LAST_PORT = 5201, 65_535

_TEST = OnDemandTest(ON_DEMAND_AGGREGATE, KIND.kind.name)


@dataclass(frozen=True, slots=True)
class AggregateSettings:
    """An aggregate test as asked for; `settings` are those of each member. Without `has_port` the first free ports of
    the receivers are taken."""

    shape: Shape
    senders: tuple[str, ...]
    receivers: tuple[str, ...]
    settings: ThroughputSettings
    has_port: bool = False

    @property
    def host_pairs(self) -> tuple[tuple[str, str], ...]:
        return tuple(pairs_of(self.shape, self.senders, self.receivers))

    @property
    def parameters(self) -> dict[str, object]:
        """As those of `monitor.mesh.kinds.aggregate.AggregateEntry`."""
        hosts = {"senders": list(self.senders), "receivers": list(self.receivers)}
        return {**self.settings.parameters, "shape": self.shape, **hosts}


def planned_tests() -> list[Test]:
    """The aggregate tests of mesh.toml, by name."""
    return list(Test.objects.in_use().filter(kind=KIND.kind.name).order_by("name"))


def settings_of(test_name: str) -> AggregateSettings:
    """The settings of an aggregate test of mesh.toml. Raises `UnknownPath`."""
    test = next((test for test in planned_tests() if test.name == test_name), None)
    if test is None:
        names = ", ".join(test.name for test in planned_tests()) or "none"
        raise UnknownPath(f'mesh.toml has no aggregate test "{test_name}" in use; it has {names}')
    parameters: Mapping[str, Any] = test.parameters
    return AggregateSettings(
        shape=cast("Shape", parameters["shape"]),
        senders=tuple(parameters["senders"]),
        receivers=tuple(parameters["receivers"]),
        settings=msgspec.convert(parameters, ThroughputSettings),
        has_port=True,
    )


def faults(request: AggregateSettings) -> list[str]:
    """Problems of a test that need no look at the mesh, each with the fix; empty if valid."""
    problems = on_demand.faults(request.settings)
    if request.settings.reverse or request.settings.capture_packets is not None:
        problems.append("members of an aggregate test have no reverse connection and no capture; leave them out")
    for key, names in (("senders", request.senders), ("receivers", request.receivers)):
        if len(set(names)) < len(names):
            problems.append(f"{key}: a host is named twice; name each once")
    fits = {"many-to-one": len(request.receivers) == 1, "one-to-many": len(request.senders) == 1}
    if not fits.get(request.shape, len(request.senders) == len(request.receivers)):
        problems.append(
            f"{request.shape} does not fit {len(request.senders)} senders and {len(request.receivers)} receivers: "
            "many-to-one has one receiver, one-to-many one sender, pairs as many of both"
        )
    members = len(request.host_pairs)
    if not 2 <= members <= MOST_MEMBERS:
        problems.append(f"an aggregate test has 2 to {MOST_MEMBERS} members, not {members}; name other hosts")
    sending_s = request.settings.duration_s + request.settings.omit_s
    if sending_s > MOST_SECONDS:
        problems.append(
            f"an on-demand aggregate test takes at most {MOST_SECONDS} s, not {sending_s}; lower duration_s"
        )
    bits = sending_s * members * (request.settings.rate_bps or 0)
    if bits > MOST_BITS:
        problems.append(
            f"its {members} members would send {bits / 1e12:.1f} Tbit, at most {MOST_BITS / 1e12:g} are allowed; "
            "lower duration_s or the rate"
        )
    return problems


def ask(request: AggregateSettings, *, by: str, now: datetime) -> Slot:
    """Plan a test as soon as all its hosts are free, `LEAD_S` from now at the earliest. Raises `OnDemandError`."""
    wrong = faults(request)
    if wrong:
        raise OnDemandError("; ".join(wrong))
    paths = _paths(request.host_pairs)
    request = _with_ports(request, paths)
    with transaction.atomic():
        lock.hold_until_commit()
        waiting = Slot.objects.filter(outcome=None, ends_at__gt=now, lead=None, measurement__test__name=_TEST.name)
        if waiting.count() >= MOST_AT_A_TIME:
            raise NoFreeSlot(
                f"{MOST_AT_A_TIME} on-demand aggregate tests are planned or running already; wait for their end"
            )
        return on_demand.plan_together(paths, _TEST, request.parameters, by, now, LEAD_S)


def _paths(pairs: Sequence[tuple[str, str]]) -> list[Path]:
    """The path of each member. Raises `UnknownPath`."""
    rows = Path.objects.in_use().filter(
        source__name__in={sender for sender, _ in pairs}, destination__name__in={receiver for _, receiver in pairs}
    )
    between = {
        (path.source.name, path.destination.name): path
        for path in rows.select_related(
            "source__site", "source__uplink__site", "destination__site", "destination__uplink__site"
        )
    }
    missing = [f"{sender} → {receiver}" for sender, receiver in pairs if (sender, receiver) not in between]
    if missing:
        raise UnknownPath(
            f"no path in use: {', '.join(missing)}; name hosts of mesh.toml that a group or an aggregate test measures"
        )
    paths = [between[pair] for pair in pairs]
    for path in paths:
        fault = on_demand.fault_of(path)
        if fault is not None:
            raise UnknownPath(fault)
        if path.destination.behind_nat:
            raise UnknownPath(f"host {path.destination} is behind NAT, and no sender can connect to it")
    if len({path.family for path in paths}) > 1:
        raise UnknownPath("its hosts are of different address families; name hosts of one family")
    return paths


def _with_ports(request: AggregateSettings, paths: Sequence[Path]) -> AggregateSettings:
    """With the port that its servers begin at. Raises `OnDemandError` where a given one is not free."""
    sites = list(dict.fromkeys(path.destination.site.name for path in paths))
    taken, protocol = lasting_servers(sites), request.settings.protocol

    def fault(first: int) -> str | None:
        if first + len(paths) - 1 > LAST_PORT:
            return f"its {len(paths)} members need the ports from {first} on, beyond {LAST_PORT}; give a lower port"
        clashes = (
            clash(path.destination.site.name, first + place, protocol, taken) for place, path in enumerate(paths)
        )
        return next((words for words in clashes if words is not None), None)

    if request.has_port:
        wrong = fault(request.settings.port)
        if wrong is not None:
            raise OnDemandError(wrong)
        return request
    first = next((port for port in range(FIRST_PORT, LAST_PORT) if fault(port) is None), None)
    if first is None:
        raise OnDemandError("no ports in a row are free at its receivers; give a port")
    return replace(request, settings=msgspec.structs.replace(request.settings, port=first))

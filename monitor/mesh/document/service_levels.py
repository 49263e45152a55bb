"""Report targets of mesh.toml, and the targets of each path.

`[service_level]` applies to the whole mesh, `[[service_level.for]]` to a group or to paths from or to a site; later
tables override earlier ones key by key. Unset keys are no target. `monitor.reports.contents.levels` computes
compliance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any

from monitor.mesh.document.alert_rules import FOR, Bounds, Place
from monitor.mesh.document.entries import Doc

KEYS = {
    "loss_ratio": Bounds(0, 1, are_open=True),
    "availability_ratio": Bounds(0, 1, are_open=True),
    "rtt_ms": Bounds(0.001, 60_000),
    "throughput_bps": Bounds(1, 1e15),
    "kept_ratio": Bounds(0, 1, are_open=True),
}
"""Keys of [service_level] with their bounds."""

KEPT_RATIO = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLevel:
    """Targets of a path, None where not set.

    At most `loss_ratio` of the packets are lost and at least `availability_ratio` of the bursts have a reply, over the
    period of the report; `rtt_ms` is the maximum of an hour's median, `throughput_bps` the minimum of a test, in
    `kept_ratio` of the hours and of the tests.
    """

    loss_ratio: Annotated[float | None, Doc("Maximum loss over the period of a report.")] = None
    availability_ratio: Annotated[float | None, Doc("Minimum share of the bursts that have a reply.")] = None
    rtt_ms: Annotated[float | None, Doc("Maximum of an hour's median RTT.")] = None
    throughput_bps: Annotated[float | None, Doc("Minimum throughput of a test.")] = None
    kept_ratio: Annotated[
        float, Doc("Share of the hours that must meet `rtt_ms`, and of the tests that must meet `throughput_bps`.")
    ] = KEPT_RATIO


def settings_for(levels: Mapping[str, Any], place: Place) -> ServiceLevel:
    """Targets at `place`; `levels` is the [service_level] table as checked by `document.read`."""
    layers = [levels, *(table for table in levels.get(FOR, ()) if place.is_in(table))]
    keys = {field.name for field in fields(ServiceLevel)}
    return ServiceLevel(**{key: value for layer in layers for key, value in layer.items() if key in keys})

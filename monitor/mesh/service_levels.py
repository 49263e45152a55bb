"""The targets that mesh.toml sets for reports, and which of them hold on which path.

`[service_level]` is for the whole mesh, `[[service_level.for]]` for a group or for what goes out of or into a site; a
later one wins, key by key. What is not written is no target. How well they were kept is in `monitor.reports.levels`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from monitor.mesh.alert_rules import FOR, Limits, Place

KEYS = {
    "loss_ratio": Limits(0, 1, are_open=True),
    "availability_ratio": Limits(0, 1, are_open=True),
    "rtt_ms": Limits(0.001, 60_000),
    "throughput_bps": Limits(1, 1e15),
    "kept_ratio": Limits(0, 1, are_open=True),
}
"""What a [service_level] takes."""

KEPT_RATIO = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLevel:
    """The targets of a path, None where there is none.

    At most `loss_ratio` of the packets are lost and at least `availability_ratio` of the bursts have a reply, over the
    period of the report; `rtt_ms` is the most that the median of an hour may be, `throughput_bps` the least that a test
    may give, in `kept_ratio` of the hours and of the tests.
    """

    loss_ratio: float | None = None
    availability_ratio: float | None = None
    rtt_ms: float | None = None
    throughput_bps: float | None = None
    kept_ratio: float = KEPT_RATIO


def settings_for(levels: Mapping[str, Any], place: Place) -> ServiceLevel:
    """What holds at `place`; `levels` is the [service_level] table as `document.read` has checked it."""
    layers = [levels, *(one for one in levels.get(FOR, ()) if place.is_in(one))]
    keys = {one.name for one in fields(ServiceLevel)}
    return ServiceLevel(**{key: value for layer in layers for key, value in layer.items() if key in keys})

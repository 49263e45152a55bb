"""Measures paths by STAMP: takes a `StampSpec`, returns a `StampBurst` for each target."""

from __future__ import annotations

from probes.contract import Deadline, LoadPeriods, ProbeError
from probes.stamp.spec import StampBurst, StampSpec


class StampProbe:
    """Measures with batched UDP packets and kernel timestamps (`probes.contract.Probe`)."""

    def can_run(self, spec: StampSpec) -> list[str]:
        """Reasons it cannot run, each with a fix."""
        return []

    def run(
        self, spec: StampSpec, deadline: Deadline, load_periods: LoadPeriods | None = None
    ) -> tuple[StampBurst, ...]:
        """Measure all targets at once."""
        raise ProbeError("STAMP tests are not available in this version")


STAMP = StampProbe()

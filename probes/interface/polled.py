"""The spec of a run of the kind `interface`, as the probe gets it from the runner."""

from __future__ import annotations

from probes.interface.limits import SnmpRouter
from probes.interface.spec import InterfaceSpec


class PolledSpec(InterfaceSpec, frozen=True, kw_only=True):
    """A spec with this site's credentials for its router; never sent to anybody."""

    credentials: SnmpRouter | None = None

"""A throughput test of a plan. The fields of its parameters and results are in `probes.transfers.spec`."""

from __future__ import annotations

from probes.transfers.slot import TransferSlot
from probes.transfers.spec import ThroughputSpec


class ThroughputSlot(TransferSlot, frozen=True, kw_only=True):
    """A planned execution of a throughput test. Both ends get it, each with its own role."""

    spec: ThroughputSpec

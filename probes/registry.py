"""The registry of measurement kinds: the probe of each."""

from __future__ import annotations

from typing import Any

from probes.capacity.probe import CapacityProbe
from probes.contract import Probe
from probes.disk_to_disk.probe import DiskToDiskProbe
from probes.ping.burst import PING
from probes.throughput.iperf3 import Iperf3Probe

PROBES: dict[str, Probe[Any, Any]] = {
    "ping": PING,
    "throughput": Iperf3Probe(),
    "capacity": CapacityProbe(),
    "disk-to-disk": DiskToDiskProbe(),
}

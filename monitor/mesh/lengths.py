"""Length of throughput and disk-to-disk slots, from parameters of mesh.toml or of a request, in whole seconds.

Parameters with `file_bytes` are those of a disk-to-disk test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from probes.disk_to_disk import spec as disk_to_disk

SLOT_MARGIN_S = 5
"""Slot time beyond the transfer: connecting, exchanging results, clock differences."""


def filling_s(parameters: Mapping[str, Any]) -> int:
    """Time during which a test loads its path."""
    if "file_bytes" in parameters:
        return 2 * int(parameters["duration_s"])
    return int(parameters["duration_s"]) + int(parameters["omit_s"])


def slot_s(parameters: Mapping[str, Any]) -> int:
    """Time during which a test occupies its hosts."""
    if "file_bytes" in parameters:
        return disk_to_disk.slot_length_s(int(parameters["duration_s"]))
    return filling_s(parameters) + SLOT_MARGIN_S

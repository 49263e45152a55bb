"""How long the tests that have their hosts to themselves take, by their parameters as mesh.toml or a request has them.

A disk-to-disk test is told by its `file_bytes`. Whole seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from probes.disk_to_disk import spec as disk_to_disk

SLOT_MARGIN_S = 5
"""What a throughput slot lasts beyond the transfer: connecting, exchanging results, clocks that differ."""


def filling_s(parameters: Mapping[str, Any]) -> int:
    """How long a test fills its path."""
    if "file_bytes" in parameters:
        return 2 * int(parameters["duration_s"])
    return int(parameters["duration_s"]) + int(parameters["omit_s"])


def slot_s(parameters: Mapping[str, Any]) -> int:
    """How long a test has its hosts to itself."""
    if "file_bytes" in parameters:
        return disk_to_disk.slot_length_s(int(parameters["duration_s"]))
    return filling_s(parameters) + SLOT_MARGIN_S

"""A ping test of a plan. The fields of its request and its result are in `probes.packets.spec`."""

from __future__ import annotations

import msgspec

from probes.packets.spec import PingSpec


class PingTask(msgspec.Struct, frozen=True, kw_only=True):
    """A ping test that a site repeats every `every_s` seconds, aligned to the epoch."""

    test: str
    every_s: int
    spec: PingSpec

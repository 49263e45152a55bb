"""Tests of slow start after idle in mesh.toml and plans."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from monitor.mesh.document.entries import TestKeys, TestName
from monitor.mesh.kinds.kind import DAY_S, Length, ListeningPort, MeshKind, slot_maker
from probes.idle_restart.kind import KIND as IDLE_RESTART
from probes.idle_restart.spec import (
    DURATION_S,
    LONGEST_PAUSE_S,
    LONGEST_S,
    PAUSE_S,
    PORT,
    IdleRestartSlot,
    IdleRestartSpec,
    slot_length_s,
)
from probes.toml.keys import meaning


class IdleRestartEntry(TestKeys, frozen=True, tag="idle-restart"):
    """Transfer, pause, transfer again on the same connection: whether and for how long the rate falls."""

    name: TestName
    every_s: Annotated[int, Meta(ge=60, le=DAY_S), meaning("Period: each path has a test in each period.")] = 86_400
    duration_s: Annotated[float, Meta(ge=0.5, le=LONGEST_S), meaning("Length of each transfer.")] = DURATION_S
    pause_s: Annotated[
        float, Meta(ge=0.1, le=LONGEST_PAUSE_S), meaning("Pause; longer than the retransmission timeout of the path.")
    ] = PAUSE_S
    port: Annotated[int, Meta(ge=1, le=65_535), meaning("TCP port on which the destination listens.")] = PORT

    @property
    def parameters(self) -> dict[str, object]:
        return {"duration_s": self.duration_s, "pause_s": self.pause_s, "port": self.port}


def _slot_s(parameters: Mapping[str, Any]) -> int:
    return slot_length_s(float(parameters["duration_s"]), float(parameters["pause_s"]))


def _length(test: IdleRestartEntry) -> Length:
    seconds = _slot_s(test.parameters)
    transfers_s = 2 * test.duration_s + test.pause_s
    return Length(seconds, f"{transfers_s:g} s + {seconds - transfers_s:g} s between tests")


KIND = MeshKind(
    kind=IDLE_RESTART,
    entry=IdleRestartEntry,
    table="idle_restart",
    length=_length,
    slot=slot_maker(IdleRestartSlot, IdleRestartSpec),
    servers=lambda test, source, destination: (ListeningPort(destination, "TCP", test.port),),
    filling_s=lambda parameters: math.ceil(2.0 * float(parameters["duration_s"])),
    slot_s=_slot_s,
)

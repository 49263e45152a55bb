"""Policer tests in mesh.toml and plans."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from monitor.mesh.document.entries import TestKeys, TestName
from monitor.mesh.kinds.kind import DAY_S, Length, MeshKind, on_both_transports, slot_maker
from probes.policer.kind import KIND as POLICER
from probes.policer.spec import LOADING_S, PORT, SLOT_MARGIN_S, PolicerSlot, PolicerSpec, slot_length_s
from probes.toml.keys import meaning


class PolicerEntry(TestKeys, frozen=True, tag="policer"):
    """UDP trains that tell policers, shapers and links apart, with rate and burst."""

    name: TestName
    every_s: Annotated[int, Meta(ge=60, le=DAY_S), meaning("Period: each path has a test in each period.")] = 86_400
    peak_mbps: Annotated[
        float,
        Meta(ge=0.1, le=1000.0),
        meaning("Rate of the trains; a limit is seen up to 0.65 of it.", "100 (twice the promised rate or more)"),
    ] = 100.0
    train_bytes: Annotated[
        int,
        Meta(ge=50_000, le=100_000_000),
        meaning("Maximum size of a train: four times the largest burst to be seen. A test sends three or four trains."),
    ] = 4_000_000
    port: Annotated[int, Meta(ge=1, le=65_535), meaning("Port on which the destination listens, TCP and UDP.")] = PORT

    @property
    def parameters(self) -> dict[str, object]:
        return {"peak_bps": round(1e6 * self.peak_mbps), "train_bytes": self.train_bytes, "port": self.port}


def _length(test: PolicerEntry) -> Length:
    return Length(slot_length_s(), f"{LOADING_S} s + {SLOT_MARGIN_S} s between tests")


KIND = MeshKind(
    kind=POLICER,
    entry=PolicerEntry,
    table="policer_result",
    length=_length,
    slot=slot_maker(PolicerSlot, PolicerSpec),
    servers=lambda test, source, destination: on_both_transports(destination, test.port),
    filling_s=lambda parameters: LOADING_S,
    slot_s=lambda parameters: slot_length_s(),
)

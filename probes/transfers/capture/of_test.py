"""Captures a throughput test's headers at this end.

`probes.throughput.kind` has applied the site's limits.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import msgspec

from probes.transfers.capture.headers import HeaderCapture
from probes.transfers.spec import CapturedHeaders, ThroughputSpec

FORBIDDEN = "throughput.max_capture_packets of limits.toml allows none"
NOT_TCP = "only TCP is captured"
UNKNOWN_PEER = "the address of the other end is not known here"
NO_PACKETS = "no packet of the test came"


class ThroughputCapture:
    """Captures a test's data connections within the context; then `result` is complete."""

    def __init__(self, spec: ThroughputSpec, peer: str | None) -> None:
        self.result: CapturedHeaders | None = None
        self._capture: HeaderCapture | None = None
        if isinstance(spec.capture_packets, msgspec.UnsetType):
            return
        reason = reason_for_none(spec, peer)
        if reason is not None:
            self.result = CapturedHeaders(reason=reason)
        elif peer is not None:
            self._capture = HeaderCapture(peer, spec.port, spec.capture_packets, spec.streams)

    def __enter__(self) -> Self:
        if self._capture is not None:
            self._capture.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._capture is not None:
            captured = self._capture.captured() if error is None else None
            self.result = captured or CapturedHeaders(reason=self._capture.reason or NO_PACKETS)
            self._capture.__exit__(kind, error, trace)


def reason_for_none(spec: ThroughputSpec, peer: str | None) -> str | None:
    """Why a requested capture is not taken, or None."""
    if spec.capture_packets == 0:
        return FORBIDDEN
    if spec.protocol != "tcp":
        return NOT_TCP
    return UNKNOWN_PEER if peer is None else None

"""The messages of the two ends of a disk-to-disk test on their control connection."""

from __future__ import annotations

import msgspec

from probes.transfers.control_connection import PeerFailure


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The receiver is ready, with the bytes and seconds of its local write."""

    moved_bytes: int
    seconds: float
    takes_blocks: bool = False  # False for older receivers


class TransferRequest(msgspec.Struct, frozen=True, kw_only=True, tag="Transfer"):
    """Request to receive a transfer of at most `duration_s`."""

    tool: str
    streams: int
    duration_s: int
    file_bytes: int | None  # None for a transfer from memory
    in_blocks: bool = False  # blocks instead of a fixed part for each stream (see `streams`)


class StreamsOpen(msgspec.Struct, frozen=True, kw_only=True, tag="Open"):
    """All streams are connected; start sending."""


class TransferResult(msgspec.Struct, frozen=True, kw_only=True, tag="Arrived"):
    """Received bytes per stream, and durations."""

    stream_bytes: tuple[int, ...] = ()
    moving_s: float = 0.0
    syncing_s: float = 0.0  # of the final fsync
    digest: str | None = None  # of the stored file


class End(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The test is complete."""


Message = Ready | PeerFailure | TransferRequest | StreamsOpen | TransferResult | End

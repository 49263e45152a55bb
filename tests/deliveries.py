"""Deliveries of results in the form that the centre receives, from structs."""

from __future__ import annotations

from datetime import datetime

import msgspec

from monitor.archive.ingest.arrivals import MESSAGE_PACK, ParsedBatch, read
from monitor.archive.ingest.store_batch import receive
from probes.site.wire import Batch, Receipt


def arrival_of(batch: Batch) -> ParsedBatch:
    """Encode a batch, and parse it as the centre does."""
    return read(msgspec.msgpack.encode(batch), MESSAGE_PACK)


def store(site_id: int, batch: Batch, now: datetime) -> Receipt:
    """Store a batch of structs. Raises as `receive` does."""
    return receive(site_id, arrival_of(batch), now)

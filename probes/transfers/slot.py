"""The planned execution of a test with a slot, as both ends get it in their plans."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec


class TransferSlot(msgspec.Struct, frozen=True, kw_only=True):
    """A planned execution. Each end gets it with its own role; the slot of a kind adds its `spec`."""

    slot_id: int
    path_id: int
    test: str
    role: Literal["client", "server"]
    starts_at: datetime
    ends_at: datetime

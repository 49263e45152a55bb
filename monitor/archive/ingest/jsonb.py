"""Make values storable in PostgreSQL's jsonb."""

from __future__ import annotations

from typing import Any

import msgspec


def for_jsonb(value: Any) -> Any:
    """Replace NaN by null and remove NUL characters."""
    return msgspec.json.decode(msgspec.json.encode(value).replace(b"\\u0000", b"\\ufffd"))

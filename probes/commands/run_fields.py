"""A result for `--json`."""

from __future__ import annotations

from typing import Any

import msgspec


def run_fields(run: msgspec.Struct) -> dict[str, Any]:
    """All fields but the kind, which the command names."""
    fields: dict[str, Any] = msgspec.to_builtins(run)
    del fields["kind"]
    return fields

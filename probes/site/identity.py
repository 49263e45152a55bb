"""Identity of an agent: the random ID of its data folder, and the number of its start.

The centre binds a token to the first instance and its latest start, so copies are refused.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path

import msgspec

from probes.private_files import replace_privately


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A data folder's instance and start."""

    instance: str
    start: int  # larger each time; epoch microseconds unless the clock went back

    def __str__(self) -> str:
        """As in `probes.site.wire.IDENTITY_HEADER`."""
        return f"{self.instance}.{self.start}"


def begin(path: Path, now_us: int | None = None) -> Identity:
    """The identity of an agent that starts now, kept in `path`. Raises OSError."""
    previous = read(path)
    now_us = time.time_ns() // 1000 if now_us is None else now_us
    if previous is None:
        begun = Identity(instance=secrets.token_hex(8), start=now_us)
    else:
        begun = Identity(instance=previous.instance, start=max(previous.start + 1, now_us))
    with replace_privately(path, path.with_suffix(".new")) as file:
        file.write(msgspec.json.encode(begun))
    return begun


def read(path: Path) -> Identity | None:
    """The latest started identity; None if missing or damaged: then a new instance starts."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Identity)
    except (FileNotFoundError, msgspec.DecodeError):
        return None

"""Identity of an agent at the centre: the random ID of its data folder, and the number of its latest start.

A folder draws the name of its instance when it is first used; its starts are numbered upwards, by the clock where that
does not go back. The centre gives a token to the first instance that shows it, and to its latest start. So a second
agent with the same token is refused, and so is the older of two agents on copies of the same folder.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path

import msgspec

from probes.private_files import replace_privately


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """`start` is larger at each start; it is microseconds since the epoch, unless the clock was set back."""

    instance: str
    start: int

    def __str__(self) -> str:
        """As it travels, in `probes.site.wire.IDENTITY_HEADER`."""
        return f"{self.instance}.{self.start}"


def begin(path: Path, now_us: int | None = None) -> Identity:
    """The identity of an agent that starts now; kept in `path`. Raises OSError where it cannot be kept."""
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
    """The identity of the agent that was started last; None where none ever was, or the file is damaged: then it is
    another instance that starts."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Identity)
    except (FileNotFoundError, msgspec.DecodeError):
        return None

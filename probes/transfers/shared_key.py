"""The key that both ends of a test by hand read from a file (`--key`)."""

from __future__ import annotations

import sys
from pathlib import Path

MIN_KEY_CHARS = 8


class UsageProblem(Exception):
    """An invalid option; the message says how to correct it."""


def key_of(file: Path) -> str:
    """Read the shared key. Raises `UsageProblem`."""
    try:
        key = (sys.stdin.readline() if str(file) == "-" else file.read_text()).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"--key {file}: {error}") from error
    if len(key) < MIN_KEY_CHARS:
        raise UsageProblem(
            f"--key {file}: the key has fewer than {MIN_KEY_CHARS} characters; create a key: openssl rand -hex 32"
        )
    return key

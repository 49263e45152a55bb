"""TLS settings for the centre: its certificate is verified by this host's authorities."""

from __future__ import annotations

import ssl
from functools import lru_cache
from pathlib import Path


def verifying_context() -> ssl.SSLContext:
    """A context with this host's authorities, reloaded when their file or folder changes."""
    paths = ssl.get_default_verify_paths()
    return _load_context(tuple((path, _modified_ns(path)) for path in (paths.cafile, paths.capath)))


@lru_cache(maxsize=1)
def _load_context(authorities: tuple[tuple[str | None, int | None], ...]) -> ssl.SSLContext:
    # Cached by `authorities`, its files: parsing them takes 20 ms, twenty requests' time.
    return ssl.create_default_context()


def _modified_ns(path: str | None) -> int | None:
    try:
        return None if path is None else Path(path).stat().st_mtime_ns
    except OSError:
        return None

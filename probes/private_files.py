"""Creates files and folders that other users cannot access, independent of the umask."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

UMASK = 0o077
OWNER_ONLY = 0o700


def make_folder(folder: Path) -> None:
    """Create `folder`, and make it private if ours. Raises OSError."""
    folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
    _close(folder)


def close_to_others(top: Path, names: Iterable[str]) -> None:
    """Create `top`, and make it and these entries (`Path.glob`) recursively private. Raises OSError.

    Only this user's files change, and symbolic links are not followed.
    """
    make_folder(top)
    for name in names:
        for path in top.glob(name):
            _close_tree(path)


def is_open_to_others(path: Path) -> bool:
    """Whether other users may read, write or enter it; our group may enter."""
    return bool(path.stat().st_mode & 0o067)


@contextmanager
def replace_privately(path: Path, beside: Path) -> Iterator[BinaryIO]:
    """Write a private `beside` and atomically rename it to `path`. Raises OSError."""
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def opener(name: str, flags: int) -> int:
    """For `open(…, opener=)`: create files as private."""
    return os.open(name, flags, 0o600)


def _close_tree(path: Path) -> None:
    if not _close(path) or not path.is_dir():
        return
    for entry in path.iterdir():
        _close_tree(entry)


def _close(path: Path) -> bool:
    """Remove others' permissions; False if impossible."""
    # Symbolic links, other users' and vanished files are left alone.
    with contextlib.suppress(FileNotFoundError):
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode) or status.st_uid != os.geteuid():
            return False
        if status.st_mode & UMASK:
            path.chmod(stat.S_IMODE(status.st_mode) & ~UMASK)
        return True
    return False

"""Files and folders that no other user of the machine may read or enter, whatever the umask is.

What runs under a supervisor inherits `UMASK` from it; these functions are for what must be closed however it is
started, and for what was left open by earlier releases.
"""

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
    """Make `folder` where it is missing, and close it to others where it is ours. Raises OSError."""
    folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
    _close(folder)


def close_to_others(top: Path, names: Iterable[str]) -> None:
    """Make `top`, close it, and in it what has these names (patterns of `Path.glob`) with all that is in there.

    Only what belongs to this user is changed, no symbolic link is followed: a data folder may stand beside files that
    are none of ours, and hold some that another user can move. Raises OSError.
    """
    make_folder(top)
    for name in names:
        for path in top.glob(name):
            _close_tree(path)


def is_open_to_others(path: Path) -> bool:
    """Whether another user may read, enter or write it; being passed through by a group of ours is not that."""
    return bool(path.stat().st_mode & 0o067)


@contextmanager
def replacing(path: Path, beside: Path) -> Iterator[BinaryIO]:
    """A file that only its owner may read, written as `beside` and then put in the place of `path`.

    A crash at any moment leaves the old file or the new one, whole. Raises OSError.
    """
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def opener(name: str, flags: int) -> int:
    """For `open(…, opener=)`: a file that is made is its owner's only."""
    return os.open(name, flags, 0o600)


def _close_tree(path: Path) -> None:
    if not _close(path) or not path.is_dir():
        return
    for entry in path.iterdir():
        _close_tree(entry)


def _close(path: Path) -> bool:
    """Take all rights of group and others from what is ours and no link; False for the rest.

    What is gone by now is none of ours: databases remove their journals at any time.
    """
    with contextlib.suppress(FileNotFoundError):
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode) or status.st_uid != os.geteuid():
            return False
        if status.st_mode & UMASK:
            path.chmod(stat.S_IMODE(status.st_mode) & ~UMASK)
        return True
    return False

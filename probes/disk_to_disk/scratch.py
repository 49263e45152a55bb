"""The file of a measurement: without a name, so that it is gone when it is closed, however its process ends.

In: a folder. Out: a descriptor while the context is open. Where the file system cannot make files without a name (NFS),
it has one for as long as it takes to remove it. Nothing else is ever written; a folder that is a symbolic link is not
followed.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from probes.contract import ProbeError

PREFIX = ".soundings-"
NO_NAMELESS_FILES = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)
MEND = {
    errno.ENOENT: "make it, or name another as disk.folder in limits.toml",
    errno.ENOTDIR: "disk.folder in limits.toml must be a folder, and no symbolic link",
    errno.ELOOP: "disk.folder in limits.toml must be a folder, and no symbolic link",
    errno.EACCES: "let the agent's user write there",
    errno.EROFS: "name a folder that can be written as disk.folder in limits.toml",
    errno.ENOSPC: "make room, or ask for a smaller file_bytes",
    errno.EDQUOT: "make room, or ask for a smaller file_bytes",
    errno.EFBIG: "ask for a smaller file_bytes",
}


class DiskFailure(ProbeError):
    """A disk that does not do what it is asked to; says which folder, why, and what to do."""


@contextmanager
def scratch_file(folder: str) -> Iterator[int]:
    """A new empty file in `folder`, to be read and written. What goes wrong with it inside the context, too, is raised
    as `DiskFailure`."""
    try:
        descriptor = _nameless(folder)
    except OSError as error:
        raise failure(folder, error) from error
    try:
        yield descriptor
    except OSError as error:
        # That of a socket is of another class or number; whoever talks to the peer tells those himself.
        raise failure(folder, error) from error
    finally:
        os.close(descriptor)


def failure(folder: str, error: OSError) -> DiskFailure:
    """What to say of an error of the system about a file there."""
    mend = MEND.get(error.errno or 0)
    return DiskFailure(f"{folder}: {error.strerror or error}" + (f"; {mend}" if mend else ""))


def free_bytes(folder: str) -> int:
    """What the file system has left for us. Raises `DiskFailure`."""
    try:
        found = os.statvfs(folder)
    except OSError as error:
        raise failure(folder, error) from error
    return found.f_bavail * found.f_frsize


def _nameless(folder: str) -> int:
    there = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            return os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_EXCL, 0o600, dir_fd=there)
        except OSError as error:
            if error.errno not in NO_NAMELESS_FILES:
                raise
        name = PREFIX + secrets.token_hex(8)
        descriptor = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600, dir_fd=there)
        os.unlink(name, dir_fd=there)
        return descriptor
    finally:
        os.close(there)

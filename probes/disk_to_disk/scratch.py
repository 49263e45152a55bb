"""The temporary file of a disk-to-disk test, unnamed or (NFS) unlinked at once.

Symbolic links are not followed.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from probes.contract import ProbeError

PREFIX = ".soundings-"
UNNAMED_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)
FIXES = {
    errno.ENOENT: "create it, or set disk.folder in limits.toml to another folder",
    errno.ENOTDIR: "disk.folder in limits.toml must be a folder, not a symbolic link",
    errno.ELOOP: "disk.folder in limits.toml must be a folder, not a symbolic link",
    errno.EACCES: "make it writable for the agent's user",
    errno.EROFS: "set disk.folder in limits.toml to a writable folder",
    errno.ENOSPC: "free disk space, or reduce file_bytes",
    errno.EDQUOT: "free disk space, or reduce file_bytes",
    errno.EFBIG: "reduce file_bytes",
}


class DiskFailure(ProbeError):
    """A disk operation failed; the message has the folder, the error and a fix."""


@contextmanager
def scratch_file(folder: str) -> Iterator[int]:
    """Open a new file in `folder`. Raises `DiskFailure`, also for an `OSError` within."""
    try:
        descriptor = _open_unnamed(folder)
    except OSError as error:
        raise disk_failure(folder, error) from error
    try:
        yield descriptor
    except OSError as error:
        # Errors of connections do not arrive here: code that uses sockets converts them to ConnectionLost.
        raise disk_failure(folder, error) from error
    finally:
        os.close(descriptor)


def disk_failure(folder: str, error: OSError) -> DiskFailure:
    """Convert an `OSError`, with a fix."""
    fix = FIXES.get(error.errno or 0)
    return DiskFailure(f"{folder}: {error.strerror or error}" + (f"; {fix}" if fix else ""))


def free_bytes(folder: str) -> int:
    """Free bytes for unprivileged users. Raises `DiskFailure`."""
    try:
        status = os.statvfs(folder)
    except OSError as error:
        raise disk_failure(folder, error) from error
    return status.f_bavail * status.f_frsize


def _open_unnamed(folder: str) -> int:
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            return os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_EXCL, 0o600, dir_fd=directory)
        except OSError as error:
            if error.errno not in UNNAMED_UNSUPPORTED:
                raise
        name = PREFIX + secrets.token_hex(8)
        descriptor = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600, dir_fd=directory)
        os.unlink(name, dir_fd=directory)
        return descriptor
    finally:
        os.close(directory)

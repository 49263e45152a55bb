"""Private folders for Unix sockets, as the kernel limits their paths to 107 bytes."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from probes.private_files import make_folder
from probes.supervision.supervise import StartError

LONGEST_SOCKET_DIR_BYTES = 85


def socket_dir(directory: Path) -> Path:
    """Folder for sockets: inside `directory`, unless paths would exceed 107 bytes."""
    inside = directory / "socket"
    if len(os.fsencode(inside)) <= LONGEST_SOCKET_DIR_BYTES:
        return inside
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"soundings-{os.getuid()}-{digest}" / "socket"


def make_socket_dir(directory: Path) -> Path:
    """Create the private `socket_dir`. Raises `StartError` if it is outside and another user's."""
    folder = socket_dir(directory)
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.parent != directory:
        status = folder.parent.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise StartError(
                f"{folder.parent} belongs to another user or is not private; "
                "remove it, or use a shorter data folder path"
            )
        make_folder(folder.parent)
    make_folder(folder)
    return folder

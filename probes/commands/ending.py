"""The end of a command that Ctrl-C, a closed pipe or a missing permission cuts short: a sentence and an exit status, no
traceback. Shared by `python -m probes` and `manage.py`."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FAILED = 1
INTERRUPTED = 130
"""As shells report a program that SIGINT ended."""


@contextmanager
def without_traceback(program: str) -> Iterator[None]:
    """End the process with a sentence about `program` instead of a traceback."""
    try:
        yield
        # Here, since at the exit of Python a closed pipe would be reported after all.
        sys.stdout.flush()
    except PermissionError as error:
        print(f"{program}: {permission_text(error)}", file=sys.stderr)
        raise SystemExit(FAILED) from error
    except BrokenPipeError as error:
        # Python flushes standard output once more at its exit, and would complain there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(FAILED) from error
    except KeyboardInterrupt as error:
        print(f"{program}: interrupted", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from error


def permission_text(error: OSError) -> str:
    """Which file or folder refuses this user, whose it is, and a fix."""
    me = _name_of(os.geteuid())
    if not isinstance(error.filename, str):
        return f"{error.strerror} for user {me}; run it as the user who started Soundings, or as root"
    barrier = _barrier(Path(error.filename))
    where = error.filename if barrier == Path(error.filename).absolute() else f"{error.filename} (in {barrier})"
    try:
        owner = _name_of(barrier.stat().st_uid)
    except OSError:
        return f"{where}: user {me} has no permission; choose another place, or run it as root"
    if owner == me:
        return f"{where}: user {me} has no permission, and owns it: chmod u+rwX {barrier}"
    return f"{where}: user {me} has no permission, it belongs to {owner}; run it as {owner}, or choose another place"


def _barrier(path: Path) -> Path:
    """The topmost folder above `path` that this user cannot enter; else the lowest of both that exists."""
    for folder in reversed(path.absolute().parents):
        if os.path.lexists(folder) and not os.access(folder, os.X_OK):
            return folder
    return next(place for place in (path.absolute(), *path.absolute().parents) if os.path.lexists(place))


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"number {uid}"

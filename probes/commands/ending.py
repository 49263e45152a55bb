"""End commands cut short by Ctrl-C, closed pipes, permissions or unusable files with a sentence; bugs keep
tracebacks."""

from __future__ import annotations

import errno
import os
import pwd
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

FAILED, USAGE = 1, 2
# As shells report a program that SIGINT ended.
INTERRUPTED = 130
LARGEST_TEXT_BYTES = 1 << 20


@contextmanager
def without_traceback(program: str, arguments: Sequence[str] = ()) -> Iterator[None]:
    """End the process with a sentence; OSErrors about files not in `arguments` stay tracebacks."""
    for number, argument in enumerate(arguments, 1):
        if not _is_text(argument):
            print(f"{program}: argument {number} is not UTF-8 text: {os.fsencode(argument)!r}", file=sys.stderr)
            raise SystemExit(USAGE)
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
    except (OSError, RuntimeError) as error:
        # pathlib makes a RuntimeError of the OSError about a loop of symbolic links.
        refused = error if isinstance(error, OSError) else error.__context__
        if not isinstance(refused, OSError) or not _is_typed(refused.filename, arguments):
            raise
        print(f"{program}: {refused.filename}: {refused.strerror}; give another file or folder", file=sys.stderr)
        raise SystemExit(FAILED) from error
    except KeyboardInterrupt as error:
        print(f"{program}: interrupted", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from error


def read_text(path: Path) -> str:
    """Text of a small file that the user named. Raises OSError, also if not UTF-8."""
    with path.open("rb") as file:
        content = file.read(LARGEST_TEXT_BYTES + 1)
    if len(content) > LARGEST_TEXT_BYTES:
        raise OSError(errno.EFBIG, f"has more than {LARGEST_TEXT_BYTES >> 20} MB", str(path))
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, "is not UTF-8 text", str(path)) from error


def _is_text(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_typed(filename: object, arguments: Sequence[str]) -> bool:
    if not isinstance(filename, str):
        return False
    place = Path(filename).absolute()
    places = [Path(text).absolute() for argument in arguments for text in (argument, *argument.split("=", 1)[1:])]
    return any(place.is_relative_to(typed) for typed in places)


def permission_text(error: OSError) -> str:
    """Which file or folder refuses this user, with its owner and a fix."""
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
    for folder in reversed(path.absolute().parents):
        if os.path.lexists(folder) and not os.access(folder, os.X_OK):
            return folder
    return next(place for place in (path.absolute(), *path.absolute().parents) if os.path.lexists(place))


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"number {uid}"

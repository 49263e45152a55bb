"""`python -m tests.e2e.stepped_clock FILE MODULE`: runs a module with a wall clock that can be set from outside.

FILE holds the time at which the clock was last set, and its offset in seconds before and since; writing it sets the
clock. All of Python's readings of the wall clock are redirected to it, `datetime.now` too, before any of the program's
modules is imported; so are the kernel's packet timestamps, each by the time at which it was taken. Monotonic clocks are
the kernel's: the program itself is unchanged. (Setting the machine's clock would affect everybody; libfaketime does not
change timestamps, and affects waits on a monotonic clock.)
"""

from __future__ import annotations

import datetime
import gc
import mmap
import runpy
import struct
import sys
import time
from collections.abc import Callable
from ctypes import py_object, pythonapi
from pathlib import Path
from typing import Any

import numpy as np

from probes.packets.icmp import kernel

SET = struct.Struct("=ddd")


def install(file: Path) -> None:
    """Redirect all readings of the wall clock to the file."""
    with file.open("rb") as opened:
        mapped = mmap.mmap(opened.fileno(), SET.size, access=mmap.ACCESS_READ)
    wall_s = time.time

    def offset_s() -> float:
        at_s, before_s, since_s = SET.unpack(mapped[:])
        return float(since_s if wall_s() >= at_s else before_s)

    _install_stamps(lambda: SET.unpack(mapped[:]))
    _install_time(offset_s)
    _install_datetime(offset_s)


def _install_stamps(last_set: Callable[[], tuple[float, float, float]]) -> None:
    """A timestamp uses the offset of the time at which it was taken."""
    read = kernel.read_controls

    def stepped(*arguments: Any) -> kernel.Controls:
        controls = read(*arguments)
        at_s, before_s, since_s = last_set()
        offset_s = np.where(controls.stamp_ns >= at_s * 1e9, since_s, before_s)
        controls.stamp_ns += np.where(controls.stamp_ns > 0, offset_s * 1e9, 0).astype(np.int64)
        return controls

    kernel.read_controls = stepped


def _install_time(offset_s: Callable[[], float]) -> None:
    wall_s, wall_ns, of_clock_s, of_clock_ns = time.time, time.time_ns, time.clock_gettime, time.clock_gettime_ns

    def ahead_of(clock: int) -> float:
        return offset_s() if clock == time.CLOCK_REALTIME else 0.0

    time.time = lambda: wall_s() + offset_s()
    time.time_ns = lambda: wall_ns() + round(offset_s() * 1e9)
    time.clock_gettime = lambda clock: of_clock_s(clock) + ahead_of(clock)
    time.clock_gettime_ns = lambda clock: of_clock_ns(clock) + round(ahead_of(clock) * 1e9)


def _install_datetime(offset_s: Callable[[], float]) -> None:
    """In the type itself, since programs use it in annotations: a class of ours would be another type."""
    now = datetime.datetime.now

    def stepped(_: type, tz: datetime.tzinfo | None = None) -> datetime.datetime:
        return now(tz) + datetime.timedelta(seconds=offset_s())

    (of_type,) = (referent for referent in gc.get_referents(datetime.datetime.__dict__) if isinstance(referent, dict))
    of_type["now"] = classmethod(stepped)
    of_type["utcnow"] = classmethod(lambda kind: stepped(kind, datetime.UTC).replace(tzinfo=None))
    pythonapi.PyType_Modified(py_object(datetime.datetime))


def write(file: Path, offset_s: float) -> None:
    """Set the clock of a program that runs with this file: in place, where it is mapped."""
    before_s = SET.unpack(file.read_bytes())[2] if file.exists() else offset_s
    with file.open("r+b" if file.exists() else "wb") as opened:
        opened.write(SET.pack(time.time(), before_s, offset_s))


if __name__ == "__main__":
    install(Path(sys.argv[1]))
    module = sys.argv[2]
    sys.argv = sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)

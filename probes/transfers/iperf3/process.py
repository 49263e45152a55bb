"""iperf3 as a child process with bounded output, time and memory, since it holds what a peer sends."""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from probes.contract import Deadline
from probes.transfers.iperf3.errors import ToolFailure

MISSING = "iperf3 is not installed; install it (Debian, Ubuntu: apt-get install iperf3)"
STOP_GRACE_S = 2.0
MAX_OUTPUT_BYTES = 32 * 2**20
READ_BYTES = 2**16
POLL_S = 0.1
# Of data in iperf3: a stream has a buffer, the stack of a thread, and its part of the report.
MEMORY_BYTES, MEMORY_OF_A_STREAM_BYTES = 256 * 2**20, 16 * 2**20


def limit_memory(process: subprocess.Popen[bytes], streams: int) -> None:
    most = MEMORY_BYTES + streams * MEMORY_OF_A_STREAM_BYTES
    resource.prlimit(process.pid, resource.RLIMIT_DATA, (most, most))


@contextmanager
def running(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    streams: int,
    descriptors: Sequence[int] = (),
    max_file_bytes: int | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run iperf3 within the context. Raises `ToolFailure`.

    `max_file_bytes` bounds a peer's use of the disk.
    """
    try:
        process = subprocess.Popen(
            arguments,
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Its error messages are read, hence not translated.
            env={**os.environ, "LC_ALL": "C", **environment},
        )
    except FileNotFoundError as error:
        raise ToolFailure(MISSING, permanent=True) from error
    except OSError as error:
        raise ToolFailure(f"cannot start iperf3: {error.strerror}") from error
    with process:
        try:
            limit_memory(process, streams)
            if max_file_bytes is not None:
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (max_file_bytes, max_file_bytes))
            yield process
        finally:
            if process.poll() is None:
                _end(process)


def output_of(
    process: subprocess.Popen[bytes],
    deadline: Deadline,
    is_hung: Callable[[], bool] = lambda: False,
) -> tuple[bytes, bool]:
    """Return the output, and whether iperf3 ended in time and before it `is_hung`; else it is stopped. Raises
    `ToolFailure` for too much output."""
    output = bytearray()
    if _read(process, output, deadline, is_hung):
        process.wait()
        return bytes(output), True
    process.terminate()
    _read(process, output, Deadline(STOP_GRACE_S), lambda: False)
    _end(process)
    return bytes(output), False


def _read(
    process: subprocess.Popen[bytes],
    output: bytearray,
    deadline: Deadline,
    is_hung: Callable[[], bool],
) -> bool:
    if process.stdout is None:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not deadline.passed and not is_hung():
            if not selector.select(min(POLL_S, deadline.remaining_s)):
                continue
            part = os.read(process.stdout.fileno(), READ_BYTES)
            if not part:
                return True
            output += part
            if len(output) > MAX_OUTPUT_BYTES:
                _end(process)
                raise ToolFailure(f"iperf3's report, with the peer's part, exceeds {MAX_OUTPUT_BYTES >> 20} MB")
    return False


def count_sockets(pid: int) -> int:
    """Count open sockets of this user's process."""
    count = 0
    with contextlib.suppress(OSError):
        for descriptor in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                count += str(Path(descriptor.path).readlink()).startswith("socket:")
    return count


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_GRACE_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()

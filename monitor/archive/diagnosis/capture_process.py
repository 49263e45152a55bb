"""Evaluate captures in a process (this module) with limits on processor time and memory."""

from __future__ import annotations

import itertools
import logging
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import TypeVar

import msgspec

import monitor
from monitor.analysis.packets import (
    CaptureError,
    CaptureLosses,
    TcpConnection,
    connections_of,
    lost_between,
    read_capture,
)
from monitor.archive.diagnosis.capture_findings import CaptureFindings, findings_of, parts_of, unpacked
from probes.transfers.spec import MOST_CAPTURED_PACKETS, CapturedPart

log = logging.getLogger(__name__)

# The largest capture that an agent may deliver takes about a second.
MOST_CPU_S = 20
# Address space of the process: about 170 MB with an empty capture, 300 MB with the largest.
MOST_MEMORY_BYTES = 768 * 2**20
MOST_WAIT_S = 10.0 * MOST_CPU_S
BEYOND_LIMITS = f"its evaluation needs more than {MOST_CPU_S} s of processor time or {MOST_MEMORY_BYTES >> 20} MB"
COMMAND = (sys.executable, "-m", __name__)
# Exit status when the answer is the reason of a refusal.
REFUSED = 3

Answer = TypeVar("Answer")


class DeliveredCapture(msgspec.Struct, frozen=True):
    """Compressed pcap file, with the parts of the transfer in it."""

    pcap_zlib: bytes
    parts: tuple[CapturedPart, ...]


class CaptureTask(msgspec.Struct, frozen=True):
    """Capture to evaluate, or with `far_end` both ends' to compare."""

    capture: DeliveredCapture
    far_end: DeliveredCapture | None = None


def evaluate_capture(capture: DeliveredCapture) -> CaptureFindings:
    """Evaluate a capture; findings of an unusable capture hold the reason."""
    try:
        return _run(CaptureTask(capture), CaptureFindings)
    except CaptureError as error:
        return CaptureFindings(fault=str(error))


def compare_captures(sender: DeliveredCapture, receiver: DeliveredCapture) -> CaptureLosses | None:
    """Find the losses between both ends; None for an unusable capture."""
    try:
        return _run(CaptureTask(sender, receiver), CaptureLosses)
    except CaptureError:
        return None


def _run(task: CaptureTask, answer: type[Answer]) -> Answer:
    """Run a task in the process. Raises `CaptureError` if it refuses the capture or exceeds limits."""
    try:
        done = subprocess.run(
            COMMAND,
            input=msgspec.msgpack.encode(task),
            capture_output=True,
            check=False,
            timeout=MOST_WAIT_S,
            cwd=Path(monitor.__file__).parents[1],
            # Each thread of the library that numpy calculates with reserves address space.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            # Ctrl-C in the terminal of the worker is not for this process: the worker waits for it.
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise CaptureError(BEYOND_LIMITS) from error
    if done.returncode == 0:
        return msgspec.msgpack.decode(done.stdout, type=answer)
    if done.returncode == REFUSED:
        raise CaptureError(done.stdout.decode())
    # A limit ends the process by a signal where no exception of Python says so.
    reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    log.error("a capture cannot be evaluated: exit %d, %s", done.returncode, done.stderr.decode(errors="replace"))
    raise CaptureError(BEYOND_LIMITS if done.returncode < 0 else f"cannot be evaluated: {reason}")


def main() -> int:
    """Read a task, write its answer; return the exit status."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    try:
        task = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=CaptureTask)
        answer = msgspec.msgpack.encode(_answer(task))
    except CaptureError as error:
        sys.stdout.write(str(error))
        return REFUSED
    except MemoryError:
        sys.stdout.write(BEYOND_LIMITS)
        return REFUSED
    sys.stdout.buffer.write(answer)
    return 0


def _answer(task: CaptureTask) -> CaptureFindings | CaptureLosses:
    near, parts = _connections(task.capture), parts_of(task.capture.parts)
    if task.far_end is None:
        return findings_of(near, parts)
    return lost_between(near, _connections(task.far_end), parts, parts_of(task.far_end.parts))


def _connections(capture: DeliveredCapture) -> list[TcpConnection]:
    packets = read_capture(unpacked(capture.pcap_zlib))
    # An agent captures no more, though more would fit.
    return connections_of(itertools.islice(packets, MOST_CAPTURED_PACKETS))


if __name__ == "__main__":
    sys.exit(main())

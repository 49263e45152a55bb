"""Both our ends against a foreign implementation, stamp-suite 1.0.0: `make test-stamp` builds and runs it.

Without the program these tests are skipped; packets of it that were recorded are tests of every run
(`tests/unit/stamp/test_packets.py`).
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from probes.contract import Deadline
from probes.peers import Peers
from probes.stamp.limits import StampLimits
from probes.stamp.probe import measure
from probes.stamp.reflector.reflector import Reflector
from probes.stamp.reflector.service import open_channels, reply_maker
from probes.stamp.spec import StampBurst, StampSpec, StampTarget

PROGRAM = Path(os.environ.get("SOUNDINGS_STAMP_SUITE", ".cache/stamp-suite/bin/stamp-suite"))
KEY = b"k" * 32
KEY_TEXT = "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="
WILDCARD = {4: "0.0.0.0", 6: "::"}
LOOPBACK = {4: "127.0.0.1", 6: "::1"}

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built: make test-stamp")


def free_port(family: int) -> int:
    kind = {4: socket.AF_INET, 6: socket.AF_INET6}[family]
    with socket.socket(kind, socket.SOCK_DGRAM) as probe:
        probe.bind((LOOPBACK[family], 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def foreign_reflector(family: int, *options: str) -> Iterator[int]:
    port = free_port(family)
    command = [str(PROGRAM), "-i", "-S", LOOPBACK[family], "-o", str(port), *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.terminate()
        process.wait(20)


def until_measured(family: int, port: int, key: str | None, packet_bytes: int = 200) -> StampBurst:
    """Measure; again while the reflector does not listen yet."""
    target = StampTarget(address=LOOPBACK[family], family=family, port=port, key=key)  # type: ignore[arg-type]
    spec = StampSpec(targets=(target,), count=6, spacing_s=0.05, timeout_s=1.0, dscp=10, packet_bytes=packet_bytes)
    deadline = time.monotonic() + 20
    while True:
        (burst,) = measure(spec, Deadline(30))
        # A cycle in which the reflector began to listen has lost packets.
        if burst.received == spec.count or time.monotonic() > deadline:
            return burst


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("is_authenticated", [False, True])
def test_our_sender_measures_to_a_foreign_reflector(family: int, is_authenticated: bool) -> None:
    keyed = ("-A", "A", "--hmac-key", KEY.hex(), "--verify-tlv-hmac") if is_authenticated else ()

    with foreign_reflector(family, "--stateful-reflector", *keyed) as port:
        burst = until_measured(family, port, KEY_TEXT if is_authenticated else None)

    assert (burst.sent, burst.received, burst.is_stateful, burst.is_authenticated) == (6, 6, True, is_authenticated)
    assert (burst.forward.lost, burst.reverse.lost, burst.undecided) == (0, 0, 0)
    assert (burst.forward.dscp, burst.reverse.dscp) == (10, 10)
    assert burst.follow_ups == 6


def test_a_foreign_reflector_without_a_counter_is_told_as_such() -> None:
    with foreign_reflector(4) as port:
        burst = until_measured(4, port, None, packet_bytes=44)

    assert (burst.received, burst.is_stateful, burst.forward.lost) == (6, False, None)


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("is_authenticated", [False, True])
def test_a_foreign_sender_measures_to_our_reflector(family: int, is_authenticated: bool) -> None:
    port = free_port(family)
    peers = Peers({LOOPBACK[family]: KEY_TEXT if is_authenticated else None})
    reflector = Reflector(open_channels(port), reply_maker(peers, StampLimits()))
    stop = threading.Event()
    thread = threading.Thread(target=reflector.run, args=(stop,))
    thread.start()
    command = [str(PROGRAM), "-r", LOOPBACK[family], "-S", WILDCARD[family], "-p", str(port), "-c", "5", "-d", "50"]
    command += ["-L", "1", "--ssid", "7", "--cos", "--dscp", "10", "--follow-up-telemetry"]
    command += ["-A", "A", "--hmac-key", KEY.hex(), "--verify-tlv-hmac"] if is_authenticated else []
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    finally:
        stop.set()
        thread.join()
        reflector.close()

    assert re.search(r"Packets received: 5\b", done.stdout), done.stdout
    # The first reply follows none.
    assert re.search(r"Follow-Up: 4 matched, 0 repeated, 0 unmatched, 0 ambiguous, 1 unavailable", done.stdout)

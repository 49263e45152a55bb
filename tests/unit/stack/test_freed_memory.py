"""Freed memory goes back to the operating system."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from celery import signals

from monitor.stack import freed_memory

PROGRAM = """
import mmap
from pathlib import Path
from monitor.stack.freed_memory import give_back

def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

arrays = [bytearray(500_000) for _ in range(200)]
del arrays[:-1]
before = resident_bytes()
give_back()
print(before - resident_bytes())
"""


@pytest.mark.skipif(not hasattr(freed_memory._libc, "malloc_trim"), reason="another C library than glibc")
def test_memory_below_an_object_that_is_kept_is_given_back():
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "33554432"}  # all in the heap, as after the first large array

    given = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)

    assert int(given.stdout) > 80_000_000


def test_it_is_given_back_after_a_task(monkeypatch):
    calls = []
    monkeypatch.setattr(freed_memory, "_libc", SimpleNamespace(malloc_trim=calls.append))
    monkeypatch.setattr(freed_memory, "_given_back_s", -freed_memory.EVERY_S)
    import monitor.celery  # noqa: F401 has the receiver

    signals.task_postrun.send(sender=None)

    assert calls == [0]


def test_not_again_within_seconds(monkeypatch):
    calls = []
    monkeypatch.setattr(freed_memory, "_libc", SimpleNamespace(malloc_trim=calls.append))
    monkeypatch.setattr(freed_memory, "_given_back_s", -freed_memory.EVERY_S)

    freed_memory.give_back()
    freed_memory.give_back()

    assert calls == [0]

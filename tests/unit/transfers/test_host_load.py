"""Load of a host during a test: cores by /proc/stat, the tool's busiest thread, drops of our own queue."""

import pytest

from probes.transfers.hosts import inventory, load
from probes.transfers.hosts.load import HostLoadSampler, core_loads, parse_core_times
from probes.transfers.hosts.spec import CoreLoad

BEFORE = """\
cpu  1000 0 0 4000 0 0 0 0 0 0
cpu0 500 0 0 2000 0 0 0 0 0 0
cpu3 500 0 0 2000 0 0 0 0 0 0
intr 12 0
"""
AFTER = """\
cpu  1490 20 0 4500 40 10 100 0 300 0
cpu0 510 0 0 2080 10 0 0 0 300 0
cpu3 550 10 0 2002 0 0 38 0 0 0
"""
"""Core 0: 100 ticks, 10 busy (guest time is in user time). Core 3: 100 ticks, 98 busy, 38 in software interrupts."""


def test_the_load_of_a_core_is_its_busy_share_of_the_ticks():
    loads = core_loads(parse_core_times(BEFORE), parse_core_times(AFTER))

    assert loads == (
        CoreLoad(number=0, busy_ratio=0.1, softirq_ratio=0.0),
        CoreLoad(number=3, busy_ratio=0.98, softirq_ratio=0.38),
    )


def test_a_core_that_was_off_has_no_load():
    assert [core.number for core in core_loads(parse_core_times(BEFORE), {3: (3000, 700, 50)})] == [3]
    assert core_loads({0: (10, 5, 0)}, {0: (10, 5, 0)}) == ()


def sampled(monkeypatch, samples):
    """The load by samples of time, text of /proc/stat and CPU seconds of the threads; thread 8 runs on core 3."""
    monkeypatch.setattr(load, "interface_to", lambda peer: "eth0")
    counts = iter([5, 12])
    monkeypatch.setattr(load, "queue_drops", lambda interface: next(counts))
    monkeypatch.setattr(load, "core_of_thread", lambda pid, thread: 3 if thread == "8" else 0)
    sampler = HostLoadSampler(1, "192.0.2.1", waits=True)
    for at_s, text, threads_s in samples:
        monkeypatch.setattr(load.time, "monotonic", lambda at_s=at_s: at_s)
        monkeypatch.setattr(load, "read_core_times", lambda text=text: parse_core_times(text))
        sampler.sample(threads_s)
    return sampler.host_load()


def test_the_wait_for_the_client_is_left_out(monkeypatch):
    """The server waits for 3 s; from 3 s on its thread 8 runs 0.7 s in a second."""
    idle = {"7": 0.01, "8": 0.0}

    seen = sampled(monkeypatch, [(0.0, BEFORE, idle), (3.0, BEFORE, idle), (4.0, AFTER, {"7": 0.02, "8": 0.7})])

    assert (seen.tool_core, seen.tool_ratio) == (3, pytest.approx(0.7))
    assert [core.busy_ratio for core in seen.cores] == [0.1, 0.98]
    assert seen.queue_drops == 7


def test_a_tool_that_never_ran_has_no_load(monkeypatch):
    assert sampled(monkeypatch, [(0.0, BEFORE, {"8": 0.0}), (3.0, AFTER, {"8": 0.0})]) is None
    assert sampled(monkeypatch, []) is None


def test_drops_are_those_of_the_root_disciplines(monkeypatch):
    """An mq discipline and the fq below it count the same drop."""
    told = '[{"kind":"mq","root":true,"drops":4},{"kind":"fq","parent":":1","drops":4}]'
    monkeypatch.setattr(inventory, "_run", lambda *command: told)

    assert inventory.queue_drops("eth0") == 4
    monkeypatch.setattr(inventory, "_run", lambda *command: None)
    assert inventory.queue_drops("eth0") is None

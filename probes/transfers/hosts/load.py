"""Load of this host during a test: CPU cores, the tool's busiest thread, own queue drops."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from probes.transfers.hosts.inventory import interface_to, queue_drops
from probes.transfers.hosts.spec import MAX_CORES, CoreLoad, HostLoad

CPU_TIMES = Path("/proc/stat")
# Minimum time between the first and the last sample; /proc/stat counts in ticks of 10 ms.
LEAST_S = 0.2
# CPU share of the tool below which it still waits for its test.
ACTIVE_RATIO = 0.002
IDLE_FIELDS = (3, 4)
SOFTIRQ_FIELD = 6
# Fields of a line of /proc/stat up to steal; guest time is counted in user time already.
TIME_FIELDS = 8
# Place of the processor in /proc/PID/task/TID/stat after the name, which may hold spaces.
PROCESSOR_FIELD = 36

# Ticks of each core: all, busy, in software interrupts.
CoreTimes = dict[int, tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class CpuSample:
    """CPU times of cores and tool threads at a monotonic time."""

    at_s: float
    cores: CoreTimes
    threads_s: Mapping[str, float]


class HostLoadSampler:
    """Collects samples; `host_load` is complete after the last."""

    def __init__(self, pid: int, peer: str | None, *, waits: bool = False) -> None:
        """With `waits`, samples count from the tool's first activity."""
        self._pid = pid
        self._interface = None if peer is None else interface_to(peer)
        self._drops = None if self._interface is None else queue_drops(self._interface)
        self._first: CpuSample | None = None
        self._last: CpuSample | None = None
        self._is_active = not waits
        self._cores_of: dict[str, Counter[int]] = {}

    def sample(self, threads_s: Mapping[str, float]) -> None:
        """Take a sample; `threads_s` are seconds that each tool thread ran."""
        sample = CpuSample(time.monotonic(), read_core_times(), threads_s)
        if self._first is None or (not self._is_active and not _is_active(self._first, sample)):
            self._first = sample
            return
        self._is_active, self._last = True, sample
        for thread in threads_s:
            core = core_of_thread(self._pid, thread)
            if core is not None:
                self._cores_of.setdefault(thread, Counter())[core] += 1

    def host_load(self) -> HostLoad | None:
        """Load from first activity on; None with too few samples."""
        first, last = self._first, self._last
        if first is None or last is None or last.at_s - first.at_s < LEAST_S:
            return None
        ran_s = {thread: last.threads_s[thread] - first.threads_s.get(thread, 0.0) for thread in last.threads_s}
        busiest = max(ran_s, key=lambda thread: ran_s[thread], default=None)
        seen = self._cores_of.get(busiest) if busiest is not None else None
        return HostLoad(
            cores=core_loads(first.cores, last.cores),
            tool_core=seen.most_common(1)[0][0] if seen else None,
            tool_ratio=None if busiest is None else ran_s[busiest] / (last.at_s - first.at_s),
            queue_drops=self._dropped(),
        )

    def _dropped(self) -> int | None:
        if self._interface is None or self._drops is None:
            return None
        now = queue_drops(self._interface)
        return None if now is None else max(0, now - self._drops)


def _is_active(first: CpuSample, sample: CpuSample) -> bool:
    ran_s = sum(sample.threads_s.values()) - sum(first.threads_s.values())
    return ran_s > ACTIVE_RATIO * (sample.at_s - first.at_s)


def read_core_times() -> CoreTimes:
    """CPU times of each core; empty if not available."""
    try:
        return parse_core_times(CPU_TIMES.read_text())
    except OSError:
        return {}


def parse_core_times(text: str) -> CoreTimes:
    """Parse /proc/stat (proc(5)) up to steal."""
    cores = {}
    for line in text.splitlines():
        name, *fields = line.split()
        if not (name.startswith("cpu") and name[3:].isdigit()):
            continue
        times = [int(field) for field in fields[:TIME_FIELDS]]
        idle = sum(times[place] for place in IDLE_FIELDS)
        cores[int(name[3:])] = (sum(times), sum(times) - idle, times[SOFTIRQ_FIELD])
    return cores


def core_loads(first: CoreTimes, last: CoreTimes) -> tuple[CoreLoad, ...]:
    loads = []
    for number in sorted(first.keys() & last.keys())[:MAX_CORES]:
        ticks, busy, softirq = (after - before for before, after in zip(first[number], last[number], strict=True))
        if ticks > 0:
            busy_ratio, softirq_ratio = (min(1.0, max(0.0, part / ticks)) for part in (busy, softirq))
            loads.append(CoreLoad(number=number, busy_ratio=busy_ratio, softirq_ratio=softirq_ratio))
    return tuple(loads)


def core_of_thread(pid: int, thread: str) -> int | None:
    """Last core of a thread; None once it has ended."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path(f"/proc/{pid}/task/{thread}/stat").read_text()
        return int(text.rpartition(")")[2].split()[PROCESSOR_FIELD])
    return None

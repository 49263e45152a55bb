"""Pytest plugin: at the end of a run, the processor time of its tests by folder, and the files that took most.

Counted are the process of the tests, the processes that it has awaited, and the database server of its tests; what a
test shares with later ones (the server's start, a stack) is of the first.
"""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests import postgres

SHOWN_FILES = 20
PROPERTY = "processor_s"
TICKS_A_SECOND = 100.0
"""In /proc, on all of Linux's usual processors."""

_used: Counter[str] = Counter()
_before_s = 0.0


def used_s() -> float:
    """Processor time so far."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime + _of_server_s()


def _of_server_s() -> float:
    """The database server's time: its own, its ended processes', and its backends'."""
    if postgres.cluster is None:
        return 0.0
    try:
        pid = (postgres.cluster.directory / "cluster" / "postmaster.pid").read_text().partition("\n")[0]
        backends = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # not started so far
        return 0.0
    return _of_process_s(pid, ended=True) + sum(_of_process_s(backend, ended=False) for backend in backends)


def _of_process_s(pid: str, *, ended: bool) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if ended else 13])) / TICKS_A_SECOND


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    global _before_s
    _before_s = used_s()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[misc, assignment]
    if call.when == "teardown":
        report.user_properties.append((PROPERTY, used_s() - _before_s))
    return report  # type: ignore[return-value]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    for name, seconds in report.user_properties:
        if name == PROPERTY:
            _used[report.nodeid.partition("::")[0]] += seconds  # type: ignore[assignment]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if len(_used) > 1 and not hasattr(config, "workerinput"):
        terminalreporter.section("processor time, s")
        for line in lines(_used):
            terminalreporter.line(line)


def lines(used: Mapping[str, float]) -> list[str]:
    """The processor time of each folder, and of the files that took most."""
    folders: Counter[str] = Counter()
    for file, seconds in used.items():
        folders[str(Path(file).parent)] += seconds  # type: ignore[assignment]
    every = [("all", sum(used.values())), *folders.most_common(), *Counter(used).most_common(SHOWN_FILES)]
    return [f"{seconds:8.1f}  {name}" for name, seconds in every]

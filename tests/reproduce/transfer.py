"""A transfer over the lab's path, measured between the end of its start-up and its end.

In: the settings of the path, a `Plan` of the two ends. Out: `Measured`: the rate from the bytes acknowledged at the
sender's kernel, loss from the packets counted by the relay, both over the same time. A run in which this machine was
too busy to emulate the path as configured is not a measurement: it is reported and repeated, and finally raises
`TooBusy`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from probes.lab import control
from probes.lab.emulated_path import PathCounters
from tests.lab import RunningLab
from tests.reproduce.ends import Plan, Sample, StreamInfo, as_json

LAB = str(Path(__file__).parent / "lab.toml")
SENDER, RECEIVER = "slac", "in2p3"
PACKET_BYTES = 1500
PAYLOAD_BYTES = 1448
"""Payload of a packet: without IPv4, TCP and its timestamps option."""

MOST_LATE_RATIO = 0.05
"""Maximum mean increase of the RTT by the relay, relative to the RTT."""
MOST_WAITED_RATIO = 0.05
"""Maximum ratio of the time in which the relay waits for a processor."""
LEAST_BUSY_RATIO = 0.98
"""Minimum ratio of the time in which the sender has data to send."""
MOST_HELD_RATIO = 0.02
"""Maximum ratio of the time in which a buffer limits a sender whose window is left to the kernel."""
TRIES = 5
TAIL_S = 0.3
"""The counters are read this long before the sender's end."""
END_GRACE_S = 60.0
CLEAN_PATH = {
    "jitter_ms": 0.0, "loss_ratio": 0.0, "rate_mbps": None, "queue_ms": 100.0, "queue_bytes": None,
    "policer_mbps": None, "policer_bytes": 15_000, "policer_cell_bytes": 0, "reorder_ratio": 0.0,
    "duplicate_ratio": 0.0,
}  # fmt: skip

Say = Callable[[str], None]


class TransferError(Exception):
    """A transfer failed; the message says where and why."""


class TooBusy(Exception):
    """This machine had no time for the lab; the message has the missing time."""


@dataclass(frozen=True, slots=True)
class Run:
    """Settings of a measurement. `path` are settings of the direction of the data, as in a scenario, `back` those of
    the answers, which otherwise are only delayed. `midway` is called `midway_s` after the end of the start-up.

    `backlogged` runs must always have data to send. With `each_ack` the receiver acknowledges every segment.
    """

    rtt_ms: float
    path: Mapping[str, float | None]
    plan: Plan
    start_up_s: float
    backlogged: bool = True
    each_ack: bool = False
    back: Mapping[str, float | None] = field(default_factory=dict)
    midway: Callable[[RunningLab], None] | None = None
    midway_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures from the end of the start-up on. Ratios are 0 to 1; samples are of that time only.

    `late_ms` is the relay's mean excess delay of a packet. `busy_ratio` is the ratio of the time in which the sender
    had data to send, `held_ratio` that in which a buffer limited it.
    """

    seconds: float
    acked_bytes: int
    rate_bps: float
    data: PathCounters
    answers: PathCounters
    late_ms: float
    waited_ratio: float
    busy_ratio: float
    held_ratio: float
    samples: list[Sample]

    @property
    def loss_ratio(self) -> float:
        """Ratio of the data packets that the path dropped at random, as counted."""
        return self.data.dropped_loss / self.data.received

    @property
    def segments_per_answer(self) -> float:
        return self.data.forwarded / self.answers.received

    @property
    def rtt_ms(self) -> float:
        """Mean of the sender's own smoothed RTT."""
        return float(np.mean([stream.rtt_us for sample in self.samples for stream in sample.streams])) / 1000.0

    @property
    def resent(self) -> int:
        """Retransmitted segments."""
        first, last = self.samples[0].streams, self.samples[-1].streams
        return sum(stream.resent for stream in last) - sum(stream.resent for stream in first)

    def rates_bps(self, step_s: float) -> np.ndarray:
        """The rate in intervals of that length, an array of bit/s."""
        at_s, acked = self.progress()
        edges_s = np.arange(at_s[0], at_s[-1], step_s)
        return np.asarray(np.diff(np.interp(edges_s, at_s, acked)) * 8.0 / step_s)

    def progress(self) -> tuple[np.ndarray, np.ndarray]:
        """Times in s and bytes acknowledged by then, for each sample."""
        at_s = np.array([sample.at_s for sample in self.samples])
        return at_s, np.array([sum(stream.acked_bytes for stream in sample.streams) for sample in self.samples])


def measure(lab: RunningLab, run: Run, say: Say) -> Measured:
    """Make the run, and repeat it if the machine was too busy. Raises `TooBusy` after `TRIES` such runs."""
    reason = ""
    for _ in range(TRIES):
        measured = _once(lab, run)
        reason = lacking(measured, run)
        if not reason:
            return measured
        say(f"    not counted: {reason}; again")
    raise TooBusy(f"{TRIES} runs in a row: {reason}")


def lacking(measured: Measured, run: Run) -> str:
    """The reason why the run does not count; empty if it does."""
    if 2 * measured.late_ms > MOST_LATE_RATIO * run.rtt_ms:
        return f"the relay was {measured.late_ms:.2f} ms late on average"
    if measured.waited_ratio > MOST_WAITED_RATIO:
        return f"the relay waited {measured.waited_ratio:.1%} of the time for a processor"
    if run.backlogged and measured.busy_ratio < LEAST_BUSY_RATIO:
        return f"the sender had something to send for only {measured.busy_ratio:.1%} of the time"
    if run.backlogged and run.plan.window_bytes is None and measured.held_ratio > MOST_HELD_RATIO:
        return f"a buffer held the sender back for {measured.held_ratio:.1%} of the time"
    return ""


def _once(lab: RunningLab, run: Run) -> Measured:
    set_path(lab, run)
    with (
        _end(lab, RECEIVER, "receive", run.plan, "listening"),
        _end(lab, SENDER, "send", run.plan, "sending") as sender,
    ):
        time.sleep(run.start_up_s)
        before, before_s = lab.status(), time.monotonic()
        if run.midway is not None:
            time.sleep(run.midway_s)
            run.midway(lab)
        time.sleep(max(0.0, run.plan.duration_s - run.start_up_s - TAIL_S - (time.monotonic() - before_s)))
        after, after_s = lab.status(), time.monotonic()
        output, _ = sender.communicate(timeout=END_GRACE_S)
    samples = [Sample(at_s, [StreamInfo(*stream) for stream in streams]) for at_s, streams in json.loads(output)]
    return _measured([each for each in samples if before_s <= each.at_s <= after_s], before, after, after_s - before_s)


def _measured(samples: list[Sample], before: control.LabStatus, after: control.LabStatus, seconds: float) -> Measured:
    first, last = samples[0], samples[-1]
    sampled_s, streams = last.at_s - first.at_s, len(last.streams)

    def gained(*names: str) -> int:
        pairs = list(zip(first.streams, last.streams, strict=True))
        return sum(getattr(end, name) - getattr(begin, name) for begin, end in pairs for name in names)

    data, answers = (_difference(before, after, *pair) for pair in ((SENDER, RECEIVER), (RECEIVER, SENDER)))
    waited_s = (after.timing.waited_s or 0.0) - (before.timing.waited_s or 0.0)
    acked_bytes = gained("acked_bytes")
    return Measured(
        seconds=seconds,
        acked_bytes=acked_bytes,
        rate_bps=acked_bytes * 8 / sampled_s,
        data=data,
        answers=answers,
        late_ms=(after.timing.late_s - before.timing.late_s) * 1e3 / (data.forwarded + answers.forwarded),
        waited_ratio=waited_s / seconds,
        busy_ratio=gained("busy_us") / 1e6 / sampled_s / streams,
        held_ratio=gained("peer_limited_us", "buffer_limited_us") / 1e6 / sampled_s / streams,
        samples=samples,
    )


def _difference(before: control.LabStatus, after: control.LabStatus, source: str, destination: str) -> PathCounters:
    """The difference of a path's counters between two statuses."""
    earlier, later = (
        next(path.counts for path in status.paths if (path.source, path.destination) == (source, destination))
        for status in (before, after)
    )
    return PathCounters(
        **{name: getattr(later, name) - getattr(earlier, name) for name in PathCounters.__struct_fields__}
    )


def set_path(lab: RunningLab, run: Run) -> None:
    """Give both directions of the path the settings of the run, and no others."""
    half = {"delay_ms": run.rtt_ms / 2}
    for source, destination, changes in (
        (SENDER, RECEIVER, {**CLEAN_PATH, **half, **run.path}),
        (RECEIVER, SENDER, {**CLEAN_PATH, **half, **run.back}),
    ):
        control.ask(lab.run_dir, control.SetRequest(source=source, destination=destination, changes=changes))
    at(lab, SENDER, "sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1")
    route = ("ip", "route", "replace", "10.77.0.0/16", "dev", "wan0", "src", lab.address(RECEIVER))
    at(lab, RECEIVER, *route, *(("quickack", "1") if run.each_ack else ()))


def at(lab: RunningLab, site: str, *argv: str) -> None:
    """Run a command at a site; an error if it fails."""
    done = lab.exec(site, *argv)
    if done.returncode != 0:
        raise TransferError(f"{site}: {' '.join(argv)}: {done.stderr.strip()}")


@contextmanager
def _end(lab: RunningLab, site: str, end: str, plan: Plan, ready: str) -> Iterator[subprocess.Popen[str]]:
    """An end of the transfer at a site, from its ready message on."""
    argv = (sys.executable, "-m", "tests.reproduce.ends", end, lab.address(RECEIVER), as_json(plan))
    with lab.popen("--end-with-lab", site, *argv) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if line.strip() != ready:
                raise TransferError(f"{site}: {line}{process.stdout.read()}".strip())
            yield process
        finally:
            process.kill()

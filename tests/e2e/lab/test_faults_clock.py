"""A clock set an hour forward, and back, in the middle of a cycle: RTTs stay correct, times are flagged.

The worker of a site's agent is restarted with the options of its supervisor, but with a wall clock that follows a file
(`tests.e2e.stepped_clock`), as do the kernel's timestamps; its monotonic clocks are the machine's.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.e2e import debugger, faults, stepped_clock
from tests.e2e.faults import RTT_MS, WHOLE
from tests.e2e.stack import TOP, wait_for

SITE = "oslo"
HOUR_S = 3600
OFFSETS_S = (HOUR_S, 0, -HOUR_S, 0) if WHOLE else (HOUR_S, 0)
"""Offsets to which the clock is set in turn."""
TOLERANCE_MS = 15.0
"""Tolerance of most bursts' medians: a millisecond of the lab, and the delay of a program on a busy machine."""
LARGEST_MS = 2_000.0
"""Tolerance of any burst's median: a paused machine changes a burst by as much; a clock step is 3,600,000."""


class SteppedAgent:
    """A site's agent whose clock can be set."""

    def __init__(self, lab, folder):
        self.lab = lab
        self.folder = folder
        self.clock = folder / "clock"
        (self.supervisor,) = faults.agent_processes(lab, SITE, "probes.site.supervisor")
        (worker,) = faults.agent_processes(lab, SITE, "probes.site.worker")
        variables = Path(f"/proc/{worker}/environ").read_text().split("\0")
        self.environment = dict(variable.partition("=")[::2] for variable in variables if variable)
        self.set_by(0)
        # A stopped supervisor starts no replacement of the worker.
        debugger.hold(self.supervisor)
        os.kill(worker, signal.SIGKILL)
        self.process = self._start()

    def _start(self):
        inside = [sys.executable, "-m", "probes", "lab", "exec", "--run-dir", str(self.lab.data / "lab"), SITE]
        command = [*inside, sys.executable, "-m", "tests.e2e.stepped_clock", str(self.clock), "probes.site.worker"]
        with (self.folder / "stepped.log").open("wb") as log:
            return subprocess.Popen(command, cwd=TOP, env=self.environment, stdout=log, stderr=subprocess.STDOUT)

    def set_by(self, offset_s):
        """Set its clock ahead of the true time by this much from now on."""
        stepped_clock.write(self.clock, offset_s)

    def set_in_the_middle_of_a_cycle(self, offset_s):
        """Set it during a cycle; return the true time."""
        before = self.cycles_begun()
        wait_for(lambda: self.cycles_begun() != before, 60, "a cycle begins")
        time.sleep(1.5)  # a third of the cycle; any time during it would do
        self.set_by(offset_s)
        return datetime.now(UTC)

    def cycles_begun(self):
        """The number of the newest ping cycle announced to the spool."""
        with self.lab.spool(SITE) as spool:
            (newest,) = spool.execute("SELECT sum(newest) FROM test WHERE name = 'ping'").fetchone()
        spool.close()
        return newest or 0

    def log(self):
        return (self.folder / "stepped.log").read_text()

    def stop(self):
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(ProcessLookupError):  # a test that stopped it has already released it
            debugger.let_go(self.supervisor)


@pytest.fixture
def stepped(lab, tmp_path):
    agent = SteppedAgent(lab, tmp_path)
    try:
        yield agent
    finally:
        agent.stop()
        print(agent.log()[-5000:])


def medians(lab, since, until):
    """Path, median RTT and stamp of each burst from the site that was stored in [since, until)."""
    return faults.rows(
        lab,
        "SELECT path_id, measured_at, stamp, (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY rtt)"
        " FROM unnest(rtts_ms) AS rtt) FROM burst WHERE path_id = ANY(%s) AND outcome = 'measured' AND received > 0"
        " AND measured_at >= %s AND measured_at < %s",
        [number for (source, _), number in faults.path_ids(lab).items() if source == SITE],
        since,
        until,
    )


@pytest.mark.timeout(420)
def test_a_clock_set_by_an_hour_changes_no_rtt_and_is_flagged(lab, stepped, capsys):
    true_ms = {
        number: RTT_MS[tuple(sorted(ends, key=faults.SITES.index))]
        for ends, number in faults.path_ids(lab).items()
        if SITE in ends
    }
    began = datetime.now(UTC)
    wait_for(lambda: medians(lab, began, datetime.now(UTC)), 90, "the agent measures again")
    set_at = []

    for offset_s in OFFSETS_S:
        at = stepped.set_in_the_middle_of_a_cycle(offset_s)
        set_at.append(at)
        wait_for(
            lambda at=at: len(medians(lab, at + timedelta(seconds=5), datetime.now(UTC))) >= 2,
            90,
            f"it measures on with its clock off by {offset_s} s",
        )

    stored = medians(lab, began - timedelta(hours=2), datetime.now(UTC) + timedelta(hours=2))
    now = datetime.now(UTC)
    off_ms = sorted(abs(median_ms - true_ms[number]) for number, _, _, median_ms in stored)
    assert off_ms[-1] < LARGEST_MS
    assert off_ms[len(off_ms) * 3 // 4] < TOLERANCE_MS
    recent = [burst for burst in stored if burst[1] >= began]
    assert len(recent) >= 3 * len(OFFSETS_S)
    # With a clock error of more than five minutes the agent corrects its times: no result is an hour off.
    assert faults.rows(lab, "SELECT count(*) FROM burst WHERE measured_at > %s", now + timedelta(minutes=5)) == [(0,)]
    away = "SELECT count(*) FROM burst WHERE measured_at < %s"
    assert faults.rows(lab, away, began - timedelta(minutes=30)) == [(0,)]
    flagged = "SELECT round(offset_s) FROM clock_off_period JOIN site ON site.id = site_id WHERE site.name = %s"
    offsets = [offset_s for (offset_s,) in faults.rows(lab, flagged, SITE)]
    assert offsets
    assert all(abs(abs(offset_s) - HOUR_S) <= 1 for offset_s in offsets)
    busy = "SELECT count(*) FROM burst WHERE path_id = ANY(%s) AND outcome = 'busy' AND measured_at >= %s"
    own = [number for (source, _), number in faults.path_ids(lab).items() if source == SITE]
    assert faults.rows(lab, busy, own, began) == [(0,)]
    passed_over = "SELECT coalesce(sum(extract(epoch FROM until - since)), 0)::float FROM agent_gap JOIN site"
    passed_over += " ON site.id = site_id WHERE site.name = %s AND reason = 'late'"
    # On a busy machine a cycle may be late; the hour that a step passes over is none.
    assert faults.rows(lab, passed_over, SITE)[0][0] < HOUR_S / 10
    assert faults.rows(lab, "SELECT reason FROM refused_result") == []
    stepped.stop()
    assert faults.balanced(lab, 180, capsys).refused == 0
    with capsys.disabled():
        stamps = {stamp: sum(burst[2] == stamp for burst in recent) for stamp in sorted({burst[2] for burst in recent})}
        print(f"clock set at {', '.join(f'{at:%H:%M:%S}' for at in set_at)}; bursts by stamp: {stamps}")

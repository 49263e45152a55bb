"""SIGSTOP of every process at once: stopped processes are killed and restarted, and no result is lost or duplicated."""

from __future__ import annotations

import os
import signal

import pytest

from probes.supervision.processes import is_stopped
from tests.e2e import faults
from tests.e2e.lab.test_faults_kills import VICTIMS, all_running, answers, running
from tests.e2e.stack import wait_for

RUNS_AGAIN_S = 90
"""Stopped processes are killed after 30 s; a busy machine needs the rest."""
LEAST_VICTIMS = 13


@pytest.mark.timeout(600)
def test_after_a_stop_all_restarts_and_results_are_stored_once(lab, capsys):
    before = all_running(lab)
    stopped = [pid for victim in VICTIMS for pid in running(lab, victim)]
    assert len(stopped) >= LEAST_VICTIMS

    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)

    def whole_again():
        now = all_running(lab)
        is_whole = all(now[kind] >= before[kind] for kind in VICTIMS)
        return is_whole and not any(is_stopped(pid) for pid in stopped) and answers(lab)

    wait_for(whole_again, RUNS_AGAIN_S, f"all runs again after all was stopped ({before}, {lab.output[-2000:]})")
    ledger = faults.balanced(lab, 240, capsys)
    assert ledger.refused == 0

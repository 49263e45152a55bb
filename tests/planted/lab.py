"""Faults planted in the lab: real echoes over an emulated path, and the live rules on the measured results.

In: stages, each some settings of the path and the number of bursts to measure with them. A burst takes a fifth of a
second and counts as a cycle of a minute, so that time runs 300 times faster; packets, loss and RTTs are real.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.backtest.recorded import RecordedBursts, RecordedSource
from monitor.alerts.backtest.replay import Alarm, Replay, moments
from monitor.alerts.detect.rules.loss import MIN_LOSSY_BURSTS_TO_FIRE
from monitor.analysis.changes import detector
from probes.lab.namespaces import namespaces_available
from tests.lab import RunningLab
from tests.planted import paths, theory
from tests.planted.paths import BEGAN, CYCLE_S, PACKETS
from tests.planted.simulated import THRESHOLD, THRESHOLD_SIZE, WITHIN
from tests.reproduce.table import Table

Floats = NDArray[np.float64]

SOURCE, DESTINATION = "bern", "rome"
PATH = f"{SOURCE}-{DESTINATION}"
SPACING_S = 0.02
LONGEST_BURSTS = 50
QUIET = ("--loss", "0", "--rtt-ms", "20")
CLEAN_BURSTS = 40
"""Before a fault: more than a window of RTTs."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Settings of `lab set`, and the number of bursts with them."""

    settings: tuple[str, ...]
    bursts: int


def measured(lab: RunningLab, stages: Sequence[Stage]) -> Floats:
    """RTTs of shape (bursts, packets), NaN where lost."""
    return np.concatenate([_stage(lab, stage) for stage in stages])


def replayed(rtts_ms: Floats) -> tuple[list[Alarm], list[int]]:
    """The opened incidents, and the burst (from 0) at which each was detected."""
    source = RecordedSource(
        RecordedBursts.from_columns(
            np.ones(len(rtts_ms)), BEGAN.timestamp() + CYCLE_S * np.arange(len(rtts_ms)), rtts_ms
        )
    )
    runner = Replay(paths.scope(paths.paths([(SOURCE, DESTINATION)])), source)
    began = BEGAN - timedelta(seconds=CYCLE_S / 2)
    for now in moments(began, began + timedelta(seconds=(len(rtts_ms) + 1) * CYCLE_S), CYCLE_S):
        runner.at(now)
    opened = [alarm for alarm in runner.alarms if alarm.opened_at is not None]
    return opened, [round((alarm.found_at - BEGAN).total_seconds() / CYCLE_S - 0.5) for alarm in opened]


def table() -> Table:
    """Each fault after clean bursts, and a blip. Raises `RuntimeError` where no lab can run."""
    reason = namespaces_available()
    if reason is not None:
        raise RuntimeError(f"the lab cannot run here: {reason}")
    results = Table(("planted", "expected", "detected", "after bursts", "allowed"))
    step = math.ceil(WITHIN * detector.AFTER)
    proof = theory.bursts_above(0.1, THRESHOLD, PACKETS, THRESHOLD_SIZE, 0.9, MIN_LOSSY_BURSTS_TO_FIRE)
    cases = [
        ("+2 ms", ("--rtt-ms", "22"), "rtt", step),
        ("+5 ms", ("--rtt-ms", "25"), "rtt", step),
        ("+20 ms", ("--rtt-ms", "40"), "rtt", step),
        ("loss 0 to 10%", ("--loss", "0.1"), "loss", math.ceil(WITHIN * proof)),
        ("one burst of 100% loss", ("--loss", "1"), None, 1),
    ]
    for fault, settings, rule, bursts in cases:
        with RunningLab("three-sites") as lab:
            planted = [Stage(settings, bursts)] if rule else [Stage(settings, 1), Stage(QUIET, 20)]
            alarms, found_at = replayed(measured(lab, [Stage(QUIET, CLEAN_BURSTS), *planted]))
        after = [number - CLEAN_BURSTS + 1 for number in found_at]
        rules = ", ".join(alarm.rule for alarm in alarms) or "none"
        results.rows.append(
            (fault, rule or "none", rules, ", ".join(map(str, after)) or "-", f"{bursts}" if rule else "-")
        )
        if [alarm.rule for alarm in alarms] != ([rule] if rule else []):
            results.failures.append(f"{fault}: found {rules}")
    return results


def _stage(lab: RunningLab, stage: Stage) -> Floats:
    lab.set(PATH, *stage.settings)
    left, rtts_ms = stage.bursts, []
    while left:
        bursts = min(left, LONGEST_BURSTS)
        rtts_ms.append(_bursts(lab, bursts))
        left -= bursts
    return np.concatenate(rtts_ms)


def _bursts(lab: RunningLab, bursts: int) -> Floats:
    done = lab.exec(
        SOURCE, sys.executable, "-m", "probes", "ping", lab.address(DESTINATION), "--json", "--no-priming",
        "--no-rate-check", "--count", str(bursts * PACKETS), "--sizes", "100", "--spacing-s", str(SPACING_S),
        "--timeout-s", "1", "--late-s", "0",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (burst,) = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    rtts = np.array([math.nan if rtt is None else rtt for rtt in burst["rtts_ms"]])
    return rtts.reshape(bursts, PACKETS)

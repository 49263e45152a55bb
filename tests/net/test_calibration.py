"""Calibration with real transfers: a path that drops pings in both directions and data in one, estimated by its own
tests.

The relay drops packets independently, p in each direction: a ping is lost with 2p - p², Reno's data with p, as lost
acknowledgements are no loss to it. So TCP has half of the loss of ping, and the raw estimate is too low by the root of
two. Model and sampling error make it 0.35 to 0.75: 20 to 60 losses per transfer vary by 10%.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator

import pytest

from monitor.analysis.tcp import CongestionControl, Loss, MeasuredDay, Rtt, TransferSettings, calibrate, estimate
from tests.lab import RunningLab
from tests.reproduce.ends import Plan
from tests.reproduce.transfer import LAB, RECEIVER, SENDER, Run, measure, set_path

RTT_MS = 20.0
LOSS_RATIOS = (0.004, 0.012, 0.007, 0.005, 0.015, 0.006, 0.010, 0.004, 0.008, 0.020, 0.005, 0.012)
HELD_OUT = 3
PINGS = 1500


@pytest.fixture(scope="module")
def path(namespaces_required: None) -> Iterator[RunningLab]:
    with RunningLab(LAB) as lab:
        yield lab


def ping_and_transfer(lab: RunningLab, loss_ratio: float) -> MeasuredDay:
    """Ping the path, then run a Reno stream over it, both with that loss in each direction."""
    lossy = {"loss_ratio": loss_ratio}
    run = Run(RTT_MS, {**lossy, "rate_mbps": 100.0}, Plan(6.0, "reno"), 1.0, back=lossy)
    set_path(lab, run)
    # The system's ping, since ours keeps 20 ms between requests to the same address.
    output = lab.exec(SENDER, "ping", "-q", "-c", str(PINGS), "-i", "0.002", "-W", "1", lab.address(RECEIVER))
    counts = re.search(r"(\d+) packets transmitted, (\d+) received", output.stdout)
    rtt = re.search(r"= [\d.]+/([\d.]+)/", output.stdout)
    assert counts is not None, output.stdout + output.stderr
    assert rtt is not None, output.stdout
    measured = measure(lab, run, print)
    sent, received = int(counts[1]), int(counts[2])
    return MeasuredDay(float(rtt[1]), sent - received, sent, measured.rate_bps)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_path_is_calibrated_by_its_own_transfers(path: RunningLab) -> None:
    everything = [ping_and_transfer(path, loss_ratio) for loss_ratio in LOSS_RATIOS]
    before, after = everything[:-HELD_OUT], everything[-HELD_OUT:]

    calibration = calibrate(before, CongestionControl.RENO)

    print(calibration)
    assert calibration is not None
    assert calibration.helps
    assert 0.35 < calibration.loss_factor < 0.75
    errors = {}
    for name, by in (("raw", None), ("calibrated", calibration)):
        estimates = [
            estimate(
                Rtt(transfer.rtt_ms),
                Loss.counted(transfer.lost, transfer.sent),
                TransferSettings(control=CongestionControl.RENO),
                calibration=by,
            ).limits[0]
            for transfer in after
        ]
        ratios = [
            transfer.measured_bps / limit.throughput_bps for transfer, limit in zip(after, estimates, strict=True)
        ]
        errors[name] = statistics.mean(abs(math.log(ratio)) for ratio in ratios)
        print(name, [f"{ratio:.2f}" for ratio in ratios])
    assert errors["calibrated"] < errors["raw"]

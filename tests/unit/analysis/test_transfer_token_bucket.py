"""Policers: detected for a simulated token bucket, and not for independent losses."""

import dataclasses
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.analysis.transfer import Verdict, diagnose
from tests.diagnosis.generated import independent_loss, policer, simulated
from tests.diagnosis.reading import read, recording

FIXTURES = Path(__file__).parents[2] / "fixtures" / "iperf3"
POLICED = sorted((FIXTURES / "policers").glob("*.json"))


@pytest.mark.parametrize(
    ("rate_bps", "depth_bytes"), [(5e6, 1e5), (10e6, 3e5), (10e6, 1e6), (20e6, 2e5)], ids=lambda value: f"{value:g}"
)
def test_a_token_bucket_is_detected_with_its_rate(rate_bps, depth_bytes):
    diagnosis = diagnose(simulated(policer(rate_bps, depth_bytes), 20))

    assert diagnosis.verdict is Verdict.POLICER
    assert diagnosis.signs.token_bucket.rate_bps == pytest.approx(rate_bps, rel=0.1)


@pytest.mark.parametrize("depth_bytes", [1e6, 2e6, 4e6])
def test_the_depth_is_the_initial_excess_above_the_rate(depth_bytes):
    diagnosis = diagnose(simulated(policer(10e6, depth_bytes), 30))

    assert diagnosis.signs.token_bucket.depth_bytes == pytest.approx(depth_bytes, rel=0.4)


def test_a_depth_that_no_interval_shows_is_unknown():
    diagnosis = diagnose(simulated(policer(10e6, 1e5), 20))

    assert diagnosis.signs.token_bucket.depth_bytes is None
    assert "shallow" in diagnosis.sentence


@settings(deadline=None)
@given(st.sampled_from([0.0005, 0.002, 0.005, 0.02]), st.integers(0, 10_000))
def test_independent_losses_are_not_a_policer(ratio, seed):
    diagnosis = diagnose(simulated(independent_loss(ratio, seed), 20))

    assert diagnosis.verdict is Verdict.RANDOM_LOSS


@pytest.mark.parametrize("seed", range(10))
def test_grouped_losses_at_any_rate_have_an_unknown_cause(seed):
    rng = random.Random(seed)

    diagnosis = diagnose(simulated(lambda _, segments: min(5, segments // 2) if rng.random() < 0.03 else 0, 20))

    assert diagnosis.verdict is Verdict.LOSS
    assert "of 5 segments each" in diagnosis.sentence


def test_regular_losses_after_a_queue_are_the_queues():
    policed = simulated(policer(10e6, 3e5), 20)
    rising = tuple(
        type(sample)(
            **{**{name: getattr(sample, name) for name in sample.__slots__}, "rtt_ms": 40 + sample.cwnd_bytes / 2000}
        )
        for sample in policed.samples
    )

    diagnosis = diagnose(type(policed)(samples=rising, arrivals=policed.arrivals, idle_rtt_ms=40.0))

    assert diagnosis.verdict is Verdict.BOTTLENECK_QUEUE


@pytest.mark.parametrize("path", POLICED, ids=lambda path: path.stem)
def test_a_policer_after_a_burst_has_its_rate_or_no_name(path):
    """Transfers of the lab, recorded after the thresholds were set; the limit counts IP packets of 1,500 bytes."""
    diagnosis = diagnose(recording(read(path)))

    limit_bps = float(path.stem.split("-")[1].removesuffix("mbps")) * 1e6
    assert diagnosis.verdict in {Verdict.POLICER, Verdict.LOSS}
    if diagnosis.verdict is Verdict.POLICER:
        assert diagnosis.signs.token_bucket.rate_bps == pytest.approx(limit_bps * 1448 / 1500, rel=0.1)


def test_most_policers_of_a_long_path_are_named_in_ten_seconds():
    verdicts = [diagnose(recording(read(path))).verdict for path in POLICED]

    assert verdicts.count(Verdict.POLICER) >= 4


def test_without_the_receivers_intervals_no_policer_is_named():
    policed = recording(read(FIXTURES / "diagnosis" / "policer_160ms.json"))

    assert diagnose(policed).verdict is Verdict.POLICER
    assert diagnose(dataclasses.replace(policed, arrivals=())).verdict is Verdict.LOSS

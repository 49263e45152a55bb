"""TCP tests over long paths with the result of a policer test beside them: its name, or the advice to run one."""

import dataclasses
import random
from pathlib import Path

import pytest

from monitor.analysis.transfer import TrainsResult, Verdict, diagnose
from tests.diagnosis.generated import independent_loss, policer, simulated
from tests.diagnosis.reading import read, recording

FIXTURES = Path(__file__).parents[2] / "fixtures" / "iperf3"
HOUR_S = 3600.0
RATES_BPS = (3e6, 10e6, 20e6)
TESTS = [(rtt_s, duration_s) for rtt_s in (0.1, 0.16) for duration_s in (7, 10, 20)]


def trains(verdict="policer", rate_bps=10e6, burst_bytes=1e5):
    return TrainsResult(verdict, rate_bps, burst_bytes, 3 * HOUR_S)


def with_trains(transfer, result):
    return dataclasses.replace(transfer, trains=result)


def policed(rate_bps, rtt_s, duration_s):
    depth_bytes = rate_bps / 8 * 0.3
    return simulated(policer(rate_bps, depth_bytes, rtt_s), duration_s, rtt_s, start_segments=100)


@pytest.mark.parametrize("rate_bps", RATES_BPS)
@pytest.mark.parametrize(("rtt_s", "duration_s"), TESTS)
def test_a_policer_is_named_by_the_policer_test_or_not_at_all(rate_bps, rtt_s, duration_s):
    transfer = policed(rate_bps, rtt_s, duration_s)

    alone, helped = diagnose(transfer), diagnose(with_trains(transfer, trains(rate_bps=rate_bps)))

    if alone.verdict is Verdict.POLICER:
        assert helped.verdict is Verdict.POLICER
        assert "the policer test 3 h before" in helped.sentence
    elif helped.verdict is Verdict.POLICER:
        assert f"policed at {rate_bps / 1e6:g} Mbit/s" in helped.sentence
    else:
        assert alone.verdict is Verdict.UNDETERMINED
        assert alone.signs.loss_events == 0 or alone.signs.throughput_bps < 0.8 * rate_bps


def test_lab_transfers_that_tcp_leaves_open_are_named():
    """Limits of 20 Mbit/s that slow start exceeds too briefly: loss by the transfer alone."""
    for name in ("policer-20mbps-60ms", "policer-20mbps-160ms"):
        transfer = recording(read(FIXTURES / "policers" / f"{name}.json"))

        alone, helped = diagnose(transfer), diagnose(with_trains(transfer, trains(rate_bps=20e6, burst_bytes=2.5e6)))

        assert alone.verdict is Verdict.LOSS
        assert "python -m probes policer send DESTINATION --here SOURCE" in alone.sentence
        assert helped.verdict is Verdict.POLICER
        assert "policed at 20 Mbit/s" in helped.sentence
        assert "3 h" in helped.sentence


def test_the_command_has_the_addresses_of_the_path():
    transfer = recording(read(FIXTURES / "policers" / "policer-20mbps-160ms.json"))

    sentence = diagnose(dataclasses.replace(transfer, ends=("192.0.2.1", "192.0.2.2"))).sentence

    assert "probes policer receive 192.0.2.1 --here 192.0.2.2 --key FILE" in sentence
    assert "probes policer send 192.0.2.2 --here 192.0.2.1 --key FILE" in sentence


@pytest.mark.parametrize(
    "result",
    [trains("no_limit", None, None), trains("shaper"), trains("link", 20e6, None), trains(rate_bps=100e6)],
    ids=["no limit", "shaper", "link", "far above"],
)
def test_another_result_is_told_and_does_not_make_a_policer(result):
    transfer = recording(read(FIXTURES / "policers" / "policer-20mbps-160ms.json"))

    diagnosis = diagnose(with_trains(transfer, result))

    assert diagnosis.verdict is Verdict.LOSS
    assert "the policer test 3 h before found" in diagnosis.sentence


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ratio", [0.0005, 0.005, 0.02])
def test_independent_loss_is_no_policer_beside_a_policer_test(seed, ratio):
    """Its events have a single segment, whatever limit the path has besides."""
    lossy = simulated(independent_loss(ratio, seed), 20, 0.1)

    assert diagnose(with_trains(lossy, trains())).verdict is not Verdict.POLICER


@pytest.mark.parametrize("seed", range(5))
def test_grouped_loss_far_below_the_rate_of_the_policer_stays_loss(seed):
    rng = random.Random(seed)
    lossy = simulated(lambda _, segments: min(5, segments // 2) if rng.random() < 0.03 else 0, 20, 0.1)

    diagnosis = diagnose(with_trains(lossy, trains(rate_bps=50e6)))

    assert diagnosis.verdict is Verdict.LOSS


@pytest.mark.parametrize(
    "name", ["queue", "small_window", "pauses", "random_loss", "short_queue", "loss_episode_160ms"]
)
def test_a_limit_that_is_known_keeps_its_name(name):
    transfer = recording(read(FIXTURES / "diagnosis" / f"{name}.json"))

    alone, helped = diagnose(transfer), diagnose(with_trains(transfer, trains(rate_bps=200e6)))

    assert helped.verdict is alone.verdict


@pytest.mark.parametrize("rate_bps", RATES_BPS)
def test_a_second_is_too_short_to_name_a_policer(rate_bps):
    transfer = policed(rate_bps, 0.1, 1)

    assert diagnose(with_trains(transfer, trains(rate_bps=rate_bps))).verdict is not Verdict.POLICER

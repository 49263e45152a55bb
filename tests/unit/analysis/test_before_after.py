"""Before and after a moment: planted changes are proven, and simulated paths without a change hardly ever."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.analysis.changes.before_after import HOUR_S, HourCounts, Proof, compare

DAY_HOURS = 24
AT_S = 1000 * 86_400.0 + 11.4 * HOUR_S
SEEDS = 250
SENT_AN_HOUR = 600


def path_of(
    seed: int, *, after_hours: int = 7 * DAY_HOURS, rtt_factor: float = 1.0, loss_added: float = 0.0
) -> HourCounts:
    """Two weeks before and some hours after: RTTs with a daily cycle and noise that lasts for hours, and loss in runs.
    The change is planted at `AT_S`."""
    random = np.random.default_rng(seed)
    count = 14 * DAY_HOURS + after_hours
    first = int(AT_S // HOUR_S) - 14 * DAY_HOURS
    at_s = (first + np.arange(count)) * HOUR_S
    noise = np.zeros(count)
    for hour in range(1, count):
        noise[hour] = 0.7 * noise[hour - 1] + random.normal(0.0, 0.4)
    daily = 2.0 * np.sin(2.0 * np.pi * at_s / 86_400.0)
    is_after = at_s > AT_S
    rtts_ms = (50.0 + daily + noise) * np.where(is_after, rtt_factor, 1.0)
    busy = random.gamma(0.5, 2.0, count)
    sent = np.full(count, float(SENT_AN_HOUR))
    lost = random.binomial(SENT_AN_HOUR, np.clip(0.001 * busy + np.where(is_after, loss_added, 0.0), 0.0, 1.0))
    return HourCounts(at_s, rtts_ms, sent, lost.astype(np.float64))


def rates_of(seed: int, factor: float) -> list[tuple[float, float]]:
    """A throughput test every four hours, a week to each side."""
    random = np.random.default_rng(seed)
    times = AT_S + (np.arange(-42, 42) + 0.5) * 4 * HOUR_S
    return [(at_s, 9e7 * random.lognormal(0.0, 0.1) * (factor if at_s > AT_S else 1.0)) for at_s in times]


def proofs(seed: int, after_hours: int = 7 * DAY_HOURS, rate_factor: float = 1.0, **planted: float) -> dict[str, Proof]:
    hours = path_of(seed, after_hours=after_hours, **planted)
    now_s = AT_S + after_hours * HOUR_S
    tests = [test for test in rates_of(seed, rate_factor) if test[0] < now_s]
    return {compared.figure: compared.proof for compared in compare(hours, tests, AT_S, now_s)}


@pytest.mark.parametrize("after_hours", [12, 30, 7 * DAY_HOURS])
def test_without_a_change_hardly_anything_is_proven(after_hours):
    false = sum(
        proof is Proof.PROVEN for seed in range(SEEDS) for proof in proofs(seed, after_hours=after_hours).values()
    )

    # Each figure has an interval of 99%: 7.5 of 750 by chance, if the intervals are as wide as they say.
    assert false <= 12


def test_planted_changes_are_proven():
    seeds = range(40)

    assert sum(proofs(seed, rtt_factor=1.06)["RTT"] is Proof.PROVEN for seed in seeds) >= 38
    assert sum(proofs(seed, rtt_factor=0.94)["RTT"] is Proof.PROVEN for seed in seeds) >= 38
    assert sum(proofs(seed, loss_added=0.01)["loss"] is Proof.PROVEN for seed in seeds) >= 38
    assert sum(proofs(seed, rate_factor=2.0)["throughput"] is Proof.PROVEN for seed in seeds) >= 38


def test_the_figures_are_those_of_each_side():
    [rtt, loss, throughput] = compare(
        path_of(1, rtt_factor=1.5, loss_added=0.05), rates_of(1, 0.5), AT_S, AT_S + 7 * 86_400
    )

    assert (rtt.before, rtt.after) == (pytest.approx(50, abs=2), pytest.approx(75, abs=3))
    assert rtt.low < 25 < rtt.high
    assert loss.after - loss.before == pytest.approx(0.05, abs=0.01)
    assert throughput.after / throughput.before == pytest.approx(0.5, abs=0.1)
    assert all(compared.proof is Proof.PROVEN for compared in (rtt, loss, throughput))


@pytest.mark.parametrize("after_hours", [0, 3])
def test_too_few_hours_cannot_tell(after_hours):
    assert set(proofs(1, after_hours=after_hours, rtt_factor=2.0).values()) == {Proof.CANNOT_TELL}


def test_a_hundred_unchanged_paths_together_hardly_ever_have_a_proof():
    """At 99% each, a hundred paths with three figures would have about one false proof in every group."""
    now_s = AT_S + 7 * DAY_HOURS * HOUR_S
    proofs = [
        compared.proof
        for seed in range(SEEDS)
        for compared in compare(path_of(seed), rates_of(seed, 1.0), AT_S, now_s, of_paths=100)
    ]

    assert proofs.count(Proof.PROVEN) == 0

"""Whether RTTs differ by flow: against permutations, and in rounds of traces."""

from __future__ import annotations

import random

import pytest

from probes.trace.flow_effect import FEWEST_REPLIES, _critical, _rank_test, effect_of
from probes.trace.round import COMPARED, COMPARED_ATTEMPTS, COMPARED_FLOWS, TtlProbe
from probes.trace.search import REACHED, Answer
from probes.trace.spec import FlowVerdict
from tests.facts import lacks
from tests.unit.trace.world import World, round_for


def flows(*medians_ms: float, noise_ms: float = 0.05, attempts: int = 5, seed: int = 1) -> list[list[float | None]]:
    dice = random.Random(seed)
    return [[median + abs(dice.gauss(0, noise_ms)) for _ in range(attempts)] for median in medians_ms]


def test_the_rank_test_has_the_values_of_the_authors_example():
    """Bottle caps of three machines, JASA 47 (1952), page 588: H = 5.656."""
    machines = [[340.0, 345, 330, 342, 338], [339, 333, 344], [347, 343, 349, 355]]

    assert _rank_test(machines) == pytest.approx(5.656, abs=0.001)


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 10.828), (3, 16.266), (7, 24.322), (15, 37.697)])
def test_the_quantiles_are_those_of_tables(freedom, quantile):
    """Chi-squared, upper 0.1% (NIST/SEMATECH e-Handbook, table 1.3.6.7.4)."""
    assert _critical(freedom) == pytest.approx(quantile, rel=0.04)


def test_flows_over_links_of_different_length_differ():
    """The three RTTs of a destination in "From Paris to Tokyo" (IMC 2013)."""
    effect = effect_of(flows(148.7, 153.5, 163.8, 148.7, 153.5, 163.8, 148.7, 153.5))

    assert effect is not None
    assert (effect.verdict, effect.flows, effect.sent, effect.lost) == (FlowVerdict.DIFFER, 8, 40, 0)
    assert 14 < effect.rtt_high_ms - effect.rtt_low_ms < 16
    assert effect.rtt_statistic > effect.rtt_critical == pytest.approx(24.322, rel=0.04)
    assert lacks(effect.text, "flows differ", "148.", "163.", "8 flows") == []


def test_equal_flows_differ_in_less_than_one_of_200_days():
    effects = [effect_of(flows(*[20.0] * 8, noise_ms=3.0, seed=seed)) for seed in range(1000)]
    verdicts = [effect.verdict for effect in effects if effect is not None]

    assert verdicts.count(FlowVerdict.DIFFER) < 5
    # Medians of so few noisy RTTs lie apart: that shows neither a difference nor that there is none.
    assert verdicts.count(FlowVerdict.UNKNOWN) > 950


def test_equal_loss_of_flows_differs_in_less_than_one_of_200_days():
    dice = random.Random(3)
    for loss in (0.02, 0.1, 0.3, 0.6):
        effects = [
            effect_of([[None if dice.random() < loss else 20.0 for _ in range(5)] for _ in range(8)])
            for _ in range(1000)
        ]
        assert sum(effect is not None and effect.verdict is FlowVerdict.DIFFER for effect in effects) < 5, loss


def test_a_flow_without_replies_differs_by_loss():
    """The statistic by hand: 8 flows of 5 packets, 5 lost of 40: 35 / 0.875 = 40."""
    effect = effect_of([[20.0] * 5] * 7 + [[None] * 5])

    assert effect is not None
    assert effect.verdict is FlowVerdict.DIFFER
    assert effect.loss_statistic == pytest.approx(40.0)
    assert (effect.loss_low_ratio, effect.loss_high_ratio, effect.lost) == (0.0, 1.0, 5)
    assert lacks(effect.text, "flows differ", "loss 0% to 100%", "8 flows") == []


def test_a_difference_too_small_to_matter_is_none():
    effect = effect_of(flows(20.0, 20.1, 20.0, 20.1, 20.0, 20.1, 20.0, 20.1, noise_ms=0.001))

    assert effect is not None
    assert effect.verdict is FlowVerdict.SAME
    assert lacks(effect.text, "no difference", "RTT 20.0 to 20.1 ms", "8 flows") == []


@pytest.mark.parametrize("rtts_ms", [[], [[20.0] * 5], [[20.0] * 5, []]])
def test_a_single_flow_is_not_compared(rtts_ms):
    assert effect_of(rtts_ms) is None


@pytest.mark.parametrize("few", [[25.0, None, 25.0, None, None], [None, 25.0, None, 26.0, None]])
def test_too_few_replies_tell_nothing(few):
    assert FEWEST_REPLIES == 3
    effect = effect_of([[20.0, None, 20.0, None, None], few])

    assert effect is not None
    assert (effect.verdict, effect.rtt_statistic, effect.rtt_low_ms) == (FlowVerdict.UNKNOWN, None, None)
    assert lacks(effect.text, "cannot tell", "loss 60% to 60%", "2 flows", "too few replies") == []


def test_noise_alone_tells_neither():
    effect = effect_of(flows(*[20.0] * 8, noise_ms=3.0))

    assert effect is not None
    assert lacks(effect.text, "cannot tell", "8 flows", "within the noise") == []


class BalancedWorld(World):
    """Odd flows take 4 ms more to the destination."""

    def answer(self, probe: TtlProbe, now_s: float) -> Answer | None:
        answer = super().answer(probe, now_s)
        if answer is not None and answer.event == REACHED:
            return answer._replace(rtt_ms=10.0 + 4.0 * (probe.flow % 2))
        return answer


def test_a_round_over_flows_compares_their_rtts_to_the_destination():
    world = BalancedWorld({0: ["a", "b", "host"], 1: ["a", "c", "d", "host"]})
    round_ = round_for(world, flows=16)
    took_s = world.run(round_)

    assert took_s < 40
    for rank in (0, 1):
        rtts_ms = round_.searches[rank].flow_rtts_ms()
        assert rtts_ms == [[10.0 + 4.0 * (flow % 2)] * COMPARED_ATTEMPTS for flow in range(COMPARED_FLOWS)]
        # The probes that compare flows are none of the attempts at a hop.
        assert len(round_.hops(rank)[-1].rtts_ms) == 3
    compared = [probe for probe in world.probes if probe.attempt == COMPARED]
    assert len(compared) == 2 * COMPARED_FLOWS * COMPARED_ATTEMPTS


def test_a_round_of_a_single_flow_compares_nothing():
    world = BalancedWorld({0: ["a", "b", "host"]})
    round_ = round_for(world)
    world.run(round_)

    assert round_.searches[0].flow_rtts_ms() == []
    assert effect_of(round_.searches[0].flow_rtts_ms()) is None


def test_a_destination_that_was_not_reached_is_not_compared():
    world = BalancedWorld({0: ["a", "b", "host"]}, dead=[0])
    round_ = round_for(world, flows=8)
    world.run(round_)

    assert all(probe.attempt != COMPARED for probe in world.probes)

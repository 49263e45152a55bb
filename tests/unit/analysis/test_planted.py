"""The planted faults of the benchmark, on a small scale, and their theory."""

import math
from datetime import timedelta
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from monitor.alerts.detect.rules import counts, loss, windows
from monitor.alerts.evaluate import findings, snapshot_at
from tests.facts import lacks
from tests.planted import one_way, simulated, theory
from tests.planted.paths import BEGAN
from tests.planted.simulated import Sizes
from tests.planted.tables import TABLES
from tests.reproduce.table import Table
from tests.scored.__main__ import DOCS, SCORES

SMALL = Sizes(paths=12, quiet_paths=10, quiet_hours=2)


@pytest.mark.parametrize("name", ["round-trips", "throughput"])
def test_planted_faults_are_detected_in_time(name):
    assert TABLES[name](SMALL).failures == []


def test_a_rule_by_direction_has_no_more_false_alarms_than_on_round_trips():
    """By Boole's inequality: the shares of round trips and both directions are the whole."""
    scope, source = one_way._measured(3, np.zeros(1), 0.0, 0.0, 90, seed=1)
    del scope.one_way[2]
    snapshot = snapshot_at(BEGAN + timedelta(hours=1), scope, {}, source=source)
    one_way_shares = [snapshot.of_direction(direction).alarm_shares for direction in ("forward", "reverse")]

    assert snapshot.alarm_shares.tolist() == [0.5, 1.0, 0.5]
    assert (sum(one_way_shares) + snapshot.alarm_shares[[0, 2]]).tolist() == [1.0, 1.0]
    assert [finding for finding in findings(snapshot, scope) if finding.rule != "no_data"] == []


def test_a_table_reports_late_and_missing_detections():
    table = Table(())

    simulated._row(table, "in time", np.array([14.0, 14.0, 21.0]), [14, 14], None)
    simulated._row(table, "late", np.array([14.0, 14.0, 22.0]), [14, 14], None)
    simulated._row(table, "never", np.array([np.inf, np.inf]), [14, 14], None)

    late, *never = table.failures
    assert lacks(late, "late:", " 22 samples", " 21 are allowed") == []
    assert [lacks(failure, "never:", " inf samples", " 21 are allowed") for failure in never] == [[], []]


def is_in_a_paragraph(*facts):
    paragraphs = (DOCS / SCORES["planted"].page).read_text().split("\n\n")
    return any(lacks(" ".join(paragraph.split()), *facts) == [] for paragraph in paragraphs)


def test_the_docs_state_the_significance_of_the_live_rule():
    """One source: A per hour, over the evaluations of an hour and the windows."""
    size = counts.LOSS_REGRESSION.alarms_an_hour / (simulated.LOOKS_AN_HOUR * windows.WINDOWS)

    looks = f" {simulated.LOOKS_AN_HOUR:.0f} looks an hour"
    assert is_in_a_paragraph(
        "`loss_regression`", f" {windows.WINDOWS} windows", looks, f" size {size * 1e8:.1f} × 10⁻⁸"
    )


def test_the_docs_state_the_significance_of_the_threshold_rule():
    comparisons, looks, size = loss.COMPARISONS, simulated.LOOKS_AN_HOUR, simulated.THRESHOLD_SIZE

    assert size == loss.ALARMS_AN_HOUR / (comparisons * looks)
    assert is_in_a_paragraph(
        "`loss`", f" {comparisons} windows", f" {looks:.0f} looks an hour", f" size {size * 1e8:.1f} × 10⁻⁸"
    )


def test_the_bursts_above_a_limit_are_the_minimum_for_the_power():
    """By trying every number of lost packets."""

    def power(bursts):
        proving = [k for k in range(10 * bursts + 1) if binom.sf(k - 1, 10 * bursts, 0.01) <= 1e-6]
        return binom.sf(min(proving, default=10 * bursts + 1) - 1, 10 * bursts, 0.05)

    needed = theory.bursts_above(0.05, 0.01, 10, 1e-6, 0.9, least_lossy=3)

    assert power(needed) >= 0.9 > max(power(fewer) for fewer in range(3, needed))


def test_the_bursts_for_a_rise_are_the_minimum_for_the_power():
    """By trying every number of events, of bursts known to be without events."""
    size, base, now = 1e-3, 0.0, 0.2
    bound = 1 - (0.1 * size) ** (1 / 1000)  # of 0 in 1,000, exactly

    def power(bursts):
        proving = [k for k in range(3, bursts + 1) if binom.sf(k - 1, bursts, bound) <= 0.9 * size]
        return binom.sf(min(proving, default=bursts + 1) - 1, bursts, now)

    needed = theory.bursts_for_loss(base, now, 1000, size, 0.5, least=3)

    assert power(needed) >= 0.5 > max(power(fewer) for fewer in range(1, needed))


def test_the_significance_of_a_few_tests_is_that_of_their_orders():
    """Four lowest of 52 have one of C(52, 4) orders and six comparisons are made; five have one of C(53, 5)."""
    sizes = {count: 6 / math.comb(48 + count, count) for count in (3, 4, 5)}
    assert sizes[4] > 2e-5 > sizes[5]

    assert theory.tests_for_fall(0.1, 0.01, 48, 2e-5, 0.9, (3, 4, 5, 6, 8, 12)) == 5


def test_random_alarms_are_distinguished_from_too_many():
    for expected, seed in product((1.0, 3.0), (1, 2)):
        drawn = np.random.default_rng(seed).poisson(expected, 20_000)
        assert 0.98 < (drawn <= simulated.most_alarms(expected)).mean() < 1.0

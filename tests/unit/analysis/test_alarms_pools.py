"""Loss that paths share is found from all of them together; trouble of one pair or of one cycle is not shared."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerts.detect.rules import shared_loss
from monitor.alerts.detect.rules.shared_loss import path_pools
from monitor.analysis.alarms.pools import shared_counts
from monitor.analysis.alarms.sequential import EventCounts
from tests.planted import paths, shared
from tests.planted.paths import BEGAN, CYCLE_S

PAIRS = ("a", "a", "b", "c")


@given(st.lists(st.lists(st.integers(0, 5), min_size=4, max_size=4), min_size=4, max_size=4))
def test_the_counts_leave_out_the_worst_pair_and_neighbouring_steps(rows):
    """By trying every choice of neighbours, then of pairs."""
    events, bursts = np.array(rows, dtype=float), np.full((4, 4), 5.0)
    base = EventCounts(np.array([0.0, 10.0, 20.0, 30.0]), np.full(4, 1000.0))

    newest, usual = shared_counts(events, bursts, base, PAIRS)

    steps = min(([0, 1], [1, 2], [2, 3]), key=lambda out: (-events[:, out].sum(), out))
    kept = [step for step in range(4) if step not in steps]
    by_pair = {pair: events[np.ix_([n for n, name in enumerate(PAIRS) if name == pair], kept)].sum() for pair in "abc"}
    assert newest.events[3] == sum(by_pair.values()) - max(by_pair.values())
    assert newest.events[:2].tolist() == usual.bursts[:2].tolist() == [0.0, 0.0], "all steps are left out"
    worst = max("abc", key=lambda pair: (by_pair[pair], -ord(pair)))
    members = [n for n, name in enumerate(PAIRS) if name != worst]
    assert usual.events[3] == pytest.approx(base.events[members].sum())


def test_a_little_loss_on_all_paths_is_named_by_their_site_within_half_an_hour():
    alarms, replay = shared.planted(0.0, 0.003, seed=1, cycles=40)

    first = next(finding for _, finding in replay.findings if finding.rule == "shared_loss")
    assert [alarm.cause for alarm in alarms if alarm.ended_at is None] == [f"{shared.SITE} outbound"]
    assert set(first.figures["pool_paths"]) == set(range(1, 10))
    lasting = next(alarm for alarm in alarms if alarm.ended_at is None)
    own = {finding.figures["hits"] for finding in lasting.ever.values() if finding.rule == "shared_loss"}
    assert len({path for path, _ in lasting.ever}) >= 3
    assert max(own) < first.figures["pool_events"], "each path has figures of its own"


@pytest.mark.parametrize("where", ["uplink", "AS"])
def test_a_little_loss_on_paths_without_a_common_site_is_found_by_uplink_or_as(where):
    replay = shared.planted_elsewhere(where, 0.003, seed=1, cycles=40)

    pools = [finding.figures for _, finding in replay.findings if finding.rule == "shared_loss"]
    assert {figures["pool"] for figures in pools} == {shared.POOLS[where]}
    assert set(pools[0]["pool_paths"]) == set(range(1, 10))


def through_as(count, path_ids):
    """The pools of a full mesh of four sites, with a site of its own, and so many AS through which its paths go."""
    pinged = paths.full_mesh("wxyz")
    rows = {path_id: row for row, path_id in enumerate(pinged)}
    baseline = {"bursts": np.full(len(pinged), 1e4)}
    as_paths = {f"AS {number}": frozenset(path_ids) - {number % 12 + 1} for number in range(count)}
    seen = SimpleNamespace(paths=pinged, rows=rows, baseline=baseline, as_paths=as_paths)
    return [pool for pool in path_pools(seen, dict.fromkeys(pinged)) if pool.name.startswith("AS ")]


def test_the_paths_of_one_site_through_an_as_are_no_further_pool():
    of_w = [path_id for path_id, path in paths.full_mesh("wxyz").items() if "w" in (path.source, path.destination)]

    assert through_as(1, of_w) == []
    assert [len(pool.rows) for pool in through_as(3, range(1, 13))] == [11, 11, 11]


def test_the_number_of_pools_of_as_is_bounded(monkeypatch):
    monkeypatch.setattr(shared_loss, "MOST_AS_POOLS", 5)

    assert len(through_as(12, range(1, 13))) == 5


def test_a_single_bad_path_is_not_shared():
    alarms, _ = shared.planted(0.0, 0.05, seed=2, is_hit=range(1), cycles=40)

    assert {rule for alarm in alarms for _, rule in alarm.ever} <= {"loss", "loss_regression"}
    assert [alarm.cause for alarm in alarms] == [f"{shared.SITE} ↔ site0"]


def test_an_interruption_of_a_cycle_of_all_paths_is_not_shared():
    ratio = np.zeros((9, shared.BEFORE_CYCLES + 20))
    ratio[:, shared.BEFORE_CYCLES] = 1.0

    replay = shared.replayed(ratio, 0.0, np.random.default_rng(4))

    assert [finding.rule for _, finding in replay.findings] == []


def test_shared_loss_ends_after_it_is_over_and_not_before():
    ratio = np.zeros((9, 420))
    ratio[:, 60:150] = 0.003
    replay = shared.replayed(ratio, 0.0, np.random.default_rng(3))

    (alarm,) = [alarm for alarm in replay.alarms if not alarm.is_part]
    assert alarm.ended_at is not None
    minutes = (alarm.ended_at - BEGAN).total_seconds() / CYCLE_S
    assert 150 < minutes < 420

"""Cycles of an agent whose clock is set again and again: each has one number and one claim, and no gap is invented."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from celery import Celery
from hypothesis import given
from hypothesis import strategies as st

from probes.site.delivery.centre_clock import CentreClock, CycleClock
from probes.site.runner.schedule import Aligned
from probes.site.spool.ledger import Cycle
from probes.site.spool.spool import Spool
from tests.unit.site.test_spool import result

START = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
EVERY_S, PHASE_S = 20, 1.3
STEPS_S = (3600.0, 0.0, -3600.0, 0.0, 86_400.0, 0.0, -86_400.0, 0.0)
APP = Celery("stepped", set_as_current=False)


class SteppedAgent:
    """Its schedule, ledger and clocks; true time is the centre's. A cycle begins when the schedule says so."""

    def __init__(self, path, knows_centre=True, off_s=0.0):
        self.path, self.true_s, self.off_s, self.knows_centre = path, 0.0, off_s, knows_centre
        self.claimed, self.gaps, self.lost = [], [], 0
        self.start()

    def now(self):
        return START + timedelta(seconds=self.true_s)

    def start(self):
        self.centre = CentreClock(
            wall_s=lambda: self.now().timestamp() + self.off_s, steady_s=lambda: 5000.0 + self.true_s
        )
        if self.knows_centre:
            self.hear_the_centre()
        self.clock = CycleClock(self.centre)
        self.schedule = Aligned(EVERY_S, PHASE_S, nowfun=self.clock.now, app=APP)
        self.last_run_at = self.clock.now()
        self.spool = Spool(self.path, clock_off_s=self.centre.off_s, now_s=self.clock.now_s, ahead_s=self.clock.ahead_s)
        self.spool.record_start()

    def hear_the_centre(self):
        at = f"{self.now().timestamp():.6f}"
        self.centre.note(self.centre.now_s() - 0.01, at, at, self.centre.now_s() + 0.01)

    def run(self, seconds, off_s=None):
        """Live on with the clock set to this offset; a cycle runs 4 s, across the next step perhaps."""
        if off_s is not None:
            self.off_s = off_s
        until_s = self.true_s + seconds
        while self.true_s < until_s:
            is_due, _ = self.schedule.is_due(self.last_run_at)
            if is_due:
                self.last_run_at = self.clock.now()
                cycle = Cycle.at("pinger", EVERY_S, self.clock.now(), PHASE_S)
                if self.spool.claim_cycle(cycle):
                    self.claimed.append((self.true_s, cycle))
            if self.claimed and self.true_s == self.claimed[-1][0] + 4:
                self.spool.put([result(1)], cycle=self.claimed[-1][1])
            self.true_s += 1

    def delivered(self):
        """The numbers of all results, and the account, once the last cycle has ended."""
        self.run(max(self.claimed[-1][0] + 5 - self.true_s, 0))
        batch = self.spool.next_batch(max_results=10_000, max_bytes=10**8, now=self.now(), agent_version="1")
        return [delivered.cycle for delivered in batch.results], batch.account


def true_numbers(agent):
    return [Cycle.at("pinger", EVERY_S, START + timedelta(seconds=s), PHASE_S).number for s, _ in agent.claimed]


@pytest.mark.parametrize("every_s", [70, 7, 40])
@pytest.mark.parametrize("steps_s", [STEPS_S, (90.0, 30.0, -31.0, 0.4, 10.0), (2e9, -1e9, 0.0)], ids=str)
def test_steps_of_the_clock_change_no_cycle(tmp_path, steps_s, every_s):
    agent = SteppedAgent(tmp_path / "spool.sqlite3")

    for off_s in (0.0, *steps_s):
        agent.run(every_s, off_s)
    agent.run(EVERY_S)

    numbers, account = agent.delivered()
    assert numbers == true_numbers(agent)
    assert set(Counter(numbers).values()) == {1}
    assert len(agent.claimed) == pytest.approx(agent.true_s / EVERY_S, abs=1.01), "none was left out"
    assert (account.gaps, agent.spool.lost_cycles) == ((), 0)
    assert account.until <= agent.now()


@given(st.lists(st.tuples(st.integers(1, 200), st.floats(-1e6, 1e6)), max_size=8), st.booleans())
def test_any_steps_lose_no_cycle_and_invent_no_gap(tmp_path_factory, steps, knows_centre):
    """Without the centre's answer numbers follow the site's clock, but no gap is made of those that it passed over."""
    agent = SteppedAgent(tmp_path_factory.mktemp("spool") / "spool.sqlite3", knows_centre)

    for seconds, off_s in steps:
        agent.run(seconds, off_s)
    agent.hear_the_centre()
    agent.run(3 * EVERY_S)

    numbers, account = agent.delivered()
    assert (account.gaps, agent.spool.lost_cycles) == ((), 0)
    # A clock within a second of the centre's is taken for right, also at the boundary of two cycles.
    assert abs(numbers[-1] - true_numbers(agent)[-1]) <= 1
    assert not knows_centre or numbers == true_numbers(agent)


def test_cycles_missed_between_steps_are_counted_by_time(tmp_path):
    agent = SteppedAgent(tmp_path / "spool.sqlite3")
    agent.run(70)
    agent.true_s += 5 * EVERY_S  # the machine was suspended

    agent.run(70, 86_400.0)
    agent.run(70, 0.0)

    _, account = agent.delivered()
    (gap,) = account.gaps
    assert agent.spool.lost_cycles == (gap.until - gap.since) / timedelta(seconds=EVERY_S) == 4
    assert START < gap.since < gap.until <= agent.now()


def test_a_wrong_clock_at_start_is_no_gap_after_an_answer(tmp_path):
    agent = SteppedAgent(tmp_path / "spool.sqlite3", knows_centre=False, off_s=3600.0)
    agent.run(50)

    agent.hear_the_centre()
    agent.run(100)

    numbers, account = agent.delivered()
    assert (account.gaps, agent.spool.lost_cycles) == ((), 0)
    assert numbers[-4:] == true_numbers(agent)[-4:]

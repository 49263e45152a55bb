"""What an agent notes of itself: lost ticks, what runs, the newest trouble."""

import logging
from datetime import UTC, datetime, timedelta

import pytest

from probes.site.health import Health
from probes.site.journal import LONGEST_MESSAGE, Journal, read_state, write_state

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


class Clock:
    now = NOON

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def journal(clock):
    return Journal("https://centre.example", now=clock)


def tick_at(journal, clock, *seconds, test="pinger", every_s=60):
    for second in seconds:
        clock.now = NOON + timedelta(seconds=second)
        journal.tick(test, every_s)


def test_ticks_that_come_one_after_the_other_lose_nothing_however_late_in_their_interval(journal, clock):
    tick_at(journal, clock, 1.2, 61.0, 179.9, 181.2)

    assert journal.lost_ticks == 0


def test_ticks_that_never_came_are_counted_for_each_test(journal, clock):
    tick_at(journal, clock, 1, 61, 241)
    tick_at(journal, clock, 0, 3600, test="hourly", every_s=1800)

    assert journal.lost_ticks == 2 + 1


def test_a_clock_that_was_set_back_loses_no_tick_and_counts_on(journal, clock):
    tick_at(journal, clock, 3601, 1, 61, 181)

    assert journal.lost_ticks == 1


def test_a_test_that_was_not_planned_for_a_while_has_lost_nothing(journal, clock):
    tick_at(journal, clock, 1)
    journal.keep_ticks({("other", 60)})
    tick_at(journal, clock, 7201)

    assert journal.lost_ticks == 0


def test_what_is_measured_shows_until_it_ends_even_by_a_bug(journal, clock):
    def cycle():
        with journal.running("ping pinger"), journal.running("ping pinger"):
            assert [one.name for one in journal.state(Health(), None).running] == ["ping pinger"] * 2
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cycle()

    assert journal.state(Health(), None).running == ()


def test_the_newest_warning_is_kept_and_what_is_no_trouble_is_not(journal):
    logger = logging.Logger("agent")
    logger.addHandler(journal.handler)

    logger.error("deliver: batch %d: away", 7)
    logger.warning("plan: %s", "x" * 2 * LONGEST_MESSAGE)
    logger.info("plan: version 8")

    message = journal.state(Health(), None).last_trouble.message
    assert message.startswith("plan: xxx")
    assert len(message) == LONGEST_MESSAGE


def test_the_state_file_is_replaced_and_read_back(tmp_path, journal, clock):
    path = tmp_path / "state.json"
    write_state(path, journal.state(Health(lost_ticks=1), None))
    newest = journal.state(Health(lost_ticks=2), NOON)

    write_state(path, newest)

    assert read_state(path) == newest
    assert [file.name for file in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize("content", [None, "", '{"written_at": "soon"}'])
def test_a_state_file_that_cannot_be_read_is_no_state(tmp_path, content):
    path = tmp_path / "state.json"
    if content is not None:
        path.write_text(content)

    assert read_state(path) is None

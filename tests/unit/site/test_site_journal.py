"""The agent's journal: lost ticks, running tasks, the newest problem."""

import logging
from datetime import UTC, datetime

import pytest

from probes.site.health import Health
from probes.site.journal import MAX_MESSAGE_CHARACTERS, Journal, read_state, write_state

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
    return Journal(lambda: "https://centre.example", now=clock)


def test_a_running_task_is_listed_until_it_ends_even_by_a_bug(journal, clock):
    def cycle():
        with journal.running("ping pinger"), journal.running("ping pinger"):
            assert [task.name for task in journal.state(Health(), None).running] == ["ping pinger"] * 2
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cycle()

    assert journal.state(Health(), None).running == ()


def test_the_newest_warning_is_stored_and_infos_are_not(journal):
    logger = logging.Logger("agent")
    logger.addHandler(journal.handler)

    logger.error("deliver: batch %d: away", 7)
    logger.warning("plan: %s", "x" * 2 * MAX_MESSAGE_CHARACTERS)
    logger.info("plan: version 8")

    message = journal.state(Health(), None).last_trouble.message
    assert message.startswith("plan: xxx")
    assert len(message) == MAX_MESSAGE_CHARACTERS


def test_the_state_file_is_replaced_and_can_be_read(tmp_path, journal, clock):
    path = tmp_path / "state.json"
    write_state(path, journal.state(Health(lost_ticks=1), None))
    newest = journal.state(Health(lost_ticks=2), NOON)

    write_state(path, newest)

    assert read_state(path) == newest
    assert [file.name for file in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize("content", [None, "", '{"written_at": "soon"}'])
def test_an_unreadable_state_file_is_no_state(tmp_path, content):
    path = tmp_path / "state.json"
    if content is not None:
        path.write_text(content)

    assert read_state(path) is None

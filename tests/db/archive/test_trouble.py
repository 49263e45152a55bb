"""Trouble of the database that a web server met is shown by those of other machines."""

import socket

import pytest

from monitor.archive.upkeep.trouble import TroubleKind, clear_trouble, current_trouble, record_trouble


@pytest.fixture
def machine(settings, redis_url, tmp_path, monkeypatch):
    """Makes this process one of another machine, with a data folder of its own."""
    settings.REDIS_URL = redis_url

    def be(name):
        monkeypatch.setattr(socket, "gethostname", lambda: name)
        settings.DATA_DIR = tmp_path / name

    return be


def kinds():
    return [trouble.kind for trouble in current_trouble()]


def test_trouble_of_a_machine_is_seen_on_others_until_it_stores_again(machine):
    machine("first")
    record_trouble(TroubleKind.DISK_FULL)
    machine("second")
    assert kinds() == [TroubleKind.DISK_FULL]

    clear_trouble()  # it has stored a batch itself; the first machine has not
    assert kinds() == [TroubleKind.DISK_FULL]
    machine("first")
    clear_trouble()

    machine("second")
    assert kinds() == []


def test_trouble_of_two_machines_is_told_once(machine):
    machine("first")
    record_trouble(TroubleKind.SLOW)
    machine("second")
    record_trouble(TroubleKind.SLOW)
    record_trouble(TroubleKind.AWAY)

    assert sorted(kinds()) == sorted([TroubleKind.AWAY, TroubleKind.SLOW])

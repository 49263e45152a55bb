"""A database of a later release: whatever would write to it is refused with the reason, whatever reads goes on."""

import os
import subprocess
import sys

import pytest
from django.core.management import call_command, get_commands
from django.core.management.base import SystemCheckError
from django.db.migrations.recorder import MigrationRecorder

from monitor.archive.upkeep.releases import LaterRelease, require_no_later_release
from monitor.command_line import DJANGO_WRITING, READING, SoundingsCommands
from tests.db.scratch import TOP, own_dsn
from tests.facts import lacks

LATER = ("archive", "0999_later")
FACTS = ("later release", "archive.0999_later", "Nothing was changed", "backup", "docs/upgrade.md")
WRITING = [
    "migrate --skip-checks", "mesh apply mesh.example.toml", "user add eve --role viewer",
    "site token cern", "archive recompute --from 2026-03-14 --to 2026-03-15", "changepassword eve", "up",
    "report subscribe eve@example.org", "routes asn load mesh.example.toml", "archive restore README.md",
]  # fmt: skip


@pytest.fixture
def later(db):
    """The database has a migration of a later release."""
    MigrationRecorder.Migration.objects.create(app=LATER[0], name=LATER[1])


@pytest.mark.parametrize("command", WRITING)
def test_a_command_that_writes_is_refused_with_the_fix(later, command):
    with pytest.raises(LaterRelease) as refused:
        SoundingsCommands(["manage.py", *command.split()]).execute()

    assert lacks(str(refused.value), *FACTS) == []


@pytest.mark.parametrize("command", ["site list", "user list", "archive status", "mesh check mesh.example.toml"])
def test_a_command_that_reads_goes_on(later, command, capsys):
    SoundingsCommands(["manage.py", *command.split()]).execute()

    assert "later release" not in capsys.readouterr().err


def test_check_says_that_the_database_is_of_a_later_release(later):
    with pytest.raises(SystemCheckError) as problems:
        call_command("check")

    assert lacks(str(problems.value), "(archive.E004)", *FACTS) == []


@pytest.mark.django_db
def test_a_database_of_this_release_is_not_refused(django_assert_max_num_queries):
    with django_assert_max_num_queries(2):
        require_no_later_release()


@pytest.mark.django_db(transaction=True)
def test_no_server_starts_on_a_later_release(tmp_path):
    recorder, dsn = MigrationRecorder.Migration.objects, own_dsn()
    environment = {**os.environ, "SOUNDINGS_DATABASE_URL": dsn, "SOUNDINGS_REDIS_URL": "redis://127.0.0.1:1/0"}
    servers = (
        "gunicorn --config python:monitor.stack.serving --bind 127.0.0.1:0",
        "celery -A monitor worker --pool=solo",
        f"celery -A monitor beat --schedule {tmp_path / 'schedule'}",
    )
    recorder.create(app=LATER[0], name=LATER[1])
    try:
        ends = [
            subprocess.run(
                [sys.executable, "-m", *server.split()],
                cwd=TOP, env=environment, capture_output=True, text=True, check=False, timeout=120,
            )
            for server in (*servers, "monitor migrate --skip-checks")
        ]  # fmt: skip
    finally:
        recorder.filter(name=LATER[1]).delete()

    assert [end.returncode for end in ends] == [1] * len(ends)
    assert [lacks(end.stderr, *FACTS) for end in ends] == [[]] * len(ends)
    assert ends[-1].stderr.count("\n") == 1


def test_every_command_named_as_reading_exists():
    assert READING.keys() | DJANGO_WRITING <= get_commands().keys()

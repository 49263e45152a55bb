"""The lines of docs/backup.md for Compose, run in a shell with a program in place of Docker."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.unit.test_compose import COMPOSE

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/backup.md").read_text().partition("## With compose")[2]
BACKUP, NIGHTLY, RESTORE = re.findall(r"^```\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)[:3]


@pytest.fixture
def shell(tmp_path: Path):
    """Returns a function that runs a line in a folder; `docker` writes half a dump and ends with the given status."""

    def run(line: str, status: int) -> subprocess.CompletedProcess[str]:
        program = tmp_path / "bin/docker"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho PGDMP\nexit {status}\n")
        program.chmod(0o755)
        environment = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
        return subprocess.run(["sh", "-c", line], cwd=tmp_path, env=environment, check=False, text=True)

    return run


def test_a_backup_is_private_and_complete_under_its_name(shell, tmp_path: Path) -> None:
    assert shell(BACKUP, 0).returncode == 0

    (dump,) = tmp_path.glob("soundings.dump*")
    assert (dump.name, dump.read_text()) == ("soundings.dump", "PGDMP\n")
    assert dump.stat().st_mode & 0o777 == 0o600


def test_a_failed_backup_keeps_the_one_before(shell, tmp_path: Path) -> None:
    (tmp_path / "soundings.dump").write_text("of yesterday")

    assert shell(BACKUP, 1).returncode != 0

    assert (tmp_path / "soundings.dump").read_text() == "of yesterday"


@pytest.mark.parametrize(("status", "names"), [(0, 1), (1, 0)])
def test_the_nightly_backup_has_a_name_for_each_day(shell, tmp_path: Path, status: int, names: int) -> None:
    """In a crontab a percent sign is written with a backslash."""
    schedule, user, line = NIGHTLY.strip().rpartition(" root ")
    assert (len(schedule.split()), user) == (5, " root ")
    assert re.findall(r".?%", line) == [r"\%"]
    line = line.replace(r"\%", "%").replace("/srv/soundings &&", f"{tmp_path} &&").replace("/srv/backup", str(tmp_path))

    assert shell(line, status).returncode == status

    dumps = [*tmp_path.glob("soundings-[1-7].dump")]
    assert len(dumps) == names
    assert [dump.stat().st_mode & 0o777 for dump in dumps] == [0o600] * names


def test_a_restore_replaces_the_volume_of_the_database_alone() -> None:
    stop, removal, *_ = [shlex.split(line) for line in RESTORE.splitlines()]

    assert stop == ["docker", "compose", "down"]
    assert removal == ["docker", "volume", "rm", f"{COMPOSE['name']}_database"]
    assert "database" in COMPOSE["volumes"]

"""Grafana's role in the database that `manage.py up` runs, made by a command that finds this database by itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.e2e.stack import TOP, RunningStack
from tests.postgres import given_database_url

PASSWORD = "password-of-the-reader"


@pytest.mark.skipif(given_database_url is not None, reason="the stack runs no database of its own")
def test_the_reader_command_finds_the_database_of_up(lab: RunningStack, tmp_path: Path) -> None:
    file = tmp_path / "reader_password"
    file.write_text(PASSWORD)
    environment = {**os.environ, "SOUNDINGS_DATA": str(lab.data), "SOUNDINGS_DATABASE_URL": ""}
    command = [sys.executable, "-m", "dashboards", "reader", "--password-file", str(file)]

    done = subprocess.run(command, cwd=TOP, env=environment, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    address = re.search(r"data source: url (/\S+), database (\S+)\n", done.stdout)
    assert address is not None, done.stdout
    with psycopg.connect(host=address[1], dbname=address[2], user="soundings_reader", password=PASSWORD) as reader:
        assert reader.execute("SELECT count(*) FROM reporting.site").fetchone() == (3,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("SELECT * FROM agent_token")

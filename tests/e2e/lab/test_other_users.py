"""Another user of the machine can access nothing of a running stack, and the stack's own role can run no program."""

import json
import os
import socket
import stat
from contextlib import suppress
from errno import EACCES
from pathlib import Path

import psycopg
import pytest

from tests.e2e.stack import wait_for
from tests.postgres import given_database_url

NOBODY = 65534
EXPECTED = ("web.sock", "redis.sock", "plan.json", "spool.sqlite3", "token", "secret_key", "worker.log")


@pytest.fixture
def files(lab):
    """All files in the data folder while the agents measure."""
    wait_for(lambda: all(list(lab.data.rglob(name)) for name in EXPECTED), 60, "everything is there")
    return [lab.data, *lab.data.rglob("*")]


def mode(path):
    """Its permissions; None where it has disappeared, as journals do."""
    with suppress(FileNotFoundError):
        return stat.S_IMODE(path.lstat().st_mode)
    return 0


def reach(path, kind):
    """Connect to a socket or open a file: 0, or the error number."""
    try:
        if stat.S_ISSOCK(kind):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
        else:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        return error.errno
    return 0


def as_another_user(work):
    """The result of `work` in a process of the user nobody."""
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            with os.fdopen(write_fd, "w") as out:
                json.dump(work(), out)
        finally:
            os._exit(0)
    os.close(write_fd)
    with os.fdopen(read_fd) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def test_every_socket_and_file_is_refused_to_another_user(files, root_required):
    kinds = {path: path.lstat().st_mode for path in files if os.path.lexists(path)}
    assert sum(stat.S_ISSOCK(kind) for kind in kinds.values()) >= 4  # web, Redis, PostgreSQL, lab

    answers = as_another_user(lambda: {str(path): reach(path, kind) for path, kind in kinds.items()})

    assert {path: number for path, number in answers.items() if number != EACCES} == {}


def test_every_file_has_closed_permissions_of_its_own(lab, files):
    # Where the database has its own user, that user's group may pass through the top folder.
    open_to_others = {str(path): oct(mode(path)) for path in files if mode(path) & (0o067 if path.is_dir() else 0o077)}

    assert open_to_others == {}


@pytest.mark.skipif(given_database_url is not None, reason="the server must be the stack's own")
def test_the_stacks_role_runs_no_program_and_reads_no_file(lab):
    with psycopg.connect(lab.database_url, autocommit=True) as connection:
        connection.execute("CREATE TEMP TABLE said (line text)")
        for statement in (
            "COPY said FROM PROGRAM 'id'",
            "COPY said FROM '/etc/hostname'",
            "COPY said TO '/tmp/soundings'",
            "SELECT pg_read_file('/etc/hostname')",
            "CREATE ROLE another SUPERUSER",
            "ALTER ROLE soundings SUPERUSER",
            "SET ROLE postgres",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)


@pytest.mark.skipif(given_database_url is not None, reason="the server must be the stack's own")
def test_the_databases_passwords_are_only_in_their_files(lab):
    passwords = [path.read_text().strip().rpartition(":")[2] for path in lab.data.glob("postgres/*.pgpass")]
    leaks = [
        (Path("/proc") / str(pid) / name).read_bytes().decode(errors="replace")
        for pid in lab.processes()
        for name in ("cmdline", "environ")
        if (Path("/proc") / str(pid) / name).exists()
    ]
    written = [lab.output, *(path.read_text(errors="replace") for path in lab.data.rglob("*.log"))]

    assert len(passwords) == 2
    assert not [password for password in passwords if any(password in text for text in (*leaks, *written))]
    with pytest.raises(psycopg.OperationalError, match="no password supplied"):
        psycopg.connect(lab.database_url, user="postgres", passfile="/dev/null")

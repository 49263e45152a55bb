"""The PostgreSQL that `manage.py up` starts, in the places and with the rights that a machine may give it."""

import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from monitor.stack import postgres
from probes.supervise import Supervisor


@pytest.fixture
def private_folder(tmp_path, root_required):
    """A folder that nobody but root may enter, as root's home."""
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def no_user_namespaces(monkeypatch):
    """A machine, such as a container, that lets root make no user namespaces."""
    monkeypatch.setattr(postgres, "_has_user_namespaces", lambda: False)


def serve_once(directory):
    """Start the cluster, make its database, and tell who owns its files and how the server ended."""
    cluster = postgres.Cluster(directory, postgres.find())
    cluster.initialise()
    supervisor = Supervisor(directory.parent / "log", print)
    try:
        child = supervisor.add("postgres", cluster.argv, stop_signal=signal.SIGINT)
        supervisor.wait_ready(child, cluster.answers, timeout_s=60)
        cluster.create_database()
        cluster.create_database()
    finally:
        process = child.process
        supervisor.stop()
    return (directory / "cluster" / "PG_VERSION").stat().st_uid, process.returncode


def let_others_enter(folder):
    """This folder and those above it, which pytest makes for itself alone."""
    top = Path(tempfile.gettempdir())
    for one in (folder, *folder.parents):
        if one == top:
            break
        one.chmod(0o755)


def test_under_root_it_runs_in_a_folder_that_only_root_may_enter(private_folder):
    assert serve_once(private_folder / "postgres") == (0, 0)


def test_without_user_namespaces_a_system_user_runs_it(tmp_path, root_required, no_user_namespaces):
    let_others_enter(tmp_path)

    owner, status = serve_once(tmp_path / "postgres")

    expected = subprocess.run(["id", "-u", postgres.SYSTEM_USER], capture_output=True, text=True, check=True)
    assert (owner, status) == (int(expected.stdout), 0)


def test_a_cluster_changes_hands(tmp_path, root_required, monkeypatch):
    let_others_enter(tmp_path)
    assert serve_once(tmp_path / "postgres") == (0, 0)

    monkeypatch.setattr(postgres, "_has_user_namespaces", lambda: False)
    assert serve_once(tmp_path / "postgres")[1] == 0


def test_a_folder_that_the_system_user_cannot_enter_is_named_with_the_mend(private_folder, no_user_namespaces):
    cluster = postgres.Cluster(private_folder / "postgres", postgres.find())

    with pytest.raises(postgres.PostgresError, match=r"cannot enter .*private/postgres; let others pass .*chmod o\+x"):
        cluster.initialise()


def test_without_any_postgresql_it_says_what_to_do(monkeypatch):
    monkeypatch.setattr(postgres.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(postgres.PostgresError, match="run `make setup`, or give SOUNDINGS_DATABASE_URL"):
        postgres._bundled_bin_dir()

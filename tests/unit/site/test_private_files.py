"""Files and folders closed to other users of the machine for any umask, and folders that were left open."""

import os
import stat

import pytest

from probes.private_files import close_to_others, is_open_to_others, replace_privately
from probes.site import identity
from probes.site.plan import PlanCache
from probes.site.spool.spool import Spool
from probes.site.wire import Plan


@pytest.fixture(autouse=True)
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def test_an_open_folder_and_the_named_folders_are_closed(tmp_path):
    top, outside = tmp_path / "data", tmp_path / "outside"
    for path in (top / "sites" / "rome" / "spool.sqlite3", top / "kept.toml", outside):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (top / "sites" / "link").symlink_to(outside)

    close_to_others(top, ["sites", "missing"])

    assert [mode(path) for path in (top, top / "sites", top / "sites" / "rome")] == [0o700] * 3
    assert mode(top / "sites" / "rome" / "spool.sqlite3") == 0o600
    assert [mode(top / "kept.toml"), mode(outside)] == [0o666] * 2
    assert not is_open_to_others(top)


def test_a_missing_folder_is_created_closed(tmp_path):
    close_to_others(tmp_path / "a" / "b", [])

    assert mode(tmp_path / "a" / "b") == 0o700


def test_folders_of_another_user_are_not_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    tmp_path.chmod(0o755)

    close_to_others(tmp_path, [])

    assert mode(tmp_path) == 0o755
    assert is_open_to_others(tmp_path)


def test_a_replaced_file_is_closed_even_if_the_old_was_open(tmp_path):
    path, beside = tmp_path / "file", tmp_path / "file.new"
    path.write_text("old")
    beside.write_text("left over")

    with replace_privately(path, beside) as file:
        file.write(b"new")

    assert (path.read_text(), mode(path), beside.exists()) == ("new", 0o600, False)


def test_spool_plan_and_identity_are_closed(tmp_path):
    (tmp_path / "spool.sqlite3").touch()
    spool = Spool(tmp_path / "spool.sqlite3")
    PlanCache(tmp_path / "plan.json").store(Plan(version="1", mesh=1, site="rome", ping=[], throughput=[]))
    identity.begin(tmp_path / "identity.json")

    modes = {path.name: mode(path) for path in tmp_path.iterdir()}
    spool.close()

    assert modes == dict.fromkeys(
        ["spool.sqlite3", "spool.sqlite3-wal", "spool.sqlite3-shm", "plan.json", "identity.json"], 0o600
    )

"""Joining starts the service of an installed agent, and only there; a stand-in for systemctl notes its calls."""

import os

import pytest

from probes.site import service
from probes.site.settings import limits_file

SYSTEMCTL = """#!/bin/sh
echo "$@" >>"$(dirname "$0")/calls"
[ "$1" != "$(cat "$(dirname "$0")/fails" 2>/dev/null)" ] || { echo "Unit has a bad setting." >&2; exit 1; }
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with systemd and the service, where root joins."""
    for folder in ("units", "run", "bin", "data"):
        (tmp_path / folder).mkdir()
    (tmp_path / "units" / service.UNIT).touch()
    program = tmp_path / "bin" / "systemctl"
    program.write_text(SYSTEMCTL)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(service, "UNIT_FOLDERS", (tmp_path / "units",))
    monkeypatch.setattr(service, "SYSTEMD_RUNS", tmp_path / "run")
    monkeypatch.setattr(service, "SYSTEM_AGENT", tmp_path / "data")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def calls(machine):
    file = machine / "bin" / "calls"
    return file.read_text().splitlines() if file.exists() else []


def test_the_service_is_enabled_and_started(machine):
    assert "runs, now and after each start" in service.start_after_join(machine / "data")

    assert calls(machine) == ["enable --quiet soundings-agent.service", "restart soundings-agent.service"]


def test_a_service_that_does_not_start_is_reported_with_its_log(machine):
    (machine / "bin" / "fails").write_text("restart")

    said = service.start_after_join(machine / "data")

    assert "restart soundings-agent.service failed: Unit has a bad setting." in said
    assert "journalctl -u soundings-agent.service" in said


@pytest.mark.parametrize("lacking", ["folder", "root", "systemd", "unit"])
def test_elsewhere_nothing_is_started(machine, monkeypatch, lacking):
    data = machine / ("bin" if lacking == "folder" else "data")
    if lacking == "root":
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
    if lacking == "systemd":
        (machine / "run").rmdir()
    if lacking == "unit":
        (machine / "units" / service.UNIT).unlink()

    assert service.start_after_join(data) is None
    assert calls(machine) == []


def test_the_limits_of_the_machine_hold_where_the_folder_has_none(tmp_path, monkeypatch):
    of_machine, of_folder = tmp_path / "machine.toml", tmp_path / "limits.toml"
    monkeypatch.setattr("probes.site.settings.MACHINE_LIMITS", of_machine)
    assert limits_file(tmp_path, None) is None
    of_machine.touch()
    assert limits_file(tmp_path, None) == of_machine
    of_folder.touch()
    assert limits_file(tmp_path, None) == of_folder
    assert limits_file(tmp_path, of_machine) == of_machine

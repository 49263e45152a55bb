"""The lab's command line: everything that can be tested without a running lab."""

from __future__ import annotations

import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from probes.__main__ import main
from probes.commands.own_command import probes_command
from probes.commands.subcommands import ratio
from probes.lab import breaks, control
from probes.lab.breaks import change_text
from probes.lab.routing.protocol import RouteStatus
from tests.facts import lacks

TIMING = control.Timing(late_over_1ms=0, latest_ms=0.0, late_s=0.0, cpu_s=0.0, waited_s=None)


def test_mesh_prints_the_mesh_of_the_default_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "mesh", "--loopback"]) == 0

    mesh = tomllib.loads(capsys.readouterr().out)
    assert [site["name"] for site in mesh["site"]] == ["slac", "nersc", "ornl", "cern", "in2p3"]
    assert mesh["site"][0]["host"] == [{"address": "127.77.1.1"}]


def test_an_unknown_scenario_lists_the_scenarios_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "up", "six-sites"]) == 1

    message = capsys.readouterr().err
    assert lacks(message, "lab: ", 'no scenario "six-sites"', "five-sites", "three-sites", "path of a file") == []
    assert message.count("\n") == 1


@pytest.mark.parametrize("verb", [["status"], ["down"], ["set", "a-b", "--loss", "0"], ["exec", "a", "true"]])
def test_without_a_lab_the_error_says_how_to_start_the_lab(
    verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", verb[0], "--run-dir", str(tmp_path), *verb[1:]]) == 1

    message = capsys.readouterr().err
    assert (
        lacks(message, "lab: ", f"no lab is running in {tmp_path}:", f"`{probes_command()} lab up`", "--run-dir") == []
    )
    assert message.count("\n") == 1


def test_set_without_a_setting_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "set", "--run-dir", str(tmp_path), "a-b"]) == 1
    assert "nothing to set" in capsys.readouterr().err

    assert main(["lab", "set", "--run-dir", str(tmp_path), "--loss", "0.1"]) == 1
    assert "path to change: SRC-DST" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--loss", "--reorder", "--duplicate"])
def test_a_percentage_for_a_ratio_says_the_ratio(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["lab", "set", "a-b", option, "20"])

    assert raised.value.code == 2
    assert lacks(capsys.readouterr().err, option, '"20"', "0 to 1", "0.2", "20%") == []


def test_a_percentage_with_its_sign_is_a_ratio() -> None:
    assert ratio("20%") == ratio("0.2") == 0.2


def test_rtt_and_one_way_delay_are_mutually_exclusive(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["lab", "set", "a-b", "--rtt-ms", "1", "--delay-ms", "1"])

    assert raised.value.code == 2
    assert "not allowed with argument" in capsys.readouterr().err


def test_a_run_folder_whose_path_is_too_long_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = tmp_path / ("x" * 100)

    assert main(["lab", "up", "three-sites", "--run-dir", str(run_dir)]) == 1

    message = capsys.readouterr().err
    assert "maximum is 107" in message
    assert "--run-dir" in message


def test_a_run_folder_that_is_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = tmp_path / "file"
    run_dir.write_text("")

    assert main(["lab", "up", "three-sites", "--run-dir", str(run_dir)]) == 1

    message = capsys.readouterr().err
    assert lacks(message, "lab: ", f" {run_dir}:", "File exists", "another path", "--run-dir") == []
    assert message.count("\n") == 1


def test_a_size_is_a_whole_number(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["lab", "set", "a-b", "--policer-bytes", "1.5"])

    assert raised.value.code == 2
    assert lacks(capsys.readouterr().err, "argument --policer-bytes:", "'1.5'", "whole number") == []


@pytest.mark.parametrize("number", ["nan", "inf", "many"])
def test_a_setting_is_a_finite_number(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["lab", "set", "a-b", "--delay-ms", number])

    assert raised.value.code == 2
    assert lacks(capsys.readouterr().err, "argument --delay-ms:", f'"{number}"', "not a number") == []


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["route", "via", "a"], ("give the path", "SRC DST via")),
        (["route", "--original"], ("give the path",)),
        (["route", "a", "b", "via"], ("`via` needs routers",)),
        (["set", "a-b", "--link", "a-b", "--loss", "1"], ("--link", "exclude each other")),
        (["set", "--link", "a-b", "--loss", "1", "--watch"], ("--watch", "of a path", "/lab/")),
        (["set", "--link", "a-b", "--rtt-ms", "1"], ("--rtt-ms", "--delay-ms")),
        (["set", "--link", "a-b"], ("nothing to set",)),
    ],
)
def test_a_wrong_route_or_link_is_reported(
    arguments: list[str], facts: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", arguments[0], "--run-dir", str(tmp_path), *arguments[1:]]) == 1
    assert lacks(capsys.readouterr().err, *facts) == []


def test_a_changed_route_has_its_effect_and_its_undo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    route = RouteStatus(source="a", destination="b", routes=(("r2",),), original=(("r1",),), changed_at=None)
    state = control.LabState(
        pid=1,
        scenario="two",
        title="Two",
        seed=1,
        started_at=datetime(2026, 11, 23, tzinfo=UTC),
        user_fd=None,
        scheduling="none",
        control_socket="",
        centre_port=None,
        sites={name: control.SiteState(title=name, addresses=(), net_fd=0) for name in "ab"},
    )
    status = control.LabStatus(lab=state, uptime_s=1.0, centre=None, timing=TIMING, sites=(), paths=(), routes=(route,))
    monkeypatch.setattr(control, "read_state", lambda _: state)
    monkeypatch.setattr(control, "ask", lambda *_: None)
    monkeypatch.setattr(control, "ask_status", lambda _: status)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # no Python there, so that its whole path is printed

    asked = []
    effect = ["An incident usually opens after 8 min."], 480.0
    monkeypatch.setattr(breaks, "expected_effect", lambda _, **query: asked.append(query) or effect)

    assert main(["lab", "route", "--run-dir", str(tmp_path), "a", "b", "via", "r2"]) == 0

    lines = capsys.readouterr().out.splitlines()
    (undo,) = [line for line in lines if line.startswith("undo: ")]
    assert asked == [{"path": "a:b"}]
    assert effect[0][0] in lines
    assert any("--watch" in line for line in lines)
    assert lacks(undo, sys.executable, " -m probes lab route", f"--run-dir {tmp_path}", "a b --original") == []


def test_the_delay_of_a_path_with_routers_is_said_to_be_added() -> None:
    changes = {"delay_ms": 60.0, "loss_ratio": 0.1}

    assert lacks(change_text(changes, is_routed=True), "10% loss", "delay 60 ms in addition to its links") == []
    assert "links" not in change_text(changes, is_routed=False)
    assert "links" not in change_text({"loss_ratio": 0.1}, is_routed=True)


def test_a_printed_command_names_the_python_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    assert probes_command() == f"{python} -m probes"

    monkeypatch.chdir(tmp_path)
    assert probes_command() == ".venv/bin/python -m probes"

    monkeypatch.setenv("PATH", str(python.parent))
    assert probes_command() == "python -m probes"

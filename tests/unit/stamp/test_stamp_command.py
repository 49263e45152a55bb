"""`python -m probes stamp`: both ends over loopback, as two processes, and what is wrong with its options."""

from __future__ import annotations

import json
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.__main__ import main
from tests.facts import lacks

COMMAND = (sys.executable, "-m", "probes", "stamp")
ROOT = Path(__file__).parents[3]


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stamp") / "key"
    path.write_text("a2tra2tra2tra2tra2tra2tra2tra2tr\n")
    return path


@pytest.fixture(scope="module")
def port(key_file: Path) -> Iterator[int]:
    """The port of a reflector in a process of its own, with a key."""
    chosen = free_port()
    peers = ("--peer", "127.0.0.1", "--peer", "::1", "--key-file", str(key_file))
    process = subprocess.Popen(
        (*COMMAND, "--reflect", "--port", str(chosen), *peers),
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        # Tests in the background of a shell have SIGINT ignored, and hand that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    try:
        assert select.select([process.stderr], [], [], 60)[0], "the reflector did not start"
        assert "answering" in process.stderr.readline()
        yield chosen
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_two_processes_measure_both_families(port: int, key_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--port", str(port), "-c", "4", "--spacing-s", "0.05", "--dscp", "10", "--key-file", str(key_file)]

    status = main(["stamp", "127.0.0.1", "::1", "--json", *options])

    results = {result["target"]: result for result in map(json.loads, capsys.readouterr().out.splitlines())}
    assert status == 0
    assert set(results) == {"127.0.0.1", "::1"}
    for result in results.values():
        assert (result["sent"], result["received"], result["is_authenticated"]) == (4, 4, True)
        assert (result["forward"]["lost"], result["reverse"]["lost"], result["undecided"]) == (0, 0, 0)
        assert (result["forward"]["dscp"], result["reverse"]["dscp"]) == (10, 10)
        assert result["forward"]["ttl"] == 64
        assert result["follow_ups"] == 4
        low_ms, high_ms = result["forward"]["median_interval_ms"]
        assert 0 <= low_ms <= high_ms
        assert [round(low_ms, 6), round(high_ms, 6)] == [low_ms, high_ms]


def test_without_the_key_nothing_is_answered(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--port", str(port), "-c", "2", "--spacing-s", "0.05", "--timeout-s", "0.2"]

    status = main(["stamp", "127.0.0.1", *options])

    out = capsys.readouterr().out
    assert status == 0
    assert "2 of 2 (100%)" in out
    assert "2 lost in a direction that cannot be told" in out
    assert lacks(out, "no reply at all", "--peer", "same key", f"UDP port {port}") == []


def test_a_host_without_a_reflector_is_not_measured(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()

    status = main(["stamp", "127.0.0.1", "--port", str(port), "-c", "1", "--timeout-s", "0.2"])

    assert status == 1
    assert f"no reflector listens on UDP port {port}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "give a host, or --reflect"),
        (["--reflect"], "--peer"),
        (["--reflect", "--peer", "10.0.0.1/8"], 'write "10.0.0.0/8"'),
        (["--reflect", "--peer", "10.0.0.1", "host"], "takes no host"),
        (["host", "--peer", "10.0.0.1"], "--peer is for --reflect"),
        (["host", "--key-file", "/nonexistent"], "/nonexistent: No such file"),
        (["host", "--key-file", "/dev/null"], "head -c 32 /dev/urandom"),
        (["host", "-c", "0"], "--count 0"),
        (["host", "--dscp", "64"], "--dscp 64"),
        (["host", "--size", "20"], "--size 20: must be from 44 to 9000"),
        (["host", "--timeout-s", "90"], "--timeout-s 90"),
    ],
)
def test_usage_errors_name_the_way_out(options: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stamp", *options]) == 2
    assert problem in capsys.readouterr().err


def test_a_port_without_permission_names_the_settings() -> None:
    from probes.stamp.engine.channel import permission_advice

    advice = permission_advice(862)

    assert re.search(r"sysctl -w net\.ipv4\.ip_unprivileged_port_start=862\b", advice)
    assert "cap_net_bind_service" in advice

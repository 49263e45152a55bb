"""Options of the commands that measure: problems name the option, and a source has to be an address of this host."""

from __future__ import annotations

import json
import socket

import pytest

from probes.__main__ import main
from tests.facts import lacks


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["ping", "127.0.0.1", "--sizes", "4"], "--sizes 4"),
        (["ping", "127.0.0.1", "--timeout-s", "90"], "--timeout-s 90"),
        (["trace", "127.0.0.1", "--max-hops", "900"], "--max-hops 900"),
        (["tcp-ping", "127.0.0.1", "--port", "0"], "--port 0"),
        (["tcp-ping", "127.0.0.1", "--port", "443", "--timeout-s", "3"], "--timeout-s 3"),
        (["ping", "127.0.0.1", "--dscp", "64"], "--dscp 64"),
        (["tcp-ping", "127.0.0.1", "--port", "443", "--dscp", "-1"], "--dscp -1"),
        (["stamp", "127.0.0.1", "--dscp", "64"], "--dscp 64"),
        (["stamp", "--reflect", "--peer", "127.0.0.1", "--source", "127.0.0.1"], "--source"),
        (["capacity", "127.0.0.1", "--packet-bytes", "1"], "--packet-bytes 1"),
    ],
)
def test_a_value_out_of_range_names_its_option(
    arguments: list[str], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert f"{arguments[0]}: {option}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "fact"),
    [
        ("foo", "is no IP address"),
        ("192.0.2.9", "is no address of this host"),
        ("::1", "IPv6"),
    ],
)
@pytest.mark.parametrize("command", ["ping", "stamp", "tcp-ping"])
def test_a_source_of_another_host_is_refused(
    command: str, source: str, fact: str, capsys: pytest.CaptureFixture[str]
) -> None:
    port = [] if command == "ping" else ["--port", "9"]
    assert main([command, "127.0.0.1", *port, "-c", "1", "--source", source]) == 2

    assert lacks(capsys.readouterr().err, f"{command}: --source {source}", fact) == []


def test_tcp_ping_connects_from_the_source_and_says_that_it_is_local(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on a busy host, where no handshake is as short as those within a host are otherwise."""
    monkeypatch.setattr("probes.packets.addresses.NEAR_MS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        status = main(
            ["tcp-ping", "127.0.0.1", "--port", port, "-c", "1", "--spacing-s", "0.05", "--source", "127.0.0.5"]
        )
        server.settimeout(10)
        _, peer = server.accept()

    assert status == 0
    assert peer[0] == "127.0.0.5"
    assert "packets did not leave this host" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["ping", "stamp", "tcp-ping"])
def test_a_missing_namespace_is_no_loss(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["--sizes", "100"] if command == "ping" else ["--port", "9"]

    status = main([command, "192.0.2.1", "-c", "1", *own, "--namespace", "nonesuch", "--source", "192.0.2.9", "--json"])

    told = json.loads(capsys.readouterr().out)
    assert (status, told["outcome"], told["sent"]) == (1, "no_route", 0)
    assert "no network namespace 'nonesuch'" in told["detail"]

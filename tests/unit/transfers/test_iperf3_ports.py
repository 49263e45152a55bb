"""iperf3 as a child: its output is bounded, and of several ports those that fail before data are passed over."""

import contextlib
import json
import random
import resource
import socket
import threading
from pathlib import Path

import pytest

from probes.contract import Deadline, Outcome, ProbeError
from probes.throughput.probe import Iperf3Probe
from probes.transfers.iperf3 import transfer as iperf3
from probes.transfers.iperf3.errors import failure_of
from probes.transfers.spec import ThroughputSpec

REPORT = Path(__file__).parents[2] / "fixtures" / "iperf3" / "tcp.json"
SPEC = ThroughputSpec(address="127.0.0.1", duration_s=1)
PORTS = ThroughputSpec(address="127.0.0.1", duration_s=1, port=15301, last_port=15304)
GOOD = f"cat {REPORT}"


@pytest.fixture
def pretend(tmp_path, monkeypatch):
    """Put a script in the place of iperf3; `$port` is the port that it is to connect to."""

    def put(script):
        tool = tmp_path / "iperf3"
        find = '[ "$1" = --version ] && exit; while [ "$1" ] && [ "$1" != -p ]; do shift; done; port=$2'
        tool.write_text(f"#!/bin/sh\n{find}\n{script}\n")
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setattr(random, "sample", lambda ports, count: sorted(ports))

    return put


def error(message):
    return f"echo '{json.dumps({'error': message})}'; exit 1"


@pytest.mark.parametrize(
    "failure",
    [
        error("control socket has closed unexpectedly"),
        error("unable to receive control message: Connection reset by peer"),
        error("received an unknown control message"),
        error("unable to connect to server: Host is unreachable"),
        error("test authorization failed"),
        "echo 'HTTP/1.1 400 Bad Request'; exit 1",
        "exec sleep 60",
        "kill -9 $$",
    ],
)
def test_each_port_that_fails_before_data_is_passed_over(pretend, failure):
    pretend(f"case $port in 1530[123]) {failure};; esac; {GOOD}")

    run = Iperf3Probe().run(PORTS, Deadline(20))

    assert (run.outcome, run.detail) == (Outcome.MEASURED, "port 15304")


def test_a_port_that_fails_after_data_ends_the_test(pretend):
    terminated = REPORT.with_name("client_terminated.json")
    pretend(f"case $port in 15301) cat {terminated}; exit 1;; esac; {GOOD}")

    with pytest.raises(ProbeError) as failure:
        Iperf3Probe().run(PORTS, Deadline(20))

    assert failure.value.figures["sent_bytes"] == 19_204_776


def test_ports_that_all_fail_give_the_counts_and_the_last(pretend):
    pretend(error("control socket has closed unexpectedly"))

    with pytest.raises(ProbeError, match=r"0 of 4 ports busy, 0 refused, 4 failed: .*15304: control") as failure:
        Iperf3Probe().run(PORTS, Deadline(20))

    assert failure.value.outcome is Outcome.TOOL_FAILURE


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("unable to connect to server: Connection refused", Outcome.REFUSED),
        ("unable to connect to server: Connection timed out", Outcome.REFUSED),
        ("unable to connect to server: Operation timed out", Outcome.REFUSED),
        ("unable to connect to server: Network is unreachable", Outcome.NO_ROUTE),
        ("unable to connect to server: Network unreachable", Outcome.NO_ROUTE),
        ("unable to connect to server: No route to host", Outcome.NO_ROUTE),
        ("unable to connect to server: Host is unreachable", Outcome.NO_ROUTE),
        ("unable to connect to server: Host is down", Outcome.NO_ROUTE),
        ("unable to connect to server: Name or service not known", Outcome.DNS_FAILURE),
        ("unable to connect to server: Name does not resolve", Outcome.DNS_FAILURE),
        ("unable to connect to server: Try again", Outcome.DNS_FAILURE),
        ("unable to connect to server: nodename nor servname provided, or not known", Outcome.DNS_FAILURE),
        ("the server is busy running a test. try again later", Outcome.BUSY),
        ("unable to read from stream socket: Operation timed out", Outcome.TOOL_FAILURE),
    ],
)
def test_an_errors_outcome_holds_for_each_c_library(text, outcome):
    assert failure_of(text, "192.0.2.1", 5201, {}).outcome is outcome


def test_iperf3_does_not_translate_its_errors(pretend, monkeypatch):
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    pretend('echo "{\\"error\\": \\"locale $LC_ALL\\"}"')

    with pytest.raises(ProbeError, match=r"locale C$"):
        Iperf3Probe().run(SPEC, Deadline(20))


@pytest.mark.parametrize("script", ["yes ''", "trap '' TERM; yes '{'", "head -c 60000000 /dev/zero"])
def test_more_output_than_32_mb_is_not_read(pretend, script):
    pretend(script)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with pytest.raises(ProbeError, match="exceeds 32 MB"):
        Iperf3Probe().run(SPEC, Deadline(60))

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 100_000


def test_a_text_of_the_peer_takes_its_bytes_alone(pretend):
    pretend(
        f'head -c $(($(wc -c < {REPORT}) - 2)) {REPORT}; printf \', "server_output_text": "\';'
        " head -c 30000000 /dev/zero | tr '\\0' A; printf '\"}'"
    )

    assert Iperf3Probe().run(SPEC, Deadline(60)).outcome is Outcome.MEASURED


def test_iperf3_itself_has_a_limit_of_memory(pretend):
    pretend('echo "{\\"error\\": \\"data $(ulimit -d)\\"}"')

    with pytest.raises(ProbeError) as failure:
        Iperf3Probe().run(SPEC, Deadline(20))

    assert int(str(failure.value).split()[-1]) == (256 + 16) * 1024


def test_the_intervals_of_many_streams_leave_room_in_the_output():
    assert iperf3.interval(ThroughputSpec(address="127.0.0.1", duration_s=100, streams=128)) == "0.6"


def test_a_port_that_accepts_and_says_nothing_is_passed_over(monkeypatch):
    """With the real iperf3, against a listener that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as hung, socket.create_server(("127.0.0.1", 0)) as closing:
        ports = [hung.getsockname()[1], closing.getsockname()[1]]
        monkeypatch.setattr(random, "sample", lambda *_: ports)
        threading.Thread(target=_close_each, args=(closing,), daemon=True).start()
        spec = ThroughputSpec(address="127.0.0.1", duration_s=1, port=min(ports), last_port=max(ports))

        with pytest.raises(ProbeError, match=r"0 refused, 2 failed: .*control"):
            Iperf3Probe().run(spec, Deadline(10))


def _close_each(listener):
    with contextlib.suppress(OSError):
        while True:
            listener.accept()[0].close()

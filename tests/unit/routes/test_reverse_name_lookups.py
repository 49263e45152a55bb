"""Reverse names: a deadline for all, and only host names are believed."""

import socket
import threading
import time

import pytest

from monitor.routes import reverse_names
from monitor.routes.models import NameOutcome
from monitor.routes.reverse_names import Resolution, resolve, system_name
from probes.contract import Deadline


def test_all_addresses_are_resolved_side_by_side():
    together = threading.Barrier(8, timeout=20)

    def look_up(address):
        together.wait()
        return Resolution(NameOutcome.NAMED, f"r{address}.example")

    addresses = [str(number) for number in range(8)]
    assert resolve(addresses, Deadline(20), look_up) == {
        address: Resolution(NameOutcome.NAMED, f"r{address}.example") for address in addresses
    }


def test_names_that_come_after_the_deadline_are_not_answered():
    release = threading.Event()

    def look_up(address):
        if address == "slow":
            release.wait(20)
        return Resolution(NameOutcome.NO_NAME)

    began_at = time.monotonic()
    results = resolve(["slow", "a", "b"], Deadline(0.3), look_up)

    release.set()
    assert time.monotonic() - began_at < 10
    assert results["slow"].outcome == NameOutcome.NO_ANSWER
    assert results["a"].outcome == results["b"].outcome == NameOutcome.NO_NAME


def test_a_resolver_that_never_answers_takes_a_bounded_number_of_threads(monkeypatch):
    monkeypatch.setattr(reverse_names, "_free_threads", threading.BoundedSemaphore(2))
    release, calls = threading.Event(), []

    def look_up(address):
        calls.append(address)
        release.wait(20)
        return Resolution(NameOutcome.NO_NAME)

    for _ in range(3):
        assert {result.outcome for result in resolve(["a", "b", "c"], Deadline(0.1), look_up).values()} == {
            NameOutcome.NO_ANSWER
        }
    release.set()

    assert len(calls) == 2


def test_no_address_needs_no_thread():
    assert resolve([], Deadline(0), system_name) == {}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("core1.example.net", Resolution(NameOutcome.NAMED, "core1.example.net")),
        ("ae-1.0_x.example.net.", Resolution(NameOutcome.NAMED, "ae-1.0_x.example.net")),
        ("<b>evil</b>.example", Resolution(NameOutcome.NO_NAME)),
        ("a\x1b[31m.example", Resolution(NameOutcome.NO_NAME)),
        ("", Resolution(NameOutcome.NO_NAME)),
        ("x" * 254, Resolution(NameOutcome.NO_NAME)),
        (socket.gaierror(socket.EAI_NONAME, "no name"), Resolution(NameOutcome.NO_NAME)),
        (socket.gaierror(socket.EAI_AGAIN, "try again"), Resolution(NameOutcome.NO_ANSWER)),
        (socket.gaierror(socket.EAI_FAIL, "failure"), Resolution(NameOutcome.NO_ANSWER)),
    ],
)
def test_only_host_names_and_proofs_of_absence_are_believed(monkeypatch, answer, expected):
    def getnameinfo(address, flags):
        assert (address, flags) == (("192.0.2.1", 0), socket.NI_NAMEREQD)
        if isinstance(answer, Exception):
            raise answer
        return answer, "0"

    monkeypatch.setattr(socket, "getnameinfo", getnameinfo)

    assert system_name("192.0.2.1") == expected

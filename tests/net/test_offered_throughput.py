"""The iperf3 server offered to others: real clients in namespaces, allowed, busy, refused, and a stranger."""

from __future__ import annotations

import logging
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from probes.packets.egress import Egress, open_within
from probes.site.limits.limits import Limits
from probes.site.limits.networks import Networks
from probes.site.limits.usage import Usage
from probes.site.runner import offered_tests
from probes.site.runner.offered_tests import OfferedTests
from probes.site.runner.own_tests import OwnTests
from probes.throughput.limits import Iperf3ServerLimits
from tests.net.test_ping import run

PORT = 5200
OURS = {"client": {4: "10.9.1.1", 6: "fd09:1::1"}, "stranger": {4: "10.9.2.1", 6: "fd09:2::1"}}
OFFERED = ("10.9.1.0/24", "fd09:1::/64")
BUSY = "the server is busy"
ENDED = "the server has terminated"


@dataclass
class Site:
    """Our end, with a link to a client and another to a stranger. `slots` is its plan's."""

    names: dict[str, str]
    log: pytest.LogCaptureFixture
    usage: Usage = field(default_factory=lambda: Usage(Limits()))
    own_tests: OwnTests = field(default_factory=OwnTests)
    slots: list[Any] = field(default_factory=list)

    @contextmanager
    def offering(self, networks: Networks | None = None, **keys: Any) -> Iterator[OfferedTests]:
        """Offer the server with these keys of limits.toml in our namespace."""
        offer = Iperf3ServerLimits(clients=OFFERED, **keys)
        limits = Limits(networks=networks or Networks(), iperf3_server=offer)
        self.usage, self.own_tests, self.slots = Usage(limits), OwnTests(), []
        offered = OfferedTests(limits, self.usage, self.own_tests, lambda: SimpleNamespace(slots=self.slots))  # type: ignore[arg-type, return-value]
        stop = threading.Event()

        egress = Egress(namespace=self.names["ours"])
        thread = threading.Thread(target=open_within, args=(egress, partial(offered.run, stop)))
        thread.start()
        try:
            yield offered
        finally:
            stop.set()
            thread.join()

    def wait_open(self, servers: int = 1) -> None:
        """Wait until so many servers have been offered; the latest has its filter."""
        wait_until(lambda: self.log.text.count(f"open on port {PORT}") == servers)

    def wait_busy(self) -> None:
        """Wait until a socket declines clients."""
        wait_until(lambda: "others: busy: " in self.log.text)
        wait_until(lambda: f":{PORT}" in output("ip", "netns", "exec", self.names["ours"], "ss", "-tlnH"))

    def iperf3(self, *arguments: str, end: str = "client", family: int = 4) -> subprocess.Popen[bytes]:
        command = ["ip", "netns", "exec", self.names[end], "iperf3", "-J", "-c", OURS[end][family], "-p", str(PORT)]
        return subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE)

    def measure(self, *arguments: str, end: str = "client", family: int = 4) -> dict[str, Any]:
        return report(self.iperf3(*arguments, end=end, family=family))

    def received_segments(self, end: str) -> int:
        """TCP segments that ever arrived at an end."""
        text = output("ip", "netns", "exec", self.names[end], "cat", "/proc/net/snmp")
        names, figures = (line.split() for line in text.splitlines() if line.startswith("Tcp:"))
        return int(figures[names.index("InSegs")])

    def slot(self, begins_in_s: float) -> None:
        """Plan a slot."""
        starts_at = datetime.now(UTC) + timedelta(seconds=begins_in_s)
        self.slots.append(SimpleNamespace(starts_at=starts_at, ends_at=starts_at + timedelta(seconds=60)))


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def report(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    written, _ = process.communicate(timeout=60)
    result: dict[str, Any] = msgspec.json.decode(written)
    return result


def wait_until(true: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def namespaces(namespaces_required: None, root_required: None) -> Iterator[dict[str, str]]:
    names = {end: f"offer-{secrets.token_hex(3)}-{end}" for end in ("ours", "client", "stranger")}
    with ExitStack() as undo:
        for name in names.values():
            run("ip", "netns", "add", name)
            undo.callback(run, "ip", "netns", "delete", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for end, addresses in OURS.items():
            run("ip", "-n", names["ours"], "link", "add", end, "type", "veth", "peer", "uplink", "netns", names[end])
            for name, link, last in ((names["ours"], end, 1), (names[end], "uplink", 2)):
                run("ip", "-n", name, "address", "add", f"{addresses[4][:-1]}{last}/24", "dev", link)
                run("ip", "-n", name, "address", "add", f"{addresses[6][:-1]}{last}/64", "dev", link, "nodad")
                run("ip", "-n", name, "link", "set", link, "up")
        yield names


@pytest.fixture
def site(namespaces: dict[str, str], caplog: pytest.LogCaptureFixture) -> Site:
    caplog.set_level(logging.INFO, offered_tests.__name__)
    return Site(namespaces, caplog)


def test_an_offered_client_is_served_and_counted(site: Site) -> None:
    with site.offering(max_bps=200e6):
        site.wait_open()
        tcp = site.measure("-t", "1", "-b", "20M", family=6)
        site.wait_open(2)
        udp = site.measure("-t", "1", "-u", "-b", "20M", "-R")
        site.wait_open(3)
        too_fast = site.measure("-t", "1", "-b", "300M")
        wait_until(lambda: len(site.own_tests.periods()) == 3)

    assert "error" not in tcp
    assert "error" not in udp
    assert udp["end"]["sum"]["packets"] > 10
    assert "refused" not in too_fast["error"]
    used_s, used_bits = site.usage.today()
    carried_bits = 8 * (tcp["end"]["sum_received"]["bytes"] + udp["end"]["sum"]["bytes"])
    assert used_bits == pytest.approx(carried_bits, rel=0.2)
    assert used_s > 1.9


def test_a_second_client_finds_the_server_busy(site: Site) -> None:
    with site.offering():
        site.wait_open()
        first = site.iperf3("-t", "25", "-b", "1M")
        wait_until(site.own_tests.periods)

        assert BUSY in site.measure("-t", "1")["error"]
    assert ENDED in report(first)["error"]


def test_a_slot_of_the_plan_ends_a_test_and_is_busy(site: Site) -> None:
    with site.offering():
        site.wait_open()
        first = site.iperf3("-t", "25", "-b", "1M")
        wait_until(site.own_tests.periods)
        site.slot(begins_in_s=3.5)

        assert ENDED in report(first)["error"]
        site.wait_busy()
        assert BUSY in site.measure("-t", "1")["error"]
        assert BUSY in site.measure("-t", "1", family=6)["error"]


def test_a_test_longer_than_the_limit_is_ended(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offered_tests, "SET_UP_S", 0.5)
    with site.offering(max_duration_s=1):
        site.wait_open()

        assert ENDED in site.measure("-t", "25", "-b", "1M")["error"]


@pytest.mark.parametrize("keys", [{"hours": ()}, {"max_minutes_per_day": 0.01}])
def test_outside_its_limits_nobody_listens(site: Site, keys: dict[str, Any]) -> None:
    with site.offering(**keys) as offered:
        assert offered.state()[0] is offered_tests.OfferState.CLOSED
        assert "Connection refused" in site.measure("-t", "1")["error"]


def test_a_stranger_gets_no_answer(site: Site) -> None:
    before = site.received_segments("stranger")
    with site.offering(networks=Networks(forbidden=("10.9.1.2/32",))):
        site.wait_open()
        alone = site.measure("--connect-timeout", "500", end="stranger")
        forbidden_client = site.measure("--connect-timeout", "500")
        site.slot(begins_in_s=0)
        site.wait_busy()
        while_busy = site.measure("--connect-timeout", "500", end="stranger", family=6)

        assert site.own_tests.periods() == []
    assert all("timed out" in result["error"] for result in (alone, forbidden_client, while_busy))
    assert site.received_segments("stranger") == before


def test_without_clients_no_server_runs() -> None:
    offered = OfferedTests(Limits(), Usage(Limits()), OwnTests(), lambda: None)

    offered.run(threading.Event())

    assert Iperf3ServerLimits().clients == ()
    assert offered.problem is None

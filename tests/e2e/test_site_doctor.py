"""The doctor at a site whose centre, peers and folder are broken in turn; all of it on loopback."""

import contextlib
import importlib.util
import json
import os
import shutil
import socket
import threading
import time
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from probes.__main__ import main
from probes.packets.spec import PingSpec, PingTarget
from probes.ping.spec import PingTask
from probes.site import command
from probes.site.doctor import check_network
from probes.site.doctor.check_network import check_ports
from probes.site.doctor.run import check_kinds
from probes.site.doctor.site_setup import SiteSetup
from probes.site.limits.limits import Limits
from probes.site.limits.networks import Networks
from probes.site.plan import PlanCache
from probes.site.settings import JoinedCentre
from probes.site.wire import RECEIVED_HEADER, SENT_HEADER, Plan
from probes.throughput.spec import ThroughputSlot
from probes.transfers.spec import ThroughputSpec
from tests.unit.site.test_deliver import FakeCentre

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 and not os.environ.get("CI"), reason="ICMP sockets need root or ping_group_range"
)

SOON = datetime.now(UTC) + timedelta(hours=1)
CHECKS = {
    "data folder", "token", "iperf3", "ip", "privileges", "ping_group_range", "ICMP over IPv4",
    "ICMP over IPv6", "centre", "clock", "DNS", "permitted", "MTU", "ports",
}  # fmt: skip


@pytest.fixture
def centre():
    with FakeCentre() as fake:
        fake.plan = Plan(version="v1", site="cern", mesh="test")
        thread = threading.Thread(target=fake.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield fake
        fake.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "token").write_text("s3cret-token\n")
    (tmp_path / "token").chmod(0o600)
    return tmp_path


@pytest.fixture
def examine(folder, capsys):
    """Run the doctor and return its results by check."""

    def run(*arguments):
        status = main(["site", "doctor", "--data", str(folder), "--json", *arguments])
        out = capsys.readouterr().out
        findings = json.loads(out)
        assert status == (1 if any(finding["mend"] for finding in findings) else 0)
        assert "s3cret-token" not in out
        return {finding["check"]: finding for finding in findings}

    return run


def slot(role, port, address="127.0.0.1"):
    return ThroughputSlot(
        slot_id=port,
        path_id=7,
        test="tcp",
        role=role,
        starts_at=SOON,
        ends_at=SOON + timedelta(seconds=30),
        spec=ThroughputSpec(address=address, port=port),
    )


def ping(*targets, packet_bytes=(100, 1000)):
    return PingTask(test="pinger", every_s=60, spec=PingSpec(targets=targets, packet_bytes=packet_bytes))


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_healthy_site_needs_only_fixes_of_the_machine(examine, centre, folder):
    centre.plan = Plan(version="v1", site="cern", mesh="test", ping=(ping(PingTarget(address="127.0.0.1")),))
    (folder / "limits.toml").write_text('[networks]\nallowed = ["127.0.0.0/8"]\n')

    findings = examine("--centre", centre.url)

    assert findings.keys() == CHECKS
    assert findings["centre"]["found"] == "site cern; plan v1"
    assert "3 of 3 replies from 127.0.0.1" in findings["ICMP over IPv4"]["found"]
    machines_own = {"clock", "ICMP over IPv6"}
    assert {check: result for check, result in findings.items() if result["mend"] and check not in machines_own} == {}


def test_a_site_that_has_not_joined_is_told_how(examine, folder):
    (folder / "token").unlink()

    findings = examine()

    assert "python -m probes site join URL CODE" in findings["centre"]["mend"]
    assert "join" in findings["token"]["mend"]


@pytest.fixture
def started(folder, centre, monkeypatch):
    """Start the agent with a centre and a token file elsewhere, up to its supervisor."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    token = (folder / "token").rename(elsewhere / "token")
    monkeypatch.setattr(command, "_become_supervisor", lambda settings, lock, metrics: None)
    monkeypatch.setattr(os, "umask", lambda mask: mask)
    options = ["--centre", centre.url, "--token-file", str(token)]
    centre.plan = Plan(version="v1", site="cern", mesh="test")
    return lambda: main(["site", "--data", str(folder), *options])


def test_the_doctor_uses_the_options_of_the_running_agent(examine, folder, started):
    started()

    findings = examine()

    assert (findings["centre"]["found"], findings["centre"]["mend"]) == ("site cern; plan v1", None)
    assert findings["token"]["mend"] is None


def test_a_newly_joined_centre_replaces_those_options(examine, folder, started):
    started()
    joined = JoinedCentre(centre=f"http://127.0.0.1:{free_port()}", site="cern")
    (folder / "token").write_text("s3cret-token\n")
    (folder / "centre.json").write_bytes(msgspec.json.encode(joined))
    os.utime(folder / "centre.json", (time.time() + 1, time.time() + 1))

    assert joined.centre.removeprefix("http://") in examine()["centre"]["found"]


@pytest.mark.parametrize(
    ("answer", "mend"),
    [((401, b"no"), "site rotate NAME"), ((503, b"", [("Retry-After", "7")]), "ask the centre's operator")],
)
def test_the_centres_answer_is_reported_with_a_fix(examine, centre, answer, mend):
    centre.answers = [answer]

    finding = examine("--centre", centre.url)["centre"]

    assert f"answered {answer[0]}" in finding["found"]
    assert mend in finding["mend"]


def test_without_the_centre_the_stored_plan_is_checked(examine, folder):
    PlanCache(folder / "plan.json").store(
        Plan(version="v0", site="cern", mesh="test", ping=(ping(PingTarget(address="127.0.0.1")),))
    )

    findings = examine("--centre", f"http://127.0.0.1:{free_port()}")

    assert "Connection refused" in findings["centre"]["found"]
    assert "firewalls" in findings["centre"]["mend"]
    assert "1 of 1 targets" in findings["MTU"]["found"]


def test_plain_http_to_another_machine_is_reported_and_not_sent(examine):
    finding = examine("--centre", "http://centre.example")["centre"]

    assert "would show the token" in finding["found"]


def test_a_clock_offset_from_the_centre_is_reported(examine, centre):
    def shifted(self):
        for name in (RECEIVED_HEADER, SENT_HEADER):
            self.send_header(name, f"{time.time() - 90:.6f}")
        type(self).__base__.end_headers(self)

    plain = centre.RequestHandlerClass
    centre.RequestHandlerClass = type("Shifted", (plain,), {"end_headers": shifted})

    finding = examine("--centre", centre.url)["clock and centre"]

    assert float(finding["found"].split()[0]) == pytest.approx(90.0, abs=1.0)
    assert "flagged" in finding["mend"]


def test_a_readable_token_and_wrong_limits_are_reported(examine, folder):
    (folder / "token").chmod(0o644)
    (folder / "limits.toml").write_text("[ping]\nmax = 1\n")

    findings = examine("--limits", str(folder / "limits.toml"))

    assert "chmod 600" in findings["token"]["mend"]
    assert "unknown" in findings["limits"]["found"]


def test_a_missing_folder_is_reported(capsys, tmp_path):
    assert main(["site", "doctor", "--data", str(tmp_path / "none")]) == 1

    assert "No such file or directory" in capsys.readouterr().out


def test_missing_programs_are_reported_with_their_packages(examine, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    findings = examine()

    assert "apt-get install iperf3" in findings["iperf3"]["mend"]
    assert "apt-get install iproute2" in findings["ip"]["mend"]


def test_a_name_without_an_address_is_reported(examine, centre):
    """A label of 64 characters is invalid, so no name server is queried."""
    name = f"{'x' * 64}.example"
    centre.plan = Plan(version="v1", site="cern", mesh="test", ping=(ping(PingTarget(address=name)),))

    finding = examine("--centre", centre.url)["DNS"]

    assert finding["found"].startswith(f"{name} (IPv4)")
    assert "mesh.toml" in finding["mend"]


LOOPBACK = Networks(allowed=("127.0.0.0/8", "::1/128"))


def examined(folder, plan, limits=None):
    return SiteSetup(
        data=folder,
        token_file=folder / "token",
        limits_file=None,
        limits=limits if limits is not None else Limits(networks=LOOPBACK),
        centre=None,
        answer=None,
        cached_plan=plan,
    )


def test_pings_too_large_for_the_interface_are_reported(folder):
    """Loopback accepts packets of 65,536 bytes; the largest ICMP payload of IPv4 is more with IPv6's headers."""
    task = ping(PingTarget(address="::1", family=6), PingTarget(address="127.0.0.1"), packet_bytes=(100, 65_507))
    plan = Plan(version="v1", site="cern", mesh="test", ping=(task,))

    findings = list(check_kinds(examined(folder, plan)))

    assert [finding.detail for finding in findings] == [
        "::1: packets of 65555 bytes do not fit the path MTU of 65536",
        "large enough to 1 of 2 targets, as far as the kernel knows",
    ]
    assert "raise the MTU" in findings[0].fix


def test_ports_are_distinguished_by_their_servers(folder, listener, monkeypatch):
    monkeypatch.setattr(check_network, "CONNECT_TIMEOUT_S", 0.2)
    taken, nobodys = listener.getsockname()[1], free_port()
    plan = Plan(
        version="v1",
        site="cern",
        mesh="test",
        throughput=(
            slot("server", taken),
            slot("server", nobodys),
            slot("client", taken),
            slot("client", nobodys, address="127.9.9.1"),
            slot("client", nobodys, address="127.9.9.2"),
        ),
    )
    limits = Limits(networks=msgspec.structs.replace(LOOPBACK, forbidden=("127.9.9.2/32",)))

    findings = {finding.detail: finding for finding in check_ports(examined(folder, plan, limits))}

    assert set(findings) == {
        f"our port {taken}: Address already in use",
        f"our port {nobodys} is free for tests; let it pass this site's firewall",
        f"127.0.0.1 port {taken} is reachable",
        f"127.9.9.1 port {nobodys} is reachable; nobody listens between tests",
    }
    assert [result.detail for result in findings.values() if not result.is_good] == [
        f"our port {taken}: Address already in use"
    ]


def test_a_peer_that_does_not_answer_is_behind_a_firewall(folder, monkeypatch):
    """A listener with a full queue drops packets, as a firewall does."""
    monkeypatch.setattr(check_network, "CONNECT_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as queue:
        for _ in range(2):
            waiting = queue.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        plan = Plan(version="v1", site="cern", mesh="test", throughput=(slot("client", full.getsockname()[1]),))

        (finding,) = check_ports(examined(folder, plan))

    assert finding.detail.endswith(": no answer")
    assert "firewalls" in finding.fix

"""Counters of interfaces: of the kernel, in a network namespace of its own, and of Debian's snmpd."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time

import pytest

from probes.contract import Deadline, Outcome, ProbeError
from probes.interface import snmp
from probes.interface.counters import Readings
from probes.interface.kind import KIND
from probes.interface.limits import SnmpRouter
from probes.interface.polled import PolledSpec
from probes.interface.probe import InterfaceProbe
from probes.interface.spec import InterfaceTarget
from probes.site.limits.read import read_limits

ON_LOOPBACK = """
import json, socket, sys
from probes.interface import kernel
from probes.packets.egress import ANY
before = kernel.read("127.0.0.1", 4, ANY)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    for _ in range(100):
        sender.sendto(bytes(972), ("127.0.0.1", 9))
after = kernel.read("127.0.0.1", 4, ANY)
try:
    kernel.read("192.0.2.1", 4, ANY)
except Exception as error:
    print(json.dumps([before.name, after.out_octets - before.out_octets, after.in_drops, type(error).__name__]))
"""
SNMPD = """
rocommunity {community} 127.0.0.1
createUser soundings SHA-256 "{password}" AES "{privacy}"
rouser soundings priv
interface lo 24 4000000000
"""
"""Loopback with the speed of a fast link: it says 10 Mbit/s of itself, and more counts as counters that began anew."""
COMMUNITY, PASSWORD, PRIVACY = "quite-secret-community", "long-and-winding", "road-to-nowhere"


def test_the_kernels_counters_are_those_of_the_own_namespace(namespaces_required):
    """100 datagrams of 1,000 bytes and 14 of Ethernet header, and no port unreachable counted in between."""
    run = subprocess.run(
        ["unshare", "-rn", "sh", "-c", f'ip link set lo up && exec {sys.executable} -c "$0"', ON_LOOPBACK],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    name, octets, drops, without_route = json.loads(run.stdout)

    assert (name, drops, without_route) == ("lo", 0, "NoRoute")
    # Each is answered by a port unreachable of at most 576 bytes; the kernel limits their rate.
    assert 100 * 1014 <= octets <= 100 * (1014 + 590)


@pytest.fixture(scope="module")
def snmpd(tmp_path_factory):
    """A running snmpd on loopback: its port, and the folder with the secrets."""
    program = shutil.which("snmpd", path="/usr/sbin:/usr/bin")
    assert program, "snmpd is missing: make system-test"
    folder = tmp_path_factory.mktemp("snmpd")
    for name, text in {
        "community": COMMUNITY,
        "password": PASSWORD,
        "privacy": f"{PRIVACY}\n",
        "wrong": "x" * 9,
    }.items():
        (folder / name).write_text(text)
    (folder / "snmpd.conf").write_text(SNMPD.format(community=COMMUNITY, password=PASSWORD, privacy=PRIVACY))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "-f", "-Lo", "-C", "-c", str(folder / "snmpd.conf"), "-p", str(folder / "pid")]
    process = subprocess.Popen(
        [*command, f"udp:127.0.0.1:{port}"],
        env={"SNMP_PERSISTENT_DIR": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )
    try:
        deadline = Deadline(60)
        while True:
            try:
                snmp.read("127.0.0.1", "lo", v2c(port, folder), Deadline(10))
                break
            except ProbeError:
                assert process.poll() is None, "snmpd ended"
                assert not deadline.passed
        yield port, folder
    finally:
        process.terminate()
        process.wait(20)


def v2c(port, folder, name="community"):
    return SnmpRouter(networks=("127.0.0.1/32",), community_file=str(folder / name), port=port)


def v3(port, folder, privacy="privacy"):
    return SnmpRouter(
        networks=("127.0.0.1/32",),
        version="3",
        user="soundings",
        authentication_file=str(folder / "password"),
        privacy_file=str(folder / privacy),
        port=port,
    )


@pytest.mark.parametrize("credentials", [v2c, v3])
def test_a_real_snmp_agent_gives_the_use_of_an_interface(snmpd, credentials):
    """Octets that were sent on loopback are counted by both ends of it; snmpd refreshes its counters now and then."""
    router = credentials(*snmpd)
    probe = InterfaceProbe(Readings())
    spec = PolledSpec(
        targets=(InterfaceTarget(address="127.0.0.1", path_id=1),),
        router="127.0.0.1",
        interface="lo",
        credentials=router,
    )
    [first] = probe.run(spec, Deadline(20))
    assert (first.outcome, first.interface, first.in_bps) == (Outcome.MEASURED, "lo", None), first
    octets, deadline, use = 0.0, Deadline(60), None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        while octets < 2_000_000 and not deadline.passed:
            for _ in range(100):
                sender.sendto(bytes(4_000), ("127.0.0.1", 9))
            time.sleep(0.2)
            [use] = probe.run(spec, Deadline(20))
            if use.out_bps is not None:
                octets += use.out_bps * use.interval_s / 8

    assert octets >= 2_000_000
    assert use.out_errors == 0
    assert use.router == "127.0.0.1"


def test_wrong_secrets_and_names_fail_without_showing_secrets(snmpd, caplog, monkeypatch):
    port, folder = snmpd
    monkeypatch.setattr(snmp, "RETRIES", 0)
    monkeypatch.setattr(snmp, "TIMEOUT_S", 1.0)
    said = []
    for interface, router in [
        ("lo", v2c(port, folder, "wrong")), ("lo", v3(port, folder, "wrong")), ("ge-0/0/0", v2c(port, folder)),
        ("#4000000", v2c(port, folder)), ("lo", v2c(port, folder, "absent")),
    ]:  # fmt: skip
        with pytest.raises(ProbeError) as failed:
            snmp.read("127.0.0.1", interface, router, Deadline(20))
        said.append(str(failed.value))

    assert "no interface has the ifName or ifAlias 'ge-0/0/0'" in said[2]
    assert "64-bit counters" in said[3]
    assert "absent: No such file" in said[4]
    everything = " ".join(said) + caplog.text
    assert not any(text in everything for text in (COMMUNITY, PASSWORD, PRIVACY, "x" * 9))


def test_only_routers_of_the_limits_are_polled(tmp_path):
    file = tmp_path / "limits.toml"
    file.write_text('[[snmp.router]]\nnetworks = ["192.0.2.0/28"]\ncommunity_file = "/etc/soundings/community"\n')
    limits = read_limits(file)

    assert limits.snmp.forbids_router("192.0.2.1") is None
    assert "192.0.2.200 is in none" in limits.snmp.forbids_router("192.0.2.200")
    assert "192.0.2.1 is in none" in read_limits(None).snmp.forbids_router("192.0.2.1")
    assert KIND.limits["snmp"] is type(limits.snmp)

"""Checks of the host: files and their modes, programs, privileges, sockets."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from probes.commands.own_command import agent_command
from probes.contract import CheckResult, Deadline, NoRoute, Outcome, ProbeError
from probes.packets.addresses import FAMILY
from probes.packets.burst import PING
from probes.packets.icmp.channel import LINUX_PERMISSION_ADVICE, Channel
from probes.packets.spec import PingSpec, PingTarget
from probes.site.doctor.site_setup import CENTRE_TIMEOUT_S, CONNECT_TIMEOUT_S, SiteSetup
from probes.site.limits.read import LimitsError, read_limits
from probes.site.settings import (
    readable_by_others,
)
from probes.transfers.iperf3.process import MISSING as NO_IPERF3

MIN_FREE_BYTES = 512 * 2**20
CAP_NET_RAW = 13
PROCESS_STATUS = Path("/proc/self/status")
PING_GROUP_RANGE = Path("/proc/sys/net/ipv4/ping_group_range")
LOOPBACK = {4: "127.0.0.1", 6: "::1"}


def check_files(site: SiteSetup) -> Iterator[CheckResult]:
    yield _data_folder(site.data)
    if not site.token_file.exists():
        yield CheckResult(
            check="token", detail=f"{site.token_file} is not there", fix=f"join: {agent_command('join')} URL CODE"
        )
    elif readable_by_others(site.token_file):
        yield CheckResult(
            check="token",
            detail=f"others can read {site.token_file}",
            fix=f"chmod 600 {site.token_file}; then rotate it",
        )
    else:
        yield CheckResult(check="token", detail=f"{site.token_file}, readable by its owner only")
    try:
        read_limits(site.limits_file)
    except LimitsError as error:
        yield CheckResult(check="limits", detail=str(error), fix="correct the file; the agent does not start with it")


def _data_folder(data: Path) -> CheckResult:
    try:
        with tempfile.TemporaryFile(dir=data):
            room_bytes = shutil.disk_usage(data).free
    except OSError as error:
        return CheckResult(
            check="data folder", detail=f"{data}: {error.strerror}", fix="create it, owned by the agent's user"
        )
    detail = f"{data}, {room_bytes / 2**30:.1f} GiB free"
    if room_bytes < MIN_FREE_BYTES:
        return CheckResult(check="data folder", detail=detail, fix="free disk space: results that do not fit are lost")
    return CheckResult(check="data folder", detail=detail)


def check_programs(site: SiteSetup) -> Iterator[CheckResult]:
    yield _iperf3()
    path = shutil.which("ip")
    if path is None:
        detail = "not installed: throughput tests have no interface in the settings of this host"
        yield CheckResult(check="ip", detail=detail, fix="install iproute2 (Debian, Ubuntu: apt-get install iproute2)")
    else:
        yield CheckResult(check="ip", detail=path)


def _iperf3() -> CheckResult:
    path = shutil.which("iperf3")
    if path is None:
        return CheckResult(check="iperf3", detail="not installed: no throughput test will run", fix=NO_IPERF3)
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, check=True, timeout=CONNECT_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        return CheckResult(check="iperf3", detail=f"it does not start: {error}", fix="install it anew")
    return CheckResult(check="iperf3", detail=f"{path}, {said.stdout.partition('(')[0].strip()}")


def check_privileges(site: SiteSetup) -> Iterator[CheckResult]:
    """Check that this user may open ICMP sockets, by capability or group."""
    capable = has_net_raw(PROCESS_STATUS.read_text())
    group_range = PING_GROUP_RANGE.read_text() if PING_GROUP_RANGE.exists() else "1 0"
    in_range = is_in_range(group_range, {os.getegid(), *os.getgroups()})
    yield from about_privileges(capable, in_range, " ".join(group_range.split()))


def about_privileges(capable: bool, in_range: bool, group_range: str) -> Iterator[CheckResult]:
    if not (capable or in_range):
        yield CheckResult(
            check="privileges", detail="neither CAP_NET_RAW nor the group for it", fix=LINUX_PERMISSION_ADVICE
        )
    else:
        yield CheckResult(check="privileges", detail="CAP_NET_RAW" if capable else "CAP_NET_RAW not needed")
    standing = "one of our groups is in it" if in_range else "none of our groups is in it"
    yield CheckResult(
        check="ping_group_range",
        detail=f"{group_range}: {standing}{', but CAP_NET_RAW suffices' if capable and not in_range else ''}",
        fix=None if capable or in_range else LINUX_PERMISSION_ADVICE,
    )


def has_net_raw(process_status: str) -> bool:
    """Whether the effective capabilities in /proc/PID/status include CAP_NET_RAW."""
    (effective,) = [line.split()[1] for line in process_status.splitlines() if line.startswith("CapEff:")]
    return bool(int(effective, 16) >> CAP_NET_RAW & 1)


def is_in_range(group_range: str, groups: set[int]) -> bool:
    """Whether any group is within net.ipv4.ping_group_range; "1 0" is empty."""
    first, last = map(int, group_range.split())
    return any(first <= group <= last for group in groups)


def check_sockets(site: SiteSetup) -> Iterator[CheckResult]:
    """Send three echoes to ourselves; IPv6 may be missing if unneeded."""
    wanted = {family for _, family in site.names()} | {4}
    for family in FAMILY:
        check = f"ICMP over IPv{family}"
        try:
            channel = Channel(family)
        except NoRoute as error:
            fix = f"give this machine IPv{family}, or take its IPv{family} hosts out of mesh.toml"
            yield CheckResult(check=check, detail=str(error), fix=fix if family in wanted else None)
            continue
        except ProbeError as error:
            yield CheckResult(check=check, detail="no socket", fix=str(error))
            continue
        kind = "raw socket" if channel.is_raw else "datagram socket"
        channel.close()
        yield _echo(check, family, kind, needed=family in wanted)


def _echo(check: str, family: int, kind: str, *, needed: bool) -> CheckResult:
    target = PingTarget(address=LOOPBACK[family], family=4 if family == 4 else 6)
    spec = PingSpec(
        targets=(target,),
        packet_bytes=(100,),
        count=3,
        spacing_s=0.05,
        timeout_s=0.5,
        late_s=0.0,
        priming_bytes=None,
        check_rate_limit=False,
    )
    try:
        (burst,) = PING.run(spec, Deadline(CENTRE_TIMEOUT_S))
    except ProbeError as error:
        return CheckResult(check=check, detail=f"{kind}, but no echo: {error}", fix=LINUX_PERMISSION_ADVICE)
    detail = f"{kind}, {burst.received} of {burst.sent} replies from {target.address}, timestamps: {burst.stamp}"
    if burst.outcome is Outcome.MEASURED and burst.received == burst.sent:
        return CheckResult(check=check, detail=detail)
    fix = "let ICMP echo pass the firewall of this machine, loopback included" if needed else None
    return CheckResult(check=check, detail=f"{detail} {burst.detail or ''}".strip(), fix=fix)

"""`python -m probes site doctor`: looks for what is wrong with this site, and says how to mend it.

A check is a small function: what is known of the site goes in, findings come out, each with its mend where something
is wrong. Nothing is changed, and nothing is sent but the question for the plan, name look-ups, echoes to loopback and
connections to the ports of the plan that the limits allow. Exit status 0 where all is well, 1 where something is not.
Run it as the agent's user: root may do what the agent may not.
"""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from probes import broker
from probes.contract import Deadline, NoRoute, Outcome, ProbeError
from probes.disk_to_disk.scratch import DiskFailure, free_bytes, scratch_file
from probes.ping.addresses import FAMILY, SocketAddress, path_mtu_bytes
from probes.ping.burst import PING
from probes.ping.channel import LINUX_PERMISSION_ADVICE, Channel
from probes.ping.icmp_errors import HEADER_BYTES
from probes.ping.resolve import RESOLVE_S, Name, resolve
from probes.ping.spec import PingSpec, PingTarget
from probes.site import identity
from probes.site.centre import BadCertificate, Centre, CentreError
from probes.site.health import read_kernel_clock
from probes.site.limits import Limits, LimitsError, read_limits
from probes.site.plan import PlanCache
from probes.site.settings import (
    SettingsError,
    identity_file,
    limits_file,
    plan_file,
    read_joined,
    readable_by_others,
    token_file,
)
from probes.site.wire import DiskToDiskSlot, Plan
from probes.throughput.iperf3 import MISSING as NO_IPERF3

CENTRE_TIMEOUT_S = 10.0
CLOCK_EXCHANGES = 3
"""Questions more, so that the clock is told by the fastest answer."""
CONNECT_TIMEOUT_S = 3.0
CONNECTIONS_AT_ONCE = 16
LEAST_ROOM_BYTES = 512 * 2**20
LEAST_MTU_BYTES = 1280
"""What IPv6 asks of every link (RFC 8200, section 5); certificates and batches go in larger packets than that."""
SHOWN_FORBIDDEN = 3
CAP_NET_RAW = 13
PROCESS_STATUS = Path("/proc/self/status")
PING_GROUP_RANGE = Path("/proc/sys/net/ipv4/ping_group_range")
LOOPBACK = {4: "127.0.0.1", 6: "::1"}
NOBODY_LISTENS = (errno.ECONNREFUSED,)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found; `mend` says what to do, and is None where all is well."""

    check: str
    found: str
    mend: str | None = None

    @property
    def is_good(self) -> bool:
        return self.mend is None


@dataclass(frozen=True, slots=True)
class Examined:
    """What is known of the site. `answer` is the centre's to the question for the plan: a plan, why there is none, or
    None where no centre is known."""

    data: Path
    token_file: Path
    limits_file: Path | None
    limits: Limits
    centre: Centre | None
    answer: Plan | CentreError | None
    kept_plan: Plan | None

    @property
    def plan(self) -> Plan | None:
        return self.answer if isinstance(self.answer, Plan) else self.kept_plan

    def names(self) -> set[Name]:
        """All that the plan names to be measured from here, by family."""
        if self.plan is None:
            return set()
        targets = {(target.address, target.family) for task in self.plan.ping for target in task.spec.targets}
        targets |= {(one.spec.address, one.spec.family) for task in self.plan.capacity for one in task.targets}
        return targets | {(slot.spec.address, slot.spec.family) for slot in self.plan.slots}


Check = Callable[[Examined], Iterable[Finding]]


def run(args: argparse.Namespace) -> int:
    """Print the findings; 0 where all are good."""
    findings = examine(_examined(args))
    print(msgspec.json.encode(findings).decode() if args.json else "\n".join(lines(findings)))
    return 0 if all(finding.is_good for finding in findings) else 1


def examine(site: Examined) -> list[Finding]:
    """All checks, one after the other."""
    return [finding for check in CHECKS for finding in check(site)]


def lines(findings: list[Finding]) -> list[str]:
    """For people."""
    shown = []
    for finding in findings:
        shown.append(f"{'ok ' if finding.is_good else 'BAD'} {finding.check:<16} {finding.found}")
        if finding.mend is not None:
            shown.append(f"    {'':<16} mend: {finding.mend}")
    return shown


def _examined(args: argparse.Namespace) -> Examined:
    data = args.data.resolve()
    token = args.token_file or token_file(data)
    file = limits_file(data, args.limits)
    try:
        limits = read_limits(file)
    except LimitsError:  # told by the check of files
        limits = Limits()
    centre, answer = _ask(args.centre, data, token, allow_plain_http=args.allow_plain_http)
    kept_plan = PlanCache(plan_file(data)).current()
    return Examined(data, token, file, limits, centre, answer, kept_plan)


def _ask(
    url: str | None, data: Path, token: Path, *, allow_plain_http: bool
) -> tuple[Centre | None, Plan | CentreError | None]:
    """The centre, and what it answers when it is asked for the plan."""
    try:
        joined = read_joined(data) if url is None else None
        if joined is not None:
            url, allow_plain_http = joined.centre, allow_plain_http or joined.allow_plain_http
        if url is None:
            return None, None
        who = identity.read(identity_file(data))
        centre = Centre(
            url,
            token,
            allow_plain_http=allow_plain_http,
            timeout_s=CENTRE_TIMEOUT_S,
            identity=None if who is None else str(who),
        )
    except SettingsError as error:
        return None, CentreError(str(error))
    try:
        plan = centre.plan(None)
        for _ in range(CLOCK_EXCHANGES):
            centre.plan(None if plan is None else plan.version)
    except CentreError as error:
        return centre, error
    return centre, plan


def check_files(site: Examined) -> Iterator[Finding]:
    """The data folder, the token, the limits."""
    yield _data_folder(site.data)
    if not site.token_file.exists():
        yield Finding(
            check="token", found=f"{site.token_file} is not there", mend="join: python -m probes site join URL CODE"
        )
    elif readable_by_others(site.token_file):
        yield Finding(
            check="token",
            found=f"others can read {site.token_file}",
            mend=f"chmod 600 {site.token_file}; then rotate it",
        )
    else:
        yield Finding(check="token", found=f"{site.token_file}, readable by its owner only")
    try:
        read_limits(site.limits_file)
    except LimitsError as error:
        yield Finding(check="limits", found=str(error), mend="correct the file; the agent does not start with it")


def _data_folder(data: Path) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=data):
            room_bytes = shutil.disk_usage(data).free
    except OSError as error:
        return Finding(
            check="data folder", found=f"{data}: {error.strerror}", mend="make it, and give it to the agent's user"
        )
    found = f"{data}, {room_bytes / 2**30:.1f} GiB free"
    if room_bytes < LEAST_ROOM_BYTES:
        return Finding(check="data folder", found=found, mend="make room: results that find none are lost")
    return Finding(check="data folder", found=found)


def check_programs(site: Examined) -> Iterator[Finding]:
    """What the agent starts."""
    try:
        yield Finding(check="redis", found=broker.find_server())
    except broker.BrokerError as error:
        yield Finding(check="redis", found="no redis-server", mend=str(error))
    path = shutil.which("iperf3")
    if path is None:
        yield Finding(check="iperf3", found="not installed: no throughput test will run", mend=NO_IPERF3)
        return
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, check=True, timeout=CONNECT_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        yield Finding(check="iperf3", found=f"it does not start: {error}", mend="install it anew")
    else:
        yield Finding(check="iperf3", found=f"{path}, {said.stdout.partition('(')[0].strip()}")


def check_privileges(site: Examined) -> Iterator[Finding]:
    """Whether ICMP sockets are ours to open, by the capability or by the group."""
    capable = has_net_raw(PROCESS_STATUS.read_text())
    group_range = PING_GROUP_RANGE.read_text() if PING_GROUP_RANGE.exists() else "1 0"
    in_range = is_in_range(group_range, {os.getegid(), *os.getgroups()})
    yield from about_privileges(capable, in_range, " ".join(group_range.split()))


def about_privileges(capable: bool, in_range: bool, group_range: str) -> Iterator[Finding]:
    if not (capable or in_range):
        yield Finding(
            check="privileges", found="neither CAP_NET_RAW nor the group for it", mend=LINUX_PERMISSION_ADVICE
        )
    else:
        yield Finding(check="privileges", found="CAP_NET_RAW" if capable else "no capability, and none is needed")
    standing = "a group of ours is in it" if in_range else "no group of ours is in it"
    yield Finding(
        check="ping_group_range",
        found=f"{group_range}: {standing}{', CAP_NET_RAW does instead' if capable and not in_range else ''}",
        mend=None if capable or in_range else LINUX_PERMISSION_ADVICE,
    )


def has_net_raw(process_status: str) -> bool:
    """By the effective capabilities in /proc/PID/status."""
    (effective,) = [line.split()[1] for line in process_status.splitlines() if line.startswith("CapEff:")]
    return bool(int(effective, 16) >> CAP_NET_RAW & 1)


def is_in_range(group_range: str, groups: set[int]) -> bool:
    """Whether one of the groups is within net.ipv4.ping_group_range; "1 0" has nobody."""
    first, last = map(int, group_range.split())
    return any(first <= group <= last for group in groups)


def check_sockets(site: Examined) -> Iterator[Finding]:
    """Open a socket of each family and send three echoes to ourselves. A machine may have no IPv6 if nobody asks it."""
    wanted = {family for _, family in site.names()} | {4}
    for family in FAMILY:
        check = f"ICMP over IPv{family}"
        try:
            channel = Channel(family)
        except NoRoute as error:
            mend = f"give this machine IPv{family}, or take its IPv{family} hosts out of mesh.toml"
            yield Finding(check=check, found=str(error), mend=mend if family in wanted else None)
            continue
        except ProbeError as error:
            yield Finding(check=check, found="no socket", mend=str(error))
            continue
        kind = "raw socket" if channel.is_raw else "datagram socket"
        channel.close()
        yield _echo(check, family, kind, needed=family in wanted)


def _echo(check: str, family: int, kind: str, *, needed: bool) -> Finding:
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
        return Finding(check=check, found=f"{kind}, but no echo: {error}", mend=LINUX_PERMISSION_ADVICE)
    found = f"{kind}, {burst.received} of {burst.sent} echoes to {target.address} came back, stamped by: {burst.stamp}"
    if burst.outcome is Outcome.MEASURED and burst.received == burst.sent:
        return Finding(check=check, found=found)
    mend = "let ICMP echo pass the firewall of this machine, loopback included" if needed else None
    return Finding(check=check, found=f"{found} {burst.detail or ''}".strip(), mend=mend)


def check_centre(site: Examined) -> Iterator[Finding]:
    """Whether it answers, is who it should be, and knows us."""
    answer = site.answer
    if answer is None:
        yield Finding(check="centre", found="this site has joined none", mend="python -m probes site join URL CODE")
    elif isinstance(answer, Plan):
        yield Finding(check="centre", found=f"it knows us as {answer.site}; plan {answer.version}")
    else:
        yield Finding(check="centre", found=str(answer), mend=_mend(answer))


def _mend(error: CentreError) -> str:
    if isinstance(error, BadCertificate):
        return "renew the centre's certificate, or name the CA's in SSL_CERT_FILE; see that the clock is right"
    if error.status == 401:
        return "at the centre: `manage.py site rotate NAME`; here: run the command that it prints"
    if error.status == 409:
        return (
            "stop one of the two agents; where this one is to take the other's place, at the centre: `manage.py site"
            " rotate NAME`, here: run the command that it prints"
        )
    if error.status is None:
        return "check the address, the name service and the firewalls between; measuring goes on meanwhile"
    return "ask the centre's operator"


def check_clock(site: Examined) -> Iterator[Finding]:
    """By the kernel, and by the centre."""
    kernel = read_kernel_clock()
    ntp = "let NTP keep the clock: timedatectl set-ntp true, or install chrony"
    if kernel is None:
        yield Finding(check="clock", found="the kernel does not tell how it keeps the clock (a sandbox may forbid it)")
    else:
        kept = "kept by NTP" if kernel.is_synchronised else "kept by no NTP"
        found = f"{kept} (adjtimex: {kernel.state}, error at most {kernel.max_error_s:.3f} s)"
        yield Finding(check="clock", found=found, mend=None if kernel.is_synchronised else ntp)
    offset = None if site.centre is None else site.centre.clock.offset()
    if offset is not None:
        found = f"{offset.seconds:+.3f} s from the centre's, ± {offset.uncertainty_s:.3f} s"
        mend = f"{ntp}; until then all results are flagged" if offset.is_surely_off else None
        yield Finding(check="clock and centre", found=found, mend=mend)


def check_names(site: Examined) -> Iterator[Finding]:
    """Whether all names of the plan, and the centre's, have an address."""
    names = site.names()
    host = None if site.centre is None else urlsplit(site.centre.url).hostname
    answers = resolve(names, Deadline(RESOLVE_S))
    lost = {name: answer for name, answer in answers.items() if isinstance(answer, ProbeError)}
    for (name, family), error in sorted(lost.items()):
        yield Finding(
            check="DNS",
            found=f"{name} (IPv{family}): {error}",
            mend="check /etc/resolv.conf, and the name in mesh.toml",
        )
    if host is not None:
        try:
            socket.getaddrinfo(host, None)
        except OSError as error:
            yield Finding(check="DNS", found=f"{host}, the centre: {error.strerror}", mend="check /etc/resolv.conf")
            return
    if not lost:
        of_centre = "" if host is None else " and the centre"
        yield Finding(check="DNS", found=f"{len(names)} targets{of_centre} have an address")


def check_limits(site: Examined) -> Iterator[Finding]:
    """What the limits take from the plan: no fault, but easily not what was meant."""
    rules = {name: site.limits.forbids_address(address[0]) for name, address in _addresses(site.names())}
    forbidden = [f"{name[0]} not: {rule}" for name, rule in rules.items() if rule is not None]
    found = f"{len(rules) - len(forbidden)} of {len(rules)} targets may be measured"
    yield Finding(check="permitted", found="; ".join([found, *forbidden[:SHOWN_FORBIDDEN]]))


def check_mtu(site: Examined) -> Iterator[Finding]:
    """Whether packets of the plan's sizes go whole, as far as this machine's kernel knows."""
    sizes: dict[Name, int] = {}
    for task in site.plan.ping if site.plan is not None else ():
        for target in task.spec.targets:
            key: Name = (target.address, target.family)
            sizes[key] = max(sizes.get(key, 0), *task.spec.packet_bytes)
    good = 0
    for (name, family), address in _addresses(sizes):
        mtu_bytes = path_mtu_bytes(address, family)
        wanted = max(LEAST_MTU_BYTES, sizes[name, family] + HEADER_BYTES[family])
        if mtu_bytes is None or mtu_bytes >= wanted:
            good += 1
            continue
        yield Finding(
            check="MTU",
            found=f"{name}: packets of {wanted} bytes do not fit, the way there takes {mtu_bytes}",
            mend="raise the MTU of the interface or tunnel, or ask for smaller packet_bytes in mesh.toml",
        )
    yield Finding(check="MTU", found=f"large enough to {good} of {len(sizes)} targets, as far as the kernel knows")


def check_disk(site: Examined) -> Iterator[Finding]:
    """Whether disk-to-disk tests may and can write their file."""
    folder = site.limits.disk.folder
    asked = max((slot.spec.file_bytes for slot in site.plan.disk_to_disk), default=0) if site.plan is not None else 0
    if not folder:
        if asked:
            mend = "name a folder as disk.folder in limits.toml, or let the centre plan none here"
            yield Finding(check="disk", found="the plan has disk-to-disk tests, and no folder is named", mend=mend)
        return
    try:
        with scratch_file(folder):
            rule = site.limits.forbids_file(asked) or site.limits.forbids_room(asked, free_bytes(folder))
    except DiskFailure as error:
        yield Finding(check="disk", found=str(error), mend="let the agent's user write there, or name another folder")
        return
    needed = None if rule is None else "make room, change the rule, or ask for a smaller file_bytes in mesh.toml"
    yield Finding(check="disk", found=rule or f"{folder} takes files of disk-to-disk tests", mend=needed)


def check_ports(site: Examined) -> Iterator[Finding]:
    """Whether throughput tests can get through: our ports free, the others' not behind a firewall."""
    slots = site.plan.slots if site.plan is not None else ()
    # The sender of a disk-to-disk test listens, too, for the receiver.
    for port in sorted({slot.spec.port for slot in slots if slot.role == "server" or isinstance(slot, DiskToDiskSlot)}):
        yield _own_port(port)
    peers = {((slot.spec.address, slot.spec.family), slot.spec.port) for slot in slots if slot.role == "client"}
    addresses = dict(_addresses(name for name, _ in peers))
    permitted = [
        (f"{name[0]} port {port}", name[1], (addresses[name][0], port, *addresses[name][2:]))
        for name, port in sorted(peers)
        if name in addresses and site.limits.forbids_address(addresses[name][0]) is None
    ]
    with ThreadPoolExecutor(CONNECTIONS_AT_ONCE) as pool:
        yield from pool.map(lambda peer: _peer(*peer), permitted)
    if not slots:
        yield Finding(check="ports", found="the plan has no throughput tests in the next hours")


def _addresses(names: Iterable[Name]) -> list[tuple[Name, SocketAddress]]:
    """Those that have one."""
    answers = resolve(names, Deadline(RESOLVE_S))
    return [(name, answer) for name, answer in sorted(answers.items()) if not isinstance(answer, ProbeError)]


def _own_port(port: int) -> Finding:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            return Finding(
                check="ports",
                found=f"our port {port}: {error.strerror}",
                mend=f"end what listens there (ss -ltnp 'sport = {port}'), unless it is a test of ours that runs now",
            )
    return Finding(check="ports", found=f"our port {port} is free for tests; let it pass this site's firewall")


def _peer(title: str, family: int, address: tuple[object, ...]) -> Finding:
    """A peer listens only while a test runs; that it refuses shows that the way is open."""
    with socket.socket(FAMILY[family]) as client:
        client.settimeout(CONNECT_TIMEOUT_S)
        try:
            client.connect(address)
        except OSError as error:
            if error.errno not in NOBODY_LISTENS:
                reason = "no answer" if isinstance(error, TimeoutError) else error.strerror
                mend = "open the port at both sites' firewalls for TCP"
                return Finding(check="ports", found=f"{title}: {reason}", mend=mend)
            return Finding(check="ports", found=f"{title} is reachable; nobody listens between tests")
    return Finding(check="ports", found=f"{title} is reachable")


CHECKS: tuple[Check, ...] = (
    check_files,
    check_programs,
    check_privileges,
    check_sockets,
    check_centre,
    check_clock,
    check_names,
    check_limits,
    check_mtu,
    check_disk,
    check_ports,
)

"""Checks outside the host: the centre, the clock, names, limits, ports."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from probes.commands.own_command import MANAGE, agent_command
from probes.contract import CheckResult, Deadline, ProbeError
from probes.kinds import KIND_OF_SLOT
from probes.packets.addresses import FAMILY
from probes.packets.resolve import RESOLVE_S, resolve, resolved
from probes.quantities import counted
from probes.site.delivery.centre import BadCertificate, Centre, CentreError
from probes.site.doctor.site_setup import CONNECT_TIMEOUT_S, SiteSetup
from probes.site.health import read_kernel_clock
from probes.site.limits.read import remedy
from probes.site.wire import Plan

CONNECTIONS_AT_ONCE = 16
SHOWN_FORBIDDEN = 3
NOBODY_LISTENS = (errno.ECONNREFUSED,)


def check_centre(site: SiteSetup) -> Iterator[CheckResult]:
    answer = site.answer
    if answer is None:
        yield CheckResult(
            check="centre",
            detail="not joined",
            fix=f"{agent_command('join')} URL CODE, or give --centre and --token-file",
        )
    elif isinstance(answer, Plan):
        yield CheckResult(check="centre", detail=f"site {answer.site}; plan {answer.version}")
    else:
        yield CheckResult(check="centre", detail=str(answer), fix=_mend(answer))
    if site.centre is not None and len(site.centre.urls) > 1:
        yield from _check_urls(site.centre)


def _check_urls(centre: Centre) -> Iterator[CheckResult]:
    # Check each URL by itself: the agent hides one while another answers.
    for url in centre.urls:
        try:
            centre.check(url)
        except CentreError as error:
            yield CheckResult(check="URL of centre", detail=str(error), fix=_mend(error))
        else:
            yield CheckResult(check="URL of centre", detail=f"{url} answers")


def _mend(error: CentreError) -> str:
    if isinstance(error, BadCertificate):
        return "renew the centre's certificate, or name the CA's in SSL_CERT_FILE; see that the clock is right"
    if error.status == 401:
        return f"at the centre: `{MANAGE} site rotate NAME`; here: run the command that it prints"
    if error.status == 409:
        return (
            f"stop one of the two agents; where this one is to take the other's place, at the centre: `{MANAGE} site"
            " rotate NAME`, here: run the command that it prints"
        )
    if error.status is None:
        return "check the address, DNS and firewalls; measurements continue meanwhile"
    return "ask the centre's operator"


def check_clock(site: SiteSetup) -> Iterator[CheckResult]:
    """Check the clock by the kernel's status and against the centre's."""
    kernel = read_kernel_clock()
    ntp = "synchronise the clock by NTP: timedatectl set-ntp true, or install chrony"
    if kernel is None:
        yield CheckResult(check="clock", detail="the kernel gives no clock status (a sandbox may forbid it)")
    else:
        kept = "synchronised by NTP" if kernel.is_synchronised else "not synchronised by NTP"
        detail = f"{kept} (adjtimex: {kernel.state}, error at most {kernel.max_error_s:.3f} s)"
        yield CheckResult(check="clock", detail=detail, fix=None if kernel.is_synchronised else ntp)
    offset = None if site.centre is None else site.centre.clock.offset()
    if offset is not None:
        detail = f"{offset.seconds:+.3f} s from the centre's, ± {offset.uncertainty_s:.3f} s"
        fix = f"{ntp}; until then all results are flagged" if offset.is_surely_wrong else None
        yield CheckResult(check="clock and centre", detail=detail, fix=fix)


def check_names(site: SiteSetup) -> Iterator[CheckResult]:
    names = site.names()
    urls = () if site.centre is None else site.centre.urls
    hosts = sorted({host for url in urls if (host := urlsplit(url).hostname) is not None})
    answers = resolve(names, Deadline(RESOLVE_S))
    lost = {name: answer for name, answer in answers.items() if isinstance(answer, ProbeError)}
    for (name, family), error in sorted(lost.items()):
        yield CheckResult(
            check="DNS",
            detail=f"{name} (IPv{family}): {error}",
            fix="check /etc/resolv.conf, and the name in mesh.toml",
        )
    for host in hosts:
        try:
            socket.getaddrinfo(host, None)
        except OSError as error:
            yield CheckResult(check="DNS", detail=f"{host}, the centre: {error.strerror}", fix="check /etc/resolv.conf")
            return
    if not lost:
        of_centre = " and the centre" if hosts else ""
        yield CheckResult(check="DNS", detail=f"{counted(len(names), 'target')}{of_centre} have an address")


def check_limits(site: SiteSetup) -> Iterator[CheckResult]:
    """Check that the limits allow any target."""
    addresses = {name: str(address[0]) for name, address in resolved(site.names())}
    rules = {name: rule for name, address in addresses.items() if (rule := site.limits.forbids_address(address))}
    allowed, fix = len(addresses) - len(rules), None
    if rules and not allowed:
        fix = remedy(site.limits_file, site.data, {addresses[name]: rule for name, rule in rules.items()})
    shown = [f"{name[0]} not: {rule}" for name, rule in list(rules.items())[:SHOWN_FORBIDDEN]]
    detail = f"{allowed} of {len(addresses)} targets may be measured"
    yield CheckResult(check="permitted", detail="; ".join([detail, *shown]), fix=fix)


def check_ports(site: SiteSetup) -> Iterator[CheckResult]:
    """Check that our test ports are free, and others' reachable."""
    slots = site.plan.slots if site.plan is not None else ()
    for port in sorted({slot.spec.port for slot in slots if slot.role in KIND_OF_SLOT[type(slot)].listening_roles}):
        yield _own_port(port)
    peers = {((slot.spec.address, slot.spec.family), slot.spec.port) for slot in slots if slot.role == "client"}
    addresses = dict(resolved(name for name, _ in peers))
    permitted = [
        (f"{name[0]} port {port}", name[1], (addresses[name][0], port, *addresses[name][2:]))
        for name, port in sorted(peers)
        if name in addresses and site.limits.forbids_address(addresses[name][0]) is None
    ]
    with ThreadPoolExecutor(CONNECTIONS_AT_ONCE) as pool:
        yield from pool.map(lambda peer: _peer(*peer), permitted)
    if not slots:
        yield CheckResult(check="ports", detail="the plan has no throughput tests in the next hours")


def _own_port(port: int) -> CheckResult:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            return CheckResult(
                check="ports",
                detail=f"our port {port}: {error.strerror}",
                fix=f"stop the process that listens there (ss -ltnp 'sport = {port}'), unless a test runs now",
            )
    return CheckResult(check="ports", detail=f"our port {port} is free for tests; let it pass this site's firewall")


def _peer(title: str, family: int, address: tuple[object, ...]) -> CheckResult:
    # A peer listens only during tests: its refusal shows an open way.
    with socket.socket(FAMILY[family]) as client:
        client.settimeout(CONNECT_TIMEOUT_S)
        try:
            client.connect(address)
        except OSError as error:
            if error.errno not in NOBODY_LISTENS:
                reason = "no answer" if isinstance(error, TimeoutError) else error.strerror
                fix = (
                    "open the port at both sites' firewalls for TCP, or say behind_nat = true of the host in mesh.toml"
                )
                return CheckResult(check="ports", detail=f"{title}: {reason}", fix=fix)
            return CheckResult(check="ports", detail=f"{title} is reachable; nobody listens between tests")
    return CheckResult(check="ports", detail=f"{title} is reachable")

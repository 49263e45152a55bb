"""`python -m probes site doctor`: looks for what is wrong with this site, and says how to mend it.

A check is a small function: what is known of the site goes in, findings come out, each with its mend where something
is wrong. Nothing is changed, and nothing is sent but the question for the plan, name look-ups, echoes to loopback and
connections to the ports of the plan that the limits allow. Exit status 0 where all is well, 1 where something is not.
Run it as the agent's user: root may do what the agent may not.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from probes.site import identity
from probes.site.delivery.centre import Centre, CentreError
from probes.site.doctor.check_host import check_disk, check_files, check_privileges, check_programs, check_sockets
from probes.site.doctor.check_network import (
    check_centre,
    check_clock,
    check_limits,
    check_mtu,
    check_names,
    check_ports,
)
from probes.site.doctor.check_result import CENTRE_TIMEOUT_S, Check, CheckResult, SiteSetup
from probes.site.limits.limits import Limits
from probes.site.limits.read import LimitsError, read_limits
from probes.site.plan import PlanCache
from probes.site.settings import (
    SettingsError,
    identity_file,
    limits_file,
    plan_file,
    read_joined,
    token_file,
)
from probes.site.wire import Plan

CLOCK_EXCHANGES = 3
"""Questions more, so that the clock is told by the fastest answer."""


def run(args: argparse.Namespace) -> int:
    """Print the findings; 0 where all are good."""
    findings = examine(_examined(args))
    print(msgspec.json.encode(findings).decode() if args.json else "\n".join(lines(findings)))
    return 0 if all(finding.is_good for finding in findings) else 1


def examine(site: SiteSetup) -> list[CheckResult]:
    """All checks, one after the other."""
    return [finding for check in CHECKS for finding in check(site)]


def lines(findings: list[CheckResult]) -> list[str]:
    """For people."""
    shown = []
    for finding in findings:
        shown.append(f"{'ok ' if finding.is_good else 'BAD'} {finding.check:<16} {finding.detail}")
        if finding.fix is not None:
            shown.append(f"    {'':<16} mend: {finding.fix}")
    return shown


def _examined(args: argparse.Namespace) -> SiteSetup:
    data = args.data.resolve()
    token = args.token_file or token_file(data)
    file = limits_file(data, args.limits)
    try:
        limits = read_limits(file)
    except LimitsError:  # told by the check of files
        limits = Limits()
    centre, answer = _ask(args.centre, data, token, allow_plain_http=args.allow_plain_http)
    kept_plan = PlanCache(plan_file(data)).current()
    return SiteSetup(data, token, file, limits, centre, answer, kept_plan)


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

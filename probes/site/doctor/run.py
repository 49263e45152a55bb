"""`python -m probes site doctor`: check this site's set-up, with a fix for each failure.

Changes nothing; sends only plan requests, DNS queries, loopback echoes and permitted connections. Exit status 0 if all
pass, else 1. Run it as the agent's user.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import msgspec

from probes.contract import CheckResult
from probes.kinds import KINDS
from probes.site import identity
from probes.site.delivery.centre import Centre, CentreError
from probes.site.doctor.check_host import check_files, check_privileges, check_programs, check_sockets
from probes.site.doctor.check_network import (
    check_centre,
    check_clock,
    check_limits,
    check_names,
    check_ports,
)
from probes.site.doctor.site_setup import CENTRE_TIMEOUT_S, Check, SiteSetup
from probes.site.limits.limits import Limits
from probes.site.limits.read import LimitsError, read_limits
from probes.site.plan import PlanCache
from probes.site.settings import (
    SettingsError,
    identity_file,
    limits_file,
    plan_file,
    read_joined,
    read_start_options,
    split_urls,
    token_file,
)
from probes.site.wire import Plan
from probes.stamp.check import check_reflector

# Further requests: the fastest gives the best estimate of the clock offset.
CLOCK_EXCHANGES = 3


def run(args: argparse.Namespace) -> int:
    """Returns 0 if all checks pass."""
    given = {"centre": args.centre, "token": args.token_file, "limits": args.limits}
    findings = examine(read_setup(args.data.resolve(), **given, allow_plain_http=args.allow_plain_http))
    print(msgspec.json.encode(findings).decode() if args.json else "\n".join(lines(findings)))
    return 0 if all(finding.is_good for finding in findings) else 1


def examine(site: SiteSetup) -> list[CheckResult]:
    return [finding for check in CHECKS for finding in check(site)]


def lines(findings: list[CheckResult]) -> list[str]:
    shown = []
    for finding in findings:
        shown.append(f"{'OK  ' if finding.is_good else 'FAIL'} {finding.check:<16} {finding.detail}")
        if finding.fix is not None:
            shown.append(f"{'':<22}fix: {finding.fix}")
    return shown


def read_setup(
    data: Path,
    *,
    centre: str | None = None,
    token: Path | None = None,
    limits: Path | None = None,
    allow_plain_http: bool = False,
) -> SiteSetup:
    """The set-up of a data folder; defaults are the latest start's options, else the joined centre's."""
    start = read_start_options(data)
    token = token or (token_file(data) if start is None else Path(start.token_file))
    given_limits = limits or (None if start is None or start.limits_file is None else Path(start.limits_file))
    file = limits_file(data, given_limits)
    try:
        in_force = read_limits(file)
    except LimitsError:  # reported by check_files
        in_force = Limits()
    asked, answer = _ask(centre, data, token, allow_plain_http=allow_plain_http)
    cached_plan = PlanCache(plan_file(data)).current()
    return SiteSetup(data, token, file, in_force, asked, answer, cached_plan)


def _ask(
    given: str | None, data: Path, token: Path, *, allow_plain_http: bool
) -> tuple[Centre | None, Plan | CentreError | None]:
    try:
        kept = None if given is not None else read_start_options(data) or read_joined(data)
        if kept is not None:
            urls, allow_plain_http = (kept.centre, *kept.further_urls), allow_plain_http or kept.allow_plain_http
        elif given is not None:
            urls = split_urls(given)
        else:
            return None, None
        who = identity.read(identity_file(data))
        centre = Centre(
            urls[0],
            token,
            further_urls=urls[1:],
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


def check_kinds(site: SiteSetup) -> Iterator[CheckResult]:
    for kind in KINDS.values():
        yield from kind.check(site.limits, () if site.plan is None else site.plan.of(kind))


def check_stamp_reflector(site: SiteSetup) -> Iterator[CheckResult]:
    if site.plan is not None:
        yield from check_reflector(site.limits.stamp, site.plan.reflector)


CHECKS: tuple[Check, ...] = (
    check_files,
    check_programs,
    check_privileges,
    check_sockets,
    check_centre,
    check_clock,
    check_names,
    check_limits,
    check_kinds,
    check_stamp_reflector,
    check_ports,
)

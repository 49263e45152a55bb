"""`python -m probes site join URL CODE`: exchange the single-use code for the site's token, readable by its owner only.

All else is checked first, so that a failure does not use up the code.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import msgspec

import probes
from probes.site import service
from probes.site.delivery.centre import BadCertificate, Centre, CentreError
from probes.site.delivery.centre_clock import CentreClock
from probes.site.doctor.check_network import check_limits
from probes.site.doctor.run import read_setup
from probes.site.settings import JoinedCentre, SettingsError, joined_file, split_urls, token_file
from probes.site.versions import is_older
from probes.site.wire import Enrolment, EnrolmentRequest

TIMEOUT_S = 15.0
# The fastest sets the clock; the first may wait for a centre that has just started.
EXCHANGES = 4


class JoinFailure(StrEnum):
    """The reason why a site could not join."""

    UNREACHABLE = "unreachable"
    CERTIFICATE = "certificate"
    CODE = "code"
    CLOCK = "clock"
    VERSION = "version"
    REFUSED = "refused"


FAILURE_OF_STATUS = {403: JoinFailure.CODE, 404: JoinFailure.UNREACHABLE, 426: JoinFailure.VERSION}


class JoinError(Exception):
    """The site has not joined; the message has the reason and a fix."""

    def __init__(self, failure: JoinFailure, message: str) -> None:
        super().__init__(f"{failure.value}: {message}")
        self.failure = failure


def run(args: argparse.Namespace) -> int:
    """Returns the exit status: 0 joined, 1 failed."""
    code = sys.stdin.readline() if args.code == "-" else args.code
    try:
        enrolment = join(args.url, code.strip(), args.data.resolve(), allow_plain_http=args.allow_plain_http)
    except PermissionError:
        raise
    except (JoinError, SettingsError, OSError) as error:
        print(f"site: join: {error}", file=sys.stderr)
        return 1
    print(f"site: {enrolment.site} has joined {args.url}; the token is in {token_file(args.data.resolve())}")
    for finding in check_limits(read_setup(args.data.resolve(), allow_plain_http=args.allow_plain_http)):
        if not finding.is_good:
            print(f"site: warning: {finding.detail}; {finding.fix}")
    started = service.start_after_join(args.data)
    if started is not None:
        print(f"site: {started}")
    return 0


def join(
    urls: str, code: str, data: Path, *, allow_plain_http: bool = False, clock: CentreClock | None = None
) -> Enrolment:
    """Redeem `code` at the first of `urls` that answers; write token and URLs to `data`.

    Raises `JoinError`, `SettingsError` for an address that would reveal the token, and OSError for the folder.
    """
    url, *further_urls = split_urls(urls)
    centre = Centre(
        url, None, further_urls=further_urls, allow_plain_http=allow_plain_http, timeout_s=TIMEOUT_S, clock=clock
    )
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_before_redeeming(centre)
    fresh = _open_private(token_file(data))
    try:
        enrolment = _redeem(centre, code)
        _write(fresh, f"{enrolment.token}\n".encode(), token_file(data))
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    joined = JoinedCentre(
        centre=url, further_urls=tuple(further_urls), site=enrolment.site, allow_plain_http=allow_plain_http
    )
    _write(_open_private(joined_file(data)), msgspec.json.encode(joined), joined_file(data))
    return enrolment


def _check_before_redeeming(centre: Centre) -> None:
    try:
        welcome = [centre.welcome() for _ in range(EXCHANGES)][-1]
    except CentreError as error:
        raise _join_error(error) from error
    if is_older(probes.__version__, welcome.oldest_agent_version):
        raise JoinError(
            JoinFailure.VERSION,
            f"too old: this agent is {probes.__version__}, the centre requires {welcome.oldest_agent_version} or later;"
            " install a newer version",
        )
    offset = centre.clock.offset()
    if offset is not None and offset.is_surely_wrong:
        way = "ahead of" if offset.seconds > 0 else "behind"
        raise JoinError(
            JoinFailure.CLOCK,
            f"off by {abs(offset.seconds):.1f} s: this machine's clock is {way} the centre's; synchronise it by"
            " NTP (timedatectl set-ntp true) and retry: the code remains valid",
        )


def _redeem(centre: Centre, code: str) -> Enrolment:
    try:
        return centre.enrol(EnrolmentRequest(code=code, agent_version=probes.__version__))
    except CentreError as error:
        raise _join_error(error) from error


def _join_error(error: CentreError) -> JoinError:
    if isinstance(error, BadCertificate):
        now = datetime.now(UTC).isoformat(" ", "seconds")
        return JoinError(
            JoinFailure.CERTIFICATE,
            f"{error}; correct the certificate at the centre, or install the CA's certificate here (SSL_CERT_FILE);"
            f" the clock here is at {now}",
        )
    if error.status is None:
        return JoinError(JoinFailure.UNREACHABLE, f"{error}; check the address, DNS and firewalls")
    return JoinError(FAILURE_OF_STATUS.get(error.status, JoinFailure.REFUSED), error.reason or str(error))


def _open_private(path: Path) -> Path:
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    return fresh


def _write(fresh: Path, content: bytes, path: Path) -> None:
    """Write `fresh` and rename it to `path`; under root the folder's owner gets the file."""
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.chown(fresh, owner.st_uid, owner.st_gid)
    fresh.replace(path)

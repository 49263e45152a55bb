"""`python -m probes site join URL CODE`: a site joins a centre.

The single-use code is exchanged for the site's token, which is stored in the data folder, readable by its owner only,
with the centre's address; from then on `python -m probes site` needs no options. Everything that can be checked
without the code is checked first, so that a failure does not use it up. The kind of a failure is the first word of its
message.
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
from probes.site.delivery.centre import BadCertificate, Centre, CentreError
from probes.site.delivery.centre_clock import CentreClock
from probes.site.settings import JoinedCentre, SettingsError, joined_file, token_file
from probes.site.versions import is_older
from probes.site.wire import Enrolment, EnrolmentRequest

TIMEOUT_S = 15.0
EXCHANGES = 4
"""The clock goes by the fastest; the first of all may wait for a centre that has just been started."""


class Failure(StrEnum):
    """Why a site could not join."""

    UNREACHABLE = "unreachable"
    CERTIFICATE = "certificate"
    CODE = "code"
    CLOCK = "clock"
    VERSION = "version"
    REFUSED = "refused"


FAILURE_OF_STATUS = {403: Failure.CODE, 404: Failure.UNREACHABLE, 426: Failure.VERSION}


class JoinError(Exception):
    """The site has not joined; the message says why, and how to fix it."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(f"{failure.value}: {message}")
        self.failure = failure


def run(args: argparse.Namespace) -> int:
    """0 when the site has joined, 1 when it could not."""
    code = sys.stdin.readline() if args.code == "-" else args.code
    try:
        enrolment = join(args.url, code.strip(), args.data.resolve(), allow_plain_http=args.allow_plain_http)
    except (JoinError, SettingsError, OSError) as error:
        print(f"site: join: {error}", file=sys.stderr)
        return 1
    print(f"site: {enrolment.site} has joined {args.url}; the token is in {token_file(args.data.resolve())}")
    return 0


def join(
    url: str, code: str, data: Path, *, allow_plain_http: bool = False, clock: CentreClock | None = None
) -> Enrolment:
    """Redeem `code` and write the agent's token and centre to `data`. An earlier token there is replaced last, or not
    at all. Raises `JoinError`, `SettingsError` for an address that would show the token, and OSError for the folder."""
    centre = Centre(url, None, allow_plain_http=allow_plain_http, timeout_s=TIMEOUT_S, clock=clock)
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_before_redeeming(centre)
    fresh = _open_private(token_file(data))
    try:
        enrolment = _redeem(centre, code)
        _write(fresh, f"{enrolment.token}\n".encode(), token_file(data))
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    joined = JoinedCentre(centre=url, site=enrolment.site, allow_plain_http=allow_plain_http)
    _write(_open_private(joined_file(data)), msgspec.json.encode(joined), joined_file(data))
    return enrolment


def _check_before_redeeming(centre: Centre) -> None:
    """Everything that has to be right before the code is shown."""
    try:
        welcome = [centre.welcome() for _ in range(EXCHANGES)][-1]
    except CentreError as error:
        raise _of(error) from error
    if is_older(probes.__version__, welcome.oldest_agent_version):
        raise JoinError(
            Failure.VERSION,
            f"too old: this agent is {probes.__version__}, the centre wants {welcome.oldest_agent_version} or later;"
            " install a newer one",
        )
    offset = centre.clock.offset()
    if offset is not None and offset.is_surely_wrong:
        way = "ahead of" if offset.seconds > 0 else "behind"
        raise JoinError(
            Failure.CLOCK,
            f"off by {abs(offset.seconds):.1f} s: this machine's clock is {way} the centre's; let NTP set it"
            " (timedatectl set-ntp true), then run this again: the code still holds",
        )


def _redeem(centre: Centre, code: str) -> Enrolment:
    try:
        return centre.enrol(EnrolmentRequest(code=code, agent_version=probes.__version__))
    except CentreError as error:
        raise _of(error) from error


def _of(error: CentreError) -> JoinError:
    """The failure that an unsuccessful request is, by its status where there was an answer."""
    if isinstance(error, BadCertificate):
        now = datetime.now(UTC).isoformat(" ", "seconds")
        return JoinError(
            Failure.CERTIFICATE,
            f"{error}; mend it at the centre, or give this machine the CA's certificate (SSL_CERT_FILE); its clock"
            f" says {now}",
        )
    if error.status is None:
        return JoinError(Failure.UNREACHABLE, f"{error}; check the address, the name service and the firewalls")
    return JoinError(FAILURE_OF_STATUS.get(error.status, Failure.REFUSED), error.reason or str(error))


def _open_private(path: Path) -> Path:
    """An empty file beside `path` that only its owner can read, to take its place."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    return fresh


def _write(fresh: Path, content: bytes, path: Path) -> None:
    """Write `fresh` and let it take the place of `path`, as the folder's owner's: root may join for the user that a
    service runs as."""
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.chown(fresh, owner.st_uid, owner.st_gid)
    fresh.replace(path)

"""The centre as an agent sees it: a few HTTP requests, with the token, over verified TLS, retried by the caller."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import logging
import re
import socket
import ssl
import threading
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

try:
    import zstandard
except ImportError:  # optional dependency of a minimal agent
    zstandard = None  # type: ignore[assignment]

from probes.site.delivery.centre_clock import CentreClock
from probes.site.delivery.centre_urls import CentreUrls
from probes.site.delivery.tls import verifying_context
from probes.site.journal import DatedMessage
from probes.site.settings import UNIX, SettingsError, check_centre, read_token
from probes.site.spool.blocks import without_blocks
from probes.site.wire import (
    ABILITIES_HEADER,
    BLOCKS_SINCE,
    IDENTITY_HEADER,
    LOWEST_PROTOCOL,
    ON_DEMAND_PINGS,
    ON_DEMAND_TRACES,
    PLAN_HEADER,
    PROTOCOL,
    PROTOCOL_HEADER,
    PROTOCOLS_HEADER,
    RECEIVED_HEADER,
    SENT_HEADER,
    Batch,
    Enrolment,
    EnrolmentRequest,
    OnDemandPingReport,
    Plan,
    Receipt,
    Welcome,
)

# Timeout of an idle connection; a whole exchange may take four times as long.
TIMEOUT_S = 30.0
# Timeout of connecting, where the centre has another URL to try.
CONNECT_TIMEOUT_S = 5.0
HEALTH = "/health"
MAX_ANSWER_BYTES = 64 * 2**20
GZIP_WBITS = 31
ZSTD_LEVEL = 1
RESULTS = "/api/agent/results"
ENROL = "/api/agent/enrol"
AnswerT = TypeVar("AnswerT")
logger = logging.getLogger(__name__)
ADVICE = {
    400: "it cannot parse the request. Are agent and centre of the same version?",
    401: "it does not know this site's token; put the right token in the token file",
    403: "this site is not permitted; ask the operator of the centre",
    404: "there is no centre at this address; check --centre",
    409: "another agent works for this site; results are kept",
    413: "the batch is too large",
    415: "it cannot decompress the request; it will be retried. Are agent and centre of the same version?",
    426: "unsupported protocol version; results are kept",
    422: "it cannot parse the request. Are agent and centre of the same version?",
    429: "rate limit exceeded",
    503: "it cannot store now",
}

# Statuses with which the centre accepts nothing from this agent until a person fixes the reason.
NOT_OURS = (401, 403, 409, 426)
# Statuses of a front that cannot do its work, or of its proxy: another URL may do better.
FRONT_FAILS = (502, 503, 504)


class CentreError(Exception):
    """A request that did not succeed; `status` is None without an answer, `reason` the centre's message."""

    def __init__(
        self, message: str, *, status: int | None = None, reason: str | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s


class CentreUnreachable(CentreError):
    """The centre did not answer."""


class CentreTimeout(CentreUnreachable):
    """The answer took too long; the request may have been received."""


class BadCertificate(CentreUnreachable):
    """The server could not show that it is the centre."""


class Centre:
    """The centre at `url`, else at `further_urls`; the token file is read at each request."""

    def __init__(
        self,
        url: str,
        token_file: Path | None,
        *,
        further_urls: Sequence[str] = (),
        allow_plain_http: bool = False,
        timeout_s: float = TIMEOUT_S,
        clock: CentreClock | None = None,
        identity: str | None = None,
    ) -> None:
        for given in (url, *further_urls):
            check_centre(given, allow_plain_http)
        self.urls = CentreUrls((url, *further_urls))
        self.clock = CentreClock() if clock is None else clock
        self.refusal: DatedMessage | None = None  # why the centre accepts nothing
        self.plan_told: tuple[str, float] | None = None  # the plan's version by the newest delivery, and when
        self.protocol = LOWEST_PROTOCOL
        self._identity = identity
        self._token_file = token_file
        self._timeout_s = timeout_s

    @property
    def url(self) -> str:
        return self.urls.current

    def plan(self, version: str | None) -> Plan | None:
        """This site's plan; None if it is still that version. Raises `CentreError`."""
        headers = {ABILITIES_HEADER: f"{ON_DEMAND_PINGS}, {ON_DEMAND_TRACES}", "Accept-Encoding": "gzip"}
        if version is not None:
            headers["If-None-Match"] = f'"{version}"'
        status, body = self._request("GET", "/api/agent/plan", headers, None)
        return None if status == 304 else _decoded(body, Plan)

    def deliver(self, batch: Batch) -> Receipt:
        """Send a batch; the receipt says that it is stored. Raises `CentreError`."""
        speaks_blocks = self.protocol >= BLOCKS_SINCE
        headers, body = encode_batch(batch if speaks_blocks else without_blocks(batch))
        receipt = _decoded(self._request("POST", RESULTS, headers, body)[1], Receipt)
        if receipt.number != batch.number:
            raise CentreError(f"batch {batch.number}: the receipt is for batch {receipt.number}; will be retried")
        return receipt

    def report_pings(self, report: OnDemandPingReport) -> None:
        """Report the state of on-demand pings. Raises `CentreError`."""
        headers = {"Content-Type": "application/json"}
        self._request("POST", "/api/agent/on-demand-pings", headers, msgspec.json.encode(report))

    def welcome(self) -> Welcome:
        """Fetch the centre's supported versions; needs no token. Raises `CentreError`."""
        return _decoded(self._request("GET", ENROL, {}, None)[1], Welcome)

    def enrol(self, request: EnrolmentRequest) -> Enrolment:
        """Redeem a code at the URL in use alone: another would refuse a used code. Raises `CentreError`."""
        headers, body = {"Content-Type": "application/json"}, msgspec.json.encode(request)
        return _decoded(self._request_at(self.url, "POST", ENROL, headers, body)[1], Enrolment)

    def check(self, url: str) -> None:
        """Raise `CentreError` unless a centre answers at this URL."""
        _decoded(self._request_at(url, "GET", ENROL, {}, None)[1], Welcome)

    def _request(self, method: str, path: str, headers: dict[str, str], body: bytes | None) -> tuple[int, bytes]:
        """Status (200 or 304) and body from the first working URL."""
        self.urls.return_to_earlier(self._is_healthy)
        failures: list[CentreError] = []
        for url in self.urls.in_turn():
            try:
                answer = self._request_at(url, method, path, headers, body)
            except CentreError as error:
                if not isinstance(error, CentreUnreachable) and error.status not in FRONT_FAILS:
                    self._go_on_with(url, failures)
                    raise
                failures.append(error)
            else:
                self._go_on_with(url, failures)
                return answer
        # An answer tells more than none, and a timeout may have been heard.
        raise max(failures, key=lambda error: (error.status is not None, isinstance(error, CentreTimeout)))

    def _go_on_with(self, url: str, failures: Sequence[CentreError]) -> None:
        self.urls.use(url)
        if failures:
            logger.warning("%s; going on with %s", failures[0], url)

    def _is_healthy(self, url: str) -> bool:
        """Whether the front at this URL answers, without its database."""
        connection = self._connect(url, CONNECT_TIMEOUT_S)
        try:
            connection.request("GET", _prefix(url) + HEALTH)
            return connection.getresponse().status == HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _request_at(
        self, url: str, method: str, path: str, headers: dict[str, str], body: bytes | None
    ) -> tuple[int, bytes]:
        # As `_request`, of one URL; follows no redirections, for the token's sake.
        connect_timeout_s = self._timeout_s if len(self.urls) == 1 else min(self._timeout_s, CONNECT_TIMEOUT_S)
        connection = self._connect(url, connect_timeout_s)
        end = _ExchangeDeadline(4 * self._timeout_s)
        try:
            headers = {PROTOCOL_HEADER: str(self.protocol), **self._authorization(), **headers}
            connection.connect()
            connection.sock.settimeout(self._timeout_s)
            end.watch(connection.sock)
            sent_s = self.clock.now_s()
            connection.request(method, _prefix(url) + path, body, headers)
            answer = connection.getresponse()
            received_s = self.clock.now_s()
            content = answer.read(MAX_ANSWER_BYTES)
            if end.is_over:
                raise TimeoutError
        except ssl.SSLCertVerificationError as error:
            raise BadCertificate(f"centre {url}: its certificate is invalid: {error.verify_message}") from error
        except (OSError, http.client.HTTPException) as error:
            if end.is_over or isinstance(error, TimeoutError):
                raise CentreTimeout(f"centre {url} cannot be reached: timeout") from error
            raise CentreUnreachable(f"centre {url} cannot be reached: {error or type(error).__name__}") from error
        except SettingsError as error:
            raise CentreError(str(error)) from error
        finally:
            end.cancel()
            connection.close()
        self._note_protocols(answer.getheader(PROTOCOLS_HEADER))
        self.clock.note(sent_s, answer.getheader(RECEIVED_HEADER), answer.getheader(SENT_HEADER), received_s)
        content = _unpacked(content, answer.getheader("Content-Encoding"))
        if path == RESULTS:
            version = answer.getheader(PLAN_HEADER)
            self.plan_told = None if version is None else (version, received_s)
        if answer.status in (200, 304):
            self.refusal = None
            return answer.status, content
        if answer.status in NOT_OURS:
            reason = _reason(content) or ADVICE[answer.status]
            self.refusal = DatedMessage(at=datetime.now(UTC), message=f"{answer.status} {answer.reason}: {reason}")
        raise CentreError(
            f"centre {url} answered {answer.status} {answer.reason}: "
            f"{ADVICE.get(answer.status, 'will be retried')}{_said(content)}",
            status=answer.status,
            reason=_reason(content),
            retry_after_s=retry_after_s(answer.getheader("Retry-After")),
        )

    def _note_protocols(self, header: str | None) -> None:
        """Use the highest version that both ends know, by the header."""
        highest = re.search(r"\bhighest=([0-9]{1,9})\b", header or "")
        if highest is not None:
            self.protocol = max(LOWEST_PROTOCOL, min(PROTOCOL, int(highest[1])))

    def _authorization(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        identity = {} if self._identity is None else {IDENTITY_HEADER: self._identity}
        return {"Authorization": f"Bearer {read_token(self._token_file)}", **identity}

    @staticmethod
    def _connect(url: str, timeout_s: float) -> http.client.HTTPConnection:
        parts = urlsplit(url)
        if parts.scheme == UNIX:
            return _UnixConnection(parts.path, timeout_s)
        host = parts.hostname or ""
        # Without a port http.client would take the end of an IPv6 address for it.
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, parts.port or http.client.HTTP_PORT, timeout=timeout_s)
        port, context = parts.port or http.client.HTTPS_PORT, verifying_context()
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)


def _prefix(url: str) -> str:
    parts = urlsplit(url)
    return "" if parts.scheme == UNIX else parts.path


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket, for a centre on the same machine."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _ExchangeDeadline(threading.Timer):
    def __init__(self, after_s: float) -> None:
        super().__init__(after_s, self._shut_down)
        self.daemon = True
        self.is_over = False

    def watch(self, connected: socket.socket) -> None:
        self._socket = connected
        self.start()

    def _shut_down(self) -> None:
        self.is_over = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


def encode_batch(batch: Batch) -> tuple[dict[str, str], bytes]:
    """Encode a batch as MessagePack, compressed by zstd where available; returns it with its headers."""
    body = msgspec.msgpack.encode(batch)
    content_type = {"Content-Type": "application/msgpack"}
    if zstandard is None:
        return {**content_type, "Content-Encoding": "gzip"}, gzip.compress(body, compresslevel=6)
    return {**content_type, "Content-Encoding": "zstd"}, zstandard.compress(body, level=ZSTD_LEVEL)


def _unpacked(content: bytes, encoding: str | None) -> bytes:
    """The decompressed body, `MAX_ANSWER_BYTES` at most. Raises `CentreError`."""
    if encoding in (None, "identity") or not content:
        return content
    if encoding != "gzip":
        raise CentreError(f"the centre's answer is packed as {encoding!r}, which was not asked for; check proxies")
    stream = zlib.decompressobj(GZIP_WBITS)
    try:
        body = stream.decompress(content, MAX_ANSWER_BYTES + 1)
    except zlib.error as error:
        raise CentreError(f"the centre's answer is not gzip: {error}") from error
    if len(body) > MAX_ANSWER_BYTES:
        raise CentreError(f"the centre's answer has more than {MAX_ANSWER_BYTES} bytes when decompressed")
    if not stream.eof:
        raise CentreError("the centre's answer ends too early")
    return body


def _decoded(body: bytes, kind: type[AnswerT]) -> AnswerT:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise CentreError(f"the centre's answer is not a {kind.__name__}: {error}") from error


class _Refusal(msgspec.Struct):
    error: str


def _reason(content: bytes) -> str | None:
    try:
        return msgspec.json.decode(content, type=_Refusal).error
    except msgspec.DecodeError:
        return None


def _said(content: bytes) -> str:
    text = " ".join(content[:300].decode(errors="replace").split())
    return f" ({text})" if text else ""


def retry_after_s(header: str | None) -> float | None:
    """Parse Retry-After (RFC 9110, section 10.2.3): seconds or a date. None when absent or unreadable."""
    if header is None:
        return None
    if re.fullmatch(r"[0-9]+", header.strip()):
        return float(header)
    try:
        at = parsedate_to_datetime(header)
    except ValueError:
        return None
    aware = at.replace(tzinfo=UTC) if at.tzinfo is None else at  # zone "-0000" parses as naive UTC
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())

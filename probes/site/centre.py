"""The centre as an agent sees it: two HTTP requests, with the token, over verified TLS.

`Centre.plan` and `Centre.deliver` send one request each and raise a `CentreError` that says what went wrong, whether
the batch was too large, and when the centre wants to be asked again. Repeating is the caller's business.
"""

from __future__ import annotations

import gzip
import http.client
import ssl
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from probes.site.settings import SettingsError, check_centre, read_token
from probes.site.wire import Batch, Plan, Receipt

TIMEOUT_S = 30.0
MAX_ANSWER_BYTES = 64 * 2**20
AnswerT = TypeVar("AnswerT")
ADVICE = {
    400: "it cannot read what we sent; kept and sent again. Are agent and centre of the same version?",
    401: "it does not know this site's token; put the right one in the token file",
    403: "it does not allow this site; ask its operator",
    404: "there is no centre at this address; check --centre",
    413: "the batch is too large for it",
    422: "it cannot read what we sent; kept and sent again. Are agent and centre of the same version?",
    429: "it wants to be asked less often",
    503: "it cannot store now",
}


class CentreError(Exception):
    """A request that did not succeed. `status` is None when there was no answer at all."""

    def __init__(self, message: str, *, status: int | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


class Centre:
    """The centre at `url`. The token is read from its file at each request, so that it can be changed there."""

    def __init__(
        self, url: str, token_file: Path, *, allow_plain_http: bool = False, timeout_s: float = TIMEOUT_S
    ) -> None:
        check_centre(url, allow_plain_http)
        self.url = url.rstrip("/")
        self._token_file = token_file
        self._timeout_s = timeout_s

    def plan(self, version: str | None) -> Plan | None:
        """This site's plan; None if it is still that of `version`. Raises `CentreError`."""
        headers = {} if version is None else {"If-None-Match": f'"{version}"'}
        status, body = self._request("GET", "/api/agent/plan", headers, None)
        return None if status == 304 else _decoded(body, Plan)

    def deliver(self, batch: Batch) -> Receipt:
        """Send a batch; the receipt says that it is stored. Raises `CentreError`."""
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        body = gzip.compress(msgspec.json.encode(batch), compresslevel=6)
        receipt = _decoded(self._request("POST", "/api/agent/results", headers, body)[1], Receipt)
        if receipt.number != batch.number:
            raise CentreError(f"batch {batch.number}: the receipt is for batch {receipt.number}; sent again")
        return receipt

    def _request(self, method: str, path: str, headers: dict[str, str], body: bytes | None) -> tuple[int, bytes]:
        """Status (200 or 304) and body of the answer. Redirections are not followed: the token goes to one place."""
        connection = self._connect()
        prefix = urlsplit(self.url).path
        try:
            token = read_token(self._token_file)
            connection.request(method, prefix + path, body, {"Authorization": f"Bearer {token}", **headers})
            answer = connection.getresponse()
            content = answer.read(MAX_ANSWER_BYTES)
        except ssl.SSLCertVerificationError as error:
            raise CentreError(f"centre {self.url}: its certificate is not good: {error.verify_message}") from error
        except (OSError, http.client.HTTPException) as error:
            raise CentreError(f"centre {self.url} cannot be reached: {error or type(error).__name__}") from error
        except SettingsError as error:
            raise CentreError(str(error)) from error
        finally:
            connection.close()
        if answer.status in (200, 304):
            return answer.status, content
        raise CentreError(
            f"centre {self.url} answered {answer.status} {answer.reason}: "
            f"{ADVICE.get(answer.status, 'sent again later')}{_said(content)}",
            status=answer.status,
            retry_after_s=_retry_after_s(answer.getheader("Retry-After")),
        )

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, parts.port, timeout=self._timeout_s)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, parts.port, timeout=self._timeout_s, context=context)


def _decoded(body: bytes, kind: type[AnswerT]) -> AnswerT:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise CentreError(f"the centre's answer is not a {kind.__name__}: {error}") from error


def _said(content: bytes) -> str:
    """The beginning of what the centre said to explain itself."""
    text = " ".join(content[:300].decode(errors="replace").split())
    return f" (it said: {text})" if text else ""


def _retry_after_s(header: str | None) -> float | None:
    """RFC 9110, 10.2.3: seconds or a date. None when absent or unreadable."""
    if header is None:
        return None
    if header.strip().isdigit():
        return float(header)
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except ValueError:
        return None

"""Request another centre's summary: `GET /api/v1/centre` with a user's token.

The answer is untrusted: bounded in size and time, of the form `CentreOut`; a redirect would take the token elsewhere.
`NoAnswer` never contains the token.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from threading import Event, Timer
from urllib.parse import urlsplit

from pydantic import ValidationError

from monitor.api.centre.summary import CentreOut
from monitor.centres.configured import OtherCentre
from probes.commands.own_command import MANAGE

PATH = "/api/v1/centre"
# A summary of a hundred thousand paths takes seconds if nobody has asked for it before.
ANSWER_S = 20.0
MOST_BYTES = 1_000_000
# Characters of a refusal.
MOST_SHOWN = 200


class NoAnswer(Exception):
    """No usable answer; the message has the reason."""


def request_summary(centre: OtherCentre) -> CentreOut:
    """Request a summary. Raises `NoAnswer` after twice `ANSWER_S` at the latest."""
    try:
        status, answer = _answer(centre)
    except ssl.SSLCertVerificationError as error:
        raise NoAnswer(
            f"the certificate of {centre.url} is not valid here: {error.verify_message}; for a CA of your own, set "
            "SSL_CERT_FILE"
        ) from None
    except TimeoutError:
        raise NoAnswer(f"{centre.url} is too slow: no whole answer in {ANSWER_S:.0f} s") from None
    except OSError as error:
        raise NoAnswer(f"{centre.url} cannot be reached: {error.strerror or error}") from None
    except http.client.HTTPException as error:
        raise NoAnswer(f"{centre.url} does not answer as a web server does: {type(error).__name__}") from None
    if status != http.client.OK:
        raise NoAnswer(_refusal(centre, status, answer))
    try:
        return CentreOut.model_validate_json(answer)
    except ValidationError as error:
        raise NoAnswer(
            f"{centre.url}{PATH} does not answer as Soundings does ({error.error_count()} errors); is its release "
            "another one?"
        ) from None


def _answer(centre: OtherCentre) -> tuple[int, bytes]:
    headers = {"Accept": "application/json", "Connection": "close"}
    if centre.token:
        headers["Authorization"] = f"Bearer {centre.token}"
    with closing(_connection(centre)) as connection:
        connection.connect()
        with _ended_after(ANSWER_S, connection.sock):
            connection.request("GET", urlsplit(centre.url).path + PATH, headers=headers)
            with connection.getresponse() as response:
                answer = response.read(MOST_BYTES + 1)
                if len(answer) > MOST_BYTES:
                    raise NoAnswer(f"{centre.url} answers more than {MOST_BYTES:,} bytes")
                return response.status, answer


@contextmanager
def _ended_after(limit_s: float, connected: socket.socket) -> Iterator[None]:
    """Shut down the connection after `limit_s`, however slow the answer; raises TimeoutError."""
    is_late = Event()

    def end() -> None:
        is_late.set()
        with suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)

    timer = Timer(limit_s, end)
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException):
        if not is_late.is_set():
            raise
    finally:
        timer.cancel()
    if is_late.is_set():
        raise TimeoutError


def _connection(centre: OtherCentre) -> http.client.HTTPConnection:
    parts = urlsplit(centre.url)
    host = parts.hostname or ""
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port or http.client.HTTP_PORT, timeout=ANSWER_S)
    context = ssl.create_default_context()
    return http.client.HTTPSConnection(host, parts.port or http.client.HTTPS_PORT, timeout=ANSWER_S, context=context)


def _refusal(centre: OtherCentre, status: int, answer: bytes) -> str:
    if 300 <= status < 400:
        return f"{centre.url} redirects to another address; write the address of its pages themselves"
    if status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
        token = "the token is not accepted" if centre.token else "it needs a token"
        return f"{centre.url}: {token}; there, `{MANAGE} user token NAME` creates another"
    if status == http.client.NOT_FOUND:
        return f"{centre.url} has no {PATH}: its release is older, or the address is not that of its pages"
    text = " ".join(answer[:MOST_SHOWN].decode("utf-8", "replace").split())
    return f"{centre.url} answers {status}{f': {text}' if text.isprintable() and text else ''}"

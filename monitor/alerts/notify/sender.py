"""`python -m monitor.alerts.notify.sender`: a separate process, so that hanging services or faulty plugins cannot block
the worker.

Takes JSON with `url` and `messages` on standard input; prints a line of JSON each, up to the first failure, without
secrets.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import re
import sys
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

WEBHOOK = "webhook+"
TIMEOUT_S = 10.0
# Shorter parts of a URL are not treated as secrets; masking them would garble messages.
LEAST_SECRET = 4
LONGEST_REASON = 300

# Apprise's warnings, and its debug messages that hold the reason of a failure.
_REASON = re.compile(
    r"^(?:WARNING|ERROR|DEBUG (?=[^\n]*(?:Exception|Response Details))) ?([^\n]*(?:\n(?![A-Z]+ )[^\n]+)*)", re.M
)


class MessageRejected(Exception):
    """The channel rejected a message; the text has the reason."""


def main() -> int:
    """Send the messages from standard input; returns 0 also if a message was rejected."""
    job = json.load(sys.stdin)
    url = job["url"]
    for message in job["messages"]:
        try:
            _send(url, message)
            problem = ""
        except MessageRejected as error:
            problem = scrubbed(str(error), url)
        except Exception as error:  # noqa: BLE001 - plugins raise anything, and its text may hold secrets
            problem = f"{type(error).__name__} in Apprise's plugin"
        print(json.dumps({"key": message["key"], "problem": problem}), flush=True)
        if problem:
            break
    return 0


def scrubbed(text: str, url: str) -> str:
    """Mask in the text all parts of the URL except scheme, host and port."""
    parts = urlsplit(url)
    words = {parts.query, parts.fragment, parts.path, parts.username or "", parts.password or ""}
    words |= set(re.split(r"[/?&=;,#]", f"{parts.path}/{parts.query}/{parts.fragment}"))
    if parts.scheme not in ("webhook+http", "webhook+https", "json", "jsons", "mailto", "mailtos"):
        words.add(parts.netloc)  # URLs of many services have a token instead of the host
    words |= {unquote(word) for word in words}
    for word in sorted(words, key=len, reverse=True):
        if len(word) >= LEAST_SECRET:
            text = text.replace(word, "…")
    return " ".join(text.split())


def _send(url: str, message: dict[str, Any]) -> None:
    if url.startswith(WEBHOOK):
        post(url.removeprefix(WEBHOOK), message["payload"])
    else:
        _by_apprise(url, message)


def post(url: str, payload: dict[str, Any]) -> None:
    """POST the payload as JSON; raises `MessageRejected` for anything but an answer of 2xx."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise MessageRejected("not a valid URL; write webhook+https://host/path")
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Soundings",
        "Idempotency-Key": str(payload["id"]),
        **_authorization(parts.username, parts.password),
    }
    address = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    request = urllib.request.Request(address, json.dumps(payload).encode(), headers, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirects()).open(request, timeout=TIMEOUT_S) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        raise MessageRejected(f"the server answered {error.code} {error.reason}") from error
    except http.client.HTTPException as error:
        raise MessageRejected(f"the response is not HTTP: {type(error).__name__}") from error
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise MessageRejected(f"the server cannot be reached: {reason or type(error).__name__}") from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuse redirects: a redirected POST would arrive as a GET without its content."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def _authorization(user: str | None, password: str | None) -> dict[str, str]:
    # `user:password@` is Basic (RFC 7617), `:token@` Bearer (RFC 6750).
    if password is None:
        return {}
    if not user:
        return {"Authorization": f"Bearer {unquote(password)}"}
    both = f"{unquote(user)}:{unquote(password)}".encode()
    return {"Authorization": f"Basic {base64.b64encode(both).decode()}"}


def _by_apprise(url: str, message: dict[str, Any]) -> None:
    import apprise  # takes 0.1 s, which webhooks are spared

    types = {
        "good": apprise.NotifyType.SUCCESS,
        "notice": apprise.NotifyType.INFO,
        "warning": apprise.NotifyType.WARNING,
        "critical": apprise.NotifyType.FAILURE,
    }
    with apprise.LogCapture(level=logging.DEBUG, fmt="%(levelname)s %(message)s") as said:  # type: ignore[no-untyped-call]
        sender = apprise.Apprise()
        if not sender.add(url):
            raise MessageRejected("Apprise does not support this URL; see its list of services")
        taken = sender.notify(
            title=message["title"],
            body=message["body"],
            notify_type=types[message["severity"]],
            body_format=apprise.NotifyFormat.TEXT,
        )
        if not taken:
            reasons = "; ".join(match[1].strip() for match in _REASON.finditer(said.getvalue()))
            raise MessageRejected(reasons[:LONGEST_REASON] or "the service rejected the message or is unreachable")


if __name__ == "__main__":
    sys.exit(main())

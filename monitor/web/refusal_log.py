"""Log refused requests on a line each, limited by kind: any stranger can send any number."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

# A key that no header can set: the reason, for the line of the web server's log.
REASON = "soundings.refusal"
MOST_AT_ONCE = 20
ONE_IN_S = 10.0
LONGEST_REASON = 300
SERVER_ERROR = 500


@dataclass(slots=True)
class _Kind:
    left: float
    counted_s: float
    unlogged: int = 0


class LineLimit:
    """Allow twenty lines of a kind at once, then one in ten seconds."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}
        self._lock = threading.Lock()

    def unlogged_before(self, kind: str) -> int | None:
        """Count lines of this kind left out since the last line; None where this line is left out too."""
        now_s = time.monotonic()
        with self._lock:
            state = self._kinds.setdefault(kind, _Kind(MOST_AT_ONCE, now_s))
            state.left = min(MOST_AT_ONCE, state.left + (now_s - state.counted_s) / ONE_IN_S)
            state.counted_s = now_s
            if state.left < 1:
                state.unlogged += 1
                return None
            state.left -= 1
            unlogged, state.unlogged = state.unlogged, 0
            return unlogged


class RefusalsOnALine(logging.Filter):
    """Log Django's refusals without traceback; behind the web server, which logs them, only pass on the reason."""

    def __init__(self) -> None:
        super().__init__()
        self._limit = LineLimit()

    def filter(self, record: logging.LogRecord) -> bool:
        status = getattr(record, "status_code", None)
        is_refusal = record.name.startswith("django.security") if status is None else status < SERVER_ERROR
        if not is_refusal or not record.name.startswith("django."):
            return True
        # The variable that an operator sets.
        reason = one_line(record.getMessage()).replace(" ALLOWED_HOSTS", " SOUNDINGS_ALLOWED_HOSTS")
        environ = getattr(getattr(record, "request", None), "META", {})
        if "gunicorn.socket" in environ:
            environ[REASON] = reason
            return False
        unlogged = self._limit.unlogged_before(record.name)
        record.msg, record.args, record.exc_info, record.exc_text = reason + more(unlogged or 0), (), None, None
        return unlogged is not None


def one_line(text: str) -> str:
    """Begin of a text without line breaks or terminal controls."""
    return "".join(sign if sign.isprintable() else " " for sign in text[:LONGEST_REASON])


def more(unlogged: int) -> str:
    return f" ({unlogged} more of this kind not logged)" if unlogged else ""

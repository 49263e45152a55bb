"""Access log of the web server: refused and failed requests, and all with SOUNDINGS_LOG_ALL=1."""

from __future__ import annotations

from typing import Any

from gunicorn.glogging import Logger

from monitor.environment import flag
from monitor.web.refusal_log import REASON, SERVER_ERROR, LineLimit, more, one_line

LEAST_STATUS = 400


class WebLog(Logger):
    """gunicorn's logger with a shorter access log: pages and agents poll every few seconds."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        self._is_all_logged = flag("SOUNDINGS_LOG_ALL")
        self._limit = LineLimit()

    def access(self, resp: Any, req: Any, environ: Any, request_time: Any) -> None:
        status = int(str(resp.status).split()[0])
        if getattr(resp, "status_code", None) is None and not self._is_all_logged:
            return  # gunicorn itself refused it, and has logged why
        if self._is_all_logged or status >= SERVER_ERROR:
            super().access(resp, req, environ, request_time)
        elif status >= LEAST_STATUS:
            unlogged = self._limit.unlogged_before(str(status))
            if unlogged is not None:
                reason = environ.get(REASON, "") + more(unlogged)
                super().access(resp, req, {**environ, REASON: reason.strip() or "-"}, request_time)

    def warning(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Log a gunicorn warning: nearly all are unreadable requests."""
        unlogged = self._limit.unlogged_before("warning")
        if unlogged is not None:
            super().warning("%s", one_line(str(msg % args if args else msg)) + more(unlogged), **kwargs)

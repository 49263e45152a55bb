"""Access log of the web server: refused and failed requests, and all with SOUNDINGS_LOG_ALL=1."""

from __future__ import annotations

from typing import Any

from gunicorn.glogging import Logger

from monitor.environment import flag

LEAST_STATUS = 400


class WebLog(Logger):
    """gunicorn's logger with a shorter access log: pages and agents poll every few seconds."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        self._is_all_logged = flag("SOUNDINGS_LOG_ALL")

    def access(self, resp: Any, req: Any, environ: Any, request_time: Any) -> None:
        # Of a request that gunicorn itself refused there is only the text of the status.
        status = int(str(resp.status).split()[0])
        if self._is_all_logged or status >= LEAST_STATUS:
            super().access(resp, req, environ, request_time)

"""What the web server writes of requests: those that were refused or failed, and with SOUNDINGS_LOG_ALL=1 all."""

from __future__ import annotations

from typing import Any

from gunicorn.glogging import Logger

from monitor.environment import flag

LEAST_STATUS = 400


class WebLog(Logger):
    """gunicorn's own, with less in its access log: pages and agents ask every few seconds."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        self._is_all_logged = flag("SOUNDINGS_LOG_ALL")

    def access(self, resp: Any, req: Any, environ: Any, request_time: Any) -> None:
        # Of a request that gunicorn itself refused there is only the text of the status.
        status = int(str(resp.status).split()[0])
        if self._is_all_logged or status >= LEAST_STATUS:
            super().access(resp, req, environ, request_time)

"""The centre's WSGI application, with the processor time of each request counted by purpose."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from monitor.wsgi import application as centre
from tests.bench.steady.counted import Counts

PURPOSES = {"/api/agent/results": "deliveries", "/api/agent/plan": "plans"}
_counts = Counts("web")


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    began_s, cpu_s = time.monotonic(), time.thread_time()
    try:
        return centre(environ, start_response)
    finally:
        purpose = PURPOSES.get(environ["PATH_INFO"], "pages")
        _counts.add(purpose, time.thread_time() - cpu_s, time.monotonic() - began_s)

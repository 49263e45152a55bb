"""The centre's web server, as benchmarks and pictures use it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def web_server(wake: Callable[[int], None]) -> Iterator[int]:
    """Gunicorn as `manage.py up` runs it, without its access log; yields its port after `wake(port)` has let it import
    all that the first request needs."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.set_inheritable(True)
        port = listener.getsockname()[1]
        argv = [sys.executable, "-m", "gunicorn", "--config", "python:monitor.stack.serving"]
        argv += ["--bind", f"fd://{listener.fileno()}", "--access-logfile", os.devnull, "--log-level", "error"]
        process = subprocess.Popen(argv, pass_fds=[listener.fileno()])
        try:
            wake(port)
            yield port
        finally:
            process.terminate()
            process.wait()

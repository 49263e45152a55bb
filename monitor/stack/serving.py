"""gunicorn settings common to all installations: `gunicorn --config python:monitor.stack.serving …`."""

import gc as _gc
from typing import Any as _Any

from monitor.accounts.callers import VALID_TOKEN as _VALID_TOKEN
from monitor.environment import trusted_proxies as _trusted_proxies

wsgi_app = "monitor.wsgi:application"
worker_class = "monitor.stack.web_worker.Worker"
workers = 2
threads = 4
preload_app = True
worker_tmp_dir = "/dev/shm"
accesslog = "-"
access_log_format = '%(h)s %(l)s %(u)s %(t)s "%(r)s" %(s)s %(b)s "%(f)s" "%(a)s" %({soundings.refusal}e)s'
# Below 1,024, the number of open files that many systems allow a process.
worker_connections = 800
# It would lie in the home folder, one for all servers of a user.
control_socket_disable = True
logger_class = "monitor.stack.web_log.WebLog"
forwarded_allow_ips = ",".join(_trusted_proxies())
# By default a trusted proxy may set SCRIPT_NAME and PATH_INFO by headers, and nginx passes on what a client sends.
forwarder_headers = ""


def on_starting(server: _Any) -> None:
    """End the server before it listens, if the database is from a later release."""
    from monitor.archive.upkeep.releases import end_at_a_later_release

    end_at_a_later_release("web server")


def when_ready(server: _Any) -> None:
    # Before the workers are forked.
    from monitor.web import warm  # Django is set up by now

    warm.prepare()
    _gc.freeze()


def post_worker_init(worker: _Any) -> None:
    """Warm up each worker before its first request."""
    from monitor.web import warm

    warm.warm_up()


def post_request(worker: _Any, req: _Any, environ: dict[str, _Any], resp: _Any) -> None:
    """After each request, let its token count the connection."""
    req.token = environ.get(_VALID_TOKEN)

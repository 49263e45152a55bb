"""The default log level of worker and web server: problems only, not each task and request."""

import io
import logging
from types import SimpleNamespace

import pytest
from gunicorn.config import Config

from monitor.stack.web_log import WebLog


@pytest.mark.parametrize("name", ["celery.app.trace", "celery.worker.strategy", "celery.beat"])
def test_only_failed_tasks_are_logged(name):
    assert not logging.getLogger(name).isEnabledFor(logging.INFO)
    assert logging.getLogger(name).isEnabledFor(logging.ERROR)


@pytest.fixture
def requested(monkeypatch):
    """Returns the web server's log line for a request that was answered with a status."""

    def requested(status, *, is_all_logged="0"):
        monkeypatch.setenv("SOUNDINGS_LOG_ALL", is_all_logged)
        config = Config()
        config.set("accesslog", "-")
        log = WebLog(config)
        stream = io.StringIO()
        log.access_log.handlers = [logging.StreamHandler(stream)]
        environ = {"REQUEST_METHOD": "GET", "RAW_URI": "/", "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1"}
        response = SimpleNamespace(status=f"{status} told", status_code=status, sent=1, headers=[])
        duration = SimpleNamespace(seconds=0, microseconds=1, days=0, total_seconds=lambda: 0.0)
        log.access(response, SimpleNamespace(headers=[]), environ, duration)
        return stream.getvalue()

    return requested


def test_a_successful_request_is_not_logged(requested):
    assert requested(200) == ""
    assert requested(302) == ""


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
def test_a_refused_or_failed_request_is_logged(requested, status):
    assert f'"GET / HTTP/1.1" {status}' in requested(status)


def test_all_requests_are_logged_if_configured(requested):
    assert '"GET / HTTP/1.1" 200' in requested(200, is_all_logged="1")

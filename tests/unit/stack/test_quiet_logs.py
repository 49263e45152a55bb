"""What worker and web server write by default: what matters, not each task and each request."""

import io
import logging
from types import SimpleNamespace

import pytest
from gunicorn.config import Config

from monitor.stack.web_log import WebLog


@pytest.mark.parametrize("name", ["celery.app.trace", "celery.worker.strategy", "celery.beat"])
def test_a_task_that_is_done_is_not_logged_and_one_that_fails_is(name):
    assert not logging.getLogger(name).isEnabledFor(logging.INFO)
    assert logging.getLogger(name).isEnabledFor(logging.ERROR)


@pytest.fixture
def requested(monkeypatch):
    """Says what the web server's log has of a request that was answered with a status."""

    def requested(status, *, is_all_logged="0"):
        monkeypatch.setenv("SOUNDINGS_LOG_ALL", is_all_logged)
        config = Config()
        config.set("accesslog", "-")
        log = WebLog(config)
        stream = io.StringIO()
        log.access_log.handlers = [logging.StreamHandler(stream)]
        environ = {"REQUEST_METHOD": "GET", "RAW_URI": "/", "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1"}
        response = SimpleNamespace(status=f"{status} told", status_code=status, sent=1, headers=[])
        took = SimpleNamespace(seconds=0, microseconds=1, days=0, total_seconds=lambda: 0.0)
        log.access(response, SimpleNamespace(headers=[]), environ, took)
        return stream.getvalue()

    return requested


def test_a_request_that_went_well_is_not_logged(requested):
    assert requested(200) == ""
    assert requested(302) == ""


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
def test_a_request_that_was_refused_or_failed_is_logged(requested, status):
    assert f'"GET / HTTP/1.1" {status}' in requested(status)


def test_all_are_logged_where_that_is_wanted(requested):
    assert '"GET / HTTP/1.1" 200' in requested(200, is_all_logged="1")

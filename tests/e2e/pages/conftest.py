"""A browser, and the pages served from the database of the test."""

from __future__ import annotations

import pytest

from tests.e2e.visits import browsing
from tests.web_files import share_web_files


@pytest.fixture
def served(browser, settings, tmp_path, live_server):
    settings.LOCAL_READ = settings.ALLOW_PLAIN_HTTP = True
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = False
    settings.ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
    settings.DATA_DIR = tmp_path
    share_web_files(tmp_path)
    yield live_server.url
    for context in browser.contexts:
        context.close()


@pytest.fixture(scope="package")
def browser():
    with pytest.MonkeyPatch.context() as patch, browsing() as browser:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # Playwright's own loop runs in this thread
        yield browser

"""Errors in SOUNDINGS_NOTIFY_URLS are reported by a system check that prints no part of the URLs."""

from __future__ import annotations

import pytest

from monitor import environment
from monitor.alerts.notify.system_checks import check_channels


@pytest.mark.parametrize(
    ("urls", "problems"),
    [
        (["log://"], []),
        (["a=json://host/?b=c", "b=json://host/"], []),
        (["a=json://secret/", "a=json://secret/2"], ['SOUNDINGS_NOTIFY_URLS: 2 channels have the name "a"']),
        (["a=json://secret/", "secret"], ["SOUNDINGS_NOTIFY_URLS: entry 2 is not a URL"]),
        (["a=", "json://host/"], ["SOUNDINGS_NOTIFY_URLS: entry 1 is not a URL"]),
    ],
)
def test_each_word_is_a_channel_and_names_are_unique(settings, urls, problems):
    settings.NOTIFY_URLS = urls

    assert [problem.msg for problem in check_channels(None)] == problems


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o400, False), (0o640, True), (0o644, True)])
def test_a_file_that_others_can_read_gives_a_warning(settings, monkeypatch, tmp_path, mode, warned):
    settings.NOTIFY_URLS = ["log://"]
    file = tmp_path / "channels"
    file.write_text("log://")
    file.chmod(mode)
    monkeypatch.setenv("SOUNDINGS_NOTIFY_URLS_FILE", str(file))

    problems = check_channels(None)

    assert [problem.hint for problem in problems] == ([f"its URLs hold passwords: chmod 600 {file}"] if warned else [])


def test_a_file_has_a_channel_per_line_and_comments(monkeypatch, tmp_path):
    file = tmp_path / "channels"
    file.write_text("# of the night shift\noncall=slack://a/b/c\n\n  # later: pager\nmail=mailto://host\n")
    monkeypatch.setenv("SOUNDINGS_NOTIFY_URLS_FILE", str(file))

    assert environment.words("SOUNDINGS_NOTIFY_URLS", "log://") == ["oncall=slack://a/b/c", "mail=mailto://host"]

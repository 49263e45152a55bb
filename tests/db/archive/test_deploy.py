"""Django's deployment checks, with the production settings of docs/security.md."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]
PRODUCTION = {
    "SOUNDINGS_ALLOWED_HOSTS": "soundings.example.org",
    "SOUNDINGS_PUBLIC_READ": "0",
    "SOUNDINGS_LOCAL_READ": "0",
    "SOUNDINGS_ALLOW_PLAIN_HTTP": "0",
}


def check(tmp_path, *options, **variables):
    key = tmp_path / "key"
    key.write_text("a key as long as the one that manage.py up makes, and as random: 5DvN0 Zk3Qx 8WmTc")
    environment = {**os.environ, **PRODUCTION, "SOUNDINGS_SECRET_KEY_FILE": str(key), **variables}
    return subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING", *options],
        cwd=TOP,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_deployment_checks_have_no_warnings(tmp_path):
    done = check(tmp_path)

    assert done.returncode == 0, done.stderr
    assert "System check identified no issues" in done.stdout


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("SOUNDINGS_ALLOW_PLAIN_HTTP", "1", "SESSION_COOKIE_SECURE is not set to True"),
        ("SOUNDINGS_DEBUG", "1", "DEBUG set to True"),
        ("SOUNDINGS_ALLOWED_HOSTS", "", "ALLOWED_HOSTS must not be empty"),
    ],
)
def test_the_checks_detect_insecure_settings(tmp_path, variable, value, words):
    done = check(tmp_path, "--tag", "security", **{variable: value})  # others load all pages

    assert done.returncode != 0
    assert words in done.stderr


@pytest.mark.parametrize("url", ["soundings:hunter2@db", "postgresql://u:hunter2@db/x?sslmod=1"])
def test_an_invalid_database_url_is_reported_without_password(tmp_path, url):
    done = check(tmp_path, SOUNDINGS_DATABASE_URL=url)

    assert done.returncode != 0
    assert "SOUNDINGS_DATABASE_URL" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
